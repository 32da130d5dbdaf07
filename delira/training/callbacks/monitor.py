"""Metrics as callbacks read them, and the one that is watched: where it is found, and which direction is better."""

import math
from collections.abc import Mapping
from typing import Any

from delira import state as keys
from delira.errors import ConfigError, MissingKeyError
from delira.state import State
from delira.utils.arrays import read_arrays, to_plain
from delira.utils.lazy_value import Lazy
from delira.utils.trees import iterate_leaves, map_leaves

#: mode -> sign with which smaller is better
SIGNS = {"min": 1.0, "lowest": 1.0, "max": -1.0, "highest": -1.0}
#: words in the name of a value that is better the smaller it is; they go before those of the other kind
_SMALLER = ("loss", "err", "mse", "mae", "rmse", "nll", "entropy", "distance", "hausdorff", "calibration", "perplexity")
#: words in the name of a value that is better the larger it is
_LARGER = (
    "acc", "auc", "f1", "f_beta", "fbeta", "iou", "jaccard", "dice", "precision", "recall", "sensitivity",
    "specificity", "kappa", "mcc", "matthews", "r2", "ssim", "psnr", "correlation",
)  # fmt: skip


def sign_of(mode: str, monitor: str, who: str) -> float:
    """1.0 where small values are good, -1.0 where large ones are.

    Parameters
    ----------
    mode
        ``"min"``/``"lowest"``, ``"max"``/``"highest"``, or ``"auto"``: by the name of the value. Accuracies, AUC, F1,
        IoU, Dice, precision, recall and their like are better the larger they are, everything else the smaller.
    monitor
        Name of the value.
    who
        For the message.

    Raises
    ------
    ConfigError
        If there is no such mode.
    """
    if not isinstance(monitor, str):
        raise ConfigError(f"{who}: monitor is the name of a value, got {monitor!r}")
    if mode == "auto":
        name = monitor.lower()
        is_larger = any(word in name for word in _LARGER) and not any(word in name for word in _SMALLER)
        return -1.0 if is_larger else 1.0
    if mode not in SIGNS:
        raise ConfigError(f"{who}: mode must be one of {', '.join(map(repr, SIGNS))}, got {mode!r}; or 'auto'")
    return SIGNS[mode]


def trainer_of(state: State) -> Any:
    """The trainer of a trial, or of an experiment."""
    owner = state[keys.SELF]
    return getattr(owner, "trainer", owner)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values without arrays, with one wait for the device.

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

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, Lazy):
            return leaf.item()
        return to_plain(next(arrays)) if hasattr(leaf, "dtype") else leaf

    found: dict[str, Any] = map_leaves(plain, values)
    return found


def number(value: Any) -> float:
    """A number of Python out of one of any framework; waits for the device."""
    return float(plain_values({"": value})[""])


def watched_value(state: State, monitor: str, who: str) -> float | None:
    """The watched value of an epoch, or None if the epoch was not validated though others are.

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
    history = state.get(keys.HISTORY, ())
    if any(key in record or monitor in record for record in history) or _skips_validation(state):
        return None
    raise MissingKeyError(
        f"{who} watches {monitor!r}, but the epoch has only {sorted(metrics)}{_advice(state, monitor)}"
    )


def _advice(state: State, monitor: str) -> str:
    """Where the value would come from; many callbacks watch the loss by default."""
    if monitor.removeprefix("val_") != "loss":
        return ""
    if trainer_of(state) is state[keys.SELF]:
        return "; an experiment calls each loss by its own name: pass monitor="
    return "; a trial has the loss with metrics=['loss'], and with a validation what begins with 'val_'"


def _skips_validation(state: State) -> bool:
    """Whether the epoch that just ended was not validated, though others are."""
    trainer = trainer_of(state)
    plan = getattr(trainer, "_plan", None)
    if plan is None or plan.val_data is None:
        return False
    return not plan.validates(state[keys.EPOCH] + 1, trainer.config.val_freq)


def is_better(value: float, best: float | None, min_delta: float, sign: float) -> bool:
    """Whether a value is an improvement by more than ``min_delta``; what is no number never is."""
    return sign * value < (math.inf if best is None else sign * best) - min_delta
