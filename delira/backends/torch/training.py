"""Trainer and experiment of PyTorch: the common ones, bound to this room."""

from delira.backends.torch.backend import BACKEND
from delira.training.base_experiment import BaseExperiment
from delira.training.base_trainer import BaseNetworkTrainer


class PyTorchNetworkTrainer(BaseNetworkTrainer):
    __doc__ = BaseNetworkTrainer.__doc__

    backend = BACKEND


class PyTorchExperiment(BaseExperiment):
    __doc__ = BaseExperiment.__doc__

    trainer_cls = PyTorchNetworkTrainer
