"""What callbacks look at: passes that are chosen, values that are watched, and names that both are filled into."""

import dataclasses
import math
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from delira import state as keys
from delira.callbacks.abstract_callback import Callback, EveryPass, Trainer, trainer_of
from delira.errors import ConfigError, MissingKeyError, check_flags, check_numbers, check_texts, check_that, check_whole
from delira.metrics.direction import AUTO, as_mode, higher_is_better
from delira.utils.arrays import iterate_leaves, map_leaves, read_arrays, to_plain
from delira.utils.late import Lazy


def check_watched(mode: object, monitor: object, who: str) -> None:
    """Refuse what cannot be watched.

    Parameters
    ----------
    mode
        ``"min"``/``"lowest"``, ``"max"``/``"highest"``, or ``"auto"``.
    monitor
        Name of the value.
    who
        For the message.

    Raises
    ------
    ConfigError
        If there is no such mode, or the name is no text.
    """
    check_that(isinstance(monitor, str), who, "monitor is the name of a value", monitor)
    as_mode(mode, f"{who}: mode")


def sign_of(mode: str, monitor: str, who: str, owner: object = None) -> float:
    """1.0 where small values are good, -1.0 where large ones are.

    Parameters
    ----------
    mode, monitor, who
        As of :func:`check_watched`. ``"auto"``: losses are better the smaller they are, and metrics and names as
        :mod:`delira.metrics.direction` knows it.
    owner
        The trainer or the trial, which has losses and metrics by name.

    Raises
    ------
    ConfigError
        If it is not known which values are good.
    """
    check_watched(mode, monitor, who)
    known = as_mode(mode, who)
    is_larger = _direction_of(monitor, owner) if known == AUTO else known == "highest"
    if is_larger is None:
        raise ConfigError(
            f"{who}: it is not known whether small or large values of {monitor!r} are good, so say mode='min' "
            "(also called 'lowest') or mode='max' (also called 'highest')"
        )
    return -1.0 if is_larger else 1.0


def _direction_of(monitor: str, owner: object) -> bool | None:
    name = monitor.removeprefix("val_")
    config = getattr(getattr(owner, "trainer", owner), "config", None)
    if config is not None:
        if monitor in config.losses or name in config.losses:
            return False
        found = {**config.train_metrics, **config.epoch_metrics}
        for key in (monitor, name, f"val_{name}"):
            if key in found:
                return higher_is_better(config.bound(found).get(key), key)
    trees = getattr(getattr(owner, "metrics", None), "trees", ())
    return higher_is_better(next((tree for tree in trees if tree.root.name == name), None), name)


def refuse_unknown(state: keys.State, mode: str, monitor: str, who: str) -> None:
    """Refuse, before anything is computed, to watch a metric of which nobody knows which values are good.

    Parameters
    ----------
    state
        Of the beginning of a fit.
    mode, monitor, who
        As of :func:`check_watched`.

    Raises
    ------
    ConfigError
        If that is so. A value that is no metric may come from a callback or a closure: it is asked for later.
    """
    owner, config = state[keys.SELF], getattr(trainer_of(state), "config", None)
    names = {*(config.epoch_metrics if config is not None else ())}
    names |= {tree.root.name for tree in getattr(getattr(owner, "metrics", None), "trees", ())}
    if monitor in names or monitor.removeprefix("val_") in names:
        sign_of(mode, monitor, who, owner)


