"""Learning-rate schedules of PyTorch as callbacks, stepped once for each epoch or update."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from delira.errors import ConfigError
from delira.metrics.direction import AUTO, as_mode
from delira.training.callbacks.abstract_callback import AbstractCallback
from delira.training.callbacks.monitor import mode_of_plateau
from delira.training.callbacks.rates import (
    STEP_ON,
    check_finite,
    check_lowering,
    check_rates,
    is_improvement,
    plain_counts,
)
from delira.utils.checks import check_choice, check_texts

_lr = torch.optim.lr_scheduler


class TorchSchedulerCallback(AbstractCallback):
    """Any torch schedule.

    Parameters
    ----------
    optimizer
        Its optimizer: a torch optimizer, or the name of one of the trainer's.
    scheduler_cls
        Schedule class, e.g. ``torch.optim.lr_scheduler.StepLR``.
    step_on
        ``"epoch"``: step after each epoch; ``"iter"``: after each update.
    monitor
        Value of the epoch that the schedule looks at (``ReduceLROnPlateau``); ``None``: the validation
        score of the run.
    **params
        Keyword arguments of the schedule class.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or, when the training begins, if there is nothing to monitor.
    """

    scheduler_cls: Any = None
    step_on = "epoch"

    def __init__(
        self,
        optimizer: Any = "default",
        scheduler_cls: Any = None,
        step_on: str | None = None,
        monitor: str | None = None,
        **params: Any,
    ):
        self.scheduler_cls = self.scheduler_cls if scheduler_cls is None else scheduler_cls
        self.step_on = self.step_on if step_on is None else step_on
        self.optimizer, self.monitor, self.params = optimizer, monitor, params
        self.scheduler: Any = None
        self._updates = 0
        if not callable(self.scheduler_cls):
            raise ConfigError(
                f"{type(self).__name__} needs scheduler_cls, e.g. torch.optim.lr_scheduler.StepLR, got "
                f"{self.scheduler_cls!r}"
            )
        if getattr(self.scheduler_cls, "__module__", "").startswith("torch."):  # a user's may mean other things
            check_rates(self.scheduler_cls.__name__, params)
            self.params = plain_counts(params)
        check_choice(self, STEP_ON, step_on=self.step_on)
        if self._is_plateau and self.step_on == "iter":
            raise ConfigError(f"{type(self).__name__} looks at values of epochs; leave step_on='iter' out")
        if monitor is not None:
            check_texts(self, monitor=monitor)
        if not isinstance(optimizer, str):
            if not hasattr(getattr(optimizer, "optimizer", optimizer), "param_groups"):
                raise ConfigError(
                    f"{type(self).__name__}: optimizer is one of PyTorch, or the name of one of the trainer's, got "
                    f"{optimizer!r}"
                )
            self._build(optimizer)

    @property
    def _is_plateau(self) -> bool:
        return isinstance(self.scheduler_cls, type) and issubclass(self.scheduler_cls, _lr.ReduceLROnPlateau)

    def _build(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        try:
            self.scheduler = self.scheduler_cls(getattr(optimizer, "optimizer", optimizer), **self.params)
        except ValueError as error:  # of PyTorch, which has seen the optimizer
            raise ConfigError(f"{getattr(self.scheduler_cls, '__name__', self.scheduler_cls)}: {error}") from error
        except TypeError as error:
            name = getattr(self.scheduler_cls, "__name__", repr(self.scheduler_cls))
            raise ConfigError(f"the schedule {name} cannot be built from {self.params}: {error}") from error
        plateau = _lr.ReduceLROnPlateau
        name = "_is_better" if hasattr(plateau, "_is_better") else "is_better"  # until PyTorch 2.7
        if isinstance(self.scheduler, plateau) and getattr(type(self.scheduler), name) is getattr(plateau, name):
            # PyTorch's own takes a negative value that became worse, -0.95 after -1, for an improvement
            setattr(self.scheduler, name, functools.partial(_is_better, self.scheduler))
        self._check()

    def attach(self, trainer: Any) -> None:
        """Take the optimizer out of the trainer."""
        if isinstance(self.optimizer, str):
            if self.optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {self.optimizer!r}; there are {sorted(trainer.optimizers)}")
            self._build(trainer.optimizers[self.optimizer])
        for wrapped in trainer.optimizers.values():  # only the trainer's knows when it updates
            if getattr(wrapped, "optimizer", None) is self.optimizer:
                self.optimizer = wrapped
        self._updates = self._count()

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Refuse a plateau schedule that has nothing to look at; let it know which scores are good."""
        if not self._is_plateau:
            return
        if self.monitor is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        if "mode" not in self.params and self.scheduler.last_epoch == 0:
            self.params["mode"] = mode_of_plateau(trainer, self.monitor)
            floors = self.scheduler.min_lrs  # scaled, perhaps
            self._build(self.optimizer)
            self.scheduler.min_lrs = floors

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and self._count() != self._updates:
            self._updates = self._count()
            self._step()

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Step after an epoch."""
        metrics: Mapping[str, float] = facts["metrics"]
        if self.step_on == "iter":
            if hasattr(self.optimizer, "num_updates"):  # the epoch's end may bring one more update
                self.at_iter_end(trainer)
            return
        if not self._is_plateau:
            self._step()
            return
        key = self.monitor or facts["val_score_key"] or ""
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self.scheduler.step(metrics[key])
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _step(self) -> None:
        if isinstance(self.scheduler, _lr.OneCycleLR) and self.scheduler.last_epoch >= self.scheduler.total_steps - 1:
            return  # PyTorch would raise an error; the last rate stays, as in the other backends
        self.scheduler.step()
        self._check()

    def _check(self) -> None:
        if self._is_plateau or not hasattr(self.scheduler, "get_last_lr"):  # a plateau's has none before its first step
            return
        name = getattr(self.scheduler_cls, "__name__", repr(self.scheduler_cls))
        check_finite(name, self.scheduler.get_last_lr())

    def _count(self) -> int:
        """Updates so far; a bare torch optimizer updates at every step."""
        return getattr(self.optimizer, "num_updates", self._updates + 1)

    def state_dict(self) -> dict[str, Any]:
        """State of the schedule, without what only the class knows."""
        state = self.scheduler.state_dict()
        # a Counter (the milestones of MultiStepLR) does not survive being copied into a checkpoint
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in state.items()
            if _is_plain(value)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedule."""
        own = self.scheduler.state_dict()
        self.scheduler.load_state_dict({**own, **_counted(dict(state), own)})
        self._updates = self._count()
        # the updates were made in another process: no warning that the schedule is stepped before the optimizer
        getattr(self.optimizer, "optimizer", self.optimizer)._opt_called = True

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates of the schedule, those to come too; the optimizer's own rates are scaled elsewhere."""
        _scale_rates(self.scheduler, factor)


