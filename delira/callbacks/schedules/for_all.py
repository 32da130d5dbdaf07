"""Learning-rate schedules that work on every backend: each takes the backend's own, for every optimizer."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from delira import errors
from delira.callbacks.abstract_callback import Callback, CallbackList, Trainer, trainer_of
from delira.callbacks.monitor import check_watched, sign_of
from delira.callbacks.schedules import rates
from delira.state import METRICS, State


class BackendSchedule(Callback):
    """A schedule of every optimizer of the trainer; it is stepped while learning only.

    Every backend has a schedule of the same name. Its state is kept in checkpoints, and goes on over several runs of a
    trial. Where a callback sets another optimizer, the schedule begins anew with that one's rate.
    """

    phases = ("fit",)

    def __init__(self, step_on_batch: bool, params: Mapping[str, Any]):
        errors.check_flags(self, step_on_batch=step_on_batch)
        rates.check_rates(self, params)
        self.step_on_batch, self.params = step_on_batch, dict(params)
        self._schedules = CallbackList()  # of OptimizerSchedules
        self._begun: dict[str, Any] = {}
        self._owner: int | None = None

    def attach(self, trainer: Trainer) -> None:
        """Make a schedule for each of the trainer's optimizers."""
        make, arguments = self._of_backend(trainer), self._arguments(trainer)
        self._owner = id(trainer)
        self._schedules = CallbackList(make(optimizer, **arguments) for optimizer in trainer.optimizers)
        self._schedules.attach(trainer)

    def _arguments(self, trainer: Trainer) -> dict[str, Any]:
        """Return the arguments of the backend's schedule."""
        return {"step_on": "iter" if self.step_on_batch else "epoch", **self.params}

    def _of_backend(self, trainer: Trainer) -> type[rates.OptimizerSchedule]:
        """Return the backend's schedule of this name."""
        schedules, name = trainer.backend.schedules, trainer.backend.name
        if not schedules:
            raise errors.ConfigError(f"{type(self).__name__}: the backend {name!r} has no learning rates to change")
        found = next((schedules[cls.__name__] for cls in type(self).__mro__ if cls.__name__ in schedules), None)
        if found is None:
            raise errors.ConfigError(
                f"{type(self).__name__} works with PyTorch, not in the backend {name!r}; use a schedule of "
                "delira.training.callbacks, e.g. StepLR or LambdaLR"
            )
        for_groups = (*rates.FOR_GROUPS, "lr_lambda")
        lists = [key for key, value in self.params.items() if key in for_groups and isinstance(value, (list, tuple))]
        if lists and not found.has_groups:
            raise errors.ConfigError(
                f"{type(self).__name__}: a list as {lists[0]} is for the groups of an optimizer of PyTorch, and an "
                f"optimizer in the backend {name!r} has one rate"
            )
        return found

    def begin_anew(self, trainer: Trainer) -> None:
        """Make schedules for other optimizers than before."""
        self.attach(trainer)
        self.at_training_begin(trainer, **self._begun)

    def at_training_begin(self, trainer: Trainer, **facts: Any) -> None:
        """Let the schedules begin, unless another trial or trainer has taken them."""
        if self._owner != id(trainer):  # it would change the rates of that one
            name = type(self).__name__
            raise errors.ConfigError(
                f"this {name} was given to another trial or trainer since; give each a {name} of its own"
            )
        self._begun = facts
        self._schedules.notify("at_training_begin", trainer, **facts)

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Step after an update, if it is asked for."""
        self._schedules.notify("at_iter_end", trainer, **facts)

    def at_epoch_end(self, trainer: Trainer, **facts: Any) -> None:
        """Step after an epoch."""
        self._schedules.notify("at_epoch_end", trainer, **facts)

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""
        for schedule in self._schedules:
            schedule.scale_rates(factor)

    def state_dict(self) -> dict[str, Any]:
        """States of the schedules."""
        return {"schedules": [schedule.state_dict() for schedule in self._schedules]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the schedules."""
        for schedule, kept in zip(self._schedules, state["schedules"], strict=True):
            schedule.load_state_dict(kept)

    def __repr__(self) -> str:
        arguments = {**self.params, "step_on_batch": self.step_on_batch}
        plain = [
            f"{name}={value!r}" for name, value in arguments.items() if not any(map(callable, rates.as_list(value)))
        ]
        return f"{type(self).__name__}({', '.join(plain)})"


