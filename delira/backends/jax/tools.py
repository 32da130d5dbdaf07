"""What JAX offers beside computing: traces of its profiler, a picture that learns."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from delira.state import State


def trace(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Scope that leaves a trace for TensorBoard and XProf."""
    return jax.profiler.trace(str(folder))


class FreeImage(nnx.Module):
    """A picture whose pixels are learned; see :attr:`delira.contract.Backend.free_image`."""

    keywords: ClassVar[dict[str, bool]] = {}

    def __init__(self, pixels: np.ndarray, compute: Callable[[jax.Array, State], jax.Array]):
        self.image, self.compute = nnx.Param(jnp.asarray(pixels)), compute

    def __call__(self, state: State) -> jax.Array:
        return self.compute(self.image[...], state)

    def make_optimizer(self) -> optax.GradientTransformation:
        """Return Adam with the rate 0.5."""
        return optax.adam(0.5)
