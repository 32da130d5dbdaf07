"""Trainer and experiment of JAX: the common ones, bound to this backend."""

from delira.backends.jax.backend import BACKEND
from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.training.trainer import BaseNetworkTrainer


class JaxNetworkTrainer(BaseNetworkTrainer):
    """Trains an :class:`AbstractJaxNetwork`; the arguments are those of :class:`BaseNetworkTrainer`."""

    backend = BACKEND


class JaxExperiment(BaseExperiment[NetworkT]):
    """Trains a fresh :class:`AbstractJaxNetwork` each time; called as :class:`BaseExperiment`."""

    trainer_cls = JaxNetworkTrainer
