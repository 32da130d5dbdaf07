"""Arrays of JAX on the host, joined and copied."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from delira.contract import Array, ArraysRole, Tree
from delira.utils.arrays import map_leaves


def to_host(value: object) -> np.ndarray:
    """An array of the network's own type, which later steps do not change."""
    return np.array(jax.random.key_data(value) if is_key(value) else value)


def is_key(value: object) -> bool:
    """Return True for keys of generators, which are numbers only to who asks."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


class JaxArrays(ArraysRole):
    """Arrays of JAX."""

    kinds = (jax.Array,)
    single = " (e.g. take the mean)"

    @staticmethod
    def array(value: Tree) -> Any:
        """An array as one on the host (bfloat16 becomes float32); keys of generators as the numbers that they are."""
        if not isinstance(value, jax.Array):
            return value
        array = to_host(value)  # what asarray gives cannot be written to
        return array.astype(np.float32) if array.dtype == jnp.bfloat16 else array

    def snapshot(self, tree: object, previous: object = None) -> Any:
        return map_leaves(lambda leaf: to_host(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf, tree)

    def on_host(self, values: Sequence[Any]) -> Sequence[Any]:
        """All copies begin before the first is waited for."""
        return jax.device_get(list(values))


def convert_jax_array_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword arrays; other values pass. 0-d arrays become shape ``(1,)``."""
    return JaxArrays.convert(args, kwargs)


def to_device(array: Array, like: Array) -> Any:
    """An array of the host as one of JAX, of the type and in the place of ``like``; it shares no memory."""
    if is_key(like):
        keys = jax.random.wrap_key_data(np.array(array), impl=jax.random.key_impl(like))
        return jax.device_put(keys, like.sharding)
    if not isinstance(like, jax.Array):
        return np.array(array, dtype=np.asarray(like).dtype)
    return jax.device_put(np.array(array, dtype=like.dtype), like.sharding)
