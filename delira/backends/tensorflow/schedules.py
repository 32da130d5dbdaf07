"""Learning-rate schedules as callbacks: those of Keras, and those of the PyTorch room by the same arguments."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from delira.errors import ConfigError
from delira.training.callbacks.abstract_callback import AbstractCallback


class TfSchedulerCallback(AbstractCallback):
    """Sets the learning rate by a function of the epochs, or updates, so far.

    Parameters
    ----------
    optimizer
        Its optimizer: one of the trainer's, or its name.
    scheduler_cls
        A class of ``keras.optimizers.schedules``; its ``initial_learning_rate`` is the optimizer's own rate if it is
        not given.
    step_on
        ``"epoch"``: the function counts epochs; ``"iter"``: updates.
    **params
        Keyword arguments of the schedule class.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or the schedule cannot be built.
    """

    step_on = "epoch"

    def __init__(
        self, optimizer: Any = "default", scheduler_cls: Any = None, step_on: str | None = None, **params: Any
    ):
        self.scheduler_cls, self.params = scheduler_cls, params
        self.optimizer, self.step_on = optimizer, step_on or self.step_on
        if self.step_on not in ("epoch", "iter"):
            raise ConfigError(f"step_on must be 'epoch' or 'iter', got {self.step_on!r}")
        self.base = 0.0  # the rate of the optimizer when the run began
        self.scale = 1.0  # by which somebody has changed all rates
        self.count = self._updates = 0
        self._schedule: Any = None

    def attach(self, trainer: Any) -> None:
        """Take the optimizer out of the trainer."""
        if isinstance(self.optimizer, str):
            if self.optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {self.optimizer!r}; there are {sorted(trainer.optimizers)}")
            self.optimizer = trainer.optimizers[self.optimizer]
        self.base = self._rate()
        self._schedule = self._build()
        self._updates = self.optimizer.num_updates
        self._set()

    def _build(self) -> Callable[[int], float]:
        """The rate as a function of the count."""
        if self.scheduler_cls is None:
            raise ConfigError("TfSchedulerCallback needs scheduler_cls, e.g. keras.optimizers.schedules.CosineDecay")
        params = dict(self.params)
        if "PiecewiseConstantDecay" not in self.scheduler_cls.__name__:
            params = {"initial_learning_rate": self.base, **params}
        try:
            schedule = self.scheduler_cls(**params)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"the schedule {self.scheduler_cls.__name__} cannot be built from {self.params}: {error}"
            ) from error
        return lambda count: float(schedule(count))

    def _rate(self) -> float:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        if not isinstance(optimizer._learning_rate, keras.Variable):
            raise ConfigError(
                "the learning rate of the optimizer is a schedule of Keras already, so no callback can set it; give "
                "the optimizer a number"
            )
        return float(str(np.float32(optimizer.learning_rate)))

    def _set(self) -> None:
        getattr(self.optimizer, "optimizer", self.optimizer).learning_rate = self._schedule(self.count) * self.scale

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        """Count an update."""
        if self.step_on == "iter" and (updates := self.optimizer.num_updates) != self._updates:
            self.count, self._updates = self.count + 1, updates
            self._set()

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Count an epoch."""
        if self.step_on == "iter":  # the epoch's end may bring one more update
            self.at_iter_end(trainer)
            return
        self.count += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        """The count, and the rates it begins with."""
        return {"count": self.count, "base": self.base, "scale": self.scale}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to count."""
        self.count, self.base, self.scale = state["count"], state["base"], state["scale"]
        self._schedule = self._build()
        self._updates = self.optimizer.num_updates

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""
        self.scale *= factor


class DefaultTfSchedulerCallback(TfSchedulerCallback):
    """Base of the named schedules: ``Schedule(optimizer, *args, **params)``, each a factor of the first rate."""

    #: arguments by position, and what they are by default; ``...`` where they must be given
    _arguments: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, optimizer: Any = "default", *args: Any, step_on: str | None = None, **params: Any):
        super().__init__(optimizer, None, step_on, **self._named(args, params))

    def _named(self, args: Sequence[Any], params: Mapping[str, Any]) -> dict[str, Any]:
        name, known = type(self).__name__, self._arguments
        if len(args) > len(known):
            raise ConfigError(
                f"{name} takes at most {len(known)} positional arguments after the optimizer: {', '.join(known)}"
            )
        given = {**dict(zip(known, args, strict=False)), **params}
        if unknown := given.keys() - known.keys():
            raise ConfigError(f"{name} has no argument {sorted(unknown)[0]!r}; it takes {', '.join(known)}")
        merged = {**known, **given}
        if missing := [argument for argument, value in merged.items() if value is ...]:
            raise ConfigError(f"{name} needs {missing[0]!r}")
        return merged

    def _factor(self, count: int) -> float:
        raise NotImplementedError

    def _build(self) -> Callable[[int], float]:
        return lambda count: self.base * self._factor(count)


class StepLRCallbackTf(DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every few epochs: ``(optimizer, step_size, gamma=0.1)``."""

    _arguments: ClassVar[Mapping[str, Any]] = {"step_size": ..., "gamma": 0.1}

    def _factor(self, count: int) -> float:
        return self.params["gamma"] ** (count // self.params["step_size"])


class ExponentialLRCallbackTf(DefaultTfSchedulerCallback):
    """Multiply the rate by a factor every epoch: ``(optimizer, gamma)``."""

    _arguments: ClassVar[Mapping[str, Any]] = {"gamma": ...}

    def _factor(self, count: int) -> float:
        return self.params["gamma"] ** count


class MultiStepLRCallbackTf(DefaultTfSchedulerCallback):
    """Multiply the rate by a factor at given epochs: ``(optimizer, milestones, gamma=0.1)``."""

    _arguments: ClassVar[Mapping[str, Any]] = {"milestones": ..., "gamma": 0.1}

    def _factor(self, count: int) -> float:
        return self.params["gamma"] ** sum(count >= milestone for milestone in self.params["milestones"])


class LambdaLRCallbackTf(DefaultTfSchedulerCallback):
    """Let a function of the epoch give the rate's factor: ``(optimizer, lr_lambda)``."""

    _arguments: ClassVar[Mapping[str, Any]] = {"lr_lambda": ...}

    def _factor(self, count: int) -> float:
        return float(self.params["lr_lambda"](count))


class CosineAnnealingLRCallbackTf(DefaultTfSchedulerCallback):
    """Let the rate follow a cosine: ``(optimizer, T_max, eta_min=0)``."""

    _arguments: ClassVar[Mapping[str, Any]] = {"T_max": ..., "eta_min": 0.0}

    def _build(self) -> Callable[[int], float]:
        period, low = self.params["T_max"], self.params["eta_min"]
        return lambda count: low + (self.base - low) * (1 + math.cos(math.pi * count / period)) / 2


class ReduceLROnPlateauCallbackTf(DefaultTfSchedulerCallback):
    """Lower the rate when the validation score no longer improves.

    The arguments are those of the PyTorch room: ``(optimizer, mode=None, factor=0.1, patience=10, threshold=1e-4,
    threshold_mode="rel", cooldown=0, min_lr=0, eps=1e-8, monitor=None)``. ``mode`` is ``"min"`` or ``"max"``, or the
    run's own; ``monitor`` is a value of the epoch, or the validation score of the run.
    """

    _arguments: ClassVar[Mapping[str, Any]] = {
        "mode": None, "factor": 0.1, "patience": 10, "threshold": 1e-4, "threshold_mode": "rel", "cooldown": 0,
        "min_lr": 0.0, "eps": 1e-8, "monitor": None,
    }  # fmt: skip

    def __init__(self, optimizer: Any = "default", *args: Any, **params: Any):
        super().__init__(optimizer, *args, **params)
        if self.step_on == "iter":
            raise ConfigError("ReduceLROnPlateauCallbackTf looks at values of epochs; leave step_on out")
        mode = self.params["mode"]
        self.params["mode"] = {"lowest": "min", "highest": "max"}.get(mode, mode)
        if self.params["mode"] not in ("min", "max", None):
            raise ConfigError(f"mode must be 'min' or 'max', got {mode!r}")
        if self.params["threshold_mode"] not in ("rel", "abs"):
            raise ConfigError(f"threshold_mode must be 'rel' or 'abs', got {self.params['threshold_mode']!r}")
        if not 0 < self.params["factor"] < 1:
            raise ConfigError(f"factor must be above 0 and below 1, got {self.params['factor']!r}")
        self.best: float | None = None
        self.bad_epochs = self.cooldown = 0

    def _build(self) -> Callable[[int], float]:
        return lambda count: self.base

    def at_training_begin(self, trainer: Any, **facts: Any) -> None:
        """Refuse to look at nothing; learn which scores are good."""
        if self.params["monitor"] is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        if self.params["mode"] is None:
            is_score = self.params["monitor"] is None
            self.params["mode"] = "max" if is_score and trainer.score_mode == "highest" else "min"

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        """Look at the epoch."""
        metrics: Mapping[str, float] = facts["metrics"]
        key = self.params["monitor"] or facts["val_score_key"] or ""
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self._look(metrics[key])
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _look(self, value: float) -> None:
        params = self.params
        if self.best is None or self._is_better(value, self.best):
            self.best, self.bad_epochs = value, 0
        else:
            self.bad_epochs += 1
        if self.cooldown > 0:
            self.cooldown, self.bad_epochs = self.cooldown - 1, 0
        if self.bad_epochs > params["patience"]:
            self.cooldown, self.bad_epochs = params["cooldown"], 0
            rate = self._rate()
            if rate - (lower := max(rate * params["factor"], params["min_lr"] * self.scale)) > params["eps"]:
                self.optimizer.optimizer.learning_rate = lower

    def _is_better(self, value: float, best: float) -> bool:
        sign, threshold = (-1 if self.params["mode"] == "min" else 1), self.params["threshold"]
        margin = threshold * abs(best) if self.params["threshold_mode"] == "rel" else threshold
        return sign * (value - best) > margin

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how long ago it was."""
        own = {"best": self.best, "bad_epochs": self.bad_epochs, "cooldown": self.cooldown, "mode": self.params["mode"]}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue to look."""
        super().load_state_dict(state)
        self.best, self.bad_epochs, self.cooldown = state["best"], state["bad_epochs"], state["cooldown"]
        self.params["mode"] = state["mode"]


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
