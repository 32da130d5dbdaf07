"""Learning-rate schedules for rooms without their own: the rate as a function of the epochs, or updates, so far.

They set ``optimizer.rate`` and count ``optimizer.num_updates``, which a room's optimizers have. The arguments are those
of PyTorch's schedules of the same names.
"""

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from delira.errors import ConfigError
from delira.metrics.direction import AUTO, as_mode
from delira.training.callbacks.abstract_callback import AbstractCallback
from delira.training.callbacks.monitor import mode_of_plateau
from delira.utils.checks import check_choice, check_flags, check_functions, check_numbers, check_texts, check_whole
from delira.utils.suggest import did_you_mean

#: arguments that count something -> the least that they can be
_COUNTS = {
    "step_size": 1, "T_max": 1, "patience": 0, "cooldown": 0, "step_size_up": 1, "step_size_down": 1, "total_steps": 2,
    "epochs": 1, "steps_per_epoch": 1,
}  # fmt: skip
#: arguments that are never None
_NEEDED = ("step_size", "T_max", "step_size_up", "gamma", "milestones", "lr_lambda", "max_lr", "base_lr")
#: arguments that are numbers -> their limits
_NUMBERS: dict[str, dict[str, float]] = {
    "gamma": {"at_least": 0}, "eta_min": {"at_least": 0}, "factor": {"above": 0}, "threshold": {},
    "pct_start": {"at_least": 0, "at_most": 1}, "div_factor": {"above": 0}, "final_div_factor": {"above": 0},
    "eps": {"at_least": 0},
}  # fmt: skip
#: and those that may be lists, one for each group of parameters of an optimizer of PyTorch
FOR_GROUPS: dict[str, dict[str, float]] = {
    "base_lr": {"at_least": 0}, "max_lr": {"above": 0}, "min_lr": {"at_least": 0}, "base_momentum": {"at_least": 0},
    "max_momentum": {"at_least": 0},
}  # fmt: skip
#: arguments that are one of a few words -> these
_CHOICES = {
    "anneal_strategy": ("cos", "linear"),
    "threshold_mode": ("rel", "abs"),
    "scale_mode": ("cycle", "iterations"),
}
#: what schedules count
STEP_ON = ("epoch", "iter")
_FLAGS = ("three_phase", "cycle_momentum")


def check_rates(owner: Any, params: Mapping[str, Any]) -> None:
    """Refuse arguments of schedules that are impossible, by their names; None is none.

    Raises
    ------
    ConfigError
        Naming the first that is impossible.
    """
    for name, value in params.items():
        if value is None and name not in _NEEDED:
            continue
        if name in _COUNTS:
            check_whole(owner, at_least=_COUNTS[name], **{name: value})
        elif name in _NUMBERS:
            check_numbers(owner, **_NUMBERS[name], **{name: value})
        elif name in FOR_GROUPS:
            for each in as_list(value) or [value]:
                check_numbers(owner, **FOR_GROUPS[name], **{name: each})
        elif (check := _CHECKS.get(name)) is not None:
            check(owner, value)
        elif name in _CHOICES:
            check_choice(owner, _CHOICES[name], **{name: value})
        elif name in _FLAGS:
            check_flags(owner, **{name: value})


def _check_milestones(owner: Any, milestones: Any) -> None:
    if not isinstance(milestones, Iterable) or isinstance(milestones, (str, bytes, Mapping, Iterator)):
        raise ConfigError(f"{_name_of(owner)}: milestones is a list of steps, got {milestones!r}")
    for step in milestones:
        check_whole(owner, at_least=1, milestones=step)


def _check_functions(owner: Any, functions: Any) -> None:
    if not as_list(functions) or not all(map(callable, as_list(functions))):
        raise ConfigError(f"{_name_of(owner)}: lr_lambda is a function of the steps so far, got {functions!r}")


#: arguments with rules of their own
_CHECKS: dict[str, Callable[[Any, Any], None]] = {"milestones": _check_milestones, "lr_lambda": _check_functions}


