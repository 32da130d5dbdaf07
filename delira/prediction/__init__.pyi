from delira.prediction.ensemble import Ensemble as Ensemble
from delira.prediction.ensemble import load_ensemble as load_ensemble
from delira.prediction.networks import load_network as load_network
from delira.prediction.predicting import predict as predict
from delira.prediction.predicting import Prediction as Prediction
from delira.prediction.score import EnsembleScore as EnsembleScore

__all__ = [
    "Ensemble",
    "EnsembleScore",
    "Prediction",
    "load_ensemble",
    "load_network",
    "predict",
]