def _is_better(schedule: Any, value: float, best: float) -> bool:
    is_relative, is_highest = schedule.threshold_mode == "rel", schedule.mode == "max"
    return is_improvement(value, best, schedule.threshold, is_relative, is_highest)


#: what schedules keep of rates besides the optimizer's groups
_RATES = ("base_lrs", "max_lrs", "min_lrs", "eta_min", "_last_lr")


def _scale_rates(schedule: Any, factor: float) -> None:
    for name in _RATES:
        if (rates := getattr(schedule, name, None)) is not None:
            # not in place: schedules of one sequence share their list of last rates
            setattr(schedule, name, [rate * factor for rate in rates] if isinstance(rates, list) else rates * factor)
    for part in getattr(schedule, "_schedulers", ()):
        _scale_rates(part, factor)


def _counted(state: Any, own: Any) -> Any:
    """The state with counters where the schedule has counters; checkpoints know only dictionaries."""
    if isinstance(own, Counter):
        return Counter(state)
    if isinstance(state, Mapping) and isinstance(own, Mapping):
        return {name: _counted(value, own.get(name)) for name, value in state.items()}
    if isinstance(state, (list, tuple)) and isinstance(own, (list, tuple)):
        return [_counted(value, mine) for value, mine in zip(state, own, strict=False)]
    return state


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, (str, int)) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


