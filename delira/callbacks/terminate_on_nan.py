"""Stop when the loss is no number any more."""

import dataclasses
import math
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import number, trainer_of
from delira.state import State
from delira.utils.checks import check_texts


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
        self.on_end_epoch(state)

    on_step_validation, on_end_validation = on_step_training, on_end_training

    def on_end_epoch(self, state: State) -> None:
        """Look at the metrics."""
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
