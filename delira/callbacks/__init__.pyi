from delira.backends.jax import CosineAnnealingLRCallbackJax as CosineAnnealingLRCallbackJax
from delira.backends.jax import DefaultJaxSchedulerCallback as DefaultJaxSchedulerCallback
from delira.backends.jax import ExponentialLRCallbackJax as ExponentialLRCallbackJax
from delira.backends.jax import LambdaLRCallbackJax as LambdaLRCallbackJax
from delira.backends.jax import MultiStepLRCallbackJax as MultiStepLRCallbackJax
from delira.backends.jax import OneCycleLRCallbackJax as OneCycleLRCallbackJax
from delira.backends.jax import OptaxScheduleCallbackJax as OptaxScheduleCallbackJax
from delira.backends.jax import ReduceLROnPlateauCallbackJax as ReduceLROnPlateauCallbackJax
from delira.backends.jax import StepLRCallbackJax as StepLRCallbackJax
from delira.backends.tensorflow import CosineAnnealingLRCallbackTf as CosineAnnealingLRCallbackTf
from delira.backends.tensorflow import DefaultTfSchedulerCallback as DefaultTfSchedulerCallback
from delira.backends.tensorflow import ExponentialLRCallbackTf as ExponentialLRCallbackTf
from delira.backends.tensorflow import LambdaLRCallbackTf as LambdaLRCallbackTf
from delira.backends.tensorflow import MultiStepLRCallbackTf as MultiStepLRCallbackTf
from delira.backends.tensorflow import OneCycleLRCallbackTf as OneCycleLRCallbackTf
from delira.backends.tensorflow import ReduceLROnPlateauCallbackTf as ReduceLROnPlateauCallbackTf
from delira.backends.tensorflow import StepLRCallbackTf as StepLRCallbackTf
from delira.backends.tensorflow import TfSchedulerCallback as TfSchedulerCallback
from delira.backends.torch import CosineAnnealingLRCallbackPyTorch as CosineAnnealingLRCallbackPyTorch
from delira.backends.torch import DefaultPyTorchSchedulerCallback as DefaultPyTorchSchedulerCallback
from delira.backends.torch import ExponentialLRCallbackPyTorch as ExponentialLRCallbackPyTorch
from delira.backends.torch import LambdaLRCallbackPyTorch as LambdaLRCallbackPyTorch
from delira.backends.torch import MultiStepLRCallbackPyTorch as MultiStepLRCallbackPyTorch
from delira.backends.torch import OneCycleLRCallbackPyTorch as OneCycleLRCallbackPyTorch
from delira.backends.torch import ReduceLROnPlateauCallbackPyTorch as ReduceLROnPlateauCallbackPyTorch
from delira.backends.torch import StepLRCallbackPyTorch as StepLRCallbackPyTorch
from delira.backends.torch import TorchSchedulerCallback as TorchSchedulerCallback
from delira.callbacks.abstract_callback import AbstractCallback as AbstractCallback
from delira.callbacks.abstract_callback import Callback as Callback
from delira.callbacks.abstract_callback import CallbackList as CallbackList
from delira.callbacks.checkpoints import Best as Best
from delira.callbacks.checkpoints import Interval as Interval
from delira.callbacks.checkpoints import ModelCheckpoint as ModelCheckpoint
from delira.callbacks.checkpoints import MostRecent as MostRecent
from delira.callbacks.confusion import PyCM as PyCM
from delira.callbacks.decorators import add_to_loss as add_to_loss
from delira.callbacks.decorators import bind_to as bind_to
from delira.callbacks.decorators import on_backward as on_backward
from delira.callbacks.decorators import on_checkpoint as on_checkpoint
from delira.callbacks.decorators import on_criterion as on_criterion
from delira.callbacks.decorators import on_criterion_validation as on_criterion_validation
from delira.callbacks.decorators import on_end as on_end
from delira.callbacks.decorators import on_end_epoch as on_end_epoch
from delira.callbacks.decorators import on_end_training as on_end_training
from delira.callbacks.decorators import on_end_validation as on_end_validation
from delira.callbacks.decorators import on_forward as on_forward
from delira.callbacks.decorators import on_forward_validation as on_forward_validation
from delira.callbacks.decorators import on_init as on_init
from delira.callbacks.decorators import on_sample as on_sample
from delira.callbacks.decorators import on_sample_validation as on_sample_validation
from delira.callbacks.decorators import on_start as on_start
from delira.callbacks.decorators import on_start_epoch as on_start_epoch
from delira.callbacks.decorators import on_start_training as on_start_training
from delira.callbacks.decorators import on_start_validation as on_start_validation
from delira.callbacks.decorators import on_step_training as on_step_training
from delira.callbacks.decorators import on_step_validation as on_step_validation
from delira.callbacks.decorators import once as once
from delira.callbacks.decorators import once_per_epoch as once_per_epoch
from delira.callbacks.decorators import only_if as only_if
from delira.callbacks.decorators import traceable as traceable
from delira.callbacks.history import CSVLogger as CSVLogger
from delira.callbacks.history import HistoryWriter as HistoryWriter
from delira.callbacks.imaging import CachingImagingCallback as CachingImagingCallback
from delira.callbacks.imaging import FromState as FromState
from delira.callbacks.imaging import ImagingCallback as ImagingCallback
from delira.callbacks.imaging import make_grid as make_grid
from delira.callbacks.imaging import MakeGrid as MakeGrid
from delira.callbacks.initialisers import KaimingNormal as KaimingNormal
from delira.callbacks.initialisers import KaimingUniform as KaimingUniform
from delira.callbacks.initialisers import LsuvInit as LSUV
from delira.callbacks.initialisers import LsuvInit as LsuvInit
from delira.callbacks.initialisers import WeightInit as WeightInit
from delira.callbacks.initialisers import XavierNormal as XavierNormal
from delira.callbacks.initialisers import XavierUniform as XavierUniform
from delira.callbacks.initialisers import ZeroBias as ZeroBias
from delira.callbacks.live_view import LiveLossPlot as LiveLossPlot
from delira.callbacks.mixing import bc_loss as bc_loss
from delira.callbacks.mixing import BCPlus as BCPlus
from delira.callbacks.mixing import CutMix as CutMix
from delira.callbacks.mixing import Cutout as Cutout
from delira.callbacks.mixing import LabelSmoothingRegularisation as LabelSmoothingRegularisation
from delira.callbacks.mixing import ManifoldMixup as ManifoldMixup
from delira.callbacks.mixing import MixedTargets as MixedTargets
from delira.callbacks.mixing import Mixup as Mixup
from delira.callbacks.mixing import mixup_loss as mixup_loss
from delira.callbacks.mixing import RandomErase as RandomErase
from delira.callbacks.mixing import SamplePairing as SamplePairing
from delira.callbacks.monitor import EarlyStopping as EarlyStopping
from delira.callbacks.monitor import TerminateOnNaN as TerminateOnNaN
from delira.callbacks.profiler import Profiler as Profiler
from delira.callbacks.profiler import TimerMetric as TimerMetric
from delira.callbacks.progress import ConsolePrinter as ConsolePrinter
from delira.callbacks.progress import ProgressBar as ProgressBar
from delira.callbacks.progress import Tqdm as Tqdm
from delira.callbacks.schedules import CosineAnnealingLR as CosineAnnealingLR
from delira.callbacks.schedules import CyclicLR as CyclicLR
from delira.callbacks.schedules import ExponentialLR as ExponentialLR
from delira.callbacks.schedules import LambdaLR as LambdaLR
from delira.callbacks.schedules import MultiStepLR as MultiStepLR
from delira.callbacks.schedules import OneCycleLR as OneCycleLR
from delira.callbacks.schedules import ReduceLROnPlateau as ReduceLROnPlateau
from delira.callbacks.schedules import StepLR as StepLR
from delira.callbacks.schedules import TorchScheduler as TorchScheduler
from delira.callbacks.schedules import WarmupCosine as WarmupCosine
from delira.callbacks.tensorboard import AbstractTensorBoard as AbstractTensorBoard
from delira.callbacks.tensorboard import TensorBoard as TensorBoard
from delira.callbacks.tensorboard import TensorBoardText as TensorBoardText
from delira.callbacks.tensorboard import TensorBoardWriter as TensorBoardWriter
from delira.callbacks.tensorboard_images import TensorBoardImages as TensorBoardImages
from delira.callbacks.tensorboard_images import TensorBoardProjector as TensorBoardProjector
from delira.callbacks.unpack_state import UnpackState as UnpackState
from delira.callbacks.weights import ExponentialMovingAverage as ExponentialMovingAverage
from delira.callbacks.weights import FreezeUnfreeze as FreezeUnfreeze
from delira.callbacks.weights import GradientClipping as GradientClipping
from delira.callbacks.weights import GradientNormClipping as GradientNormClipping
from delira.callbacks.weights import L1WeightDecay as L1WeightDecay
from delira.callbacks.weights import L2WeightDecay as L2WeightDecay
from delira.callbacks.weights import learned_weights as learned_weights
from delira.callbacks.weights import SWA as SWA
from delira.callbacks.weights import WeightDecay as WeightDecay
from delira.logging.writers import close_writer as close_writer
from delira.logging.writers import get_writer as get_writer
from delira.logging.writers import VisdomParams as VisdomParams
from delira.trial.class_appearance import ClassAppearanceModel as ClassAppearanceModel

