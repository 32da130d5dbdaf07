"""Tensors as arrays on the host, joined and copied."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.contract import ArraysRole
from delira.errors import NetworkError
from delira.utils.arrays import map_leaves

_TENSORS = (tf.Tensor, tf.Variable, keras.Variable)


def exact(value: object) -> Any:
    """A tensor as an array of its own type that nothing else changes; other values as they are."""
    return np.asarray(value.numpy()) if isinstance(value, _TENSORS) else value


class TfArrays(ArraysRole):
    """Tensors, and variables of TensorFlow and Keras."""

    kinds = _TENSORS
    single = " (e.g. keras.losses.MeanSquaredError() or tf.reduce_mean, not keras.losses.mean_squared_error)"

    def snapshot(self, tree: object, previous: object = None) -> Any:
        return map_leaves(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else exact(leaf), tree)

    @staticmethod
    def array(value: object) -> Any:
        """A tensor as an array on the host (bfloat16 becomes float32)."""
        if isinstance(value, (tf.RaggedTensor, tf.SparseTensor)):
            raise NetworkError(f"a {type(value).__name__} is no array; convert it in the network, e.g. by .to_tensor()")
        array = exact(value)
        return array.astype(np.float32) if isinstance(array, np.ndarray) and array.dtype.name == "bfloat16" else array

    def on_host(self, values: Sequence[Any]) -> Sequence[Any]:
        """Single values of an accelerator in one transfer."""
        tensors = [value for value in values if isinstance(value, tf.Tensor)]
        if tensors and len(tensors) == len(values) and "GPU" in tensors[0].device:
            stacked = tf.stack([tf.cast(tf.reshape(value, ()), tf.float64) for value in tensors])
            return stacked.numpy()  # type: ignore[no-any-return]
        return [exact(value) for value in values]


def convert_tf_tensor_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword tensors; other values pass. 0-d tensors become shape ``(1,)``."""
    return TfArrays.convert(args, kwargs)
