"""Fitted transformers that shift and scale every feature by itself, as two arrays; scikit-learn is not imported."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from delira.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Affine:
    """What makes ``(x - center) * scale`` of every feature."""

    center: np.ndarray
    """float64, shape ``(n_features,)``; ``(1,)`` counts for all."""
    scale: np.ndarray
    """As ``center``; never zero."""

    def then(self, second: "Affine") -> "Affine":
        """Both, one after the other."""
        return Affine(self.center + second.center / self.scale, self.scale * second.scale)


_NONE = Affine(np.zeros(1), np.ones(1))


def affine_of(transformer: Any, what: str) -> Affine:
    """What a fitted transformer does to every feature.

    Parameters
    ----------
    transformer
        ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler`` of scikit-learn, or a pipeline of
        them.
    what
        What it is, for messages.

    Raises
    ------
    ConfigError
        If it is another one, or clips, naming it.
    """
    cls = type(transformer)
    is_known = cls.__module__.startswith("sklearn.")  # what is derived from it may do something else
    if is_known and cls.__name__ == "Pipeline":
        found = _NONE
        for _, step in transformer.steps:
            found = found if step in (None, "passthrough") else found.then(affine_of(step, what))
        return found
    if not is_known or cls.__name__ not in _READ:
        raise ConfigError(
            f"{what} has a {cls.__name__}, which does more than to shift and scale each feature, so it cannot be a "
            f"layer of an exported program; {', '.join(_READ)} and pipelines of them can"
        )
    if getattr(transformer, "clip", False):
        raise ConfigError(f"{what} has a {cls.__name__} with clip=True, which cannot be a layer of an exported program")
    return _READ[cls.__name__](transformer)


def _standard(scaler: Any) -> Affine:
    return _divided(scaler.mean_ if scaler.with_mean else None, scaler.scale_)


def _robust(scaler: Any) -> Affine:
    return _divided(scaler.center_, scaler.scale_)


def _of_range(scaler: Any) -> Affine:
    return Affine(-scaler.min_ / scaler.scale_, np.asarray(scaler.scale_, np.float64))


def _largest(scaler: Any) -> Affine:
    return _divided(None, scaler.scale_)


def _divided(center: Any, divisor: Any) -> Affine:
    """What ``(x - center) / divisor`` is; None: nothing is done."""
    return Affine(
        _NONE.center if center is None else np.asarray(center, np.float64),
        _NONE.scale if divisor is None else 1 / np.asarray(divisor, np.float64),
    )


_READ: dict[str, Callable[[Any], Affine]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _of_range,
    "MaxAbsScaler": _largest,
    "RobustScaler": _robust,
}
