"""Learning-rate schedules of a whole run that work on every backend: cycles, one cycle, warm-up and cosine."""

import importlib
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from delira.errors import ConfigError
from delira.training.callbacks.arguments import check_numbers, check_whole
from delira.training.callbacks.rates import RateSchedule
from delira.training.callbacks.schedules import RoomSchedule


class CyclicLR(RoomSchedule):
    """Let the rate go up and down between two values.

    Parameters
    ----------
    base_lr, max_lr
        The values.
    step_size_up
        Steps of the schedule on the way up.
    step_size_down
        And down; None: as many.
    mode
        ``"triangular"``; ``"triangular2"``: each cycle is half as high; ``"exp_range"``: ``gamma`` to the power of
        the steps so far as high.
    gamma
        For ``"exp_range"``.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.

    References
    ----------
    Smith, Cyclical learning rates for training neural networks, arXiv:1506.01186 (2015).
    """

    def __init__(
        self,
        base_lr: float,
        max_lr: float,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        step_on_batch: bool = False,
    ):
        if mode not in _HEIGHTS:
            raise ConfigError(f"CyclicLR: mode must be one of {', '.join(map(repr, _HEIGHTS))}, got {mode!r}")
        super().__init__(step_on_batch, {
            "base_lr": base_lr, "max_lr": max_lr, "step_size_up": step_size_up, "step_size_down": step_size_down,
            "mode": mode, "gamma": gamma,
        })  # fmt: skip

    def _build(self, trainer: Any, optimizer: str) -> Any:
        step_on = "iter" if self.step_on_batch else "epoch"
        if self._ending(trainer) != "PyTorch":
            return _CyclicRate(optimizer, step_on=step_on, **self.params)
        cls = sys.modules["torch"].optim.lr_scheduler.CyclicLR
        callback = importlib.import_module("delira.training.callbacks").TorchSchedulerCallback
        # the momentum stays, as on the other backends
        return callback(optimizer, cls, step_on=step_on, cycle_momentum=False, **self.params)


#: mode of cycles -> their height in cycle number ``cycle``, from 1, after ``count`` steps
_HEIGHTS: dict[str, Callable[[int, int, float], float]] = {
    "triangular": lambda cycle, count, gamma: 1.0,
    "triangular2": lambda cycle, count, gamma: 1 / 2.0 ** (cycle - 1),
    "exp_range": lambda cycle, count, gamma: float(gamma**count),
}


class _CyclicRate(RateSchedule):
    """The cycles, for rooms without their own."""

    arguments: ClassVar[Mapping[str, Any]] = {
        "base_lr": ..., "max_lr": ..., "step_size_up": 2000, "step_size_down": None, "mode": "triangular", "gamma": 1.0,
    }  # fmt: skip

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        params = self.params
        up = params["step_size_up"]
        length = up + (params["step_size_down"] or up)
        cycle, place = divmod(count, length)
        part = place / up if place <= up else (length - place) / (length - up)
        height = _HEIGHTS[params["mode"]](cycle + 1, count, params["gamma"])
        return float(params["base_lr"] + (params["max_lr"] - params["base_lr"]) * part * height)


class OneCycleLR(RoomSchedule):
    """Raise the rate once over the run and lower it again along cosines, stepped after each update.

    Parameters
    ----------
    max_lr
        The highest rate.
    total_steps
        Updates of the run.
    pct_start
        Part of them in which the rate rises.
    div_factor, final_div_factor
        The first rate is ``max_lr / div_factor``, the last one that divided by ``final_div_factor``.

    References
    ----------
    Smith and Topin, Super-convergence, arXiv:1708.07120 (2017).
    """

    _name = "OneCycleLR"

    def __init__(
        self,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ):
        super().__init__(True, {
            "max_lr": max_lr, "total_steps": total_steps, "pct_start": pct_start, "div_factor": div_factor,
            "final_div_factor": final_div_factor,
        })  # fmt: skip


class WarmupCosine(RoomSchedule):
    """Raise the rate evenly to that of the optimizer, then lower it along a cosine.

    Parameters
    ----------
    warmup_steps
        Steps of the schedule on the way up; the first one has ``1 / (warmup_steps + 1)`` of the rate.
    total_steps
        Steps in all; what comes later keeps the last rate.
    final_factor
        Part of the rate at the end.
    step_on_batch
        Whether the schedule steps after each update, or after each epoch.

    Raises
    ------
    ConfigError
        If the numbers of steps are impossible.

    References
    ----------
    Goyal et al., Accurate, large minibatch SGD, arXiv:1706.02677 (2017), for the warm-up.
    """

    _name = "LambdaLR"

    def __init__(self, warmup_steps: int, total_steps: int, final_factor: float = 0.0, step_on_batch: bool = True):
        check_whole(self, warmup_steps=warmup_steps, total_steps=total_steps)
        check_numbers(self, final_factor=final_factor)
        if not 0 <= warmup_steps < total_steps:
            raise ConfigError(
                f"WarmupCosine: warmup_steps is at least 0 and below total_steps, got {warmup_steps!r} and "
                f"{total_steps!r}"
            )

        def factor(count: int) -> float:
            if count < warmup_steps:
                return (count + 1) / (warmup_steps + 1)
            part = min((count - warmup_steps) / (total_steps - warmup_steps), 1.0)
            return final_factor + (1 - final_factor) * (1 + math.cos(math.pi * part)) / 2

        super().__init__(step_on_batch, {"lr_lambda": factor})
