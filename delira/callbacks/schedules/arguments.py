"""Checks of the arguments of learning-rate schedules, by their names, which are those of PyTorch's schedules."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from delira.errors import ConfigError
from delira.utils.checks import check_choice, check_flags, check_numbers, check_whole

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
                check_numbers(owner, **limits, **{name: each})

    return check


def _check_milestones(owner: object, milestones: object) -> None:
    if not isinstance(milestones, Iterable) or isinstance(milestones, (str, bytes, Mapping, Iterator)):
        raise ConfigError(f"{_name_of(owner)}: milestones is a list of steps, got {milestones!r}")
    for step in milestones:
        check_whole(owner, at_least=1, milestones=step)


def _check_functions(owner: object, lr_lambda: object) -> None:
    if not as_list(lr_lambda) or not all(map(callable, as_list(lr_lambda))):
        raise ConfigError(f"{_name_of(owner)}: lr_lambda is a function of the steps so far, got {lr_lambda!r}")


#: argument -> its rule, a function of the owner and of the argument by its name
_RULES: dict[str, Callable[..., None]] = {
    **{name: functools.partial(check_whole, at_least=least) for name, least in _COUNTS.items()},
    **{name: functools.partial(check_numbers, **limits) for name, limits in _NUMBERS.items()},
    **{name: _each(limits) for name, limits in FOR_GROUPS.items()},
    **{name: functools.partial(check_choice, choices=choices) for name, choices in _CHOICES.items()},
    **dict.fromkeys(("three_phase", "cycle_momentum"), check_flags),
    "milestones": _check_milestones,
    "lr_lambda": _check_functions,
}


def _name_of(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


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
            raise ConfigError(f"{owner} gave the learning rate {rate}; look at its arguments, or its function")


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
        raise ConfigError(f"{_name_of(owner)}: its function gave the learning rate {given!r}, no number") from error


def check_lowering(owner: object, factor: float) -> None:
    """Refuse a factor, a number already, that would not lower a rate."""
    if not 0 < factor < 1:
        raise ConfigError(
            f"{_name_of(owner)}: factor must be above 0 and below 1, which lowers the rate, got {factor!r}"
        )
