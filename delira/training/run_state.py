"""What a trainer keeps besides the loop and the checkpoints: its counters, and the moments it tells."""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from delira.contract import DEFAULT_LOSS_KEYS, Step, StepHooks, call_losses
from delira.errors import ConfigError, NonFiniteLossError
from delira.metrics import MetricSet
from delira.metrics.loss_weights import Weigh, weigh
from delira.runs.guard_log import GuardLog
from delira.settings.config import TrainerConfig, check_fold, score_mode
from delira.training import guards
from delira.training.averaged_statistics import AveragedStatistics
from delira.training.callbacks import CallbackList
from delira.training.data_position import EpochData, has_epochs, is_foreign_loader
from delira.training.phase_times import PhaseTimes
from delira.training.plan import TrainingPlan
from delira.training.predictor import Predictor
from delira.training.running_epoch import RunningEpoch
from delira.training.state import TrainingState
from delira.training.step_values import StepValues, reduce_values
from delira.training.stop_signals import StopSignals

if TYPE_CHECKING:
    from delira.training.callbacks.run_log import RunLog

_log = logging.getLogger("delira")


class RunState(Predictor):
    """The part of a trainer that knows where the run stands; see :class:`BaseNetworkTrainer`."""

    config: TrainerConfig
    state: TrainingState
    callbacks: CallbackList
    optimizers: dict[str, Any]
    hooks: StepHooks
    closure_fn: Any
    stop_signals: StopSignals
    times: PhaseTimes
    guard_log: GuardLog
    #: makes the callback that shows a training by its label, in place of a bar: a cross-validation shows a table
    make_bar: Callable[[str], Any] | None = None
    #: makes the callback that draws the curves in a notebook: those of a cross-validation replace each other
    make_plot: Callable[[], Any] | None = None
    run_log: "RunLog"
    #: the callback that averages the weights, if there is one, and what goes with its average
    weight_average: Any
    averaged_statistics: AveragedStatistics
    _plan: TrainingPlan | None
    _running: RunningEpoch | None = None
    _epoch_data: EpochData | None = None
    _bound: tuple[Any, Callable[..., Any]] | None = None
    _named: tuple[Any, frozenset[str] | None] | None = None

    # ------------------------------------------------------------------ counters

    @property
    def fold(self) -> int:
        """Fold of the cross-validation."""
        return self._fold

    @fold.setter
    def fold(self, fold: int) -> None:
        self._fold = check_fold(fold)
        if hasattr(self, "state"):  # not yet while the trainer is built
            self.state.fold = self._fold

    @property
    def stop_training(self) -> bool:
        """Whether the training ends after the running epoch."""
        return self.state.stop_training

    @stop_training.setter
    def stop_training(self, stop: bool) -> None:
        self.state.stop_training = bool(stop)

    @property
    def timings(self) -> dict[str, Any]:
        """Where the time went so far; see :class:`delira.training.phase_times.PhaseTimes`."""
        return self.times.to_dict()

    @property
    def network(self) -> Any:
        """The network; also called ``module``."""
        return self.module

    @property
    def losses(self) -> Mapping[str, Any]:
        """Loss functions by name."""
        return self.config.losses

    @property
    def train_metrics(self) -> Mapping[str, Any]:
        """Metrics of the training steps by name."""
        return self.config.train_metrics

    @property
    def val_metrics(self) -> Mapping[str, Any]:
        """Metrics of the validation by name."""
        return self.config.epoch_metrics

    @property
    def has_default_closure(self) -> bool:
        """Whether the network uses its room's closure, so that its losses can be validated."""
        return bool(getattr(self.closure_fn, "is_room_default", False))

    @property
    def validates_losses(self) -> bool:
        """Whether validation data have losses: of the default closure, and of one that says which it has."""
        return self.has_default_closure or hasattr(self.closure_fn, "validation_losses")

    def validation_losses(self, step: Step) -> dict[str, Any]:
        """The losses of a batch of the validation.

        Parameters
        ----------
        step
            With batch and predictions.
        """
        config, own = self.config, getattr(self.closure_fn, "validation_losses", None)
        if own is None:
            return call_losses(config.losses, config.loss_keys, step.predictions, step.batch)
        return dict(own(config.losses, config.loss_keys, self.key_mapping, step))

    @property
    def score_key(self) -> str | None:
        """Validation score that decides which epoch is the best, as the running training names it."""
        return None if self._plan is None else self._plan.val_score_key

    @property
    def train_data(self) -> Any:
        """The data that ``train`` is at work on, for callbacks that change its transforms; else None."""
        return None if self._plan is None else self._plan.train_data

    @property
    def score_mode(self) -> str:
        """``"lowest"`` or ``"highest"``: which score is good."""
        return self.config.score(None, None)[1] if self._plan is None else self._plan.val_score_mode

    @property
    def skips_validation(self) -> bool:
        """Whether the epoch that just ended was not validated though others are."""
        plan = self._plan
        return (
            plan is not None
            and plan.val_data is not None
            and not plan.validates(self.state.epoch, self.config.val_freq)
        )

    def register_callback(self, callback: Any) -> None:
        """Add a callback.

        Raises
        ------
        ConfigError
            If the object has none of the methods of a callback.
        """
        added = CallbackList([callback])
        added.attach(self)  # may refuse
        self.callbacks.append(callback)

    @staticmethod
    def _is_better_val_scores(old_val_score: float | None, new_val_score: float, mode: str = "lowest") -> bool:
        """Whether the new score is strictly better; anything but NaN is better than none."""
        if new_val_score != new_val_score or old_val_score is None:
            return new_val_score == new_val_score
        return new_val_score > old_val_score if score_mode(mode) == "highest" else new_val_score < old_val_score

    # ------------------------------------------------------------------ moments that can be overridden

    def _at_training_begin(self, *args: Any, **facts: Any) -> None:
        """Called before the first epoch."""
        self.callbacks.notify("at_training_begin", self, **facts)

    def _at_epoch_begin(
        self,
        metrics_val: Mapping[str, float],
        val_score_key: str | None,
        epoch: int,
        num_epochs: int,
        **facts: Any,
    ) -> None:
        """Called before each epoch, with the values of the one before."""
        if self.callbacks.hears("at_epoch_begin"):
            self.callbacks.notify(
                "at_epoch_begin", self, val_metrics=metrics_val, val_score_key=val_score_key, curr_epoch=epoch,
                num_epochs=num_epochs, **facts,
            )  # fmt: skip

    def _at_epoch_end(
        self,
        metrics_val: Mapping[str, float],
        val_score_key: str | None,
        epoch: int,
        is_best: bool,
        **facts: Any,
    ) -> None:
        """Called after each epoch, before its checkpoint is written."""
        self.callbacks.notify(
            "at_epoch_end", self, val_metrics=metrics_val, metrics=metrics_val, val_score_key=val_score_key,
            curr_epoch=epoch, is_best=is_best, **facts,
        )  # fmt: skip

    # ------------------------------------------------------------------ details of the loop

    def _training_batches(self, data: Any, epoch: int) -> Any:
        state = self.state
        if is_foreign_loader(data) and state.loader and (state.has_all_steps or not state.step_in_epoch):
            data.load_state_dict(dict(state.loader))  # it may stand where an epoch was broken off
        self._epoch_data = EpochData(data, (self.seed, self.fold, epoch), state)
        state.batch_in_epoch, state.loader = 0, {}
        return self._epoch_data.batches

    def _batches_again(self, data: Any, epoch: int) -> Any:
        """The training batches of an epoch once more."""
        return data.epoch(self.seed, self.fold, epoch, shuffle=True) if has_epochs(data) else data

    @property
    def learned_names(self) -> frozenset[str]:
        """Names of the weights that the training changes."""
        return self.backend.learned_names(self.module)

    def learning_rates(self) -> list[float]:
        """The learning rates as they are now, of every group of parameters, as far as the optimizers tell them."""
        made = [getattr(optimizer, "optimizer", optimizer) for optimizer in self.optimizers.values()]
        if groups := [group for optimizer in made for group in getattr(optimizer, "param_groups", ())]:
            return [float(group["lr"]) for group in groups]
        return [*self.backend.learning_rates(self.optimizers).values()]

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates, and those that schedules of the room go back to."""
        self.backend.scale_rates(self.optimizers, factor)
        for callback in self.callbacks:
            if hasattr(callback, "scale_rates"):
                callback.scale_rates(factor)

    def _check_finite(self, losses: StepValues, epoch: int) -> None:
        if self.config.guards.nonfinite in ("raise", "rollback"):
            try:
                losses.check_finite(epoch)
            except NonFiniteLossError as error:
                guards.diagnose(self, error)
                raise

    #: losses, and what weighs the batches of those that are no means over samples: name, function, entry
    _weighed: tuple[Any, list[tuple[str, Weigh, str]]] = (None, [])

    def _loss_weights(self, prepared: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the means of losses count in a batch, where that is not its samples."""
        config = self.config
        if self._weighed[0] is not config.losses:
            found = {name: weigh(loss) for name, loss in config.losses.items() if self.has_default_closure}
            keys = {name: config.loss_keys.get(name, DEFAULT_LOSS_KEYS)[-1] for name in found}
            self._weighed = (config.losses, [(n, one, keys[n]) for n, one in found.items() if one is not None])
        weights: dict[str, Any] = {}
        for name, count, key in self._weighed[1]:
            if (weight := count(prepared.get(key))) is not None:
                weights[name] = weight
        return weights or None

    def _reduce(self, values: Any, mode: str) -> dict[str, float]:
        """One number for each name of what ``_train_single_epoch`` returned."""
        if isinstance(values, StepValues):
            return values.reduce(mode, finite_only=self.config.guards.nonfinite == "skip")
        return {name: reduce_values(steps, mode) for name, steps in values.items()}

    @property
    def caveats(self) -> list[str]:
        """What is to be known of the numbers of the training so far: how outputs were read that nobody describes."""
        return [] if self.readings is None else self.readings.caveats(self.state.outputs)

    @property
    def _told_outputs(self) -> dict[str, Any]:
        return self.state.outputs

    def _follow_outputs(self, metrics: MetricSet, epoch: int) -> set[str]:
        changed = super()._follow_outputs(metrics, epoch)
        if changed and self.config.output_of(self.state.score_key) in changed:
            self.state.best_score = self.state.best_epoch = None  # earlier scores do not compare
        return changed

    def _update_best(self, plan: TrainingPlan, values: Mapping[str, float]) -> bool:
        key, state = plan.val_score_key, self.state
        if (state.score_key, state.score_mode) != (key, plan.val_score_mode):  # another score: none of it yet
            if state.score_key == key is not None and state.best_epoch is not None:
                _log.warning(
                    "until now the %s %s was the best; from now on it is the %s: the epochs before are not looked at",
                    state.score_mode, key, plan.val_score_mode,
                )  # fmt: skip
            state.score_key, state.score_mode = key, plan.val_score_mode
            state.best_score = state.best_epoch = None
        if key is None or not plan.validates(state.epoch, self.config.val_freq):
            return False
        if key not in values:
            raise ConfigError(f"val_score_key={key!r} was not computed; the epoch has {sorted(values)}")
        if not self._is_better_val_scores(state.best_score, values[key], plan.val_score_mode):
            return False
        state.best_score, state.best_epoch = values[key], state.epoch
        return True

    @property
    def _step(self) -> Callable[..., Any]:
        """The closure as the room calls it, bound to what stays the same from step to step."""
        bound_to = (self.closure_fn, self.module, self.hooks, self.fold)
        if self._bound is None or self._bound[0] != bound_to:
            step = self.backend.bind_step(self.closure_fn, self.module, self._arguments(), self.config.compiling)
            self._bound = (bound_to, step)
        return self._bound[1]

    def _arguments(self) -> dict[str, Any]:
        """Keywords of the closure besides the counters: only those that its signature takes."""
        config = self.config
        arguments = {
            "optimizers": self.optimizers,
            "losses": config.losses,
            "metrics": config.train_metrics,
            "fold": self.fold,
            "hooks": self.hooks,
            "key_mapping": self.key_mapping,
            "loss_keys": config.loss_keys,
            "metric_keys": config.metric_keys,
            **config.extra,
        }
        return self._taken(arguments)

    def _taken(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        names = self._closure_names
        return dict(arguments) if names is None else {name: arguments[name] for name in names if name in arguments}

    @property
    def _closure_names(self) -> frozenset[str] | None:
        """Names the closure takes; ``None``: all."""
        if self._named is None or self._named[0] is not self.closure_fn:
            parameters = inspect.signature(self.closure_fn).parameters.values()
            is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
            names = None if is_open else frozenset(parameter.name for parameter in parameters)
            self._named = (self.closure_fn, names)
        return self._named[1]

    def _default_preprocessing(self) -> None:
        """None: a training gets its data behind it, and says what else is to go through it."""

    def _default_metrics(self) -> Mapping[str, Any]:
        return self.config.bound(self.config.epoch_metrics, backend=self.backend)
