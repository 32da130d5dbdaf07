"""Callbacks: what happens beside the loop, and the decorators that make them of functions of the state.

The accumulation of gradients over several batches is none of them, but a setting of trainers and trials:
``gradient_accumulation_steps``.
"""

from typing import TYPE_CHECKING

from delira.logging.writers import VisdomParams, close_writer, get_writer
from delira.training.callbacks.abstract_callback import AbstractCallback, CallbackList
from delira.training.callbacks.checkpoints import Best, Interval, ModelCheckpoint, MostRecent
from delira.training.callbacks.confusion import PyCM
from delira.training.callbacks.csv_logger import CSVLogger
from delira.training.callbacks.decorators import (
    add_to_loss,
    bind_to,
    on_backward,
    on_checkpoint,
    on_criterion,
    on_criterion_validation,
    on_end,
    on_end_epoch,
    on_end_training,
    on_end_validation,
    on_forward,
    on_forward_validation,
    on_init,
    on_sample,
    on_sample_validation,
    on_start,
    on_start_epoch,
    on_start_training,
    on_start_validation,
    on_step_training,
    on_step_validation,
    once,
    once_per_epoch,
    only_if,
    traceable,
)
from delira.training.callbacks.early_stopping import EarlyStopping
from delira.training.callbacks.freezing import FreezeUnfreeze
from delira.training.callbacks.gradient_clipping import GradientClipping, GradientNormClipping
from delira.training.callbacks.history import HistoryWriter
from delira.training.callbacks.hooks import Callback
from delira.training.callbacks.imaging import (
    CachingImagingCallback,
    ClassAppearanceModel,
    FromState,
    ImagingCallback,
    MakeGrid,
    make_grid,
)
from delira.training.callbacks.initialisers import (
    KaimingNormal,
    KaimingUniform,
    WeightInit,
    XavierNormal,
    XavierUniform,
    ZeroBias,
)
from delira.training.callbacks.live_plot import LiveLossPlot
from delira.training.callbacks.lsuv import LsuvInit
from delira.training.callbacks.mixing import (
    BCPlus,
    CutMix,
    Cutout,
    LabelSmoothingRegularisation,
    ManifoldMixup,
    MixedTargets,
    Mixup,
    RandomErase,
    SamplePairing,
    bc_loss,
    mixup_loss,
)
from delira.training.callbacks.printers import ConsolePrinter, Tqdm
from delira.training.callbacks.profiler import Profiler, TimerMetric
from delira.training.callbacks.progress import ProgressBar
from delira.training.callbacks.schedules import (
    CosineAnnealingLR,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
    TorchScheduler,
    WarmupCosine,
)
from delira.training.callbacks.swa import SWA
from delira.training.callbacks.tensorboard import TensorBoardWriter
from delira.training.callbacks.tensorboard_base import AbstractTensorBoard
from delira.training.callbacks.tensorboard_images import TensorBoardImages
from delira.training.callbacks.tensorboard_projector import TensorBoardProjector
from delira.training.callbacks.tensorboard_scalars import TensorBoard
from delira.training.callbacks.tensorboard_text import TensorBoardText
from delira.training.callbacks.terminate_on_nan import TerminateOnNaN
from delira.training.callbacks.unpack_state import UnpackState
from delira.training.callbacks.weight_average import ExponentialMovingAverage
from delira.training.callbacks.weight_decay import L1WeightDecay, L2WeightDecay, WeightDecay
from delira.training.callbacks.weights import learned_weights
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
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

#: its older name
LSUV = LsuvInit

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

__getattr__, __dir__ = lazy_names(__name__)
