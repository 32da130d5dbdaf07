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
    "AbstractCallback",
    "CallbackList",
    "EarlyStopping",
    "ExponentialMovingAverage",
    "HistoryWriter",
    "ProgressBar",
    "TensorBoardWriter",
]

__getattr__, __dir__ = lazy_names(__name__)
