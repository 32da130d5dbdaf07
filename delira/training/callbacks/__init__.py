"""Callbacks: what happens beside the loop.

The accumulation of gradients over several batches is none of them, but a setting of trainers and trials:
``gradient_accumulation_steps``.
"""

from typing import TYPE_CHECKING

from delira.training.callbacks.abstract_callback import AbstractCallback, CallbackList
from delira.training.callbacks.checkpoints import Best, Interval, ModelCheckpoint, MostRecent
from delira.training.callbacks.csv_logger import CSVLogger
from delira.training.callbacks.cycles import CyclicLR, OneCycleLR, WarmupCosine
from delira.training.callbacks.early_stopping import EarlyStopping
from delira.training.callbacks.freezing import FreezeUnfreeze
from delira.training.callbacks.gradient_clipping import GradientClipping, GradientNormClipping
from delira.training.callbacks.history import HistoryWriter
from delira.training.callbacks.printers import ConsolePrinter, Tqdm
from delira.training.callbacks.progress import ProgressBar
from delira.training.callbacks.schedules import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    MultiStepLR,
    ReduceLROnPlateau,
    StepLR,
    TorchScheduler,
)
from delira.training.callbacks.swa import SWA
from delira.training.callbacks.tensorboard import TensorBoardWriter
from delira.training.callbacks.terminate_on_nan import TerminateOnNaN
from delira.training.callbacks.weight_average import ExponentialMovingAverage
from delira.training.callbacks.weight_decay import L1WeightDecay, L2WeightDecay, WeightDecay
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

__all__ = [
    "SWA",
    "AbstractCallback",
    "Best",
    "CSVLogger",
    "CallbackList",
    "ConsolePrinter",
    "CosineAnnealingLR",
    "CyclicLR",
    "EarlyStopping",
    "ExponentialLR",
    "ExponentialMovingAverage",
    "FreezeUnfreeze",
    "GradientClipping",
    "GradientNormClipping",
    "HistoryWriter",
    "Interval",
    "L1WeightDecay",
    "L2WeightDecay",
    "LambdaLR",
    "ModelCheckpoint",
    "MostRecent",
    "MultiStepLR",
    "OneCycleLR",
    "ProgressBar",
    "ReduceLROnPlateau",
    "StepLR",
    "TensorBoardWriter",
    "TerminateOnNaN",
    "TorchScheduler",
    "Tqdm",
    "WarmupCosine",
    "WeightDecay",
]

__getattr__, __dir__ = lazy_names(__name__)