class LambdaLR(BackendSchedule):
    """Multiply the first rate by a function of the steps of the schedule so far.

    Parameters
    ----------
    lr_lambda
        Gives the factor. PyTorch only: a list, with a function for each group of parameters.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    """

    def __init__(
        self, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], step_on_batch: bool = False
    ):
        super().__init__(step_on_batch, {"lr_lambda": lr_lambda})


class StepLR(BackendSchedule):
    """Multiply the rate by a factor every few steps of the schedule.

    Parameters
    ----------
    step_size
        Steps from one change to the next.
    gamma
        The factor.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    """

    def __init__(self, step_size: int, gamma: float = 0.1, step_on_batch: bool = False):
        super().__init__(step_on_batch, {"step_size": step_size, "gamma": gamma})


class MultiStepLR(BackendSchedule):
    """Multiply the rate by a factor at given steps of the schedule.

    Parameters
    ----------
    milestones
        The steps.
    gamma
        The factor.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    """

    def __init__(self, milestones: Sequence[int], gamma: float = 0.1, step_on_batch: bool = False):
        rates.check_rates(self, {"milestones": milestones})
        super().__init__(step_on_batch, {"milestones": list(milestones), "gamma": gamma})


class ExponentialLR(BackendSchedule):
    """Multiply the rate by a factor at every step of the schedule.

    Parameters
    ----------
    gamma
        The factor.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    """

    def __init__(self, gamma: float, step_on_batch: bool = False):
        super().__init__(step_on_batch, {"gamma": gamma})


class CosineAnnealingLR(BackendSchedule):
    """Let the rate follow a cosine.

    Parameters
    ----------
    T_max
        Steps of the schedule down to the smallest rate.
    eta_min
        The smallest rate.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.

    References
    ----------
    Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, arXiv:1608.03983 (2016).
    """

    def __init__(self, T_max: int, eta_min: float = 0.0, step_on_batch: bool = False):
        super().__init__(step_on_batch, {"T_max": T_max, "eta_min": eta_min})


