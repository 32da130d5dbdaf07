"""Stop when a score no longer improves."""

import math
from collections.abc import Mapping
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import Trainer
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import check_watched, number, refuse_unknown, sign_of, watched_value
from delira.errors import MissingKeyError
from delira.state import State
from delira.utils.checks import check_flags, check_numbers, check_whole


class EarlyStopping(Callback):
    """Stop when ``patience`` epochs in a row brought no improvement.

    Parameters
    ----------
    monitor
        Value of the epoch that is watched, e.g. ``"val_loss"``; ``val_`` may be left out.
    min_delta
        An improvement is a change by more than this.
    patience
        Epochs to wait; 0 and 1 stop at the first epoch that is no improvement.
    mode
        ``"min"``/``"lowest"`` or ``"max"``/``"highest"``: which values are good; ``"auto"``: small losses and errors,
        and large accuracies, AUC, F1, IoU, Dice and their like, as far as it is known of a metric or by its name. Of
        anything else it must be said.
    step_on_batch
        Count training steps instead of epochs; ``monitor`` is a value of the step then, e.g. ``"running_loss"``, and
        every step waits for it. A trial ends in the midst of the epoch, an experiment after it.
    monitor_key
        Historic name of ``monitor``.

    Raises
    ------
    ConfigError
        If an argument is impossible; when the fit begins, or with the first value, if it is not known which values
        are good.
    MissingKeyError
        When the first epoch ends without such a value.
    """

    phases = ("fit", "replay")
    _kept = ("best", "epochs_waited")

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        step_on_batch: bool = False,
        monitor_key: str | None = None,
    ):
        self.monitor = monitor if monitor_key is None else monitor_key
        check_watched(mode, self.monitor, "EarlyStopping")
        check_numbers(self, at_least=0, min_delta=min_delta)
        check_whole(self, at_least=0, patience=patience)
        check_flags(self, step_on_batch=step_on_batch)
        self.min_delta, self.patience, self.mode, self.step_on_batch = min_delta, patience, mode, step_on_batch
        self.best, self.epochs_waited = math.inf, 0

    def on_start(self, state: State) -> None:
        """Refuse a metric of which nobody knows which values are good."""
        refuse_unknown(state, self.mode, self.monitor, "EarlyStopping")

    def on_step_training(self, state: State) -> None:
        """Look at the step's value."""
        if self.step_on_batch and self.monitor in state[keys.METRICS]:
            self._look_at(state, number(state[keys.METRICS][self.monitor]))

    def on_end_training(self, state: State) -> None:
        """Refuse a value that no step has."""
        if self.step_on_batch and self.best == math.inf and not self.epochs_waited:
            raise MissingKeyError(
                f"EarlyStopping watches {self.monitor!r} of steps, but no step had it; there are "
                f"{sorted(state[keys.METRICS])}, some of them at the end of an epoch only"
            )

    def at_epoch_end(self, trainer: Trainer, *, metrics: Mapping[str, float], **facts: Any) -> None:
        """Look at the value of an epoch, which is recorded already."""
        state = State({**trainer.facts, keys.METRICS: metrics})
        self._look_at_epoch(state)
        if state.get(keys.STOP_TRAINING):
            trainer.facts[keys.STOP_TRAINING] = trainer.state.stop_training = True

    def on_end_epoch(self, state: State) -> None:
        """Look at the value of an epoch that is replayed."""
        if state[keys.PHASE] == "replay":
            self._look_at_epoch(state)

    def _look_at_epoch(self, state: State) -> None:
        value = None if self.step_on_batch else watched_value(state, self.monitor, "EarlyStopping")
        if value is not None:
            self._look_at(state, value)

    def _look_at(self, state: State, value: float) -> None:
        value = sign_of(self.mode, self.monitor, "EarlyStopping", state.get(keys.SELF)) * value
        if value < self.best - self.min_delta:
            self.best, self.epochs_waited = value, 0
            return
        self.epochs_waited += 1
        if self.epochs_waited >= self.patience:
            state[keys.STOP_TRAINING] = True