def mode_of_plateau(trainer: Trainer, monitor: str | None) -> str:
    """``"min"`` or ``"max"``, for a schedule that was not told: as for the score of the run, or as known of a value."""
    if monitor is None:
        return "max" if trainer.score_mode == "highest" else "min"
    return "max" if sign_of(AUTO, monitor, "ReduceLROnPlateau", trainer) < 0 else "min"


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values without arrays, with one wait for the device.

    Parameters
    ----------
    values
        Numbers, texts, and arrays of any framework, also in lists and dictionaries.

    Returns
    -------
    dict
        Numbers of Python in the place of arrays of one value, nested lists in that of others.
    """
    arrays = iter(read_arrays([leaf for _, leaf in iterate_leaves(values) if hasattr(leaf, "dtype")]))

    def plain(leaf: object) -> Any:
        if isinstance(leaf, Lazy):
            return leaf.item()
        return to_plain(next(arrays)) if hasattr(leaf, "dtype") else leaf

    return map_leaves(plain, values)


def number(value: object) -> float:
    """Return a number of Python out of one of any framework; waits for the device."""
    return float(plain_values({"": value})[""])


def watched_value(state: keys.State, monitor: str, who: str) -> float | None:
    """Return the watched value of an epoch, or None if the epoch was not validated though others are.

    Parameters
    ----------
    state
        Of the end of an epoch.
    monitor
        Name of the value; ``val_`` may be left out.
    who
        For the message.

    Raises
    ------
    MissingKeyError
        If epochs have no such value.
    """
    metrics = state[keys.METRICS]
    key = monitor if monitor in metrics else f"val_{monitor}"
    if key in metrics:
        return number(metrics[key])
    if any(key in record or monitor in record for record in state.get(keys.HISTORY, ())):
        return None
    trainer = trainer_of(state)
    plan: Any = getattr(getattr(trainer, "run", None), "plan", None)
    has_validation = plan is not None and plan.val_data is not None
    if has_validation and not plan.validates(state[keys.EPOCH] + 1, trainer.config.val_freq):
        return None
    advice = ""
    if monitor.removeprefix("val_") == "loss":  # which many callbacks watch by default
        advice = "; a trial has the loss with metrics=['loss'], and with a validation what begins with 'val_'"
        if trainer is state[keys.SELF]:
            advice = "; an experiment calls each loss by its own name: pass monitor="
    raise MissingKeyError(f"{who} watches {monitor!r}, but the epoch has only {sorted(metrics)}{advice}")


class EarlyStopping(Callback):
    """Stop when ``patience`` epochs in a row brought no improvement.

    Parameters
    ----------
    monitor
        Value of the epoch that is watched, e.g. ``"val_loss"``; ``val_`` may be left out.
    min_delta
        An improvement is a change by more than this.
    patience
        Epochs to wait; 0 and 1 stop at the first epoch that is no improvement.
    mode
        ``"min"``/``"lowest"`` or ``"max"``/``"highest"``: which values are good; ``"auto"``: small losses and errors,
        and large accuracies, AUC, F1, IoU, Dice and their like, as far as it is known of a metric or by its name. Of
        anything else it must be said.
    step_on_batch
        Count training steps instead of epochs; ``monitor`` is a value of the step then, e.g. ``"running_loss"``, and
        every step waits for it. A trial ends in the midst of the epoch, an experiment after it.
    monitor_key
        Historic name of ``monitor``.

    Raises
    ------
    ConfigError
        If an argument is impossible; when the fit begins, or with the first value, if it is not known which values
        are good.
    MissingKeyError
        When the first epoch ends without such a value.
    """

    phases = ("fit", "replay")
    _kept = ("best", "epochs_waited")
    #: ``monitor`` has it
    monitor_key = None

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        step_on_batch: bool = False,
        monitor_key: str | None = None,
    ):
        self.monitor = monitor if monitor_key is None else monitor_key
        check_watched(mode, self.monitor, "EarlyStopping")
        check_numbers(self, at_least=0, min_delta=min_delta)
        check_whole(self, at_least=0, patience=patience)
        check_flags(self, step_on_batch=step_on_batch)
        self.min_delta, self.patience, self.mode, self.step_on_batch = min_delta, patience, mode, step_on_batch
        self.best, self.epochs_waited = math.inf, 0

    def on_start(self, state: keys.State) -> None:
        """Refuse a metric of which nobody knows which values are good."""
        refuse_unknown(state, self.mode, self.monitor, "EarlyStopping")

    def on_step_training(self, state: keys.State) -> None:
        """Look at the step's value."""
        if self.step_on_batch and self.monitor in state[keys.METRICS]:
            self._look_at(state, number(state[keys.METRICS][self.monitor]))

    def on_end_training(self, state: keys.State) -> None:
        """Refuse a value that no step has."""
        if self.step_on_batch and self.best == math.inf and not self.epochs_waited:
            raise MissingKeyError(
                f"EarlyStopping watches {self.monitor!r} of steps, but no step had it; there are "
                f"{sorted(state[keys.METRICS])}, some of them at the end of an epoch only"
            )

    def at_epoch_end(self, trainer: Trainer, *, metrics: Mapping[str, float], **facts: Any) -> None:
        """Look at the value of an epoch, which is recorded already."""
        state = keys.State({**trainer.hook_state, keys.METRICS: metrics})
        self._look_at_epoch(state)
        if state.get(keys.STOP_TRAINING):
            trainer.hook_state[keys.STOP_TRAINING] = trainer.state.stop_training = True

    def on_end_epoch(self, state: keys.State) -> None:
        """Look at the value of an epoch that is replayed."""
        if state[keys.PHASE] == "replay":
            self._look_at_epoch(state)

    def _look_at_epoch(self, state: keys.State) -> None:
        value = None if self.step_on_batch else watched_value(state, self.monitor, "EarlyStopping")
        if value is not None:
            self._look_at(state, value)

    def _look_at(self, state: keys.State, value: float) -> None:
        value = sign_of(self.mode, self.monitor, "EarlyStopping", state.get(keys.SELF)) * value
        if value < self.best - self.min_delta:
            self.best, self.epochs_waited = value, 0
            return
        self.epochs_waited += 1
        if self.epochs_waited >= self.patience:
            state[keys.STOP_TRAINING] = True


