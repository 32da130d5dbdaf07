from delira.backends.jax import convert_jax_array_to_npy as convert_jax_array_to_npy
from delira.backends.jax import create_optims_default_jax as create_optims_default_jax
from delira.backends.jax import create_optims_gan_default_jax as create_optims_gan_default_jax
from delira.backends.jax import JaxExperiment as JaxExperiment
from delira.backends.jax import JaxNetworkTrainer as JaxNetworkTrainer
from delira.backends.jax import JaxOptimizer as JaxOptimizer
from delira.backends.sklearn import SklearnExperiment as SklearnExperiment
from delira.backends.sklearn import SklearnNetworkTrainer as SklearnNetworkTrainer
from delira.backends.tensorflow import convert_tf_tensor_to_npy as convert_tf_tensor_to_npy
from delira.backends.tensorflow import create_optims_default_tf as create_optims_default_tf
from delira.backends.tensorflow import create_optims_gan_default_tf as create_optims_gan_default_tf
from delira.backends.tensorflow import TfExperiment as TfExperiment
from delira.backends.tensorflow import TfNetworkTrainer as TfNetworkTrainer
from delira.backends.torch import convert_torch_tensor_to_npy as convert_torch_tensor_to_npy
from delira.backends.torch import create_optims_default_pytorch as create_optims_default_pytorch
from delira.backends.torch import create_optims_gan_default_pytorch as create_optims_gan_default_pytorch
from delira.backends.torch import PyTorchExperiment as PyTorchExperiment
from delira.backends.torch import PyTorchNetworkTrainer as PyTorchNetworkTrainer
from delira.backends.torchscript import TorchScriptExperiment as TorchScriptExperiment
from delira.backends.torchscript import TorchScriptNetworkTrainer as TorchScriptNetworkTrainer
from delira.experiments.experiment import BaseExperiment as AbstractExperiment
from delira.experiments.experiment import BaseExperiment as BaseExperiment
from delira.experiments.learning_curve import LearningCurve as LearningCurve
from delira.experiments.parameters import Parameters as Parameters
from delira.experiments.preprocessing import load_preprocessing as load_preprocessing
from delira.experiments.preprocessing import Preprocessing as Preprocessing
from delira.experiments.result import KFoldResult as KFoldResult
from delira.runs.results import FoldResult as FoldResult
from delira.search.tune import Tune as Tune
from delira.settings.config import TrainerConfig as TrainerConfig
from delira.settings.signatures import settings_help as settings_help
from delira.training.predictor import Predictor as Predictor
from delira.training.run import TrainingState as TrainingState
from delira.training.trainer import BaseNetworkTrainer as AbstractNetworkTrainer
from delira.training.trainer import BaseNetworkTrainer as BaseNetworkTrainer
from delira.utils.spaces import Choice as Choice
from delira.utils.spaces import Float as Float
from delira.utils.spaces import Int as Int

__all__ = [
    "AbstractExperiment",
    "AbstractNetworkTrainer",
    "BaseExperiment",
    "BaseNetworkTrainer",
    "Choice",
    "Float",
    "FoldResult",
    "Int",
    "KFoldResult",
    "LearningCurve",
    "Parameters",
    "Predictor",
    "Preprocessing",
    "TrainerConfig",
    "TrainingState",
    "Tune",
    "load_preprocessing",
    "settings_help",
]
