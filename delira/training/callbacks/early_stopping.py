"""Stop when a score no longer improves."""

import math
from collections.abc import Mapping
from typing import Any

from delira.errors import ConfigError, MissingKeyError
from delira.training.callbacks.abstract_callback import AbstractCallback

_SIGNS = {"min": 1.0, "lowest": 1.0, "max": -1.0, "highest": -1.0}


class EarlyStopping(AbstractCallback):
    """Stop when ``patience`` epochs in a row brought no improvement.

    Parameters
    ----------
    monitor_key
        Value of the epoch that is watched, e.g. ``"val_loss"``; ``val_`` may be left out.
    min_delta
        An improvement is a change by more than this.
    patience
        Epochs to wait; 0 stops at the first epoch that is no improvement.
    mode
        ``"min"``/``"lowest"`` or ``"max"``/``"highest"``: which values are good.
    """

    def __init__(self, monitor_key: str, min_delta: float = 0.0, patience: int = 0, mode: str = "min"):
        if mode not in _SIGNS:
            raise ConfigError(f"EarlyStopping: mode must be one of {', '.join(map(repr, _SIGNS))}, got {mode!r}")
        if min_delta < 0 or patience < 0:
            raise ConfigError(
                f"EarlyStopping: min_delta and patience must not be negative, got {min_delta!r} and {patience!r}"
            )
        self.monitor_key, self.min_delta, self.patience, self.mode = monitor_key, min_delta, patience, mode
        self.best = math.inf
        self.epochs_waited = 0

    def at_epoch_end(self, trainer: Any, *, metrics: Mapping[str, float], **facts: Any) -> None:
        """Look at the epoch's value."""
        key = self.monitor_key if self.monitor_key in metrics else f"val_{self.monitor_key}"
        if key not in metrics:
            if any(key in record for record in trainer.state.history) or trainer.skips_validation:
                return  # this epoch was not validated
            raise MissingKeyError(
                f"EarlyStopping watches {self.monitor_key!r}, but the epoch has only {sorted(metrics)}"
            )
        value = _SIGNS[self.mode] * metrics[key]
        if value < self.best - self.min_delta:
            self.best, self.epochs_waited = value, 0
            return
        self.epochs_waited += 1
        if self.epochs_waited >= self.patience:
            trainer.state.stop_training = True

    def state_dict(self) -> dict[str, Any]:
        """Best value and epochs waited."""
        return {"best": self.best, "epochs_waited": self.epochs_waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to wait."""
        self.best, self.epochs_waited = state["best"], state["epochs_waited"]
