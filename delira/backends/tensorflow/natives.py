"""What users of Keras have in its own words: texts, functions, metrics and callbacks."""

import contextlib
import copy
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import keras
import numpy as np

from delira.backends.tensorflow.arrays import exact
from delira.backends.tensorflow.devices import loss_class
from delira.callbacks.abstract_callback import Callback, trainer_of
from delira.callbacks.monitor import plain_values
from delira.contract import NativesRole, Network
from delira.errors import ConfigError, did_you_mean
from delira.metrics.direction import named_direction
from delira.metrics.scoring import is_plain
from delira.metrics.tree.adapters import Streamed
from delira.metrics.tree.hanging import known_keys
from delira.state import (
    BATCH,
    CRITERION,
    EPOCH,
    LOSS,
    MAX_EPOCHS,
    METRIC_LIST,
    METRICS,
    MODEL,
    OPTIMIZER,
    STOP_TRAINING,
    State,
)
from delira.training.checks import count_batches
from delira.utils.arrays import shape_of


class TfNatives(NativesRole):
    """Texts and functions mean what they mean in ``Model.compile``, callbacks hear what ``Model.fit`` tells them."""

    def optimizer(self, given: Any, network: Network) -> Any:
        if type(given) is not str:
            return given
        with _told("optimizer", given, keras.optimizers):
            return keras.optimizers.get(given)

    def criterion(self, given: Any) -> Any:
        if type(given) is str:
            with _told("loss", given, keras.losses):
                given = keras.losses.get(given)
        function = given.func if isinstance(given, functools.partial) and not given.args else given
        cls = loss_class(function)
        return given if cls is None else cls(**getattr(given, "keywords", {}))

    def metric(self, given: Any) -> Any:
        if isinstance(given, keras.metrics.Metric):
            return KerasMetric(given)
        if type(given) is str and given not in known_keys():
            with _told("metric", given, keras.metrics, *known_keys()):
                made = keras.metrics.get(given)
            return KerasMetric(made if isinstance(made, keras.metrics.Metric) else _mean_of(made, given), given)
        name = getattr(given, "__name__", "")
        is_of_keras = inspect.isfunction(given) and getattr(keras.metrics, name, None) is given
        return KerasMetric(_mean_of(given, name)) if is_of_keras else given

    def callback(self, given: Any) -> Any:
        return KerasCallback(given) if isinstance(given, keras.callbacks.Callback) else given


def _mean_of(function: Callable[..., Any], name: str) -> keras.metrics.Metric:
    return keras.metrics.MeanMetricWrapper(function, name)


@contextlib.contextmanager
def _told(kind: str, text: str, module: Any, *further: str) -> Iterator[None]:
    """Scope in which Keras looks a text up."""
    try:
        yield
    except ValueError as error:
        names = [*further, *(name for name in dir(module) if name[0] != "_")]
        raise ConfigError(f"Keras has no {kind} {text!r}{did_you_mean(text, names)}") from error


