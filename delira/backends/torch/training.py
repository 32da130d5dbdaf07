"""Trainer and experiment of PyTorch: the common ones, bound to this backend."""

from delira.backends.torch.backend import BACKEND
from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.training.trainer import BaseNetworkTrainer


class PyTorchNetworkTrainer(BaseNetworkTrainer):
    """Trains an :class:`AbstractPyTorchNetwork`; the arguments are those of :class:`BaseNetworkTrainer`."""

    backend = BACKEND


class PyTorchExperiment(BaseExperiment[NetworkT]):
    """Trains a fresh :class:`AbstractPyTorchNetwork` each time; called as :class:`BaseExperiment`."""

    trainer_cls = PyTorchNetworkTrainer
