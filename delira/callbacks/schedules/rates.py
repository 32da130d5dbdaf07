"""Learning-rate schedules for backends whose frameworks have none: the rate as a function of the epochs, or updates.

They set ``optimizer.rate`` and count ``optimizer.num_updates``, which a backend's optimizers have. The arguments are
those of PyTorch's schedules of the same names. PyTorch's own differ from them in the last bit.
"""

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from delira.callbacks.monitor import mode_of_plateau
from delira.callbacks.schedules.schedule import OptimizerSchedule, as_number, check_finite, check_lowering, check_rates
from delira.errors import ConfigError
from delira.metrics.direction import AUTO, as_mode
from delira.utils.checks import check_functions, check_texts, did_you_mean

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class RateSchedule(OptimizerSchedule):
    """A schedule that computes its rates: ``Schedule(optimizer, *args, step_on=…, **params)``.

    Parameters
    ----------
    optimizer
        Its optimizer: one of the trainer's, or its name.
    *args, **params
        The arguments that :attr:`arguments` names, by position or by name.
    step_on
        ``"epoch"``: step after each epoch; ``"iter"``: after each update.

    Raises
    ------
    ConfigError
        If an argument is missing or unknown.
    """

    #: arguments after the optimizer, in order, and what they are by default; ``...`` where one must be given
    arguments: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, optimizer: object = "default", *args: Any, step_on: str | None = None, **params: Any):
        super().__init__(optimizer, step_on)
        self.params = self._named(args, params)
        check_rates(self, self.params)
        self.check_params()
        self.count = 0
        self.base = math.nan  # the rate that the optimizer began with
        self.scale = 1.0  # by which somebody has changed all rates

    def check_params(self) -> None:
        """Refuse arguments that are impossible together, and get ready for them."""

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps, but for the scale."""
        raise NotImplementedError(f"{type(self).__name__} has no rate_after")

    def _named(self, args: Sequence[Any], params: Mapping[str, Any]) -> dict[str, Any]:
        name, known = type(self).__name__, self.arguments
        if len(args) > len(known):
            raise ConfigError(
                f"{name} takes at most {len(known)} positional arguments after the optimizer: {', '.join(known)}"
            )
        given = {**dict(zip(known, args, strict=False)), **params}
        if unknown := sorted(given.keys() - known.keys()):
            guess = did_you_mean(unknown[0], known)
            raise ConfigError(f"{name} takes {', '.join(known) or 'no arguments'}, not {unknown[0]!r}{guess}")
        merged = {**known, **given}
        if missing := [argument for argument, value in merged.items() if value is ...]:
            raise ConfigError(f"{name} needs {missing[0]!r}")
        return merged

    def begin(self, optimizer: Any, trainer: "BaseNetworkTrainer") -> None:
        """Set the first rate of the optimizer."""
        self.optimizer = optimizer
        if not hasattr(optimizer, "num_updates"):
            raise ConfigError(
                f"{type(self).__name__} takes the name of an optimizer, or one of the trainer's, got {optimizer!r}"
            )
        if math.isnan(self.base):
            self.base = math.nan if optimizer.rate is None else optimizer.rate
            self._set()  # says why, if the rate cannot be changed

    def advance(self) -> None:
        """Set the rate of the next step."""
        self.count += 1
        self._set()

    def _set(self) -> None:
        rate = self.rate_after(self.count) * self.scale
        if not math.isnan(self.base):
            check_finite(type(self).__name__, [rate])
        self.optimizer.rate = rate

    def state_dict(self) -> dict[str, Any]:
        """Return the steps so far, and the rates it began with."""
        return {"count": self.count, "base": self.base, "scale": self.scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        self.count, self.base, self.scale = int(state["count"]), float(state["base"]), float(state["scale"])
        self._updates = self.optimizer.num_updates

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""
        self.scale *= factor


class StepRate(RateSchedule):
    """Multiply the rate by ``gamma`` every ``step_size`` epochs."""

    arguments: ClassVar[Mapping[str, Any]] = {"step_size": ..., "gamma": 0.1}

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        return float(self.base * self.params["gamma"] ** (count // self.params["step_size"]))


class MultiStepRate(RateSchedule):
    """Multiply the rate by ``gamma`` at each of the epochs ``milestones``."""

    arguments: ClassVar[Mapping[str, Any]] = {"milestones": ..., "gamma": 0.1}

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        passed = bisect.bisect_right(sorted(self.params["milestones"]), count)
        return float(self.base * self.params["gamma"] ** passed)


class ExponentialRate(RateSchedule):
    """Multiply the rate by ``gamma`` every epoch."""

    arguments: ClassVar[Mapping[str, Any]] = {"gamma": ...}

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        return float(self.base * self.params["gamma"] ** count)


class LambdaRate(RateSchedule):
    """Let ``lr_lambda``, a function of the number of epochs, give the rate's factor."""

    arguments: ClassVar[Mapping[str, Any]] = {"lr_lambda": ...}

    def check_params(self) -> None:
        """Refuse a list of functions: there are no groups."""
        check_functions(self, lr_lambda=self.params["lr_lambda"])

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        return self.base * as_number(self, self.params["lr_lambda"](count))