class KerasMetric(Streamed):
    """A metric of Keras, updated with target and prediction of each batch.

    Every sample counts once, whatever its weight in the loss: as those of ``metrics`` in ``Model.compile``.

    Parameters
    ----------
    metric
        The object; one that takes values alone, as ``keras.metrics.Mean`` does, is updated with predictions.
    name
        What it is reported under; by default its own.
    """

    #: what a checkpoint has kept of a metric whose variables come with its first batch
    _waiting: Mapping[str, Any] = {}

    def __init__(self, metric: keras.metrics.Metric, name: str | None = None):
        self.metric, self.label = metric, str(metric.name) if name is None else name
        self.higher_is_better = {"up": True, "down": False}.get(getattr(metric, "_direction", ""))
        super().__init__()
        self._takes_values = "values" in inspect.signature(metric.update_state).parameters

    def reset(self, state: State) -> None:
        self.metric.reset_state()
        self._waiting = {}

    def process(self, *args: Any) -> Any:
        """Update the metric with a batch."""
        pred, true = self.pair(args[0])
        if 0 in shape_of(pred):
            return
        given = (pred,) if self._takes_values else (true, pred)
        if self._waiting:
            self.metric.update_state(*given)  # which makes the variables
            self.load_state_dict(self._waiting)
        self.metric.update_state(*given)

    def compute(self) -> Any:
        """Return what the metric of Keras gives.

        Raises
        ------
        ConfigError
            If a checkpoint was written after the last batch of a pass, and its variables come with a first one.
        """
        if self._waiting:
            raise ConfigError(
                f"the metric {self.name!r} of Keras has no variables before its first batch, so it cannot go on after "
                "the last one of a pass; continue from a checkpoint of an epoch's end, or of an earlier step"
            )
        return self.metric.result()

    def state_dict(self) -> dict[str, Any]:
        return dict(self._waiting) or {str(number): exact(one) for number, one in enumerate(self.metric.variables)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if len(self.metric.variables) != len(state):  # others have the shapes of the first batch
            self._waiting = dict(state)
            return
        self._waiting = {}
        for number, variable in enumerate(self.metric.variables):
            variable.assign(state[str(number)])

    def merge(self, other: Self) -> None:
        """Add the sums of both, which those of Keras consist of.

        Raises
        ------
        ConfigError
            If the class is not one of Keras.
        """
        if type(self.metric).__module__.partition(".")[0] != "keras":
            raise ConfigError(
                f"the metric {self.name!r} is a class of its own, {type(self.metric).__name__}, and nobody knows how "
                "two of it are joined"
            )
        if len(self.metric.variables) < len(other.metric.variables):  # it has seen nothing yet
            self.load_state_dict(other.state_dict())
            return
        for own, theirs in zip(self.metric.variables, other.metric.variables, strict=False):
            own.assign_add(theirs)


#: callbacks of Keras that work with parts of ``fit`` that are not here -> what to use
_INSTEAD = {
    "BackupAndRestore": "save_path=… of the trial or experiment, from which a new one continues",
    "SwapEMAWeights": "delira.callbacks.ExponentialMovingAverage",
}
#: arguments that callbacks of Keras change when they begin
_SETTLED = ("min_delta", "mode", "append")
#: what is kept of weights that a callback has replaced at the end, and of those that it has put there
_TRAINED, _RESTORED = "trained_weights", "restored_weights"
#: of Keras -> hooks that tell them
_OF_STEPS = {
    "train_batch_begin": "on_sample",
    "train_batch_end": "on_step_training",
    "test_batch_begin": "on_sample_validation",
    "test_batch_end": "on_step_validation",
}


class KerasCallback(Callback):
    """A callback of Keras, which hears of a fit what ``Model.fit`` would tell it; evaluations and predictions it
    hears nothing of.

    ``self.model`` is the model with the optimizer of the fit; ``self.model.stop_training = True`` stops it. The logs
    of an epoch are its metrics, ``loss`` and ``val_loss`` among them, and what a callback adds to them is recorded.
    Those of a batch have the loss of the batch as ``loss``, and the running metrics. What a callback notes in plain
    values and arrays goes on with a fit that is continued.

    Parameters
    ----------
    callback
        The callback; each run of an experiment has a copy.

    Raises
    ------
    ConfigError
        If it needs parts of Keras' own loop.
    """

    phases = ("fit",)

    def __init__(self, callback: keras.callbacks.Callback):
        if (name := type(callback).__name__) in _INSTEAD and type(callback).__module__.startswith("keras."):
            raise ConfigError(f"keras.callbacks.{name} works in Model.fit only; use {_INSTEAD[name]}")
        self.callback = callback
        #: what a fit that goes on has kept of it; None: it begins
        self._memory: dict[str, Any] | None = None
        #: arguments of its constructor, as they were
        names = inspect.signature(type(callback)).parameters
        self._given = {name: copy.copy(value) for name, value in vars(callback).items() if name in names}
        #: the weights that were trained, where the callback has put others in their place
        self._trained: dict[str, Any] = {}
        self._failed = False
        for moment, hook in _OF_STEPS.items():
            moments = (f"on_{moment}", f"on_{moment.removeprefix('train_')}")
            if all(getattr(getattr(callback, name), "_is_default", False) for name in moments):
                setattr(self, hook, getattr(Callback, hook))  # else every step would wait for it

    # ------------------------------------------------------------------ the fit

    def on_start(self, state: State) -> None:
        """Show the model, and tell that the training begins; one that goes on keeps what it knew."""
        optimizer = state[OPTIMIZER]
        model = ShownModel(state[MODEL], optimizer.get("default") if isinstance(optimizer, Mapping) else optimizer)
        callback, self._model = self.callback, model
        callback.set_model(model)
        plan = trainer_of(state).run.plan
        steps = None if plan is None else count_batches(plan.train_data)
        callback.set_params({"verbose": 0, "epochs": state[MAX_EPOCHS], "steps": steps})
        if (monitor := getattr(callback, "monitor", None)) and getattr(callback, "mode", "") == "auto":
            callback.mode = _mode_of(monitor, state) or "auto"
        memory, self._memory, self._failed = self._memory, {}, False
        trained, restored = ((memory or {}).pop(name, None) for name in (_TRAINED, _RESTORED))
        if trained is not None and restored == _digest(state[MODEL]):  # else somebody has set others since
            state[MODEL].set_weights(trained)
        self._trained = {}
        if memory is not None and isinstance(callback, keras.callbacks.CSVLogger):
            callback.append, memory = True, {}  # the file has the epochs so far, and its header
        callback.on_train_begin()
        vars(callback).update(memory or {})

    def on_start_epoch(self, state: State) -> None:
        """Tell that an epoch begins."""
        self.callback.on_epoch_begin(state[EPOCH], {})

    def on_end_epoch(self, state: State) -> None:
        """Tell that an epoch ends, and record what the callback adds to its logs."""
        logs = _logs(state)
        known = {*logs}
        self.callback.on_epoch_end(state[EPOCH], logs)
        if added := {name: value for name, value in logs.items() if name not in known}:
            state[METRICS] = {**dict(state[METRICS].items()), **added}
        self._look_for_stop(state)

    def at_training_end(self, trainer: Any, **facts: Any) -> None:
        """Note whether the training failed: Keras tells its callbacks no end then."""
        self._failed = facts.get("error") is not None

    def on_end(self, state: State) -> None:
        """Tell that the training ends. A fit that goes on begins with the weights that were trained, not restored."""
        if not self._failed and not getattr(self.callback.on_train_end, "_is_default", False):
            trained = state[MODEL].get_weights()
            self.callback.on_train_end(_logs(state) if METRICS in state else {})
            changed = not all(map(np.array_equal, trained, state[MODEL].get_weights()))
            self._trained = {_TRAINED: trained, _RESTORED: _digest(state[MODEL])} if changed else {}
        self._memory = self.state_dict()

    def _look_for_stop(self, state: State) -> None:
        if self._model.stop_training:
            state[STOP_TRAINING] = True

    # ------------------------------------------------------------------ its steps

    def on_sample(self, state: State) -> None:
        """Tell that a batch begins."""
        self.callback.on_train_batch_begin(state[BATCH], {})

    def on_step_training(self, state: State) -> None:
        """Tell that a batch is done."""
        self.callback.on_train_batch_end(state[BATCH], _logs(state, loss=state[LOSS]))
        self._look_for_stop(state)

    def on_start_validation(self, state: State) -> None:
        """Tell that a validation begins."""
        self.callback.on_test_begin({})

    def on_sample_validation(self, state: State) -> None:
        """Tell that a batch of it begins."""
        self.callback.on_test_batch_begin(state[BATCH], {})

    def on_step_validation(self, state: State) -> None:
        """Tell that a batch of it is done."""
        self.callback.on_test_batch_end(state[BATCH], _of_validation(state, loss=state.get(LOSS, 0.0)))

    def on_end_validation(self, state: State) -> None:
        """Tell that it is done."""
        self.callback.on_test_end(_of_validation(state))

    # ------------------------------------------------------------------ what it knows

    def state_dict(self) -> dict[str, Any]:
        """What it has noted: attributes that are plain values, and arguments of its constructor that it has changed."""
        kept = {
            name: value
            for name, value in vars(self.callback).items()
            if name not in ("params", "_model", *_SETTLED) and is_plain(value)
            if name not in self._given or not np.array_equal(self._given[name], value)
        }
        return {**kept, **self._trained}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take it back when the training begins."""
        self._memory = dict(state)

    def __repr__(self) -> str:
        return f"KerasCallback({type(self.callback).__name__})"


class ShownModel:
    """A model as callbacks of Keras see it: with the optimizer of the fit, and what stops it.

    Parameters
    ----------
    model
        The model.
    optimizer
        The optimizer of Keras; None if there is none, or there are several.
    """

    _own = ("_model", "optimizer", "stop_training", "history")

    def __init__(self, model: keras.Model, optimizer: keras.optimizers.Optimizer | None):
        self._model, self.optimizer, self.stop_training = model, optimizer, False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of the model, for callbacks that ask ``isinstance(self.model, keras.Model)``."""
        return type(self._model)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._model, name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # of a copy that is not complete yet
            raise AttributeError(name)
        return getattr(self._model, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self._model(*args, **kwargs)


def _digest(model: keras.Model) -> str:
    """The weights of a model as a text, by which others are told apart."""
    return hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()


def _logs(state: State, **further: Any) -> dict[str, Any]:
    """The metrics of the state as numbers, under the names, too, that Keras has for accuracy and loss."""
    logs = plain_values({**further, **{str(name): value for name, value in state[METRICS].items()}})
    logs.pop("epoch", None)  # which callbacks are told besides, from 0
    losses = state.get(CRITERION)
    for prefix in ("", "val_"):
        accuracy = next((logs[name] for name in (f"{prefix}acc", f"{prefix}binary_acc") if name in logs), None)
        names = [f"{prefix}{name}" for name in losses] if isinstance(losses, Mapping) else []
        parts = [logs[name] for name in names if name in logs]
        named = {f"{prefix}accuracy": accuracy, f"{prefix}loss": sum(parts) if parts else None}
        logs = {**{name: value for name, value in named.items() if value is not None}, **logs}
    return logs


def _of_validation(state: State, **further: Any) -> dict[str, Any]:
    """The same of a validation, whose callbacks are told no prefix."""
    return {name.removeprefix("val_"): value for name, value in _logs(state, **further).items()}


def _mode_of(monitor: str, state: State) -> str | None:
    """Whether the best value of a metric is the largest, in Keras' words; None if nobody knows."""
    name = monitor.removeprefix("val_")
    if isinstance(state.get(CRITERION), Mapping) and name in state[CRITERION]:
        return "min"
    roots = (tree.root for tree in state.get(METRIC_LIST) or ())
    known = next((root.higher_is_better for root in roots if root.name == name), None)
    is_larger = named_direction(monitor) if known is None else known
    return None if is_larger is None else "max" if is_larger else "min"
