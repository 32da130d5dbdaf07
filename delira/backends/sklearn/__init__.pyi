from delira.backends.sklearn.network import load_checkpoint_sklearn as load_checkpoint_sklearn
from delira.backends.sklearn.network import save_checkpoint_sklearn as save_checkpoint_sklearn
from delira.backends.sklearn.network import SklearnEstimator as SklearnEstimator
from delira.backends.sklearn.training import SklearnExperiment as SklearnExperiment
from delira.backends.sklearn.training import SklearnNetworkTrainer as SklearnNetworkTrainer

__all__ = [
    "SklearnEstimator",
    "SklearnExperiment",
    "SklearnNetworkTrainer",
    "load_checkpoint_sklearn",
    "save_checkpoint_sklearn",
]