def _name_of(owner: Any) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def plain_counts(params: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a schedule with counts that are integers of Python, as PyTorch asks for; for checked ones."""
    return {name: int(value) if name in _COUNTS and value is not None else value for name, value in params.items()}


def as_list(value: Any) -> list[Any]:
    """The values of a list; anything else as the only one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_finite(owner: Any, rates: Sequence[float]) -> None:
    """Refuse a rate that is no number, before it makes weights that are none.

    Raises
    ------
    ConfigError
        With the rate.
    """
    for rate in rates:
        if not math.isfinite(rate):
            raise ConfigError(f"{owner} gave the learning rate {rate}; look at its arguments, or its function")


def as_number(owner: Any, given: Any) -> float:
    """What a function of the user's gave for a rate, or its factor.

    Raises
    ------
    ConfigError
        If it is no number.
    """
    try:
        return float(given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{_name_of(owner)}: its function gave the learning rate {given!r}, no number") from error


def check_lowering(owner: Any, factor: float) -> None:
    """Refuse a factor, a number already, that would not lower a rate."""
    if not 0 < factor < 1:
        raise ConfigError(
            f"{_name_of(owner)}: factor must be above 0 and below 1, which lowers the rate, got {factor!r}"
        )


class RateSchedule(AbstractCallback):
    """Base of the schedules: ``Schedule(optimizer, *args, step_on=…, **params)``.

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

    step_on = "epoch"
    #: arguments after the optimizer, in order, and what they are by default; ``...`` where one must be given
    arguments: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, optimizer: Any = "default", *args: Any, step_on: str | None = None, **params: Any):
        self.optimizer, self.step_on = optimizer, self.step_on if step_on is None else step_on
        check_choice(self, STEP_ON, step_on=self.step_on)
        self.params = self._named(args, params)
        check_rates(self, self.params)
        self.count, self._updates = 0, 0
        self.base = math.nan  # the rate that the optimizer began with
        self.scale = 1.0  # by which somebody has changed all rates

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps, but for the scale."""
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

    def attach(self, trainer: Any) -> None:
        """Take the optimizer out of the trainer, and set its first rate."""
        if isinstance(self.optimizer, str):
            if self.optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {self.optimizer!r}; there are {sorted(trainer.optimizers)}")
            self.optimizer = trainer.optimizers[self.optimizer]
        if not hasattr(self.optimizer, "num_updates"):
            raise ConfigError(
                f"{type(self).__name__} takes the name of an optimizer, or one of the trainer's, got {self.optimizer!r}"
            )
        if math.isnan(self.base):
            rate = self.optimizer.rate
            self.base = math.nan if rate is None else rate
            self._set()  # says why, if the rate cannot be changed
        self._updates = self.optimizer.num_updates

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and (updates := self.optimizer.num_updates) != self._updates:
            self.count, self._updates = self.count + 1, updates
            self._set()

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an epoch; its end may bring one more update."""
        if self.step_on == "iter":
            self.at_iter_end(trainer)
        else:
            self.count += 1
            self._set()

    def _set(self) -> None:
        rate = self.rate_after(self.count) * self.scale
        if not math.isnan(self.base):
            check_finite(type(self).__name__, [rate])
        self.optimizer.rate = rate

    def state_dict(self) -> dict[str, Any]:
        """The steps so far, and the rates it began with."""
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
        """The rate after ``count`` steps."""
        return float(self.base * self.params["gamma"] ** (count // self.params["step_size"]))


class MultiStepRate(RateSchedule):
    """Multiply the rate by ``gamma`` at each of the epochs ``milestones``."""

    arguments: ClassVar[Mapping[str, Any]] = {"milestones": ..., "gamma": 0.1}

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        passed = bisect.bisect_right(sorted(self.params["milestones"]), count)
        return float(self.base * self.params["gamma"] ** passed)


class ExponentialRate(RateSchedule):
    """Multiply the rate by ``gamma`` every epoch."""

    arguments: ClassVar[Mapping[str, Any]] = {"gamma": ...}

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return float(self.base * self.params["gamma"] ** count)


class LambdaRate(RateSchedule):
    """Let ``lr_lambda``, a function of the number of epochs, give the rate's factor."""

    arguments: ClassVar[Mapping[str, Any]] = {"lr_lambda": ...}

    def __init__(self, optimizer: Any = "default", *args: Any, step_on: str | None = None, **params: Any):
        super().__init__(optimizer, *args, step_on=step_on, **params)
        check_functions(self, lr_lambda=self.params["lr_lambda"])  # no list: there are no groups

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.base * as_number(self, self.params["lr_lambda"](count))


class CosineAnnealingRate(RateSchedule):
    """Let the rate follow a cosine down to ``eta_min`` in ``T_max`` epochs, and up again in as many."""

    arguments: ClassVar[Mapping[str, Any]] = {"T_max": ..., "eta_min": 0.0}

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
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

    def __init__(self, optimizer: Any = "default", *args: Any, step_on: str | None = None, **params: Any):
        super().__init__(optimizer, *args, step_on=step_on, **params)
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
        """The rate after ``count`` steps; that of the last one stays."""
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
                return _BETWEEN[params["anneal_strategy"]](rate, target, part)
            begin, rate = until, target
        return float(end)


def _cosine(start: float, end: float, part: float) -> float:
    return float(end + (start - end) * (1 + math.cos(math.pi * part)) / 2)


def _line(start: float, end: float, part: float) -> float:
    return float(start + (end - start) * part)


_BETWEEN = {"cos": _cosine, "linear": _line}


def is_improvement(value: float, best: float, threshold: float, is_relative: bool, is_highest: bool) -> bool:
    """Whether a value is better than the best one by more than a threshold; the same in every backend.

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

    def __init__(self, optimizer: Any = "default", *args: Any, step_on: str | None = None, **params: Any):
        super().__init__(optimizer, *args, step_on=step_on, **params)
        if self.step_on == "iter":
            raise ConfigError(f"{type(self).__name__} looks at values of epochs; leave step_on out")
        mode = AUTO if self.params["mode"] is None else as_mode(self.params["mode"], "mode")
        check_lowering(self, self.params["factor"])
        if self.params["monitor"] is not None:
            check_texts(self, monitor=self.params["monitor"])
        self.mode = {"lowest": "min", "highest": "max"}.get(mode)
        self.best: float | None = None
        self.bad_epochs = self.cooldown = 0

    def rate_after(self, count: int) -> float:
        """The rate as it is: it changes by scores."""
        rate = self.optimizer.rate
        return math.nan if rate is None else float(rate / self.scale)

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Refuse to look at nothing; hear which scores are good."""
        monitor = self.params["monitor"]
        if monitor is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        if self.mode is None:
            self.mode = mode_of_plateau(trainer, monitor)

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Look at the value of the epoch."""
        metrics: Mapping[str, float] = facts["metrics"]
        key = self.params["monitor"] or facts["val_score_key"] or ""
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self._look_at(float(metrics[key]))
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _look_at(self, value: float) -> None:
        self.count += 1
        if self._is_better(value):
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

    def _is_better(self, value: float) -> bool:
        is_relative, is_highest = self.params["threshold_mode"] == "rel", self.mode == "max"
        best = self.best if self.best is not None else -math.inf if is_highest else math.inf
        return is_improvement(value, best, self.params["threshold"], is_relative, is_highest)

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how long ago it was."""
        own = {"best": self.best, "bad_epochs": self.bad_epochs, "cooldown": self.cooldown, "mode": self.mode}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to look."""
        super().load_state_dict(state)
        self.best, self.mode = state["best"], state["mode"]
        self.bad_epochs, self.cooldown = state["bad_epochs"], state["cooldown"]
