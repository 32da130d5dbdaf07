"""Generator and discriminator of DCGAN (Radford et al. 2016), for images of 64 x 64 pixels."""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.networks.layers import (
    BatchNorm,
    channels_first,
    channels_last,
    convolution,
    normal,
    transposed_convolution,
)
from delira.errors import DataError


class Generator(nnx.Module):
    """Images out of noise, by five transposed convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of.
    start_filts
        Channels in front of the last convolution; each one before has twice as many.
    rngs
        What the weights are drawn from.
    """

    def __init__(self, n_channels: int, noise_length: int, start_filts: int = 64, *, rngs: nnx.Rngs) -> None:
        width = start_filts
        make = functools.partial(transposed_convolution, bias=False, kernel=normal(0.0, 0.02), rngs=rngs)
        self.conv1 = make((noise_length, 8 * width), (4, 4))
        self.bn1 = _batch_norm(8 * width, rngs)
        self.conv2 = make((8 * width, 4 * width), (4, 4), stride=2, padding=1)
        self.bn2 = _batch_norm(4 * width, rngs)
        self.conv3 = make((4 * width, 2 * width), (4, 4), stride=2, padding=1)
        self.bn3 = _batch_norm(2 * width, rngs)
        self.conv4 = make((2 * width, width), (4, 4), stride=2, padding=1)
        self.bn4 = _batch_norm(width, rngs)
        self.conv5 = make((width, n_channels), (4, 4), stride=2, padding=1)

    def __call__(self, noise: jax.Array) -> jax.Array:
        """Map noise of shape (B, noise_length) to images of shape (B, n_channels, 64, 64) in [-1, 1]."""
        hidden = noise[:, None, None, :]
        hidden = nnx.relu(self.bn1(self.conv1(hidden)))
        hidden = nnx.relu(self.bn2(self.conv2(hidden)))
        hidden = nnx.relu(self.bn3(self.conv3(hidden)))
        hidden = nnx.relu(self.bn4(self.conv4(hidden)))
        return channels_first(jnp.tanh(self.conv5(hidden)))


class Discriminator(nnx.Module):
    """One logit for each image, high for real ones, by five convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    start_filts
        Channels behind the first convolution; each one after has twice as many.
    rngs
        What the weights are drawn from.
    """

    def __init__(self, n_channels: int, start_filts: int = 64, *, rngs: nnx.Rngs) -> None:
        width = start_filts
        make = functools.partial(convolution, bias=False, kernel=normal(0.0, 0.02), rngs=rngs)
        self.conv1 = make((n_channels, width), (4, 4), stride=2, padding=1)
        self.conv2 = make((width, 2 * width), (4, 4), stride=2, padding=1)
        self.bn2 = _batch_norm(2 * width, rngs)
        self.conv3 = make((2 * width, 4 * width), (4, 4), stride=2, padding=1)
        self.bn3 = _batch_norm(4 * width, rngs)
        self.conv4 = make((4 * width, 8 * width), (4, 4), stride=2, padding=1)
        self.bn4 = _batch_norm(8 * width, rngs)
        self.conv5 = make((8 * width, 1), (4, 4))

    def __call__(self, images: jax.Array) -> jax.Array:
        """Map images of shape (B, n_channels, 64, 64) to logits of shape (B, 1)."""
        last = channels_last(images, self.conv1)
        if images.shape[2:] != (64, 64):
            height, width = images.shape[2:]
            raise DataError(f"the images are {height} x {width} pixels; DCGAN takes 64 x 64: resize them")
        hidden = nnx.leaky_relu(self.conv1(last), 0.2)
        hidden = nnx.leaky_relu(self.bn2(self.conv2(hidden)), 0.2)
        hidden = nnx.leaky_relu(self.bn3(self.conv3(hidden)), 0.2)
        hidden = nnx.leaky_relu(self.bn4(self.conv4(hidden)), 0.2)
        return jnp.reshape(self.conv5(hidden), (-1, 1))


def _batch_norm(n_channels: int, rngs: nnx.Rngs) -> BatchNorm:
    return BatchNorm(n_channels, scale_init=normal(1.0, 0.02), rngs=rngs)
