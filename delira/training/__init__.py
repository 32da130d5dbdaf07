"""Training: settings, the loop, experiments, cross-validation and callbacks."""

from typing import TYPE_CHECKING

from delira.training.base_experiment import BaseExperiment
from delira.training.base_trainer import BaseNetworkTrainer
from delira.training.config import TrainerConfig
from delira.training.parameters import Parameters
from delira.training.predictor import Predictor
from delira.training.result import FoldResult, KFoldResult
from delira.training.signatures import settings_help
from delira.training.state import TrainingState
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.torch import PyTorchExperiment as PyTorchExperiment
    from delira.backends.torch import PyTorchNetworkTrainer as PyTorchNetworkTrainer
    from delira.backends.torch import convert_torch_tensor_to_npy as convert_torch_tensor_to_npy
    from delira.backends.torch import create_optims_default_pytorch as create_optims_default_pytorch
    from delira.backends.torch import create_optims_gan_default_pytorch as create_optims_gan_default_pytorch

#: historic names
AbstractExperiment = BaseExperiment
AbstractNetworkTrainer = BaseNetworkTrainer

__all__ = [
    "AbstractExperiment",
    "AbstractNetworkTrainer",
    "BaseExperiment",
    "BaseNetworkTrainer",
    "FoldResult",
    "KFoldResult",
    "Parameters",
    "Predictor",
    "TrainerConfig",
    "TrainingState",
    "settings_help",
]

__getattr__, __dir__ = lazy_names(__name__)
