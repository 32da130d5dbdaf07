"""After the training: networks of runs that predict, and the folds of a cross-validation as one model."""

from delira.prediction.ensemble import Ensemble, load_ensemble
from delira.prediction.networks import load_network
from delira.prediction.predicting import Prediction, predict
from delira.prediction.score import EnsembleScore
from delira.utils.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
