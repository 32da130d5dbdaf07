"""Trainer and experiment: the common ones, bound to this backend."""

from delira.training import BaseExperiment, BaseNetworkTrainer
from numpy_backend.backend import BACKEND


class NumpyTrainer(BaseNetworkTrainer):
    """Trains an ``AbstractNumpyNetwork``; the arguments are those of ``BaseNetworkTrainer``."""

    backend = BACKEND


class NumpyExperiment(BaseExperiment):
    """Trains fresh ``AbstractNumpyNetwork``s; the arguments are those of ``BaseExperiment``."""

    trainer_cls = NumpyTrainer
