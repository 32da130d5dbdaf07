"""Further operations on arrays of any framework, beside those of :mod:`delira.utils.arrays`."""

from typing import Any

from delira.utils.arrays import Array, ops_of


def take(array: Array, rows: object) -> Any:
    """Return the entries of the first axis that an array of whole numbers, of the same framework, names."""
    return ops_of(array).take(array, rows)


def cast(array: Array, like: object) -> Any:
    """Return the array in a type of its framework, or in that of another array of it."""
    # a class of numpy has an attribute dtype, too, which is none
    return ops_of(array).cast(array, like if isinstance(like, type) else getattr(like, "dtype", like))


def log_softmax(scores: Array, axis: int) -> Any:
    """Return the logarithms of the softmax along an axis, of floating-point numbers."""
    ops = ops_of(scores)
    shifted = scores - ops.expand(ops.largest(scores, axis), axis)
    return shifted - ops.expand(log(ops.sum(ops.xp.exp(shifted), axis)), axis)


def log(array: Array) -> Any:
    """Return the natural logarithm."""
    return ops_of(array).log(array)
