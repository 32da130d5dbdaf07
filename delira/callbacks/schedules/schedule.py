"""The base of learning-rate schedules of one optimizer: when they step, and at which value they look."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from delira.callbacks.abstract_callback import AbstractCallback
from delira.callbacks.schedules.arguments import STEP_ON
from delira.errors import ConfigError
from delira.utils.checks import check_choice, check_texts

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


class OptimizerSchedule(AbstractCallback):
    """A schedule of one optimizer.

    A backend whose framework has schedules wraps them; :class:`RateSchedule` computes the rates for the others.

    Parameters
    ----------
    optimizer
        Its optimizer, or the name of one of the trainer's.
    step_on
        ``"epoch"``: step after each epoch; ``"iter"``: after each update; None: as the class says.
    monitor
        Value of the epoch at which a plateau's schedule looks; None: the validation score of the run.

    Raises
    ------
    ConfigError
        If ``step_on`` is unknown, or a schedule that looks at values of epochs is to step after updates.
    """

    #: whether each group of parameters may have a rate of its own, and momentum may change as well
    has_groups: ClassVar[bool] = False
    #: whether it looks at a value of each epoch instead of counting steps
    is_plateau: bool = False
    step_on = "epoch"

    def __init__(self, optimizer: object = "default", step_on: str | None = None, monitor: str | None = None):
        self.optimizer: Any = optimizer
        self.step_on = self.step_on if step_on is None else step_on
        check_choice(self, STEP_ON, step_on=self.step_on)
        if self.is_plateau and self.step_on == "iter":
            raise ConfigError(f"{type(self).__name__} looks at values of epochs; leave step_on out")
        if monitor is not None:
            check_texts(self, monitor=monitor)
        self.monitor = monitor
        self._updates = 0

    def begin(self, optimizer: object, trainer: "BaseNetworkTrainer") -> None:
        """Set the first rate of the optimizer."""

    def advance(self) -> None:
        """Set the rate of the next step."""

    def look_at(self, value: float) -> None:
        """Set the rate that follows from the value of an epoch, in the schedule of a plateau."""

    def scale_rates(self, factor: float) -> None:
        """Multiply all rates to come; the optimizer's own is scaled elsewhere."""

    def watch(self, trainer: "BaseNetworkTrainer") -> None:
        """Find out, where a training begins, whether high values are good, in the schedule of a plateau."""

    def attach(self, trainer: "BaseNetworkTrainer") -> None:
        """Take the optimizer out of the trainer, and set its first rate."""
        optimizer = self.optimizer
        if isinstance(optimizer, str):
            if optimizer not in trainer.optimizers:
                raise ConfigError(f"there is no optimizer {optimizer!r}; there are {sorted(trainer.optimizers)}")
            optimizer = trainer.optimizers[optimizer]
        self.begin(optimizer, trainer)
        self._updates = self._count()

    def at_training_begin(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Refuse a plateau's schedule that has nothing to look at; let it find out which values are good."""
        if not self.is_plateau:
            return
        if self.monitor is None and trainer.score_key is None:
            raise ConfigError(
                "ReduceLROnPlateau needs a value to look at: train with validation data and val_score_key, or pass "
                "monitor= (e.g. lr_scheduler_params={'monitor': 'loss name'})"
            )
        self.watch(trainer)

    def at_iter_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an update."""
        if self.step_on == "iter" and (updates := self._count()) != self._updates:
            self._updates = updates
            self.advance()

    def at_epoch_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Step after an epoch, or look at its value; its end may bring one more update."""
        if self.is_plateau:
            self._look(trainer, facts["metrics"], self.monitor or facts["val_score_key"] or "")
        elif self.step_on == "epoch":
            self.advance()
        elif hasattr(self.optimizer, "num_updates"):
            self.at_iter_end(trainer)

    def _look(self, trainer: "BaseNetworkTrainer", metrics: Mapping[str, float], key: str) -> None:
        if key not in metrics and f"val_{key}" in metrics:
            key = f"val_{key}"
        if key in metrics:
            self.look_at(float(metrics[key]))
        elif not trainer.skips_validation:
            raise ConfigError(f"ReduceLROnPlateau looks at {key!r}, but the epoch has only {sorted(metrics)}")

    def _count(self) -> int:
        """Return the updates so far; an optimizer that does not count them updates at every step."""
        return getattr(self.optimizer, "num_updates", self._updates + 1)


def by_name(base: type[OptimizerSchedule], ending: str) -> dict[str, type[OptimizerSchedule]]:
    """Return the schedules of a backend, which subclass one base, by their names without the backend's ending."""
    return {cls.__name__.removesuffix(ending): cls for cls in base.__subclasses__() if cls.__name__.endswith(ending)}


def build_schedules(
    native: Callable[[Any, Mapping[str, Any]], Callable[[Any], AbstractCallback]],
    optimizers: Mapping[str, Any],
    cls: object,
    params: Mapping[str, Any],
) -> list[AbstractCallback]:
    """Make one schedule for each optimizer.

    Parameters
    ----------
    native
        Gives the function of an optimizer that wraps a schedule of the framework with its arguments; refuses what is
        none.
    optimizers
        The trainer's optimizers by name.
    cls
        A schedule's callback, or a schedule of the framework.
    params
        Its keyword arguments.
    """
    if isinstance(cls, type) and issubclass(cls, AbstractCallback):
        return [cls(optimizer, **params) for optimizer in optimizers.values()]
    make = native(cls, params)
    return [make(optimizer) for optimizer in optimizers.values()]