class CosineAnnealingRate(RateSchedule):
    """Let the rate follow a cosine down to ``eta_min`` in ``T_max`` epochs, and up again in as many."""

    arguments: ClassVar[Mapping[str, Any]] = {"T_max": ..., "eta_min": 0.0}

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        return _cosine(self.base, self.params["eta_min"], count / self.params["T_max"])


class OneCycleRate(RateSchedule):
    """Raise the rate once over the run and lower it again, stepped after each update.

    ``max_lr`` is the highest rate; ``total_steps`` the updates of the run, or ``epochs`` and ``steps_per_epoch`` are
    given; the rate rises in the part ``pct_start`` of them, from ``max_lr / div_factor``; the last rate is that
    divided by ``final_div_factor``, and stays. It goes along cosines, or with ``anneal_strategy="linear"`` evenly;
    with ``three_phase`` it falls to the first rate in as many steps as it rose, and then to the last one.

    References
    ----------
    Smith and Topin, Super-convergence, arXiv:1708.07120 (2017).
    """

    step_on = "iter"
    arguments: ClassVar[Mapping[str, Any]] = {
        "max_lr": ..., "total_steps": None, "epochs": None, "steps_per_epoch": None, "pct_start": 0.3,
        "div_factor": 25.0, "final_div_factor": 1e4, "anneal_strategy": "cos", "three_phase": False,
    }  # fmt: skip

    def check_params(self) -> None:
        """Refuse a run of unknown length."""
        total, epochs, steps = (self.params[name] for name in ("total_steps", "epochs", "steps_per_epoch"))
        if total is None and epochs is not None and steps is not None:
            total = epochs * steps
        if total is None or total < 2:
            raise ConfigError(
                f"{type(self).__name__} needs total_steps, the updates of the run (at least 2), or epochs and "
                "steps_per_epoch"
            )
        self.params["total_steps"] = total

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps; that of the last one stays."""
        params = self.params
        highest, last = params["max_lr"], params["total_steps"] - 1
        first, rise = highest / params["div_factor"], params["pct_start"] * params["total_steps"]
        end = first / params["final_div_factor"]
        # step and rate at the end of each phase
        falls = [(2 * rise - 2, first), (last, end)] if params["three_phase"] else [(last, end)]
        begin, rate, count = 0.0, first, min(count, last)
        for until, target in [(rise - 1, highest), *falls]:
            if count <= until:
                part = (count - begin) / (until - begin)
                is_line = params["anneal_strategy"] == "linear"
                return float(rate + (target - rate) * part) if is_line else _cosine(rate, target, part)
            begin, rate = until, target
        return float(end)


def _cosine(start: float, end: float, part: float) -> float:
    return float(end + (start - end) * (1 + math.cos(math.pi * part)) / 2)


#: mode of cycles -> their height in cycle number ``cycle``, from 1, after ``count`` steps
HEIGHTS: dict[str, Callable[[int, int, float], float]] = {
    "triangular": lambda cycle, count, gamma: 1.0,
    "triangular2": lambda cycle, count, gamma: 1 / 2.0 ** (cycle - 1),
    "exp_range": lambda cycle, count, gamma: float(gamma**count),
}


class CyclicRate(RateSchedule):
    """Let the rate go up and down between two values."""

    arguments: ClassVar[Mapping[str, Any]] = {
        "base_lr": ..., "max_lr": ..., "step_size_up": 2000, "step_size_down": None, "mode": "triangular", "gamma": 1.0,
        "scale_fn": None, "scale_mode": "cycle",
    }  # fmt: skip

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps."""
        params = self.params
        up = params["step_size_up"]
        length = up + (params["step_size_down"] or up)
        cycle, place = divmod(count, length)
        part = place / up if place <= up else (length - place) / (length - up)
        if (scale := params["scale_fn"]) is None:
            height = HEIGHTS[params["mode"]](cycle + 1, count, params["gamma"])
        else:
            height = float(scale(cycle + 1 if params["scale_mode"] == "cycle" else count))
        return float(params["base_lr"] + (params["max_lr"] - params["base_lr"]) * part * height)


