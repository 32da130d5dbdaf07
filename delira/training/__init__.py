"""Training: settings, the loop, experiments, cross-validation and callbacks."""

from typing import TYPE_CHECKING

from delira.training.base_experiment import BaseExperiment
from delira.training.base_trainer import BaseNetworkTrainer
from delira.training.config import TrainerConfig
from delira.training.parameters import Parameters
from delira.training.predictor import Predictor
from delira.training.preprocessing import Preprocessing, load_preprocessing
from delira.training.result import FoldResult, KFoldResult
from delira.training.signatures import settings_help
from delira.training.state import TrainingState
from delira.utils.lazy import lazy_names

if TYPE_CHECKING:  # what type checkers and editors see; at run time see lazy_names below
    from delira.backends.jax import JaxExperiment as JaxExperiment
    from delira.backends.jax import JaxNetworkTrainer as JaxNetworkTrainer
    from delira.backends.jax import JaxOptimizer as JaxOptimizer
    from delira.backends.jax import convert_jax_array_to_npy as convert_jax_array_to_npy
    from delira.backends.jax import create_optims_default_jax as create_optims_default_jax
    from delira.backends.jax import create_optims_gan_default_jax as create_optims_gan_default_jax
    from delira.backends.sklearn import SklearnExperiment as SklearnExperiment
    from delira.backends.sklearn import SklearnNetworkTrainer as SklearnNetworkTrainer
    from delira.backends.tensorflow import TfExperiment as TfExperiment
    from delira.backends.tensorflow import TfNetworkTrainer as TfNetworkTrainer
    from delira.backends.tensorflow import convert_tf_tensor_to_npy as convert_tf_tensor_to_npy
    from delira.backends.tensorflow import create_optims_default_tf as create_optims_default_tf
    from delira.backends.tensorflow import create_optims_gan_default_tf as create_optims_gan_default_tf
    from delira.backends.torch import PyTorchExperiment as PyTorchExperiment
    from delira.backends.torch import PyTorchNetworkTrainer as PyTorchNetworkTrainer
    from delira.backends.torch import convert_torch_tensor_to_npy as convert_torch_tensor_to_npy
    from delira.backends.torch import create_optims_default_pytorch as create_optims_default_pytorch
    from delira.backends.torch import create_optims_gan_default_pytorch as create_optims_gan_default_pytorch
    from delira.backends.torchscript import TorchScriptExperiment as TorchScriptExperiment
    from delira.backends.torchscript import TorchScriptNetworkTrainer as TorchScriptNetworkTrainer

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
    "Preprocessing",
    "TrainerConfig",
    "TrainingState",
    "load_preprocessing",
    "settings_help",
]

__getattr__, __dir__ = lazy_names(__name__)
