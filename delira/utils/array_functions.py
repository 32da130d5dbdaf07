"""Further operations on arrays of any framework, beside those of :mod:`delira.utils.arrays`."""

from typing import Any

from delira.utils.arrays import ops_of


def take(array: Any, rows: Any) -> Any:
    """The entries of the first axis that an array of whole numbers, of the same framework, names."""
    xp = ops_of(array).xp
    if xp.__name__ == "torch":
        return xp.index_select(array, 0, rows)
    return xp.gather(array, rows) if xp.__name__ == "tensorflow" else xp.take(array, rows, axis=0)


def cast(array: Any, like: Any) -> Any:
    """The array in a type of its framework, or in that of another array of it."""
    # a class of numpy has an attribute dtype, too, which is none
    xp, dtype = ops_of(array).xp, like if isinstance(like, type) else getattr(like, "dtype", like)
    if xp.__name__ == "torch":
        return array.to(dtype)
    return xp.cast(array, dtype) if xp.__name__ == "tensorflow" else array.astype(dtype)


def log_softmax(scores: Any, axis: int) -> Any:
    """The logarithms of the softmax along an axis, of floating-point numbers."""
    ops = ops_of(scores)
    shifted = scores - ops.expand(ops.largest(scores, axis), axis)
    return shifted - ops.expand(log(ops.sum(ops.xp.exp(shifted), axis)), axis)


def log(array: Any) -> Any:
    """The natural logarithm."""
    xp = ops_of(array).xp
    return xp.math.log(array) if xp.__name__ == "tensorflow" else xp.log(array)