__all__ = [
    "LSUV",
    "SWA",
    "AbstractCallback",
    "AbstractTensorBoard",
    "BCPlus",
    "Best",
    "CSVLogger",
    "CachingImagingCallback",
    "Callback",
    "CallbackList",
    "ClassAppearanceModel",
    "ConsolePrinter",
    "CosineAnnealingLR",
    "CutMix",
    "Cutout",
    "CyclicLR",
    "EarlyStopping",
    "ExponentialLR",
    "ExponentialMovingAverage",
    "FreezeUnfreeze",
    "FromState",
    "GradientClipping",
    "GradientNormClipping",
    "HistoryWriter",
    "ImagingCallback",
    "Interval",
    "KaimingNormal",
    "KaimingUniform",
    "L1WeightDecay",
    "L2WeightDecay",
    "LabelSmoothingRegularisation",
    "LambdaLR",
    "LiveLossPlot",
    "LsuvInit",
    "MakeGrid",
    "ManifoldMixup",
    "MixedTargets",
    "Mixup",
    "ModelCheckpoint",
    "MostRecent",
    "MultiStepLR",
    "OneCycleLR",
    "Profiler",
    "ProgressBar",
    "PyCM",
    "RandomErase",
    "ReduceLROnPlateau",
    "SamplePairing",
    "StepLR",
    "TensorBoard",
    "TensorBoardImages",
    "TensorBoardProjector",
    "TensorBoardText",
    "TensorBoardWriter",
    "TerminateOnNaN",
    "TimerMetric",
    "TorchScheduler",
    "Tqdm",
    "UnpackState",
    "VisdomParams",
    "WarmupCosine",
    "WeightDecay",
    "WeightInit",
    "XavierNormal",
    "XavierUniform",
    "ZeroBias",
    "add_to_loss",
    "bc_loss",
    "bind_to",
    "close_writer",
    "get_writer",
    "learned_weights",
    "make_grid",
    "mixup_loss",
    "on_backward",
    "on_checkpoint",
    "on_criterion",
    "on_criterion_validation",
    "on_end",
    "on_end_epoch",
    "on_end_training",
    "on_end_validation",
    "on_forward",
    "on_forward_validation",
    "on_init",
    "on_sample",
    "on_sample_validation",
    "on_start",
    "on_start_epoch",
    "on_start_training",
    "on_start_validation",
    "on_step_training",
    "on_step_validation",
    "once",
    "once_per_epoch",
    "only_if",
    "traceable",
]
