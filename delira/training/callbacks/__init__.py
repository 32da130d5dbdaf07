"""Callbacks: what happens beside the loop."""

from typing import TYPE_CHECKING

from delira.training.callbacks.abstract_callback import AbstractCallback, CallbackList
from delira.training.callbacks.early_stopping import EarlyStopping
from delira.training.callbacks.history import HistoryWriter
from delira.training.callbacks.progress import ProgressBar
from delira.training.callbacks.tensorboard import TensorBoardWriter
from delira.training.callbacks.weight_average import ExponentialMovingAverage
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
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
    "AbstractCallback",
    "CallbackList",
    "EarlyStopping",
    "ExponentialMovingAverage",
    "HistoryWriter",
    "ProgressBar",
    "TensorBoardWriter",
]

__getattr__, __dir__ = lazy_names(__name__)
