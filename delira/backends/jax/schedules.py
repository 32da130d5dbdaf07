"""Learning-rate schedules as callbacks: those of optax, and those of the PyTorch backend by the same arguments."""

import functools
from collections.abc import Callable
from typing import Any

from delira.callbacks.abstract_callback import AbstractCallback
from delira.callbacks.schedules import rates
from delira.callbacks.schedules.rates import as_number
from delira.contract.kinds import ByName
from delira.errors import ConfigError


class DefaultJaxSchedulerCallback(rates.RateSchedule):
    """Base for schedules of your own: say ``rate_after(count)``."""


class StepLRCallbackJax(rates.StepRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1)``."""


class ExponentialLRCallbackJax(rates.ExponentialRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma)``."""


class MultiStepLRCallbackJax(rates.MultiStepRate, DefaultJaxSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1)``."""


class LambdaLRCallbackJax(rates.LambdaRate, DefaultJaxSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda)``."""


class CosineAnnealingLRCallbackJax(rates.CosineAnnealingRate, DefaultJaxSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0)``."""


class OneCycleLRCallbackJax(rates.OneCycleRate, DefaultJaxSchedulerCallback):
    """Raise and lower the rate once over the run, stepped after each update; arguments as in PyTorch."""


class ReduceLROnPlateauCallbackJax(rates.PlateauRate, DefaultJaxSchedulerCallback):
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
        self, optimizer: object = "default", schedule: Callable[[int], Any] | None = None, step_on: str | None = None
    ):
        super().__init__(optimizer, step_on=step_on)
        if not callable(schedule):
            raise ConfigError(f"OptaxScheduleCallbackJax needs schedule, a function of the count, got {schedule!r}")
        self.schedule = schedule

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return as_number(self, self.schedule(count))


#: schedules by the names that all backends share
SCHEDULES = {**rates.by_name(DefaultJaxSchedulerCallback, "CallbackJax"), "CyclicLR": rates.CyclicRate}


def _native(cls: object, params: ByName) -> Callable[[Any], AbstractCallback]:
    if not callable(cls):
        raise ConfigError(
            f"lr_scheduler_cls must be a schedule of this backend, e.g. StepLRCallbackJax, or one of optax, got {cls!r}"
        )
    params = dict(params)
    step_on = params.pop("step_on", None)
    try:
        made = cls(**params)
    except TypeError as error:
        name = getattr(cls, "__name__", repr(cls))
        raise ConfigError(f"the schedule {name} cannot be built from {params}: {error}") from error
    return functools.partial(OptaxScheduleCallbackJax, schedule=made, step_on=step_on)


build_schedules = functools.partial(rates.build_schedules, _native)
