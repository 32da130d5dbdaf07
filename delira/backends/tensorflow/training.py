"""Trainer and experiment of TensorFlow: the common ones, bound to this backend."""

from delira.backends.tensorflow.backend import BACKEND
from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.training.trainer import BaseNetworkTrainer


class TfNetworkTrainer(BaseNetworkTrainer):
    """Trains an :class:`AbstractTfNetwork`; the arguments are those of :class:`BaseNetworkTrainer`."""

    backend = BACKEND


class TfExperiment(BaseExperiment[NetworkT]):
    """Trains a fresh :class:`AbstractTfNetwork` each time; called as :class:`BaseExperiment`."""

    trainer_cls = TfNetworkTrainer