def is_improvement(value: float, best: float, threshold: float, is_relative: bool, is_highest: bool) -> bool:
    """Return True if a value is better than the best one by more than a threshold; the same in every backend.

    Parameters
    ----------
    value, best
        The two; negative ones are as good as any.
    threshold
        A difference, or a part of the size of ``best`` if ``is_relative``.
    is_highest
        Whether the highest value is the best.
    """
    if math.isinf(best):  # of which there is no part
        return value > best if is_highest else value < best
    margin = threshold * abs(best) if is_relative else threshold
    return value > best + margin if is_highest else value < best - margin


class PlateauRate(RateSchedule):
    """Lower the rate when a value no longer improves.

    ``mode`` is ``"min"``/``"lowest"`` or ``"max"``/``"highest"``; ``None`` or ``"auto"``: as for the score of the run,
    or for ``monitor`` as far as it is known. After ``patience`` epochs without an improvement by more than
    ``threshold`` (a part of the size of the best value, which may be negative, or with ``threshold_mode="abs"`` a
    difference) the rate is multiplied by ``factor``, down to ``min_lr``; then ``cooldown`` epochs are not looked at.
    Changes of at most ``eps`` are left out. ``monitor`` is the value of the epoch; ``None``: the validation score of
    the run.
    """

    arguments: ClassVar[Mapping[str, Any]] = {
        "mode": None, "factor": 0.1, "patience": 10, "threshold": 1e-4, "threshold_mode": "rel", "cooldown": 0,
        "min_lr": 0.0, "eps": 1e-8, "monitor": None,
    }  # fmt: skip

    is_plateau = True

    def check_params(self) -> None:
        """Refuse what is no mode, and a factor that would raise the rate."""
        mode = AUTO if self.params["mode"] is None else as_mode(self.params["mode"], "mode")
        check_lowering(self, self.params["factor"])
        self.monitor = self.params["monitor"]
        if self.monitor is not None:
            check_texts(self, monitor=self.monitor)
        self.mode = {"lowest": "min", "highest": "max"}.get(mode)
        self.best: float | None = None
        self.bad_epochs = self.cooldown = 0

    def rate_after(self, count: int) -> float:
        """Return the rate as it is: it changes by scores."""
        rate = self.optimizer.rate
        return math.nan if rate is None else float(rate / self.scale)

    def watch(self, trainer: "BaseNetworkTrainer") -> None:
        """Find out whether high values are good."""
        if self.mode is None:
            self.mode = mode_of_plateau(trainer, self.monitor)

    def look_at(self, value: float) -> None:
        """Lower the rate after too many epochs without improvement."""
        self.count += 1
        is_relative, is_highest = self.params["threshold_mode"] == "rel", self.mode == "max"
        best = self.best if self.best is not None else -math.inf if is_highest else math.inf
        if is_improvement(value, best, self.params["threshold"], is_relative, is_highest):
            self.best, self.bad_epochs = value, 0
        else:
            self.bad_epochs += 1
        if self.cooldown > 0:
            self.cooldown, self.bad_epochs = self.cooldown - 1, 0
        if self.bad_epochs > self.params["patience"]:
            self.cooldown, self.bad_epochs = self.params["cooldown"], 0
            rate = self.optimizer.rate
            lower = max(rate * self.params["factor"], self.params["min_lr"] * self.scale)
            if rate - lower > self.params["eps"]:
                self.optimizer.rate = lower

    def state_dict(self) -> dict[str, Any]:
        """Return the best value, and how long ago it was."""
        own = {"best": self.best, "bad_epochs": self.bad_epochs, "cooldown": self.cooldown, "mode": self.mode}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the best value of a checkpoint."""
        super().load_state_dict(state)
        self.best, self.mode = state["best"], state["mode"]
        self.bad_epochs, self.cooldown = state["bad_epochs"], state["cooldown"]
