"""Schedules of one optimizer: when they step and what they are given; and rates, where frameworks have no schedules."""

import bisect
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from delira import errors
from delira.callbacks.abstract_callback import AbstractCallback, Trainer
from delira.callbacks.monitor import mode_of_plateau
from delira.metrics.direction import AUTO, as_mode


class OptimizerSchedule(AbstractCallback):
    """A schedule of one optimizer.

    A backend whose framework has schedules wraps them; :class:`RateSchedule` computes the rates for the others.

    Parameters
    ----------
    optimizer
        Its optimizer, or the name of one of the trainer's.
    step_on
        ``"epoch"``: step after each epoch; ``"iter"``: after each update; None: as the class says.
    monitor
        Value of the epoch at which a plateau's schedule looks; None: the validation score of the run.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or a schedule that looks at values of epochs is to step after updates.
    """

    #: whether each group of parameters may have a rate of its own, and momentum may change as well
    has_groups: ClassVar[bool] = False
    #: whether it looks at a value of each epoch instead of counting steps
    is_plateau: bool = False
    step_on = "epoch"

    def __init__(self, optimizer: object = "default", step_on: str | None = None, monitor: str | None = None):
        self.optimizer: Any = optimizer
        self.step_on = self.step_on if step_on is None else step_on
        errors.check_choice(self, STEP_ON, step_on=self.step_on)
        if self.is_plateau and self.step_on == "iter":
            raise errors.ConfigError(f"{type(self).__name__} looks at values of epochs; leave step_on out")
        errors.check_texts(self, **errors.if_given(monitor=monitor))
        self.monitor, self._updates = monitor, 0

    def begin(self, optimizer: object, trainer: Trainer) -> None:
        """Set the first rate of the optimizer."""

    def advance(self) -> None:
        """Set the rate of the next step."""

    def look_at(self, value: float) -> None:
        """Set the rate that follows from the value of an epoch, in the schedule of a plateau."""

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""

    def watch(self, trainer: Trainer) -> None:
        """Find out, where a training begins, whether high values are good, in the schedule of a plateau."""

    def attach(self, trainer: Trainer) -> None:
        """Take the optimizer out of the trainer, and set its first rate."""
        optimizer = self.optimizer
        if isinstance(optimizer, str):
            if optimizer not in trainer.optimizers:
                raise errors.ConfigError(f"there is no optimizer {optimizer!r}; there are {sorted(trainer.optimizers)}")
            optimizer = trainer.optimizers[optimizer]
        self.begin(optimizer, trainer)
        self._updates = self._count()

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> None:
        """Refuse a plateau's schedule that has nothing to look at; let it find out which values are good."""
        if not self.is_plateau:
            return
        if self.monitor is None and trainer.score_key is None:
            raise errors.ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        self.watch(trainer)

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and (updates := self._count()) != self._updates:
            self._updates = updates
            self.advance()

    def at_epoch_end(self, trainer: Trainer, **facts: Any) -> None:
        """Step after an epoch, or look at its value; its end may bring one more update."""
        if self.is_plateau:
            self._look(trainer, facts["metrics"], self.monitor or facts["val_score_key"] or "")
        elif self.step_on == "epoch":
            self.advance()
        elif hasattr(self.optimizer, "num_updates"):
            self.at_iter_end(trainer)

    def _look(self, trainer: Trainer, metrics: Mapping[str, float], key: str) -> None:
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self.look_at(float(metrics[key]))
        elif not trainer.skips_validation:
            raise errors.ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _count(self) -> int:
        """Return the updates so far; an optimizer that does not count them updates at every step."""
        return getattr(self.optimizer, "num_updates", self._updates + 1)


def by_name(base: type[OptimizerSchedule], ending: str) -> dict[str, type[OptimizerSchedule]]:
    """Return the schedules of a backend, which subclass one base, by their names without the backend's ending."""
    return {cls.__name__.removesuffix(ending): cls for cls in base.__subclasses__() if cls.__name__.endswith(ending)}


def build_schedules(
    native: Callable[[Any, Mapping[str, Any]], Callable[[Any], AbstractCallback]],
    optimizers: Mapping[str, Any],
    cls: object,
    params: Mapping[str, Any],
) -> list[AbstractCallback]:
    """Make one schedule for each optimizer.

    Parameters
    ----------
    native
        Gives the function of an optimizer that wraps a schedule of the framework with its arguments; refuses what is
        none.
    optimizers
        The trainer's optimizers by name.
    cls
        A schedule's callback, or a schedule of the framework.
    params
        Its keyword arguments.
    """
    if isinstance(cls, type) and issubclass(cls, AbstractCallback):
        return [cls(optimizer, **params) for optimizer in optimizers.values()]
    make = native(cls, params)
    return [make(optimizer) for optimizer in optimizers.values()]


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


def check_rates(owner: object, params: Mapping[str, Any]) -> None:
    """Refuse arguments of schedules that are impossible, by their names; None is none.

    Raises
    ------
    ConfigError
        Naming the first that is impossible.
    """
    for name, value in params.items():
        if (rule := _RULES.get(name)) is not None and (value is not None or name in _NEEDED):
            rule(owner, **{name: value})


def _each(limits: Mapping[str, float]) -> Callable[..., None]:
    """Return the rule of a number, or a list with one for each group of parameters."""

    def check(owner: object, **given: Any) -> None:
        for name, value in given.items():
            for each in as_list(value) or [value]:
                errors.check_numbers(owner, **limits, **{name: each})

    return check


