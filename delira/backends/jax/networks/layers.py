"""Layers with the arithmetic of PyTorch's: symmetric padding, its statistics of batch normalisation, its start.

They compute with channels last, as all of flax.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from delira.models.ready import by_axis, check_images

#: an initializer of flax
Start = Callable[..., jax.Array]


def channels_last(images: jax.Array, layer: nnx.Conv | None = None) -> jax.Array:
    """(B, C, *spatial) as (B, *spatial, C); refuses images that ``layer``, if it is given, does not take."""
    if layer is not None:  # flax takes axes too many for further samples
        check_images(images.shape, layer.in_features, len(layer.kernel_size))
    return jnp.moveaxis(images, 1, -1)


def channels_first(images: jax.Array) -> jax.Array:
    """(B, *spatial, C) as (B, C, *spatial)."""
    return jnp.moveaxis(images, -1, 1)


def convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    rngs: nnx.Rngs,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    n_axes: int = 2,
    start: str | float | None = None,
) -> nnx.Conv:
    """A convolution.

    Parameters
    ----------
    channels
        How many come in and go out.
    size
        Entries of the kernel: one number for all axes, or one for each, as ``stride`` and ``padding``.
    rngs
        What the weights are drawn from.
    stride
        Step along each axis.
    padding
        Zeros at both ends of each axis.
    n_axes
        2 for images, 3 for volumes.
    start
        Of the kernel: ``"xavier"``; ``"he"`` or a standard deviation, both without a bias; PyTorch's default if
        ``None``.
    """
    sizes, ends = by_axis(size, n_axes), tuple((zeros, zeros) for zeros in by_axis(padding, n_axes))
    weights = _weights(channels[0] * math.prod(sizes), start)
    return nnx.Conv(*channels, sizes, stride, padding=ends, rngs=rngs, **weights)


def transposed_convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    rngs: nnx.Rngs,
    stride: int | tuple[int, ...] = 1,
    n_axes: int = 2,
    start: str | float | None = None,
) -> nnx.ConvTranspose:
    """A transposed convolution whose output has ``stride`` times the size of its input.

    It is the gradient of :func:`convolution` by its input, as PyTorch's and Keras'.

    Parameters
    ----------
    channels
        How many come in and go out.
    size
        Entries of the kernel along each axis.
    rngs
        What the weights are drawn from.
    stride
        Step along each axis; with 1 nothing is cut off, and ``size - 1`` entries come to each axis.
    n_axes, start
        As for :func:`convolution`.
    """
    sizes = by_axis(size, n_axes)
    ends = []  # of the input with gaps
    for length, step in zip(sizes, by_axis(stride, n_axes), strict=True):
        cut_off = (length - step) // 2 if step > 1 else 0
        ends.append((length - 1 - cut_off,) * 2)
    weights = _weights(channels[1] * math.prod(sizes), start)  # PyTorch counts the outputs here
    return nnx.ConvTranspose(*channels, sizes, stride, padding=tuple(ends), transpose_kernel=True, rngs=rngs, **weights)


def linear(n_inputs: int, n_outputs: int, rngs: nnx.Rngs) -> nnx.Linear:
    """A fully connected layer whose weights start as PyTorch's do."""
    start = drawn("uniform", -(n_inputs**-0.5), n_inputs**-0.5)
    return nnx.Linear(n_inputs, n_outputs, kernel_init=start, bias_init=start, rngs=rngs)


class BatchNorm(nnx.BatchNorm):
    """Batch normalisation; its kept variance is, as PyTorch's, an estimate of that of the data.

    flax keeps the variance of a batch, which is (n - 1) / n times that for n values.

    Parameters
    ----------
    n_channels
        Channels, which are the last axis.
    rngs
        What the weights are drawn from.
    n_axes
        2 for images, 3 for volumes: it is the same for both.
    deviation
        Standard deviation of the scale, which starts around 1; None: it is 1.
    """

    def __init__(self, n_channels: int, *, rngs: nnx.Rngs, n_axes: int = 2, deviation: float | None = None) -> None:
        start = {} if deviation is None else {"scale_init": drawn("normal", 1.0, deviation)}
        # the fast variance, E[x^2] - E[x]^2, loses the digits that a large mean takes
        super().__init__(n_channels, momentum=0.9, epsilon=1e-5, use_fast_variance=False, rngs=rngs, **start)

    def __call__(
        self, x: jax.Array, use_running_average: bool | None = None, *, mask: jax.Array | None = None
    ) -> jax.Array:
        """Normalise ``x`` of shape (B, ..., n_channels), and in training keep its statistics."""
        if self.use_running_average if use_running_average is None else use_running_average:
            return super().__call__(x, True, mask=mask)
        kept = self.momentum * self.var[...]
        normalised = super().__call__(x, False, mask=mask)
        moved, n_values = self.var[...], x.size // x.shape[-1]
        self.var[...] = moved + (moved - kept) / max(n_values - 1, 1)
        return normalised