class TerminateOnNaN(EveryPass):
    """Stop the fit when the loss, or the value ``monitor``, is infinite or not a number.

    The loss of every step is looked at. On a CPU that happens at once, and the fit ends after that very step; on an
    accelerator each look would wait for it, so that the losses are read together, every ``log_freq`` steps and at
    the end of the pass. ``monitor`` is looked at where the metrics have it, at the end of a pass and of an epoch.

    A trial returns the epochs that were finished before. The trainer's own guard, which would raise
    :class:`delira.errors.NonFiniteLossError` (``nonfinite="raise"``), is off during the fit of a trial that has this
    callback. In an experiment the guard stays, as its errors say where the numbers began; the callback ends
    runs there that have ``nonfinite="ignore"``.

    Parameters
    ----------
    monitor
        Name of a metric.
    """

    phases = ("fit",)

    def __init__(self, monitor: str = "running_loss"):
        check_texts(self, monitor=monitor)
        self.monitor = monitor
        self._unread: list[Any] = []
        self._config: Any = None

    def on_start(self, state: keys.State) -> None:
        """Take the place of the trainer's guard, in a trial."""
        self._unread = []
        trainer = trainer_of(state)
        if trainer is not state[keys.SELF] and trainer.config.guards.nonfinite == "raise":
            self._config = trainer.config
            guards = dataclasses.replace(trainer.config.guards, nonfinite="ignore")
            trainer.config = dataclasses.replace(trainer.config, guards=guards)

    def on_step_training(self, state: keys.State) -> None:
        """Keep the loss, and read it if that costs nothing, or if it is time."""
        if state.get(keys.LOSS) is None:
            return
        self._unread.append(state[keys.LOSS])
        if _is_free(state[keys.DEVICE]) or len(self._unread) >= trainer_of(state).config.logging.freq:
            self._read(state)

    def on_end_training(self, state: keys.State) -> None:
        """Read what is left, and look at the metrics."""
        self._read(state)
        self._look_at_metrics(state)

    def on_end_epoch(self, state: keys.State) -> None:
        """Look at the metrics."""
        self._look_at_metrics(state)

    def _look_at_metrics(self, state: keys.State) -> None:
        for name in (self.monitor, f"val_{self.monitor}"):
            if name in state[keys.METRICS] and not math.isfinite(number(state[keys.METRICS][name])):
                state[keys.STOP_TRAINING] = True

    def on_end(self, state: keys.State) -> None:
        """Give the trainer its guard back."""
        if self._config is not None:
            trainer_of(state).config, self._config = self._config, None

    def _read(self, state: keys.State) -> None:
        if self._unread and not np.isfinite(trainer_of(state).backend.arrays.read_scalars(self._unread)).all():
            state[keys.STOP_TRAINING] = True
        self._unread = []


def _is_free(device: object) -> bool:
    """Return True if to read a value of the device makes nobody wait."""
    return "cpu" in str(device).lower()


def fields_of(template: str) -> set[str]:
    """Return names of the fields of a format."""
    return {field.partition(".")[0].partition("[")[0] for _, field, *_ in string.Formatter().parse(template) if field}


