"""Learning-rate schedules as callbacks: the rate as a function of the epochs or updates so far."""

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from delira.backends.jax.optimizers import JaxOptimizer
from delira.errors import ConfigError
from delira.training.callbacks.abstract_callback import AbstractCallback


class DefaultJaxSchedulerCallback(AbstractCallback):
    """A schedule: subclasses say the rate after ``count`` steps.

    Parameters
    ----------
    optimizer
        Its optimizer: a :class:`JaxOptimizer`, or the name of one of the trainer's.
    step_on
        ``"epoch"``: step after each epoch; ``"iter"``: after each update.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or the rate of the optimizer cannot be changed.
    """

    step_on = "epoch"

    def __init__(self, optimizer: Any = "default", step_on: str | None = None):
        self.optimizer, self.step_on = optimizer, step_on or self.step_on
        self.count, self.base = 0, math.nan
        self._updates = 0
        if self.step_on not in ("epoch", "iter"):
            raise ConfigError(f"step_on must be 'epoch' or 'iter', got {self.step_on!r}")

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps; ``self.base`` is the one that the optimizer began with."""
        raise NotImplementedError(f"{type(self).__name__} has no rate_after")

    def attach(self, trainer: Any) -> None:
        """Take the optimizer out of the trainer, and set its first rate."""
        if isinstance(self.optimizer, str):
            if self.optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {self.optimizer!r}; there are {sorted(trainer.optimizers)}")
            self.optimizer = trainer.optimizers[self.optimizer]
        if not isinstance(self.optimizer, JaxOptimizer):
            raise ConfigError(f"{type(self).__name__} takes the name of an optimizer, or a JaxOptimizer")
        if math.isnan(self.base):
            self.base = self.optimizer.rate if self.optimizer.rate is not None else math.nan
            self.optimizer.rate = self.rate_after(0)  # says why, if it cannot be changed
        self._updates = self.optimizer.num_updates

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and (updates := self.optimizer.num_updates) != self._updates:
            self._updates = updates
            self._step()

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an epoch; its end may bring one more update."""
        if self.step_on == "iter":
            self.at_iter_end(trainer)
        else:
            self._step()

    def _step(self) -> None:
        self.count += 1
        self.optimizer.rate = self.rate_after(self.count)

    def state_dict(self) -> dict[str, Any]:
        """Steps so far, and the rate at their beginning."""
        return {"count": self.count, "base": self.base}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        self.count, self.base = int(state["count"]), float(state["base"])
        self._updates = self.optimizer.num_updates

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""
        self.base *= factor


class StepLRCallbackJax(DefaultJaxSchedulerCallback):
    """Multiply the rate by ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Any = "default", step_size: int = 1, gamma: float = 0.1, step_on: str | None = None):
        super().__init__(optimizer, step_on)
        self.step_size, self.gamma = step_size, gamma

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.base * float(self.gamma ** (count // self.step_size))


class ExponentialLRCallbackJax(DefaultJaxSchedulerCallback):
    """Multiply the rate by ``gamma`` every epoch."""

    def __init__(self, optimizer: Any = "default", gamma: float = 0.9, step_on: str | None = None):
        super().__init__(optimizer, step_on)
        self.gamma = gamma

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.base * float(self.gamma**count)


class MultiStepLRCallbackJax(DefaultJaxSchedulerCallback):
    """Multiply the rate by ``gamma`` at each of the epochs ``milestones``."""

    def __init__(
        self, optimizer: Any = "default", milestones: Sequence[int] = (), gamma: float = 0.1, step_on: str | None = None
    ):
        super().__init__(optimizer, step_on)
        self.milestones, self.gamma = sorted(milestones), gamma

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.base * float(self.gamma ** bisect.bisect_right(self.milestones, count))


class CosineAnnealingLRCallbackJax(DefaultJaxSchedulerCallback):
    """Let the rate follow a cosine down to ``eta_min`` in ``T_max`` epochs, and up again in as many."""

    def __init__(self, optimizer: Any = "default", T_max: int = 1, eta_min: float = 0.0, step_on: str | None = None):
        super().__init__(optimizer, step_on)
        self.T_max, self.eta_min = T_max, eta_min

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.eta_min + (self.base - self.eta_min) * (1 + math.cos(math.pi * count / self.T_max)) / 2

    def state_dict(self) -> dict[str, Any]:
        """Also the lowest rate, which may have been scaled."""
        return {**super().state_dict(), "eta_min": self.eta_min}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self.eta_min = float(state["eta_min"])

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come."""
        super().scale_rates(factor)
        self.eta_min *= factor


class LambdaLRCallbackJax(DefaultJaxSchedulerCallback):
    """Let ``lr_lambda``, a function of the number of epochs, give the rate's factor."""

    def __init__(
        self,
        optimizer: Any = "default",
        lr_lambda: Callable[[int], float] = lambda count: 1.0,
        step_on: str | None = None,
    ):
        super().__init__(optimizer, step_on)
        self.lr_lambda = lr_lambda

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return self.base * float(self.lr_lambda(count))


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

    def __init__(self, optimizer: Any = "default", schedule: Any = None, step_on: str | None = None):
        super().__init__(optimizer, step_on)
        if not callable(schedule):
            raise ConfigError(f"OptaxScheduleCallbackJax needs schedule, a function of the count, got {schedule!r}")
        self.schedule, self.factor = schedule, 1.0

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps."""
        return float(self.schedule(count)) * self.factor

    def state_dict(self) -> dict[str, Any]:
        """Also the factor by which the rates were scaled."""
        return {**super().state_dict(), "factor": self.factor}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self.factor = float(state["factor"])

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come."""
        self.factor *= factor


class OneCycleLRCallbackJax(DefaultJaxSchedulerCallback):
    """Raise the rate once over the run and lower it again along cosines, stepped after each update.

    Parameters
    ----------
    optimizer
        Its optimizer, or the name of one of the trainer's.
    max_lr
        The highest rate.
    total_steps
        Number of updates of the run.
    pct_start
        Part of the steps in which the rate rises.
    div_factor, final_div_factor
        The first rate is ``max_lr / div_factor``, the last one the first by ``final_div_factor``.

    References
    ----------
    Smith and Topin, Super-convergence, arXiv:1708.07120 (2017).
    """

    step_on = "iter"

    def __init__(
        self,
        optimizer: Any = "default",
        max_lr: float | None = None,
        total_steps: int | None = None,
        *,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ):
        super().__init__(optimizer)
        if max_lr is None or total_steps is None or total_steps < 2:
            raise ConfigError("OneCycleLRCallbackJax needs max_lr and total_steps, the updates of the run (at least 2)")
        self.max_lr, self.total_steps, self.pct_start = max_lr, total_steps, pct_start
        self.div_factor, self.final_div_factor = div_factor, final_div_factor

    def rate_after(self, count: int) -> float:
        """The rate after ``count`` steps; that of the last one stays."""
        first = self.max_lr / self.div_factor
        top, end = self.pct_start * self.total_steps - 1, self.total_steps - 1
        count = min(count, end)
        if count <= top:
            return _cosine(first, self.max_lr, count / top)
        return _cosine(self.max_lr, first / self.final_div_factor, (count - top) / (end - top))

    def state_dict(self) -> dict[str, Any]:
        """Also the highest rate, which may have been scaled."""
        return {**super().state_dict(), "max_lr": self.max_lr}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        super().load_state_dict(state)
        self.max_lr = float(state["max_lr"])

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come."""
        self.max_lr *= factor


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


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
