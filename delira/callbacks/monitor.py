"""Metrics as callbacks read them, and the one that is watched: where it is found, and which direction is better."""

from collections.abc import Mapping
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import Trainer
from delira.errors import ConfigError, MissingKeyError
from delira.metrics.direction import AUTO, as_mode, higher_is_better
from delira.state import State
from delira.utils.arrays import Lazy, iterate_leaves, map_leaves, read_arrays, to_plain


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
    if not isinstance(monitor, str):
        raise ConfigError(f"{who}: monitor is the name of a value, got {monitor!r}")
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
    trainer = getattr(owner, "trainer", owner)
    config = getattr(trainer, "config", None)
    if config is not None:
        if monitor in config.losses or name in config.losses:
            return False
        found = {**config.train_metrics, **config.epoch_metrics}
        for key in (monitor, name, f"val_{name}"):
            if key in found:
                return higher_is_better(config.bound(found).get(key), key)
    trees = getattr(getattr(owner, "metrics", None), "trees", ())
    tree = next((tree for tree in trees if tree.root.name == name), None)
    return higher_is_better(tree, name)


def refuse_unknown(state: State, mode: str, monitor: str, who: str) -> None:
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
    owner = state[keys.SELF]
    config = getattr(trainer_of(state), "config", None)
    names = {*(config.epoch_metrics if config is not None else ())}
    names |= {tree.root.name for tree in getattr(getattr(owner, "metrics", None), "trees", ())}
    if monitor in names or monitor.removeprefix("val_") in names:
        sign_of(mode, monitor, who, owner)


def mode_of_plateau(trainer: Trainer, monitor: str | None) -> str:
    """``"min"`` or ``"max"``, for a schedule that was not told: as for the score of the run, or as known of a value."""
    if monitor is None:
        return "max" if trainer.score_mode == "highest" else "min"
    return "max" if sign_of(AUTO, monitor, "ReduceLROnPlateau", trainer) < 0 else "min"


def trainer_of(state: State) -> Any:
    """Return the trainer of a trial, or of an experiment."""
    owner = state[keys.SELF]
    return getattr(owner, "trainer", owner)


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


def watched_value(state: State, monitor: str, who: str) -> float | None:
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
    plan = getattr(getattr(trainer, "run", None), "plan", None)
    if plan is not None and plan.val_data is not None:
        is_validated = plan.validates(state[keys.EPOCH] + 1, trainer.config.val_freq)
        if not is_validated:
            return None
    advice = ""
    if monitor.removeprefix("val_") == "loss":  # which many callbacks watch by default
        advice = "; a trial has the loss with metrics=['loss'], and with a validation what begins with 'val_'"
        if trainer is state[keys.SELF]:
            advice = "; an experiment calls each loss by its own name: pass monitor="
    raise MissingKeyError(f"{who} watches {monitor!r}, but the epoch has only {sorted(metrics)}{advice}")
