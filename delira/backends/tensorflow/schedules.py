"""Learning-rate schedules as callbacks: those of Keras, and those of the PyTorch backend by the same arguments."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from delira.callbacks.abstract_callback import AbstractCallback
from delira.callbacks.schedules import rates
from delira.callbacks.schedules.rates import as_list, as_number
from delira.contract.kinds import ByName
from delira.errors import ConfigError, check_numbers


class TfSchedulerCallback(rates.RateSchedule):
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
        self, optimizer: object = "default", scheduler_cls: object = None, step_on: str | None = None, **params: Any
    ):
        super().__init__(optimizer, step_on=step_on)
        if not callable(scheduler_cls):
            raise ConfigError(
                "TfSchedulerCallback needs scheduler_cls, e.g. keras.optimizers.schedules.CosineDecay, got "
                f"{scheduler_cls!r}"
            )
        self.scheduler_cls, self.params = scheduler_cls, params
        self._is_of_keras = getattr(scheduler_cls, "__module__", "").startswith("keras.")
        for name, value in params.items() if self._is_of_keras else ():  # a user's own may take anything
            for each in as_list(value) if name != "name" else ():
                if each is not None and not isinstance(each, bool):
                    check_numbers("TfSchedulerCallback", **{name: each})
        self._schedule: Callable[[int], Any] | None = None

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        if self._schedule is None:
            params, name = dict(self.params), getattr(self.scheduler_cls, "__name__", repr(self.scheduler_cls))
            if "PiecewiseConstantDecay" not in name:
                params = {"initial_learning_rate": self.base, **params}
            try:
                self._schedule = self.scheduler_cls(**params)
                if self._is_of_keras:  # which looks at its arguments as late as here
                    self._schedule(count)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"the schedule {name} cannot be built from {self.params}: {error}") from error
        return as_number(self, self._schedule(count))

    def load_state_dict(self, state: ByName) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self._schedule = None  # it begins with the rate of the checkpoint


class DefaultTfSchedulerCallback(rates.RateSchedule):
    """Base for schedules of your own: say ``rate_after(count)``."""


class StepLRCallbackTf(rates.StepRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1)``."""


class ExponentialLRCallbackTf(rates.ExponentialRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma)``."""


class MultiStepLRCallbackTf(rates.MultiStepRate, DefaultTfSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1)``."""


class LambdaLRCallbackTf(rates.LambdaRate, DefaultTfSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda)``."""


class CosineAnnealingLRCallbackTf(rates.CosineAnnealingRate, DefaultTfSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0)``."""


class OneCycleLRCallbackTf(rates.OneCycleRate, DefaultTfSchedulerCallback):
    """Raise and lower the rate once over the run, stepped after each update; arguments as in PyTorch."""


class ReduceLROnPlateauCallbackTf(rates.PlateauRate, DefaultTfSchedulerCallback):
    """Lower the rate when the validation score no longer improves; arguments as in PyTorch."""


#: schedules by the names that all backends share
SCHEDULES = {**rates.by_name(DefaultTfSchedulerCallback, "CallbackTf"), "CyclicLR": rates.CyclicRate}


def _native(cls: object, params: ByName) -> Callable[[Any], AbstractCallback]:
    if not (isinstance(cls, type) and issubclass(cls, keras.optimizers.schedules.LearningRateSchedule)):
        raise ConfigError(
            "lr_scheduler_cls must be a schedule class, e.g. keras.optimizers.schedules.CosineDecay or "
            f"delira.training.callbacks.StepLRCallbackTf, got {cls!r}"
        )
    # their arguments are counted in updates: decay_steps
    return functools.partial(TfSchedulerCallback, scheduler_cls=cls, **{"step_on": "iter", **params})


build_schedules = functools.partial(rates.build_schedules, _native)
