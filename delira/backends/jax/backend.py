"""The backend of JAX."""

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from delira.backends.jax import (
    arrays,
    calls,
    checkpoints,
    devices,
    export,
    generators,
    natives,
    optimizers,
    step,
    weights,
)
from delira.backends.jax.schedules import SCHEDULES
from delira.contract import Backend, Defaults, roles_in
from delira.state import State


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


def mean_of(loss: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """The mean over a batch of a loss of optax, which is known by the name of what it wraps."""

    @functools.wraps(loss)
    def compute(prediction: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.mean(loss(prediction, target))

    return compute


class JaxBackend(Backend):
    """JAX, with networks of flax and optimizers of optax."""

    name = "jax"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractJaxNetwork"
    packages = ("jax", "flax", "optax")
    channels_last = True
    compiles = True
    schedules = SCHEDULES
    defaults = Defaults(
        network="delira.models.MultilayerPerceptronJax",
        losses={
            "classification": lambda: mean_of(optax.softmax_cross_entropy_with_integer_labels),
            "regression": lambda: mean_of(optax.squared_error),
        },
        optimizer_cls=optax.adam,
        rate="learning_rate",
    )
    free_image = FreeImage
    roles = roles_in(arrays, calls, checkpoints, devices, export, generators, natives, optimizers, step, weights)

    @staticmethod
    def trace(folder: Path) -> contextlib.AbstractContextManager[None]:
        """Scope that leaves a trace for TensorBoard and XProf."""
        return jax.profiler.trace(str(folder))


BACKEND = JaxBackend()
