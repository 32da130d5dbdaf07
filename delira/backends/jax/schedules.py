"""Learning-rate schedules as callbacks: those of optax, and those of the PyTorch room by the same arguments."""

from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import ConfigError
from delira.training.callbacks.abstract_callback import AbstractCallback
from delira.training.callbacks.rates import (
    CosineAnnealingRate,
    ExponentialRate,
    LambdaRate,
    MultiStepRate,
    OneCycleRate,
    PlateauRate,
    RateSchedule,
    StepRate,
    as_number,
)


class DefaultJaxSchedulerCallback(RateSchedule):
    """Base for schedules of your own: say ``rate_after(count)``."""


class StepLRCallbackJax(StepRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1)``."""


class ExponentialLRCallbackJax(ExponentialRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma)``."""


class MultiStepLRCallbackJax(MultiStepRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1)``."""


class LambdaLRCallbackJax(LambdaRate, DefaultJaxSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda)``."""


class CosineAnnealingLRCallbackJax(CosineAnnealingRate, DefaultJaxSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0)``."""


class OneCycleLRCallbackJax(OneCycleRate, DefaultJaxSchedulerCallback):
    """Raise and lower the rate once over the run, stepped after each update; arguments as in PyTorch."""


class ReduceLROnPlateauCallbackJax(PlateauRate, DefaultJaxSchedulerCallback):
    """Lower the rate when the validation score no longer improves; arguments as in PyTorch."""


class OptaxScheduleCallbackJax(DefaultJaxSchedulerCallback):
    """Let a schedule of optax, a function of the updates so far, give the rate.

    Parameters
    ----------
    optimizer
        Its optimizer, or the name of one of the trainer's.
    schedule
        E.g. ``optax.cosine_decay_schedule(1e-3, 1000)``.
    step_on
        ``"iter"``: count updates; ``"epoch"``: count epochs.
    """

    step_on = "iter"

    def __init__(
        self,
        optimizer: Any = "default",
        schedule: Callable[[int], Any] | None = None,
        step_on: str | None = None,
    ):
        super().__init__(optimizer, step_on=step_on)
        if not callable(schedule):
            raise ConfigError(f"OptaxScheduleCallbackJax needs schedule, a function of the count, got {schedule!r}")
        self.schedule = schedule

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return as_number(self, self.schedule(count))


def build_schedules(optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[AbstractCallback]:
    """One schedule for each optimizer.

    Parameters
    ----------
    optimizers
        The trainer's optimizers by name.
    cls
        One of the callbacks of this room, or a function of optax that makes a schedule, e.g.
        ``optax.cosine_decay_schedule``.
    params
        Its keyword arguments; for optax also ``step_on``.
    """
    if isinstance(cls, type) and issubclass(cls, AbstractCallback):
        return [cls(optimizer, **params) for optimizer in optimizers.values()]
    if not callable(cls):
        raise ConfigError(
            f"lr_scheduler_cls must be a schedule of this room, e.g. StepLRCallbackJax, or one of optax, got {cls!r}"
        )
    params = dict(params)
    step_on = params.pop("step_on", None)
    try:
        schedule = cls(**params)
    except TypeError as error:
        name = getattr(cls, "__name__", repr(cls))
        raise ConfigError(f"the schedule {name} cannot be built from {params}: {error}") from error
    return [OptaxScheduleCallbackJax(optimizer, schedule, step_on) for optimizer in optimizers.values()]