class ReduceLROnPlateau(BackendSchedule):
    """Lower the rate when a value no longer improves.

    Parameters
    ----------
    monitor
        The value; of an epoch, or with ``step_on_batch`` one of the step, e.g. ``"running_loss"``.
    mode
        ``"min"``, ``"max"``, or ``"auto"``: as for :class:`EarlyStopping`.
    factor
        By which the rate is multiplied.
    patience
        Epochs, or steps, without improvement to wait.
    step_on_batch
        Whether the schedule looks at each step; it then waits for the value.
    **params
        ``threshold``, ``threshold_mode``, ``cooldown``, ``min_lr``, ``eps``, as in PyTorch; but ``"rel"`` is a part of
        the size of the best value in every backend, also where values are negative.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        mode: str = "auto",
        factor: float = 0.1,
        patience: int = 10,
        step_on_batch: bool = False,
        **params: Any,
    ):
        check_watched(mode, monitor, "ReduceLROnPlateau")
        errors.check_numbers(self, above=0, factor=factor)
        rates.check_lowering(self, factor)
        own = {"monitor": monitor, "mode": mode, "factor": factor, "patience": patience}
        super().__init__(step_on_batch, own | params)

    def _arguments(self, trainer: Trainer) -> dict[str, Any]:
        sign = sign_of(self.params["mode"], self.params["monitor"], "ReduceLROnPlateau", trainer)
        return {**self.params, "mode": "max" if sign < 0 else "min"}

    def at_iter_end(self, trainer: Trainer, **facts: Any) -> None:
        """Do nothing: the values of a step come later."""

    def at_epoch_end(self, trainer: Trainer, **facts: Any) -> None:
        """Look at the value of an epoch."""
        if not self.step_on_batch:
            super().at_epoch_end(trainer, **facts)

    def on_step_training(self, state: State) -> None:
        """Look at the value of a step, if it is asked for."""
        metrics, monitor = state[METRICS], self.params["monitor"]
        if self.step_on_batch and monitor in metrics:
            watched = {monitor: float(metrics[monitor])}
            self._schedules.notify("at_epoch_end", trainer_of(state), metrics=watched, val_score_key=None)


class TorchScheduler(BackendSchedule):
    """Any schedule of PyTorch.

    Parameters
    ----------
    scheduler_builder
        Function of an optimizer that gives the schedule, or its class.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    **params
        Keyword arguments of the schedule; ``monitor`` is the value of the epoch that ``ReduceLROnPlateau`` looks at.

    Raises
    ------
    ConfigError
        If the fit is not one of PyTorch.
    """

    def __init__(self, scheduler_builder: Callable[..., Any], step_on_batch: bool = False, **params: Any):
        super().__init__(step_on_batch, {"scheduler_cls": scheduler_builder, **params})


class _Cycle(BackendSchedule):
    """A schedule that may let the momentum go against the rate, where the backend can change it: in PyTorch."""

    _more: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, step_on_batch: bool, params: Mapping[str, Any], more: Mapping[str, Any]):
        name = type(self).__name__
        if "monitor" in more:
            raise errors.ConfigError(f"{name} counts steps and looks at no value; leave monitor out")
        errors.check_known(more, [*params, *self._more], f"{name} takes no")
        super().__init__(step_on_batch, {**params, **self._more, **more})

    def _arguments(self, trainer: Trainer) -> dict[str, Any]:
        """Return the arguments that the backend's schedule takes."""
        arguments = super()._arguments(trainer)
        if self._of_backend(trainer).has_groups:
            return arguments
        if self.params["cycle_momentum"]:
            raise errors.ConfigError(
                f"{type(self).__name__}: cycle_momentum works with PyTorch; in the backend {trainer.backend.name!r} "
                "the momentum of an optimizer cannot be changed"
            )
        return {name: value for name, value in arguments.items() if "momentum" not in name}


class CyclicLR(_Cycle):
    """Let the rate go up and down between two values.

    Parameters
    ----------
    base_lr, max_lr
        The values. PyTorch only: lists, with a value for each group of parameters.
    step_size_up
        Steps of the schedule on the way up.
    step_size_down
        And down; None: as many.
    mode
        ``"triangular"``; ``"triangular2"``: each cycle is half as high; ``"exp_range"``: ``gamma`` to the power of
        the steps so far as high.
    gamma
        For ``"exp_range"``.
    step_on_batch
        Whether the schedule steps after each update instead of each epoch.
    **params
        ``scale_fn``, in the place of ``mode``: a function that gives how high a cycle is, of its number from 1, or with
        ``scale_mode="iterations"`` of the steps so far. PyTorch only: ``cycle_momentum``, whether the momentum (of
        Adam the first of the betas) goes from ``max_momentum`` (0.9) to ``base_momentum`` (0.8) and back. It is false
        unless given, so that all backends do the same; in PyTorch itself it is true.

    Raises
    ------
    ConfigError
        If an argument is unknown or impossible; where the fit begins, if the backend or the optimizer cannot do it.

    References
    ----------
    Smith, Cyclical learning rates for training neural networks, arXiv:1506.01186 (2015).
    """

    _more: ClassVar[Mapping[str, Any]] = {
        "scale_fn": None, "scale_mode": "cycle", "cycle_momentum": False, "base_momentum": 0.8, "max_momentum": 0.9,
    }  # fmt: skip

    def __init__(
        self,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        step_on_batch: bool = False,
        **params: Any,
    ):
        scale_fn = params.get("scale_fn")
        if scale_fn is None:
            errors.check_choice(self, rates.HEIGHTS, mode=mode)
        else:
            errors.check_functions(self, scale_fn=scale_fn)
        super().__init__(step_on_batch, {
            "base_lr": base_lr, "max_lr": max_lr, "step_size_up": step_size_up, "step_size_down": step_size_down,
            "mode": mode, "gamma": gamma,
        }, params)  # fmt: skip


