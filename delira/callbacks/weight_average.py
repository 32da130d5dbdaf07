"""Averages of the weights over the steps of a training, or its last epochs."""

from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import AbstractCallback, Trainer
from delira.callbacks.hooks import Callback
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_flags, check_numbers, check_whole


class WeightAverage(AbstractCallback):
    """An average of the weights, which a trainer validates, selects and keeps instead of the weights."""

    _average: Any = None
    _trainer: Any = None

    def attach(self, trainer: Trainer) -> None:
        """Become the average of this trainer; its backend must be able to average."""
        trainer.averages.use(self)
        self._trainer = trainer

    def take(self, network: object) -> None:
        """Let the weights of ``network``, which a checkpoint held, be the average so far."""
        self._average = self._trainer.backend.weights.average(None, network, 0.0)

    def _move(self, before: object, decay: float) -> None:
        """Let the average be ``decay`` of the one before, and the rest of the weights as they are."""
        self._average = self._trainer.backend.weights.average(before, self._trainer.module, decay)


class ExponentialMovingAverage(WeightAverage):
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

    _kept = ("n_updates",)

    def __init__(self, decay: float = 0.999, warmup: bool = True, update_statistics: bool = False):
        check_numbers(self, at_least=0, decay=decay)
        check_flags(self, warmup=warmup, update_statistics=update_statistics)
        if not decay < 1:
            raise ConfigError(f"ExponentialMovingAverage: decay must be at least 0 and below 1, got {decay!r}")
        self.decay, self.warmup, self.update_statistics = decay, warmup, update_statistics
        self.n_updates = self._seen = 0

    def attach(self, trainer: Trainer) -> None:
        """Become the average of this trainer, and begin with the weights as they are."""
        super().attach(trainer)
        self.take(trainer.module)

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> None:
        """Count updates from here on."""
        self._seen = self._count()

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Follow the weights, if they were updated."""
        self._follow()

    def weights(self) -> dict[str, Any]:
        """Return the average, by the names of the weights; arrays of the framework."""
        self._follow()  # the end of an epoch may bring one more update
        return dict(self._average)

    def take(self, network: object) -> None:
        """Let the weights of ``network`` be the average."""
        super().take(network)
        self._seen = self._count()

    def _follow(self) -> None:
        before, self._seen = self._seen, self._count()
        if self._seen != before:
            self.n_updates += 1
            decay = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates)) if self.warmup else self.decay
            self._move(self._average, decay)

    def _count(self) -> int:
        """Updates so far; where optimizers do not count them, steps."""
        optimizers = self._trainer.optimizers.values()
        counted = [optimizer.num_updates for optimizer in optimizers if hasattr(optimizer, "num_updates")]
        return sum(counted) if counted else self._trainer.state.global_step


class SWA(WeightAverage, Callback):
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
    _kept = ("n_averaged",)

    def __init__(self, start_epoch: int = 0, period: int = 1, update_statistics: bool = True):
        check_whole(self, at_least=0, start_epoch=start_epoch)
        check_whole(self, at_least=1, period=period)
        check_flags(self, update_statistics=update_statistics)
        self.start_epoch, self.period, self.update_statistics = start_epoch, period, update_statistics
        self.n_averaged = 0

    def on_end_training(self, state: State) -> None:
        """Take the weights of an epoch into the mean."""
        epochs = state[keys.EPOCH] - self.start_epoch
        if epochs >= 0 and epochs % self.period == 0:
            self._move(self._average if self.n_averaged else None, self.n_averaged / (self.n_averaged + 1))
            self.n_averaged += 1

    def weights(self) -> dict[str, Any] | None:
        """Return the mean, by the names of the weights; None before the first epoch that counts."""
        return dict(self._average) if self.n_averaged else None
