"""Stop when a score no longer improves, or the loss is no number any more."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.abstract_callback import Trainer
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import check_watched, number, refuse_unknown, sign_of, trainer_of, watched_value
from delira.errors import MissingKeyError
from delira.state import State
from delira.utils.checks import check_flags, check_numbers, check_texts, check_whole


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


class TerminateOnNaN(Callback):
    """Stop the fit when the loss, or the value ``monitor``, is infinite or not a number.

    The loss of every step is looked at. On a CPU that happens at once, and the fit ends after that very step; on an
    accelerator each look would wait for it, so that the losses are read together, every ``log_freq`` steps and at
    the end of the pass. ``monitor`` is looked at where the metrics have it, at the end of a pass and of an epoch.

    A trial returns the epochs that were finished before. The trainer's own guard, which would raise
    :class:`delira.errors.NonFiniteLossError` (``nonfinite="raise"``), is off during the fit of a trial that has this
    callback. In an experiment the guard stays, as its errors say where the numbers began; the callback ends
    runs there that have ``nonfinite="ignore"``.

    Parameters
    ----------
    monitor
        Name of a metric.
    """

    phases = ("fit",)

    def __init__(self, monitor: str = "running_loss"):
        check_texts(self, monitor=monitor)
        self.monitor = monitor
        self._unread: list[Any] = []
        self._config: Any = None

    def on_start(self, state: State) -> None:
        """Take the place of the trainer's guard, in a trial."""
        self._unread = []
        trainer = trainer_of(state)
        if trainer is not state[keys.SELF] and trainer.config.guards.nonfinite == "raise":
            self._config = trainer.config
            guards = dataclasses.replace(trainer.config.guards, nonfinite="ignore")
            trainer.config = dataclasses.replace(trainer.config, guards=guards)

    def on_step_training(self, state: State) -> None:
        """Keep the loss, and read it if that costs nothing, or if it is time."""
        if state.get(keys.LOSS) is None:
            return
        self._unread.append(state[keys.LOSS])
        if _is_free(state[keys.DEVICE]) or len(self._unread) >= trainer_of(state).config.logging.freq:
            self._read(state)

    def on_end_training(self, state: State) -> None:
        """Read what is left, and look at the metrics."""
        self._read(state)
        self._look_at_metrics(state)

    def on_step_validation(self, state: State) -> None:
        """Keep the loss as in training."""
        self.on_step_training(state)

    def on_end_validation(self, state: State) -> None:
        """Read what is left, and look at the metrics."""
        self.on_end_training(state)

    def on_end_epoch(self, state: State) -> None:
        """Look at the metrics."""
        self._look_at_metrics(state)

    def _look_at_metrics(self, state: State) -> None:
        for name in (self.monitor, f"val_{self.monitor}"):
            if name in state[keys.METRICS] and not math.isfinite(number(state[keys.METRICS][name])):
                state[keys.STOP_TRAINING] = True

    def on_end(self, state: State) -> None:
        """Give the trainer its guard back."""
        if self._config is not None:
            trainer_of(state).config, self._config = self._config, None

    def _read(self, state: State) -> None:
        if self._unread and not np.isfinite(trainer_of(state).backend.arrays.read_scalars(self._unread)).all():
            state[keys.STOP_TRAINING] = True
        self._unread = []


def _is_free(device: object) -> bool:
    """Return True if to read a value of the device makes nobody wait."""
    return "cpu" in str(device).lower()