class OneCycleLR(_Cycle):
    """Raise the rate once over the run and lower it again, stepped after each update; the last rate stays.

    Parameters
    ----------
    max_lr
        The highest rate. PyTorch only: a list, with a rate for each group of parameters.
    total_steps
        Updates of the run; or None, with ``epochs`` and ``steps_per_epoch``.
    pct_start
        Part of them in which the rate rises.
    div_factor, final_div_factor
        The first rate is ``max_lr / div_factor``, the last one that divided by ``final_div_factor``.
    **params
        ``epochs`` and ``steps_per_epoch``, in the place of ``total_steps``; ``anneal_strategy``: along cosines
        (``"cos"``, unless given) or lines (``"linear"``); ``three_phase``: to the first rate in as many steps as it
        rose, then to the last one. PyTorch only: ``cycle_momentum``, whether the momentum (of Adam the first of the
        betas) goes from ``max_momentum`` (0.95) to ``base_momentum`` (0.85) and back. It is false unless given, so that
        all backends do the same; in PyTorch itself it is true.

    Raises
    ------
    ConfigError
        If an argument is unknown or impossible; where the fit begins, if the backend or the optimizer cannot do it.

    References
    ----------
    Smith and Topin, Super-convergence, arXiv:1708.07120 (2017).
    """

    _more: ClassVar[Mapping[str, Any]] = {
        "epochs": None, "steps_per_epoch": None, "anneal_strategy": "cos", "three_phase": False,
        "cycle_momentum": False, "base_momentum": 0.85, "max_momentum": 0.95,
    }  # fmt: skip

    def __init__(
        self,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        **params: Any,
    ):
        super().__init__(True, {
            "max_lr": max_lr, "total_steps": total_steps, "pct_start": pct_start, "div_factor": div_factor,
            "final_div_factor": final_div_factor,
        }, params)  # fmt: skip
        epochs, steps = self.params.pop("epochs"), self.params.pop("steps_per_epoch")
        if total_steps is None and None not in (epochs, steps):
            self.params["total_steps"] = total_steps = epochs * steps
        if total_steps is None:
            raise errors.ConfigError(
                "OneCycleLR needs total_steps, the updates of the run, or epochs and steps_per_epoch"
            )
        rise = pct_start * total_steps
        if not 0 <= pct_start <= 1 or rise == 1 or total_steps < 2:
            raise errors.ConfigError(
                f"OneCycleLR: pct_start is a part, from 0 to 1, of at least 2 steps, and not of one step alone, got "
                f"{pct_start!r} of {total_steps!r}"
            )


class WarmupCosine(LambdaLR):
    """Raise the rate evenly to that of the optimizer, then lower it along a cosine.

    Parameters
    ----------
    warmup_steps
        Steps of the schedule on the way up; the first one has ``1 / (warmup_steps + 1)`` of the rate.
    total_steps
        Steps in all; what comes later keeps the last rate.
    final_factor
        Part of the rate at the end.
    step_on_batch
        Whether the schedule steps after each update, or after each epoch.

    Raises
    ------
    ConfigError
        If the numbers of steps are impossible.

    References
    ----------
    Goyal et al., Accurate, large minibatch SGD, arXiv:1706.02677 (2017), for the warm-up.
    """

    def __init__(self, warmup_steps: int, total_steps: int, final_factor: float = 0.0, step_on_batch: bool = True):
        errors.check_whole(self, at_least=0, warmup_steps=warmup_steps, total_steps=total_steps)
        errors.check_numbers(self, at_least=0, at_most=1, final_factor=final_factor)
        if not 0 <= warmup_steps < total_steps:
            raise errors.ConfigError(
                f"WarmupCosine: warmup_steps is at least 0 and below total_steps, got {warmup_steps!r} and "
                f"{total_steps!r}"
            )

        def factor(count: int) -> float:
            if count < warmup_steps:
                return (count + 1) / (warmup_steps + 1)
            part = min((count - warmup_steps) / (total_steps - warmup_steps), 1.0)
            return final_factor + (1 - final_factor) * (1 + math.cos(math.pi * part)) / 2

        super().__init__(factor, step_on_batch)
