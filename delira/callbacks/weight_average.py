"""Averages of the weights over the steps of a training."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from delira.callbacks.abstract_callback import AbstractCallback
from delira.errors import ConfigError
from delira.utils.checks import check_flags, check_numbers

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class ExponentialMovingAverage(AbstractCallback):
    """Validate, select and keep an exponential moving average of the weights instead of the weights.

    The average moves by ``1 - decay`` towards the weights after every update. It is what the network has during
    validation and after ``train``, and what checkpoints hold under ``"model"``; the weights that are trained are
    beside it, as ``"training_model"``. Buffers (statistics of normalisation layers) are not averaged: see
    ``update_statistics``.

    Parameters
    ----------
    decay
        Part of the old average that is kept, in [0, 1).
    warmup
        Begin with smaller decays: ``min(decay, (1 + n) / (10 + n))`` in the n-th update, as
        ``tf.train.ExponentialMovingAverage`` has it with ``num_updates``.
    update_statistics
        Whether the running statistics of normalisation layers are computed anew for the average, by a pass over the
        training data (forward only, in training mode, with the transforms of the training) before each validation, and
        each checkpoint at the end of an epoch. If not, the average has those of the trained weights, which is said
        where there are any, in the log and in the warnings of the result.

    Raises
    ------
    ConfigError
        If ``decay`` is impossible, the trainer has such a callback already, or ``update_statistics`` is asked for of
        layers that ``torch.jit.trace`` has fixed.

    References
    ----------
    Polyak and Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30 (1992).
    """

    def __init__(self, decay: float = 0.999, warmup: bool = True, update_statistics: bool = False):
        check_numbers(self, at_least=0, decay=decay)
        check_flags(self, warmup=warmup, update_statistics=update_statistics)
        if not decay < 1:
            raise ConfigError(f"ExponentialMovingAverage: decay must be at least 0 and below 1, got {decay!r}")
        self.decay, self.warmup, self.update_statistics = decay, warmup, update_statistics
        self.n_updates = 0
        self._average: Any = None
        self._trainer: Any = None
        self._seen = 0

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Become the average of this trainer; its backend must be able to average."""
        set_average(trainer, self)
        self._trainer = trainer
        self.take(trainer.module)

    def at_training_begin(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Count updates from here on."""
        self._seen = self._count()

    def at_iter_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Follow the weights, if they were updated."""
        self._follow()

    def weights(self) -> dict[str, Any]:
        """Return the average, by the names of the weights; arrays of the framework."""
        self._follow()  # the end of an epoch may bring one more update
        return dict(self._average)

    def take(self, network: object) -> None:
        """Let the weights of ``network`` be the average."""
        self._average = self._trainer.backend.weights.average(None, network, 0.0)
        self._seen = self._count()

    def _follow(self) -> None:
        count = self._count()
        if count == self._seen:
            return
        self._seen = count
        self.n_updates += 1
        decay = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates)) if self.warmup else self.decay
        self._average = self._trainer.backend.weights.average(self._average, self._trainer.module, decay)

    def _count(self) -> int:
        """Updates so far; where optimizers do not count them, steps."""
        optimizers = self._trainer.optimizers.values()
        counted = [optimizer.num_updates for optimizer in optimizers if hasattr(optimizer, "num_updates")]
        return sum(counted) if counted else self._trainer.state.global_step

    def state_dict(self) -> dict[str, Any]:
        """Return the number of updates; the average itself is the checkpoint's ``"model"``."""
        return {"n_updates": self.n_updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the count of a checkpoint."""
        self.n_updates = state["n_updates"]


def set_average(trainer: "BaseNetworkTrainer", average: object) -> None:
    """Let a callback average the weights of a trainer.

    Raises
    ------
    ConfigError
        If another one does, or if running statistics are to be updated that cannot be.
    """
    trainer.averages.use(average)
