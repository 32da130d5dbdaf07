"""Learning-rate schedules as callbacks: those of Keras, and those of the PyTorch room by the same arguments."""

from collections.abc import Callable, Mapping
from typing import Any

import keras

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
)


class TfSchedulerCallback(RateSchedule):
    """Sets the learning rate by a schedule of Keras, a function of the updates, or epochs, so far.

    Parameters
    ----------
    optimizer
        Its optimizer: one of the trainer's, or its name.
    scheduler_cls
        A class of ``keras.optimizers.schedules``; its ``initial_learning_rate`` is the optimizer's own rate if it is
        not given.
    step_on
        ``"iter"``: the schedule counts updates; ``"epoch"``: epochs.
    **params
        Keyword arguments of the schedule class.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or the schedule cannot be built.
    """

    def __init__(
        self, optimizer: Any = "default", scheduler_cls: Any = None, step_on: str | None = None, **params: Any
    ):
        super().__init__(optimizer, step_on=step_on)
        if scheduler_cls is None:
            raise ConfigError("TfSchedulerCallback needs scheduler_cls, e.g. keras.optimizers.schedules.CosineDecay")
        self.scheduler_cls, self.params = scheduler_cls, params
        self._schedule: Callable[[int], Any] | None = None

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        if self._schedule is None:
            params = dict(self.params)
            if "PiecewiseConstantDecay" not in self.scheduler_cls.__name__:
                params = {"initial_learning_rate": self.base, **params}
            try:
                self._schedule = self.scheduler_cls(**params)
            except (TypeError, ValueError) as error:
                raise ConfigError(
                    f"the schedule {self.scheduler_cls.__name__} cannot be built from {self.params}: {error}"
                ) from error
        return float(self._schedule(count))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self._schedule = None  # it begins with the rate of the checkpoint


class DefaultTfSchedulerCallback(RateSchedule):
    """Base for schedules of your own: say ``rate_after(count)``."""


class StepLRCallbackTf(StepRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1)``."""


class ExponentialLRCallbackTf(ExponentialRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma)``."""


class MultiStepLRCallbackTf(MultiStepRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1)``."""


class LambdaLRCallbackTf(LambdaRate, DefaultTfSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda)``."""


class CosineAnnealingLRCallbackTf(CosineAnnealingRate, DefaultTfSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0)``."""


class OneCycleLRCallbackTf(OneCycleRate, DefaultTfSchedulerCallback):
    """Raise and lower the rate once over the run, stepped after each update; arguments as in PyTorch."""


class ReduceLROnPlateauCallbackTf(PlateauRate, DefaultTfSchedulerCallback):
    """Lower the rate when the validation score no longer improves; arguments as in PyTorch."""


def build_schedules(optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[AbstractCallback]:
    """One schedule for each optimizer.

    Parameters
    ----------
    optimizers
        The trainer's optimizers by name.
    cls
        One of the callbacks of this module, or a class of ``keras.optimizers.schedules``.
    params
        Its keyword arguments; ``step_on`` as in :class:`TfSchedulerCallback`.
    """
    if isinstance(cls, type) and issubclass(cls, AbstractCallback):
        return [cls(optimizer, **params) for optimizer in optimizers.values()]
    if not (isinstance(cls, type) and issubclass(cls, keras.optimizers.schedules.LearningRateSchedule)):
        raise ConfigError(
            "lr_scheduler_cls must be a schedule class, e.g. keras.optimizers.schedules.CosineDecay or "
            f"delira.training.callbacks.StepLRCallbackTf, got {cls!r}"
        )
    # their arguments are counted in updates: decay_steps
    return [TfSchedulerCallback(optimizer, cls, **{"step_on": "iter", **params}) for optimizer in optimizers.values()]
