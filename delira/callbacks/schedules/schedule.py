"""The base of learning-rate schedules of one optimizer: when they step, what they look at, what they are given."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from delira.callbacks.abstract_callback import AbstractCallback
from delira.errors import ConfigError
from delira.utils.checks import check_choice, check_flags, check_numbers, check_texts, check_whole

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


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
        check_choice(self, STEP_ON, step_on=self.step_on)
        if self.is_plateau and self.step_on == "iter":
            raise ConfigError(f"{type(self).__name__} looks at values of epochs; leave step_on out")
        if monitor is not None:
            check_texts(self, monitor=monitor)
        self.monitor = monitor
        self._updates = 0

    def begin(self, optimizer: object, trainer: "BaseNetworkTrainer") -> None:
        """Set the first rate of the optimizer."""

    def advance(self) -> None:
        """Set the rate of the next step."""

    def look_at(self, value: float) -> None:
        """Set the rate that follows from the value of an epoch, in the schedule of a plateau."""

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""

    def watch(self, trainer: "BaseNetworkTrainer") -> None:
        """Find out, where a training begins, whether high values are good, in the schedule of a plateau."""

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Take the optimizer out of the trainer, and set its first rate."""
        optimizer = self.optimizer
        if isinstance(optimizer, str):
            if optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {optimizer!r}; there are {sorted(trainer.optimizers)}")
            optimizer = trainer.optimizers[optimizer]
        self.begin(optimizer, trainer)
        self._updates = self._count()

    def at_training_begin(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Refuse a plateau's schedule that has nothing to look at; let it find out which values are good."""
        if not self.is_plateau:
            return
        if self.monitor is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        self.watch(trainer)

    def at_iter_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and (updates := self._count()) != self._updates:
            self._updates = updates
            self.advance()

    def at_epoch_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an epoch, or look at its value; its end may bring one more update."""
        if self.is_plateau:
            self._look(trainer, facts["metrics"], self.monitor or facts["val_score_key"] or "")
        elif self.step_on == "epoch":
            self.advance()
        elif hasattr(self.optimizer, "num_updates"):
            self.at_iter_end(trainer)

    def _look(self, trainer: "BaseNetworkTrainer", metrics: Mapping[str, float], key: str) -> None:
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self.look_at(float(metrics[key]))
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

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
