"""Learning-rate schedules of PyTorch as callbacks, stepped once for each epoch or update."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.optim import lr_scheduler as _lr

from delira.callbacks.abstract_callback import AbstractCallback
from delira.callbacks.monitor import mode_of_plateau
from delira.callbacks.schedules import rates
from delira.callbacks.schedules.rates import check_finite, check_lowering, check_rates, is_improvement, plain_counts
from delira.contract.kinds import ByName, Optimizer
from delira.errors import ConfigError
from delira.metrics.direction import AUTO, as_mode


class TorchSchedulerCallback(rates.OptimizerSchedule):
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

    has_groups = True
    scheduler_cls: Any = None

    def __init__(
        self,
        optimizer: object = "default",
        scheduler_cls: object = None,
        step_on: str | None = None,
        monitor: str | None = None,
        **params: Any,
    ):
        self.scheduler_cls = self.scheduler_cls if scheduler_cls is None else scheduler_cls
        self.params = params
        self.scheduler: Any = None
        if not callable(self.scheduler_cls):
            raise ConfigError(
                f"{type(self).__name__} needs scheduler_cls, e.g. torch.optim.lr_scheduler.StepLR, got "
                f"{self.scheduler_cls!r}"
            )
        self._name = getattr(self.scheduler_cls, "__name__", repr(self.scheduler_cls))
        if getattr(self.scheduler_cls, "__module__", "").startswith("torch."):  # a user's may mean other things
            check_rates(self._name, params)
            self.params = plain_counts(params)
        self.is_plateau = isinstance(self.scheduler_cls, type) and issubclass(self.scheduler_cls, _lr.ReduceLROnPlateau)
        super().__init__(optimizer, step_on, monitor)
        if not isinstance(optimizer, str):
            if not hasattr(getattr(optimizer, "optimizer", optimizer), "param_groups"):
                raise ConfigError(
                    f"{type(self).__name__}: optimizer is one of PyTorch, or the name of one of the trainer's, got "
                    f"{optimizer!r}"
                )
            self._build(optimizer)

    def _build(self, optimizer: object) -> None:
        self.optimizer = optimizer
        try:
            self.scheduler = self.scheduler_cls(getattr(optimizer, "optimizer", optimizer), **self.params)
        except ValueError as error:  # of PyTorch, which has seen the optimizer
            raise ConfigError(f"{self._name}: {error}") from error
        except TypeError as error:
            raise ConfigError(f"the schedule {self._name} cannot be built from {self.params}: {error}") from error
        plateau = _lr.ReduceLROnPlateau
        name = "_is_better" if hasattr(plateau, "_is_better") else "is_better"  # until PyTorch 2.7
        if isinstance(self.scheduler, plateau) and getattr(type(self.scheduler), name) is getattr(plateau, name):
            # PyTorch's own takes a negative value that became worse, -0.95 after -1, for an improvement
            setattr(self.scheduler, name, functools.partial(_is_better, self.scheduler))
        self._check()

    def begin(self, optimizer: Optimizer, trainer: Any) -> None:
        """Make the schedule of the optimizer, which sets its first rate."""
        if self.scheduler is None:
            self._build(optimizer)
        for wrapped in trainer.optimizers.values():  # only the trainer's knows when it updates
            if getattr(wrapped, "optimizer", None) is self.optimizer:
                self.optimizer = wrapped

    def watch(self, trainer: Any) -> None:
        """Let the schedule know whether high values are good."""
        if "mode" not in self.params and self.scheduler.last_epoch == 0:
            self.params["mode"] = mode_of_plateau(trainer, self.monitor)
            floors = self.scheduler.min_lrs  # scaled, perhaps
            self._build(self.optimizer)
            self.scheduler.min_lrs = floors

    def look_at(self, value: float) -> None:
        """Let the schedule look at the value of an epoch."""
        self.scheduler.step(value)

    def advance(self) -> None:
        """Set the rate of the next step."""
        if isinstance(self.scheduler, _lr.OneCycleLR) and self.scheduler.last_epoch >= self.scheduler.total_steps - 1:
            return  # PyTorch would raise an error; the last rate stays, as in the other backends
        self.scheduler.step()
        self._check()

    def _check(self) -> None:
        if not self.is_plateau and hasattr(self.scheduler, "get_last_lr"):  # a plateau's has none before its first step
            check_finite(self._name, self.scheduler.get_last_lr())

    def state_dict(self) -> dict[str, Any]:
        """State of the schedule, without what only the class knows."""
        state = {name: value for name, value in self.scheduler.state_dict().items() if _is_plain(value)}
        # a Counter (the milestones of MultiStepLR) does not survive being copied into a checkpoint
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in state.items()}

    def load_state_dict(self, state: ByName) -> None:
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
    return is_improvement(value, best, schedule.threshold, schedule.threshold_mode == "rel", schedule.mode == "max")


#: what schedules keep of rates besides the optimizer's groups
_RATES = ("base_lrs", "max_lrs", "min_lrs", "eta_min", "_last_lr")


def _scale_rates(schedule: object, factor: float) -> None:
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


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, (str, int)) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


class DefaultPyTorchSchedulerCallback(TorchSchedulerCallback):
    """Base of the named schedules: ``Schedule(optimizer, *args, **params)`` with the arguments of the torch class."""

    #: names of the historic positional arguments
    _names: tuple[str, ...] = ()

    def __init__(self, optimizer: object = "default", *args: Any, monitor: str | None = None, **params: Any):
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
    _names = ("mode", "factor", "patience", "verbose", "threshold", "threshold_mode", "cooldown", "min_lr", "eps")

    def __init__(self, optimizer: object = "default", *args: Any, monitor: str | None = None, **params: Any):
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


class CyclicLRCallbackPyTorch(DefaultPyTorchSchedulerCallback):
    """Let the rate go up and down between two values; arguments as in torch."""

    scheduler_cls = _lr.CyclicLR


#: schedules by the names that all backends share; that of every native schedule besides
SCHEDULES = {
    **rates.by_name(DefaultPyTorchSchedulerCallback, "CallbackPyTorch"),
    "TorchScheduler": TorchSchedulerCallback,
}


def _native(cls: object, params: ByName) -> Callable[[Any], AbstractCallback]:
    if not callable(cls):
        raise ConfigError(
            f"lr_scheduler_cls must be a schedule class, e.g. torch.optim.lr_scheduler.StepLR, got {cls!r}"
        )
    step_on = "iter" if cls in (_lr.OneCycleLR, _lr.CyclicLR) else "epoch"
    return functools.partial(TorchSchedulerCallback, scheduler_cls=cls, **{"step_on": step_on, **params})


build_schedules = functools.partial(rates.build_schedules, _native)
