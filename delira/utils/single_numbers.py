"""Losses and metrics of a step are one number each: what is none is refused by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import NetworkError


def read_numbers(values: Sequence[Any]) -> np.ndarray:
    """Numbers of the host, and arrays with one each, as float64 of shape ``(len(values),)``.

    Raises
    ------
    NetworkError
        If a value is no real number, such as a text, a tuple or None.
    """
    numbers = [value.item() if hasattr(value, "item") else value for value in values]
    return np.array([one if isinstance(one, (int, float)) else _as_float(one) for one in numbers], dtype=np.float64)


def _as_float(value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise NetworkError(
        f"a loss or training metric is a {type(value).__name__}, {value!r:.60}; the closure returns single real numbers"
    )


def refuse_losses(losses: Mapping[str, Any], arrays: tuple[type, ...], how: str) -> None:
    """Refuse losses of which one is neither a number nor an array, naming it.

    Parameters
    ----------
    losses
        As they were computed.
    arrays
        Classes of arrays of the framework.
    how
        How a loss is computed there.

    Raises
    ------
    NetworkError
        Naming the first one that is none.
    """
    for name, value in losses.items():
        if not isinstance(value, (int, float, np.number, np.ndarray, *arrays)):
            raise NetworkError(
                f"the loss ({name}) is a {type(value).__name__}, so there is no gradient; a loss is {how}"
            )


def added(losses: Mapping[str, Any], arrays: tuple[type, ...], how: str) -> Any:
    """The sum of losses; the only one as it is. Looked at, as :func:`refuse_losses` does, where they cannot be added.

    Parameters
    ----------
    losses, arrays, how
        As for :func:`refuse_losses`.
    """
    values = iter(losses.values())
    total = next(values)
    try:
        for value in values:
            total = total + value
    except (TypeError, ValueError):
        refuse_losses(losses, arrays, how)
        raise
    return total
