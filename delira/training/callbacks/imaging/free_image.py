"""A picture as a module of each framework: its pixels are what is learned."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.state import State

#: a function of the pixels, of shape ``(1, c, h, w)`` or ``(1, h, w, c)``, and the state
Compute = Callable[[Any, State], Any]


def free_image(room: str, pixels: np.ndarray, compute: Compute) -> Any:
    """A module whose one weight, ``image``, are pixels; called with the state it returns a function of them.

    Parameters
    ----------
    room
        Name of the framework's room.
    pixels
        With which they begin, float32.
    compute
        The function. What it calls is no part of the module, and so not learned.

    Raises
    ------
    ConfigError
        If the room does not differentiate.
    """
    if room not in _MAKERS:
        raise ConfigError(f"ClassAppearanceModel needs gradients of the input, which the room {room!r} does not give")
    return _MAKERS[room](pixels, compute)


def adam(room: str, weights: list[Any]) -> Any:
    """Adam with the rate 0.5."""
    if room == "tensorflow":
        return sys.modules["keras"].optimizers.Adam(0.5)
    if room == "jax":
        return sys.modules["optax"].adam(0.5)
    return sys.modules["torch"].optim.Adam(weights, lr=0.5)


def _torch(pixels: np.ndarray, compute: Compute) -> Any:
    torch = sys.modules["torch"]

    class FreeImage(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.image = torch.nn.Parameter(torch.from_numpy(pixels))

        def forward(self, state: State) -> Any:
            return compute(self.image, state)

    return FreeImage()


def _keras(pixels: np.ndarray, compute: Compute) -> Any:
    keras = sys.modules["keras"]

    class FreeImage(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.image = self.add_weight(shape=pixels.shape, name="image")
            self.image.assign(pixels)
            self.built = True

        def call(self, state: State) -> Any:
            return compute(self.image.value, state)

    return FreeImage()


def _flax(pixels: np.ndarray, compute: Compute) -> Any:
    nnx, jnp = sys.modules["flax.nnx"], sys.modules["jax"].numpy

    class FreeImage(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.image = nnx.Param(jnp.asarray(pixels))

        def __call__(self, state: State) -> Any:
            return compute(self.image[...], state)

    return FreeImage()


_MAKERS: dict[str, Callable[[np.ndarray, Compute], Any]] = {"torch": _torch, "tensorflow": _keras, "jax": _flax}