def instance_norm(n_channels: int, *, rngs: nnx.Rngs, n_axes: int = 2) -> nnx.Module:
    """Normalisation of every channel of every image by itself, with a scale and a bias."""
    return nnx.InstanceNorm(n_channels, epsilon=1e-5, use_fast_variance=False, rngs=rngs)


def channel_dropout(rate: float, *, rngs: nnx.Rngs, n_axes: int = 2) -> nnx.Module:
    """Dropout of whole channels."""
    return nnx.Dropout(rate, broadcast_dims=tuple(range(1, n_axes + 1)), rngs=rngs)


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """A function between layers, by its name."""
    return {"leaky_relu": nnx.leaky_relu, "relu": nnx.relu, "silu": nnx.silu}[name]  # leaky with a slope of 0.01


def max_pool(images: jax.Array, size: int, *, stride: int = 2, padding: str | int = "VALID") -> jax.Array:
    """Largest entries of windows of (B, *spatial, C).

    Parameters
    ----------
    images
        What is pooled.
    size
        Entries of a window along each axis.
    stride
        Step along each axis.
    padding
        ``"VALID"``: a window that is not full is left out; ``"SAME"``: it counts; or entries at both ends of each axis.
    """
    n_axes = images.ndim - 2
    ends = [(padding, padding)] * n_axes if isinstance(padding, int) else padding
    return nnx.max_pool(images, (size,) * n_axes, (stride,) * n_axes, ends)


batch_norm, listed = BatchNorm, nnx.List
relu, tanh, reshape = nnx.relu, jnp.tanh, jnp.reshape
leaky_relu = functools.partial(nnx.leaky_relu, negative_slope=0.2)


def convolve(layer: nnx.Conv, images: jax.Array) -> jax.Array:
    """Apply a convolution, which pads the images itself."""
    return layer(images)


def mean(images: jax.Array) -> jax.Array:
    """The mean over all positions, shape (B, C)."""
    return jnp.mean(images, tuple(range(1, images.ndim - 1)))


def doubled(images: jax.Array) -> jax.Array:
    """Images with every entry twice along each spatial axis."""
    for axis in range(1, images.ndim - 1):
        images = jnp.repeat(images, 2, axis)
    return images


def grown(images: jax.Array, like: jax.Array) -> jax.Array:
    """Images with zeros at the ends of spatial axes that are shorter than those of others."""
    missing = [(0, wanted - there) for wanted, there in zip(like.shape[1:-1], images.shape[1:-1], strict=True)]
    return jnp.pad(images, [(0, 0), *missing, (0, 0)])


def cut(images: jax.Array, like: jax.Array) -> jax.Array:
    """Images without the ends of spatial axes that are longer than those of others."""
    return images[(slice(None), *map(slice, like.shape[1:-1]))]


def side_by_side(*images: jax.Array) -> jax.Array:
    """The channels of all images beside each other."""
    return jnp.concatenate(images, -1)


def _weights(fan: int, start: str | float | None) -> dict[str, Any]:
    """How a kernel starts, and its bias if it has one; PyTorch's default, by the entries that go into one, if None."""
    if start is None:
        bound = 1 / math.sqrt(fan)
        return dict.fromkeys(("kernel_init", "bias_init"), drawn("uniform", -bound, bound))
    if isinstance(start, float):
        return {"kernel_init": drawn("normal", 0.0, start), "use_bias": False}
    return {"kernel_init": {"he": he_normal, "xavier": xavier_normal}[start], "use_bias": start == "xavier"}


def he_normal(
    key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32, out_sharding: object = None
) -> jax.Array:
    """Start of a convolution in front of a ReLU, by what goes out (He et al. 2015)."""
    return drawn("normal", 0.0, math.sqrt(2 / (shape[-1] * math.prod(shape[:-2]))))(key, shape, dtype)


def xavier_normal(
    key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32, out_sharding: object = None
) -> jax.Array:
    """Start of a convolution by what comes in and goes out (Glorot & Bengio 2010)."""
    return drawn("normal", 0.0, math.sqrt(2 / (sum(shape[-2:]) * math.prod(shape[:-2]))))(key, shape, dtype)


@functools.cache  # layers that are alike stay equal, so that a compiled function serves both
def drawn(kind: str, first: float, second: float) -> Start:
    """Start that is ``"uniform"`` between two numbers, or ``"normal"`` with a mean and a standard deviation."""

    def start(
        key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32, out_sharding: object = None
    ) -> jax.Array:
        if not isinstance(key, jax.core.Tracer):
            # jax.random compiles a program for every shape: seconds for a ResNet, of which numpy needs a tenth of one
            generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
            return jnp.asarray(getattr(generator, kind)(first, second, shape), dtype)
        if kind == "uniform":
            return jax.random.uniform(key, shape, dtype, first, second)
        return first + second * jax.random.normal(key, shape, dtype)

    return start