class DefaultPyTorchSchedulerCallback(TorchSchedulerCallback):
    """Base of the named schedules: ``Schedule(optimizer, *args, **params)`` with the arguments of the torch class."""

    #: names of the historic positional arguments
    _names: tuple[str, ...] = ()

    def __init__(self, optimizer: Any = "default", *args: Any, monitor: str | None = None, **params: Any):
        super().__init__(optimizer, monitor=monitor, **self._by_name(args), **params)

    def _by_name(self, args: Sequence[Any]) -> dict[str, Any]:
        if len(args) > len(self._names):
            raise ConfigError(
                f"{type(self).__name__} takes at most {len(self._names)} positional arguments after the optimizer: "
                f"{', '.join(self._names)}"
            )
        return dict(zip(self._names, args, strict=False))


class ReduceLROnPlateauCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Lower the rate when the validation score no longer improves."""

    scheduler_cls = _lr.ReduceLROnPlateau
    _names = (
        "mode",
        "factor",
        "patience",
        "verbose",
        "threshold",
        "threshold_mode",
        "cooldown",
        "min_lr",
        "eps",
    )

    def __init__(self, optimizer: Any = "default", *args: Any, monitor: str | None = None, **params: Any):
        params = {**self._by_name(args), **params}
        params.pop("verbose", None)  # gone from torch
        if "mode" in params:
            given = params.pop("mode")
            mode = as_mode(AUTO if given is None else given, "ReduceLROnPlateau: mode")
            params |= {} if mode == AUTO else {"mode": "max" if mode == "highest" else "min"}
        super().__init__(optimizer, monitor=monitor, **params)
        if "factor" in params:
            check_lowering(self, params["factor"])


class CosineAnnealingLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0, last_epoch=-1)``."""

    scheduler_cls = _lr.CosineAnnealingLR
    _names = ("T_max", "eta_min", "last_epoch")


class ExponentialLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma, last_epoch=-1)``."""

    scheduler_cls = _lr.ExponentialLR
    _names = ("gamma", "last_epoch")


class LambdaLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda, last_epoch=-1)``."""

    scheduler_cls = _lr.LambdaLR
    _names = ("lr_lambda", "last_epoch")


class MultiStepLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1, last_epoch=-1)``."""

    scheduler_cls = _lr.MultiStepLR
    _names = ("milestones", "gamma", "last_epoch")


class StepLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1, last_epoch=-1)``."""

    scheduler_cls = _lr.StepLR
    _names = ("step_size", "gamma", "last_epoch")


class OneCycleLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Raise and lower the rate once over the run, stepped after each update; arguments as in torch."""

    scheduler_cls = _lr.OneCycleLR
    step_on = "iter"
    _names = ("max_lr", "total_steps", "epochs", "steps_per_epoch")


def build_schedules(optimizers: Mapping[str, Any], cls: Any, params: Mapping[str, Any]) -> list[AbstractCallback]:
    """One schedule for each optimizer.

    Parameters
    ----------
    optimizers
        The trainer's optimizers by name.
    cls
        One of the callbacks of this module, or any torch schedule class.
    params
        Its keyword arguments; ``step_on`` and ``monitor`` as in :class:`TorchSchedulerCallback`.
    """
    if isinstance(cls, type) and issubclass(cls, AbstractCallback):
        return [cls(optimizer, **params) for optimizer in optimizers.values()]
    if not callable(cls):
        raise ConfigError(
            f"lr_scheduler_cls must be a schedule class, e.g. torch.optim.lr_scheduler.StepLR, got {cls!r}"
        )
    step_on = params.get("step_on", "iter" if cls in _PER_UPDATE else "epoch")
    return [
        TorchSchedulerCallback(optimizer, cls, **{**params, "step_on": step_on}) for optimizer in optimizers.values()
    ]


_PER_UPDATE = (_lr.OneCycleLR, _lr.CyclicLR)
