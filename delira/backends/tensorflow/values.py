"""From tensors to numpy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.errors import NetworkError
from delira.utils.single_numbers import read_numbers
from delira.utils.trees import map_leaves

_TENSORS = (tf.Tensor, tf.Variable, keras.Variable)


def to_numpy(tree: Any) -> Any:
    """Replace every tensor of a nested structure by a numpy array on the host (bfloat16 becomes float32)."""
    return map_leaves(_to_array, tree)


def _to_array(value: Any) -> Any:
    if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
        raise NetworkError(f"a {type(value).__name__} is no array; convert it in the network, e.g. by .to_tensor()")
    array = exact(value)
    return array.astype(np.float32) if isinstance(array, np.ndarray) and array.dtype.name == "bfloat16" else array


def exact(value: Any) -> Any:
    """A tensor as an array of its own type that nothing else changes; other values as they are."""
    return np.asarray(value.numpy()) if isinstance(value, _TENSORS) else value


def concatenate(trees: Sequence[Any]) -> Any:
    """One tree out of those of the parts of a batch; what has no samples is taken from the last part."""
    last = trees[-1]
    if isinstance(last, Mapping):
        return {key: concatenate([tree[key] for tree in trees]) for key in last}
    if isinstance(last, (list, tuple)):
        parts = [concatenate(entries) for entries in zip(*trees, strict=True)]
        return type(last)(*parts) if hasattr(last, "_fields") else type(last)(parts)
    if isinstance(last, np.ndarray):
        return np.concatenate(trees) if last.ndim else last
    return tf.concat(list(trees), axis=0) if isinstance(last, tf.Tensor) and last.ndim else last


def convert_tf_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""

    def convert(value: Any) -> Any:
        array = _to_array(value)
        return array.reshape(1) if isinstance(value, _TENSORS) and array.ndim == 0 else array

    return [map_leaves(convert, value) for value in args], {k: map_leaves(convert, v) for k, v in kwargs.items()}


def read_scalars(values: Sequence[Any]) -> np.ndarray:
    """Bring single values to the host: those of an accelerator in one transfer.

    Raises
    ------
    NetworkError
        If a value is no single number.
    """
    if wrong := [shape for value in values if math.prod(shape := tuple(getattr(value, "shape", ()))) != 1]:
        raise NetworkError(
            f"a loss or training metric has the shape {wrong[0]}; the closure returns single numbers "
            "(e.g. keras.losses.MeanSquaredError() or tf.reduce_mean, not keras.losses.mean_squared_error)"
        )
    tensors = [value for value in values if isinstance(value, tf.Tensor)]
    if tensors and len(tensors) == len(values) and "GPU" in tensors[0].device:
        stacked = tf.stack([tf.cast(tf.reshape(value, ()), tf.float64) for value in tensors])
        return np.asarray(stacked.numpy(), dtype=np.float64)
    return read_numbers([exact(value) for value in values])


def zero() -> tf.Tensor:
    """A loss of nothing."""
    return tf.zeros(())
