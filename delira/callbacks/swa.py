"""The mean of the weights over the last epochs of a training."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.weight_average import set_average
from delira.state import State
from delira.utils.checks import check_flags, check_whole

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class SWA(Callback):
    """Validate, select and keep the mean of the weights at the ends of epochs instead of the weights.

    The mean is what the network has during validation and after the fit, from the epoch ``start_epoch`` on, and what
    checkpoints hold under ``"model"``; the weights that are trained are beside it, as ``"training_model"``. Buffers
    (statistics of normalisation layers) are not averaged: see ``update_statistics``. The learning rate is a schedule's:
    a constant one, or cycles.

    Parameters
    ----------
    start_epoch
        The first epoch whose weights count, from 0.
    period
        Epochs from one that counts to the next.
    update_statistics
        Whether the running statistics of normalisation layers are computed anew for the mean, as the paper has it
        (section 3.2) and as ``torch.optim.swa_utils.update_bn`` does: by a pass over the training data (forward only,
        in training mode, with the transforms of the training) before each validation, and each checkpoint at the end
        of an epoch. If not, the mean has those of the trained weights, which is said where there are any, in the log
        and in the warnings of the result.

    Raises
    ------
    ConfigError
        If a number is impossible, the trainer averages weights already, or there are statistics to be updated of
        layers that ``torch.jit.trace`` has fixed.

    References
    ----------
    Izmailov et al., Averaging weights leads to wider optima and better generalization, UAI 2018, arXiv:1803.05407.
    """

    phases = ("fit",)

    def __init__(self, start_epoch: int = 0, period: int = 1, update_statistics: bool = True):
        check_whole(self, at_least=0, start_epoch=start_epoch)
        check_whole(self, at_least=1, period=period)
        check_flags(self, update_statistics=update_statistics)
        self.start_epoch, self.period, self.update_statistics = start_epoch, period, update_statistics
        self.n_averaged = 0
        self._average: Any = None
        self._trainer: Any = None

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Become the average of this trainer; its backend must be able to average."""
        set_average(trainer, self)
        self._trainer = trainer

    def at_training_begin(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Nothing: epochs are counted, not updates."""

    def on_end_training(self, state: State) -> None:
        """Take the weights of an epoch into the mean."""
        epochs = state[keys.EPOCH] - self.start_epoch
        if epochs >= 0 and epochs % self.period == 0:
            before = self._average if self.n_averaged else None
            decay = self.n_averaged / (self.n_averaged + 1)
            self._average = self._trainer.backend.weights.average(before, self._trainer.module, decay)
            self.n_averaged += 1

    def weights(self) -> dict[str, Any] | None:
        """Return the mean, by the names of the weights; None before the first epoch that counts."""
        return dict(self._average) if self.n_averaged else None

    def take(self, network: object) -> None:
        """Let the weights of ``network``, which a checkpoint held, be the mean so far."""
        self._average = self._trainer.backend.weights.average(None, network, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of epochs in the mean; the mean itself is the checkpoint's ``"model"``."""
        return {"n_averaged": self.n_averaged}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the count of a checkpoint."""
        self.n_averaged = int(state["n_averaged"])
