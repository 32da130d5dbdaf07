"""After the training: networks of runs that predict, and the folds of a cross-validation as one model."""

from delira.prediction.networks import load_network
