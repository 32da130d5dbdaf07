"""Arrays of one type become arrays of another only if their values stay what they are."""

from typing import Any

import numpy as np

from delira.errors import DataError


def cast(array: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    """Convert an array; like ``astype``, which would wrap around, cut off and forget without a word.

    Parameters
    ----------
    array
        Of any shape.
    dtype
        The type wanted. Floating-point numbers become integers if they are integers up to rounding errors, as those
        of scaled masks are; these are rounded.
    what
        Names the values in messages.

    Raises
    ------
    DataError
        If a value does not fit, is no integer, or would lose its imaginary part.
    """
    if array.dtype == dtype:
        return array
    kind = dtype.kind
    if array.dtype.kind == "c" and kind in "biuf":
        raise DataError(f"{what} holds complex numbers, which as {dtype} would lose their imaginary part")
    if kind in "biu" and array.dtype.kind == "f":
        array = _rounded(array, dtype, what)
    if kind in "iu" and array.dtype.kind in "iuf" and array.size:
        limits = np.iinfo(dtype)
        low, high = array.min(), array.max()
        # as Python's integers: numpy would compare int64 and uint64 as float64
        if int(low) < limits.min or int(high) > limits.max:
            wrong = low if int(low) < limits.min else high
            raise DataError(
                f"{what} holds the value {wrong:g}, which {dtype} cannot hold (its values are {limits.min} to "
                f"{limits.max}); choose a larger type"
            )
    if kind == "f" and array.dtype.kind in "iuf":
        return _as_float(array, dtype, what)
    return array.astype(dtype)


def _rounded(array: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    rounded = np.rint(array)
    # rounding errors of a scaled value: some of the last digits of float32
    near = np.maximum(1e-4, 4 * np.finfo(np.float32).eps * np.abs(array))
    with np.errstate(invalid="ignore"):  # infinite values
        wrong = ~(np.abs(array - rounded) <= near)
    if wrong.any():
        value: Any = array[wrong].flat[0]
        raise DataError(
            f"{what} holds {value:g}, which is no integer, and it should become {dtype}; round it in a function of "
            "your own, or leave the type out"
        )
    return rounded


def _as_float(array: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    lost = np.isinf(converted) & np.isfinite(array)
    if lost.any():
        value: Any = array[lost].flat[0]
        raise DataError(f"{what} holds the value {value:g}, which {dtype} cannot hold; choose a larger type")
    return converted
