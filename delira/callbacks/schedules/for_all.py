"""Learning-rate schedules that work on every backend: each takes the backend's own, for every optimizer."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import check_watched, sign_of, trainer_of
from delira.callbacks.schedules.arguments import FOR_GROUPS, as_list, check_lowering, check_rates
from delira.callbacks.schedules.schedule import OptimizerSchedule
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_flags, check_numbers

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class BackendSchedule(Callback):
    """A schedule of every optimizer of the trainer; it is stepped while learning only.

    Every backend has a schedule of the same name. Its state is kept in checkpoints, and goes on over several runs of a
    trial. Where a callback sets another optimizer, the schedule begins anew with that one's rate.
    """

    phases = ("fit",)

    def __init__(self, step_on_batch: bool, params: Mapping[str, Any]):
        check_flags(self, step_on_batch=step_on_batch)
        check_rates(self, params)
        self.step_on_batch, self.params = step_on_batch, dict(params)
        self._schedules: list[OptimizerSchedule] = []
        self._begun: dict[str, Any] = {}
        self._owner: int | None = None

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Make a schedule for each of the trainer's optimizers."""
        make, arguments = self._of_backend(trainer), self._arguments(trainer)
        self._owner = id(trainer)
        self._schedules = [make(optimizer, **arguments) for optimizer in trainer.optimizers]
        for schedule in self._schedules:
            schedule.attach(trainer)

    def _arguments(self, trainer: "BaseNetworkTrainer") -> dict[str, Any]:
        """Return the arguments of the backend's schedule."""
        return {"step_on": "iter" if self.step_on_batch else "epoch", **self.params}

    def _of_backend(self, trainer: "BaseNetworkTrainer") -> type[OptimizerSchedule]:
        """Return the backend's schedule of this name."""
        schedules, name = trainer.backend.schedules, trainer.backend.name
        if not schedules:
            raise ConfigError(f"{type(self).__name__}: the backend {name!r} has no learning rates to change")
        found = next((schedules[cls.__name__] for cls in type(self).__mro__ if cls.__name__ in schedules), None)
        if found is None:
            raise ConfigError(
                f"{type(self).__name__} works with PyTorch, not in the backend {name!r}; use a schedule of "
                "delira.training.callbacks, e.g. StepLR or LambdaLR"
            )
        for_groups = (*FOR_GROUPS, "lr_lambda")
        lists = [key for key, value in self.params.items() if key in for_groups and isinstance(value, (list, tuple))]
        if lists and not found.has_groups:
            raise ConfigError(
                f"{type(self).__name__}: a list as {lists[0]} is for the groups of an optimizer of PyTorch, and an "
                f"optimizer in the backend {name!r} has one rate"
            )
        return found

    def begin_anew(self, trainer: "BaseNetworkTrainer") -> None:
        """Make schedules for other optimizers than before."""
        self.attach(trainer)
        self.at_training_begin(trainer, **self._begun)

    def at_training_begin(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Let the schedules begin, unless another trial or trainer has taken them."""
        if self._owner != id(trainer):  # it would change the rates of that one
            name = type(self).__name__
            raise ConfigError(f"this {name} was given to another trial or trainer since; give each a {name} of its own")
        self._begun = facts
        for schedule in self._schedules:
            schedule.at_training_begin(trainer, **facts)

    def at_iter_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an update, if it is asked for."""
        for schedule in self._schedules:
            schedule.at_iter_end(trainer, **facts)

    def at_epoch_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an epoch."""
        for schedule in self._schedules:
            schedule.at_epoch_end(trainer, **facts)

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
        plain = [f"{name}={value!r}" for name, value in arguments.items() if not any(map(callable, as_list(value)))]
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
        check_rates(self, {"milestones": milestones})
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
        check_numbers(self, above=0, factor=factor)
        check_lowering(self, factor)
        own = {"monitor": monitor, "mode": mode, "factor": factor, "patience": patience}
        super().__init__(step_on_batch, {**own, **params})

    def _arguments(self, trainer: "BaseNetworkTrainer") -> dict[str, Any]:
        sign = sign_of(self.params["mode"], self.params["monitor"], "ReduceLROnPlateau", trainer)
        return {**self.params, "mode": "max" if sign < 0 else "min"}

    def at_iter_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Do nothing: the values of a step come later."""

    def at_epoch_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Look at the value of an epoch."""
        if not self.step_on_batch:
            super().at_epoch_end(trainer, **facts)

    def on_step_training(self, state: State) -> None:
        """Look at the value of a step, if it is asked for."""
        metrics, monitor = state[keys.METRICS], self.params["monitor"]
        if self.step_on_batch and monitor in metrics:
            for schedule in self._schedules:
                schedule.at_epoch_end(trainer_of(state), metrics={monitor: float(metrics[monitor])}, val_score_key=None)


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
