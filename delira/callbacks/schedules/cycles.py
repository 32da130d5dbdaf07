"""Learning-rate schedules of a whole run that work on every backend: cycles, one cycle, warm-up and cosine."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from delira.callbacks.schedules.for_all import BackendSchedule, LambdaLR
from delira.callbacks.schedules.rates import HEIGHTS
from delira.errors import ConfigError
from delira.utils.checks import check_choice, check_functions, check_numbers, check_whole
from delira.utils.suggest import did_you_mean

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class _Cycle(BackendSchedule):
    """A schedule that may let the momentum go against the rate, where the backend can change it: in PyTorch."""

    _more: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, step_on_batch: bool, params: Mapping[str, Any], more: Mapping[str, Any]):
        name = type(self).__name__
        if "monitor" in more:
            raise ConfigError(f"{name} counts steps and looks at no value; leave monitor out")
        if unknown := [key for key in more if key not in self._more]:
            raise ConfigError(f"{name} takes no {unknown[0]!r}{did_you_mean(unknown[0], [*params, *self._more])}")
        super().__init__(step_on_batch, {**params, **self._more, **more})

    def _arguments(self, trainer: "BaseNetworkTrainer") -> dict[str, Any]:
        """Return the arguments that the backend's schedule takes."""
        arguments = super()._arguments(trainer)
        if self._of_backend(trainer).has_groups:
            return arguments
        if self.params["cycle_momentum"]:
            raise ConfigError(
                f"{type(self).__name__}: cycle_momentum works with PyTorch; in the backend {trainer.backend.name!r} "
                "the momentum of an optimizer cannot be changed"
            )
        return {name: value for name, value in arguments.items() if "momentum" not in name}


class CyclicLR(_Cycle):
    """Let the rate go up and down between two values.

    Parameters
    ----------
    base_lr, max_lr
        The values. PyTorch only: lists, with a value for each group of parameters.
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
    **params
        ``scale_fn``, in the place of ``mode``: a function that gives how high a cycle is, of its number from 1, or with
        ``scale_mode="iterations"`` of the steps so far. PyTorch only: ``cycle_momentum``, whether the momentum (of
        Adam the first of the betas) goes from ``max_momentum`` (0.9) to ``base_momentum`` (0.8) and back. It is false
        unless given, so that all backends do the same; in PyTorch itself it is true.

    Raises
    ------
    ConfigError
        If an argument is unknown or impossible; where the fit begins, if the backend or the optimizer cannot do it.

    References
    ----------
    Smith, Cyclical learning rates for training neural networks, arXiv:1506.01186 (2015).
    """

    _more: ClassVar[Mapping[str, Any]] = {
        "scale_fn": None, "scale_mode": "cycle", "cycle_momentum": False, "base_momentum": 0.8, "max_momentum": 0.9,
    }  # fmt: skip

    def __init__(
        self,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        step_on_batch: bool = False,
        **params: Any,
    ):
        scale_fn = params.get("scale_fn")
        if scale_fn is None:
            check_choice(self, HEIGHTS, mode=mode)
        else:
            check_functions(self, scale_fn=scale_fn)
        super().__init__(step_on_batch, {
            "base_lr": base_lr, "max_lr": max_lr, "step_size_up": step_size_up, "step_size_down": step_size_down,
            "mode": mode, "gamma": gamma,
        }, params)  # fmt: skip


class OneCycleLR(_Cycle):
    """Raise the rate once over the run and lower it again, stepped after each update; the last rate stays.

    Parameters
    ----------
    max_lr
        The highest rate. PyTorch only: a list, with a rate for each group of parameters.
    total_steps
        Updates of the run; or None, with ``epochs`` and ``steps_per_epoch``.
    pct_start
        Part of them in which the rate rises.
    div_factor, final_div_factor
        The first rate is ``max_lr / div_factor``, the last one that divided by ``final_div_factor``.
    **params
        ``epochs`` and ``steps_per_epoch``, in the place of ``total_steps``; ``anneal_strategy``: along cosines
        (``"cos"``, unless given) or lines (``"linear"``); ``three_phase``: to the first rate in as many steps as it
        rose, then to the last one. PyTorch only: ``cycle_momentum``, whether the momentum (of Adam the first of the
        betas) goes from ``max_momentum`` (0.95) to ``base_momentum`` (0.85) and back. It is false unless given, so that
        all backends do the same; in PyTorch itself it is true.

    Raises
    ------
    ConfigError
        If an argument is unknown or impossible; where the fit begins, if the backend or the optimizer cannot do it.

    References
    ----------
    Smith and Topin, Super-convergence, arXiv:1708.07120 (2017).
    """

    _more: ClassVar[Mapping[str, Any]] = {
        "epochs": None, "steps_per_epoch": None, "anneal_strategy": "cos", "three_phase": False,
        "cycle_momentum": False, "base_momentum": 0.85, "max_momentum": 0.95,
    }  # fmt: skip

    def __init__(
        self,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        **params: Any,
    ):
        super().__init__(True, {
            "max_lr": max_lr, "total_steps": total_steps, "pct_start": pct_start, "div_factor": div_factor,
            "final_div_factor": final_div_factor,
        }, params)  # fmt: skip
        epochs, steps = self.params.pop("epochs"), self.params.pop("steps_per_epoch")
        if total_steps is None and None not in (epochs, steps):
            self.params["total_steps"] = total_steps = epochs * steps
        if total_steps is None:
            raise ConfigError("OneCycleLR needs total_steps, the updates of the run, or epochs and steps_per_epoch")
        rise = pct_start * total_steps
        if not 0 <= pct_start <= 1 or rise == 1 or total_steps < 2:
            raise ConfigError(
                f"OneCycleLR: pct_start is a part, from 0 to 1, of at least 2 steps, and not of one step alone, got "
                f"{pct_start!r} of {total_steps!r}"
            )


class WarmupCosine(LambdaLR):
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

    def __init__(self, warmup_steps: int, total_steps: int, final_factor: float = 0.0, step_on_batch: bool = True):
        check_whole(self, at_least=0, warmup_steps=warmup_steps, total_steps=total_steps)
        check_numbers(self, at_least=0, at_most=1, final_factor=final_factor)
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

        super().__init__(factor, step_on_batch)
