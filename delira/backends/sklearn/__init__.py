"""The scikit-learn backend.

An estimator brings its own loss and its own optimizer, so a training has neither. One that learns batch by
batch (``partial_fit``) does so in every epoch; any other one is fitted once, at the end of the first epoch, on
all of its samples. skops writes estimators without pickle.
"""

from delira.backends.sklearn.network import SklearnEstimator, load_checkpoint_sklearn, save_checkpoint_sklearn
from delira.backends.sklearn.training import SklearnExperiment, SklearnNetworkTrainer
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