def fill_in(template: str, state: keys.State, who: str, further: Mapping[str, Any] | None = None) -> str:
    """Return a name whose fields are metrics, entries of the state, and ``fold``.

    Parameters
    ----------
    template
        The format, e.g. ``"{epoch:02d}-{val_loss:.2f}"``.
    state
        Of the fit.
    who
        For the message.
    further
        Fields that go before both.

    Raises
    ------
    ConfigError
        If there is no such field, or it cannot be written so.
    """
    metrics = {name: value for name, value in state.get(keys.METRICS, {}).items() if name != "epoch"}
    values = {str(key): value for key, value in state.items()} | {"fold": _fold(state)} | metrics | dict(further or {})
    try:
        fields = {name: values[name] for name in fields_of(template) & values.keys()}
        fields |= plain_values({name: value for name, value in fields.items() if hasattr(value, "dtype")})
        return template.format_map(fields)
    except KeyError as error:
        raise ConfigError(
            f"{who}: the name {template!r} has the field {error}, but there is neither a metric of that name "
            f"({', '.join(metrics) or 'there are none'}) nor such an entry of the state"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{who}: the name {template!r} cannot be filled in: {error}") from None


def path_of(template: str, state: keys.State, who: str, further: Mapping[str, Any] | None = None) -> Path:
    """Return the file of a name that :func:`fill_in` fills in; see :func:`of_fold`."""
    path = Path(fill_in(template, state, who, further))
    return path if "fold" in fields_of(template) else of_fold(path, state)


def of_fold(path: Path, state: keys.State) -> Path:
    """Return the file of the fold at hand: ``<name>_fold_1.<ending>`` and so on for the further ones.

    Parameters
    ----------
    path
        The file of the first fold, or of what has no folds. A number with a point in it is no ending.
    state
        Of the fit.
    """
    fold, ending = _fold(state), path.suffix if path.suffix[1:].isalpha() else ""
    return path.with_name(f"{path.name.removesuffix(ending)}_fold_{fold}{ending}") if fold else path


def _fold(state: keys.State) -> int:
    return getattr(trainer_of(state), "fold", 0)


class PassChoice(EveryPass):
    """A callback with ``on_train()``, ``on_val()`` and ``on_test()``; without any of them it is ``on_val()``.

    An evaluation of the validation data is both a validation and a test; other evaluations, and predictions, are a
    test. What a fit has written stays as it is. It begins, looks at the batches and gives out what it saw by
    :meth:`on_start_validation`, :meth:`_look` and :meth:`_give_out`.
    """

    phases = ("fit", "evaluate", "predict")
    not_hooks: tuple[str, ...] = ("on_train", "on_val", "on_test")
    _chosen: frozenset[str] = frozenset()

    def on_train(self) -> Self:
        """Look at the training passes of a fit; returns the callback."""
        return self._choose("train")

    def on_val(self) -> Self:
        """Look at the validations of a fit, and at evaluations of the validation data; returns the callback."""
        return self._choose("val")

    def on_test(self) -> Self:
        """Look at evaluations and predictions; returns the callback."""
        return self._choose("test")

    def _choose(self, name: str) -> Self:
        self._chosen |= {name}
        return self

    def on_start_training(self, state: keys.State) -> None:
        """Begin to count; a pass that is continued is counted on."""
        if not trainer_of(state).state.step_in_epoch:
            self.on_start_validation(state)

    def on_step_training(self, state: keys.State) -> None:
        """Look at a batch."""
        if self.looks_at(state):
            self._look(state)

    def on_end_training(self, state: keys.State) -> None:
        """Give out what was seen in the pass."""
        if self.looks_at(state):
            self._give_out(state)

    def _look(self, state: keys.State) -> None:
        """Look at a batch of a pass that was chosen."""

    def _give_out(self, state: keys.State) -> None:
        """Give out what was seen in such a pass."""

    @property
    def passes(self) -> frozenset[str]:
        """``"train"``, ``"val"``, ``"test"``: those that are looked at."""
        return self._chosen or frozenset({"val"})

    def looks_in(self, state: keys.State) -> bool:
        """Return True if any pass of the fit, evaluation or prediction at hand is looked at."""
        return bool(
            self.passes & {"fit": {"train", "val"}, "evaluate": {"val", "test"}}.get(state[keys.PHASE], {"test"})
        )

    def looks_at(self, state: keys.State) -> bool:
        """Return True if the pass at hand is one of them."""
        if state[keys.PHASE] != "fit":
            is_validated = state[keys.PHASE] == "evaluate" and state[keys.DATA] == keys.VALIDATION_DATA
            return "test" in self.passes or (is_validated and "val" in self.passes)
        return ("train" if state[keys.DATA] == keys.TRAIN_DATA else "val") in self.passes

    def file_of(self, template: str, path: Path, state: keys.State) -> Path:
        """Return the file of a name as it was filled in: another one in an evaluation than in the fit.

        Parameters
        ----------
        template
            The name.
        path
            What :func:`~delira.callbacks.monitor.path_of` made of it.
        state
            Of the pass.
        """
        if state[keys.PHASE] != "evaluate" or "test" in self.passes or "phase" in fields_of(template):
            return path
        return path.with_name(f"{path.stem}_evaluate{path.suffix}")


def check_name(template: str, passes: frozenset[str], who: str) -> None:
    """Refuse a name under which one pass would overwrite what another has written.

    Raises
    ------
    ConfigError
        Saying which field is missing.
    """
    fields = fields_of(template)
    if "test" in passes and len(passes) > 1 and "phase" not in fields:
        missing = "phase"
    elif {"train", "val"} <= passes and "data" not in fields:
        missing = "data"
    else:
        return
    raise ConfigError(
        f"{who}: the name {template!r} would be the same in the passes {', '.join(sorted(passes))}; put {{{missing}}} "
        "into it"
    )
