"""From arrays of JAX to numpy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from delira.errors import NetworkError
from delira.utils.single_numbers import read_numbers
from delira.utils.trees import map_leaves


def to_numpy(tree: Any) -> Any:
    """Replace every array of a nested structure by a numpy array on the host (bfloat16 becomes float32)."""
    return map_leaves(_to_array, tree)


def _to_array(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    if value.dtype == jnp.bfloat16:
        return np.asarray(value).astype(np.float32)
    return np.array(value)  # what asarray gives cannot be written to


def to_host(value: Any) -> np.ndarray:
    """An array of the network's own type, which later steps do not change."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.array(value)


def to_device(array: Any, like: Any) -> Any:
    """An array of the host as one of JAX, of the type and in the place of ``like``; it shares no memory."""
    if isinstance(like, jax.Array) and jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        keys = jax.random.wrap_key_data(np.array(array), impl=jax.random.key_impl(like))
        return jax.device_put(keys, like.sharding)
    if not isinstance(like, jax.Array):
        return np.array(array, dtype=np.asarray(like).dtype)
    return jax.device_put(np.array(array, dtype=like.dtype), like.sharding)


def snapshot(tree: Any, previous: Any = None) -> Any:
    """A copy of a checkpoint tree on the host that later training cannot change."""
    return map_leaves(lambda leaf: to_host(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf, tree)


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
    return jnp.concatenate(list(trees)) if isinstance(last, jax.Array) and last.ndim else last


def read_scalars(values: Sequence[Any]) -> np.ndarray:
    """Bring single values to the host: all copies begin before the first is waited for.

    Raises
    ------
    NetworkError
        If a value is no single number.
    """
    if wrong := [shape for value in values if math.prod(shape := tuple(getattr(value, "shape", ()))) != 1]:
        raise NetworkError(
            f"a loss or training metric has the shape {wrong[0]}; the closure returns single numbers "
            "(e.g. take the mean)"
        )
    return read_numbers(jax.device_get(list(values)))


def convert_jax_array_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword arrays; other values pass. 0-d arrays become shape ``(1,)``."""

    def convert(value: Any) -> Any:
        array = _to_array(value)
        return array.reshape(1) if isinstance(value, jax.Array) and array.ndim == 0 else array

    return [map_leaves(convert, value) for value in args], {k: map_leaves(convert, v) for k, v in kwargs.items()}