def _check_milestones(owner: object, milestones: Iterable[int]) -> None:
    is_list = isinstance(milestones, Iterable) and not isinstance(milestones, (str, bytes, Mapping, Iterator))
    errors.check_that(is_list, owner, "milestones is a list of steps", milestones)
    for step in milestones:
        errors.check_whole(owner, at_least=1, milestones=step)


def _check_functions(owner: object, lr_lambda: object) -> None:
    is_right = bool(as_list(lr_lambda)) and all(map(callable, as_list(lr_lambda)))
    errors.check_that(is_right, owner, "lr_lambda is a function of the steps so far", lr_lambda)


#: argument -> its rule, a function of the owner and of the argument by its name
_RULES: dict[str, Callable[..., None]] = {
    **{name: functools.partial(errors.check_whole, at_least=least) for name, least in _COUNTS.items()},
    **{name: functools.partial(errors.check_numbers, **limits) for name, limits in _NUMBERS.items()},
    **{name: _each(limits) for name, limits in FOR_GROUPS.items()},
    **{name: functools.partial(errors.check_choice, choices=choices) for name, choices in _CHOICES.items()},
    **dict.fromkeys(("three_phase", "cycle_momentum"), errors.check_flags),
    "milestones": _check_milestones,
    "lr_lambda": _check_functions,
}


def plain_counts(params: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a schedule with counts that are integers of Python, as PyTorch asks for; for checked ones."""
    return {name: int(value) if name in _COUNTS and value is not None else value for name, value in params.items()}


def as_list(value: object) -> list[Any]:
    """Return the values of a list; anything else as the only one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_finite(owner: object, rates: Sequence[float]) -> None:
    """Refuse a rate that is no number, before it makes weights that are none.

    Raises
    ------
    ConfigError
        With the rate.
    """
    for rate in rates:
        if not math.isfinite(rate):
            raise errors.ConfigError(f"{owner} gave the learning rate {rate}; look at its arguments, or its function")


def as_number(owner: object, given: Any) -> float:
    """Return what a function of the user's gave for a rate, or its factor.

    Raises
    ------
    ConfigError
        If it is no number.
    """
    try:
        return float(given)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(
            f"{type(owner).__name__}: its function gave the learning rate {given!r}, no number"
        ) from error


def check_lowering(owner: object, factor: float) -> None:
    """Refuse a factor, a number already, that would not lower a rate."""
    errors.check_that(0 < factor < 1, owner, "factor must be above 0 and below 1, which lowers the rate", factor)


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
    _kept: tuple[str, ...] = ("count", "base", "scale")

    def __init__(self, optimizer: object = "default", *args: Any, step_on: str | None = None, **params: Any):
        self.params = self._named(args, params)
        super().__init__(optimizer, step_on, self.params.get("monitor"))
        check_rates(self, self.params)
        self.check_params()
        # steps so far, the rate that the optimizer began with, and by what somebody has changed all rates
        self.count, self.base, self.scale = 0, math.nan, 1.0

    def check_params(self) -> None:
        """Refuse arguments that are impossible together, and get ready for them."""

    def rate_after(self, count: int) -> float:
        """Return the rate after ``count`` steps, but for the scale."""
        raise NotImplementedError(f"{type(self).__name__} has no rate_after")

    def _named(self, args: Sequence[Any], params: Mapping[str, Any]) -> dict[str, Any]:
        name, known = type(self).__name__, self.arguments
        if len(args) > len(known):
            raise errors.ConfigError(
                f"{name} takes at most {len(known)} positional arguments after the optimizer: {', '.join(known)}"
            )
        given = {**dict(zip(known, args, strict=False)), **params}
        if unknown := sorted(given.keys() - known.keys()):
            guess = errors.did_you_mean(unknown[0], known)
            raise errors.ConfigError(f"{name} takes {', '.join(known) or 'no arguments'}, not {unknown[0]!r}{guess}")
        merged = {**known, **given}
        if missing := [argument for argument, value in merged.items() if value is ...]:
            raise errors.ConfigError(f"{name} needs {missing[0]!r}")
        return merged

    def begin(self, optimizer: Any, trainer: Trainer) -> None:
        """Set the first rate of the optimizer."""
        self.optimizer = optimizer
        if not hasattr(optimizer, "num_updates"):
            raise errors.ConfigError(
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self.count, self.base, self.scale = int(self.count), float(self.base), float(self.scale)
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
        return float(self.base * self.params["gamma"] ** bisect.bisect_right(sorted(self.params["milestones"]), count))


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
        errors.check_functions(self, lr_lambda=self.params["lr_lambda"])

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
            raise errors.ConfigError(
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
    _kept = ("count", "base", "scale", "best", "bad_epochs", "cooldown", "mode")

    def check_params(self) -> None:
        """Refuse what is no mode, and a factor that would raise the rate."""
        mode = AUTO if self.params["mode"] is None else as_mode(self.params["mode"], "mode")
        check_lowering(self, self.params["factor"])
        self.mode = {"lowest": "min", "highest": "max"}.get(mode)
        self.best: float | None = None
        self.bad_epochs = self.cooldown = 0

    def rate_after(self, count: int) -> float:
        """Return the rate as it is: it changes by scores."""
        rate = self.optimizer.rate
        return math.nan if rate is None else float(rate / self.scale)

    def watch(self, trainer: Trainer) -> None:
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
