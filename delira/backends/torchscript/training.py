"""Trainer and experiment of TorchScript: the common ones, bound to this backend."""

from delira.backends.torchscript.backend import BACKEND
from delira.experiments.experiment import BaseExperiment, NetworkT
from delira.training.trainer import BaseNetworkTrainer


class TorchScriptNetworkTrainer(BaseNetworkTrainer):
    """Trains an :class:`AbstractTorchScriptNetwork`; the arguments are those of :class:`BaseNetworkTrainer`.

    Of several ``gpu_ids`` the first is used, with a warning.
    """

    backend = BACKEND


class TorchScriptExperiment(BaseExperiment[NetworkT]):
    """Trains a fresh :class:`AbstractTorchScriptNetwork` each time; called as :class:`BaseExperiment`."""

    trainer_cls = TorchScriptNetworkTrainer
