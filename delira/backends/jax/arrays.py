"""Arrays of JAX on the host, joined and copied."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from delira.contract import ArraysRole
from delira.contract.kinds import Tree
from delira.utils.trees import map_leaves


def snapshot(tree: object, previous: object = None) -> Any:
    """A copy of a checkpoint tree on the host that later training cannot change."""
    return map_leaves(lambda leaf: to_host(leaf) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf, tree)


def to_host(value: object) -> np.ndarray:
    """An array of the network's own type, which later steps do not change."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.array(value)


class JaxArrays(ArraysRole):
    """Arrays of JAX."""

    kinds = (jax.Array,)
    single = " (e.g. take the mean)"

    @staticmethod
    def array(value: Tree) -> Any:
        """An array as one on the host (bfloat16 becomes float32); keys of generators as the numbers that they are."""
        if not isinstance(value, jax.Array):
            return value
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        if value.dtype == jnp.bfloat16:
            return np.asarray(value).astype(np.float32)
        return np.array(value)  # what asarray gives cannot be written to

    @staticmethod
    def join(arrays: Sequence[jax.Array]) -> jax.Array:
        return jnp.concatenate(list(arrays))

    snapshot = staticmethod(snapshot)

    def on_host(self, values: Sequence[Any]) -> Sequence[Any]:
        """All copies begin before the first is waited for."""
        return jax.device_get(list(values))


def convert_jax_array_to_npy(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """Convert positional and keyword arrays; other values pass. 0-d arrays become shape ``(1,)``."""
    return JaxArrays.convert(args, kwargs)


def to_device(array: jax.Array, like: object) -> Any:
    """An array of the host as one of JAX, of the type and in the place of ``like``; it shares no memory."""
    if isinstance(like, jax.Array) and jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        keys = jax.random.wrap_key_data(np.array(array), impl=jax.random.key_impl(like))
        return jax.device_put(keys, like.sharding)
    if not isinstance(like, jax.Array):
        return np.array(array, dtype=np.asarray(like).dtype)
    return jax.device_put(np.array(array, dtype=like.dtype), like.sharding)
