"""Trainer and experiment of the toy backend: the common ones, bound to it."""

from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.testing.toy.backend import BACKEND
from delira.training.trainer import BaseNetworkTrainer


class ToyTrainer(BaseNetworkTrainer):
    """Trains a :class:`ToyNetwork`."""

    backend = BACKEND


class ToyExperiment(BaseExperiment[NetworkT]):
    """Runs experiments with a :class:`ToyTrainer`."""

    trainer_cls = ToyTrainer
