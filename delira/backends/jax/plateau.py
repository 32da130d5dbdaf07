"""The learning-rate schedule that looks at a score."""

import math
from collections.abc import Mapping
from typing import Any

from delira.backends.jax.schedules import DefaultJaxSchedulerCallback
from delira.errors import ConfigError


class ReduceLROnPlateauCallbackJax(DefaultJaxSchedulerCallback):
    """Lower the rate when a value no longer improves.

    Parameters
    ----------
    optimizer
        Its optimizer, or the name of one of the trainer's.
    mode
        ``"min"`` or ``"max"`` (or ``"lowest"``, ``"highest"``): which values are good; ``None``: as for the score of
        the run.
    factor
        What the rate is multiplied by.
    patience
        Epochs without improvement that are waited for.
    threshold
        An improvement is more than this part of the best value.
    min_lr
        The lowest rate.
    monitor
        Value of the epoch that is looked at; ``None``: the validation score of the run.
    """

    def __init__(
        self,
        optimizer: Any = "default",
        mode: str | None = None,
        factor: float = 0.1,
        patience: int = 10,
        *,
        threshold: float = 1e-4,
        min_lr: float = 0.0,
        monitor: str | None = None,
    ):
        super().__init__(optimizer)
        modes = {None: None, "min": "min", "max": "max", "lowest": "min", "highest": "max"}
        if mode not in modes:
            raise ConfigError(f"mode must be 'min' or 'max', got {mode!r}")
        if not 0 < factor < 1:
            raise ConfigError(f"factor must be above 0 and below 1, got {factor!r}")
        self.mode, self.factor, self.patience, self.monitor = modes[mode], factor, patience, monitor
        self.threshold, self.min_lr = threshold, min_lr
        self.best: float | None = None
        self.num_bad = 0

    def rate_after(self, count: int) -> float:
        """The rate as it is: it changes by scores."""
        return float(self.optimizer.rate if self.optimizer.rate is not None else math.nan)

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Refuse to look at nothing; hear which scores are good."""
        if self.monitor is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        if self.mode is None:
            is_highest = self.monitor is None and trainer.score_mode == "highest"
            self.mode = "max" if is_highest else "min"

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Look at the value of the epoch."""
        metrics: Mapping[str, float] = facts["metrics"]
        key = self.monitor or facts["val_score_key"] or ""
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self._look_at(float(metrics[key]))
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _look_at(self, value: float) -> None:
        self.count += 1
        if self._is_better(value):
            self.best, self.num_bad = value, 0
        else:
            self.num_bad += 1
        if self.num_bad > self.patience:
            self.num_bad = 0
            self.optimizer.rate = max(self.rate_after(self.count) * self.factor, self.min_lr)

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return not math.isnan(value)
        margin = self.threshold * abs(self.best)
        return value > self.best + margin if self.mode == "max" else value < self.best - margin

    def state_dict(self) -> dict[str, Any]:
        """Best value and what was counted."""
        own = {"best": self.best, "num_bad": self.num_bad, "min_lr": self.min_lr}
        return {**super().state_dict(), **own, "mode": self.mode}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self.best, self.num_bad = state["best"], state["num_bad"]
        self.min_lr, self.mode = state["min_lr"], state["mode"]

    def scale_rates(self, factor: float) -> None:
        """Multiply the lowest rate."""
        super().scale_rates(factor)
        self.min_lr *= factor
