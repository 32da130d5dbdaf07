"""Checks of counts and indices that datasets, samplers and managers share."""

import inspect
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, SampleIndexError

Indices = Sequence[int] | np.ndarray
NO_INDEX = (bool, np.bool_, type(None))
"""Lists take the first for numbers, arrays take all for an axis more."""


def check_count(value: object, name: str, minimum: int) -> int:
    """Refuse anything but an integer of at least ``minimum``; a float is never rounded."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ConfigError(f"{name} must be an integer of at least {minimum}, got {value!r}")
    return int(value)


def to_index_array(indices: Iterable[int], owner: str) -> np.ndarray:
    """Copy ``indices`` to a read-only array of shape (n,) and dtype int64.

    Raises
    ------
    ConfigError
        If they are not one list of integers; ``owner`` says for whom they were meant.
    """
    if isinstance(indices, range):
        array = np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    elif isinstance(indices, Iterable):
        array = np.array(indices if isinstance(indices, (np.ndarray, Sequence)) else list(indices))
    else:
        raise ConfigError(f"indices of {owner} must be one list of integers, got {indices!r}")
    if array.ndim == 1 and array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        cure = "; for a boolean mask pass np.flatnonzero(mask)" if array.dtype.kind == "b" else ""
        raise ConfigError(
            f"indices of {owner} must be one list of integers, "
            f"got an array of shape {array.shape} and dtype {array.dtype}{cure}"
        )
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:  # would become negative
        raise SampleIndexError(f"indices of {owner} must be indices of samples, got {array.max()}")
    array = array.astype(np.int64, copy=False)
    array.flags.writeable = False
    return array


def check_range(indices: np.ndarray, length: int, owner: str) -> np.ndarray:
    """Refuse indices that do not name one of ``length`` samples.

    Raises
    ------
    SampleIndexError
        If an index is negative or ``length`` and more; names the first ten.
    """
    outside = indices[(indices < 0) | (indices >= length)]
    if outside.size:
        listed = ", ".join(map(str, outside[:10].tolist())) + (", ..." if outside.size > 10 else "")
        allowed = f"allowed are 0 to {length - 1}" if length else "it is empty"
        raise SampleIndexError(f"indices {listed} are not in {owner} of {length} samples; {allowed}")
    return indices


def to_index(index: Any, length: int, owner: Any) -> int:
    """Turn an index, which may count from the end, into the number of a sample.

    Raises
    ------
    SampleIndexError
        If there is no such sample in ``owner``, the dataset that is asked.
    """
    try:
        if isinstance(index, NO_INDEX):
            raise TypeError
        number = operator.index(index)
    except TypeError as error:
        raise SampleIndexError(
            f"index {index!r} is no number of a sample of this {type(owner).__name__}; pass a whole number, "
            "and to get_subset a list of them"
        ) from error
    if not -length <= number < length:
        raise SampleIndexError(f"index {number} is not in this {type(owner).__name__} of {length} samples")
    return number + length if number < 0 else number


def common_length(lengths: Mapping[str, int], owner: str) -> int:
    """Refuse arrays of which one has more samples than another; ``owner`` is the dataset that they are meant for."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{key!r}: {length}" for key, length in lengths.items())
        raise DataError(f"the arrays of a {owner} must have equal lengths (first axes), got {listed}")
    return next(iter(lengths.values()))


def check_flag(value: object, name: str) -> bool:
    """Refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function by name; of a builtin that has no signature, none."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def at(kept: Any, index: Any, owner: Any) -> Any:
    """Return ``kept[index]``; a wrong index is named, at no cost for right ones.

    Raises
    ------
    SampleIndexError
        If there is no such sample in ``owner``, the dataset that is asked.
    """
    if isinstance(index, NO_INDEX):
        to_index(index, len(owner), owner)  # raises
    try:
        return kept[index]
    except (IndexError, TypeError):
        to_index(index, len(owner), owner)  # raises, unless what is kept fails by itself
        raise


def refuse_outside(indices: np.ndarray, length: int, owner: object) -> None:
    """Refuse indices, which may count from the end, of which one names no sample; as :func:`to_index`."""
    for index in indices[(indices < -length) | (indices >= length)][:1].tolist():
        to_index(index, length, owner)  # raises
