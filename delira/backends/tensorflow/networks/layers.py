"""Layers with the arithmetic of PyTorch's: symmetric padding, its statistics of batch normalisation, its start.

They compute with channels last, which is what TensorFlow has on every device, and have their weights at once: the
channels that come in are an argument.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from delira.models.ready import by_axis, check_images

_CONVOLUTIONS = {2: keras.layers.Conv2D, 3: keras.layers.Conv3D}
_TRANSPOSED = {2: keras.layers.Conv2DTranspose, 3: keras.layers.Conv3DTranspose}
#: what has a kernel
CONVOLUTIONS = (*_CONVOLUTIONS.values(), *_TRANSPOSED.values())


class PointwiseConv2D(keras.layers.Conv2D):
    """A strided convolution of single pixels, which leaves out the others before it computes.

    The gradient of TensorFlow 2.21's own, with oneDNN and up to 8 channels, ends the process by a segmentation fault.
    """

    def convolution_op(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        thinned = inputs[:, :: self.strides[0], :: self.strides[1]]
        return keras.ops.conv(thinned, kernel, strides=1, padding="valid", data_format=self.data_format)


def channels_last(images: tf.Tensor, layer: keras.layers.Layer | None = None) -> tf.Tensor:
    """(B, C, *spatial) as (B, *spatial, C); refuses images that ``layer``, if it is given, does not take."""
    if layer is not None:
        check_images(images.shape, layer.kernel.shape[-2], len(layer.kernel.shape) - 2)
    return tf.transpose(images, [0, *range(2, images.shape.rank), 1])


def channels_first(images: tf.Tensor) -> tf.Tensor:
    """(B, *spatial, C) as (B, C, *spatial)."""
    return tf.transpose(images, [0, images.shape.rank - 1, *range(1, images.shape.rank - 1)])


def padded(images: tf.Tensor, width: int | tuple[int, ...], value: float = 0.0) -> tf.Tensor:
    """Images of shape (B, *spatial, C) with ``width`` more entries at both ends of each spatial axis.

    ``"same"`` pads the end only where a stride of 2 meets an even size; PyTorch does both ends always.
    """
    widths = by_axis(width, images.shape.rank - 2)
    if not any(widths):
        return images
    pads = [[0, 0], *[[one, one] for one in widths], [0, 0]]
    return tf.pad(images, pads, constant_values=tf.cast(value, images.dtype))


def convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    n_axes: int = 2,
    start: str | float | None = None,
) -> keras.layers.Layer:
    """A convolution with its weights, for :func:`convolve`: Keras cannot pad as PyTorch does.

    Parameters
    ----------
    channels
        How many come in and go out.
    size
        Entries of the kernel: one number for all axes, or one for each, as the two that follow.
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
    weights = _weights(channels[0] * math.prod(by_axis(size, n_axes)), start)
    is_pointwise = n_axes == 2 and max(by_axis(size, n_axes)) == 1 and max(by_axis(stride, n_axes)) > 1
    made = PointwiseConv2D if is_pointwise else _CONVOLUTIONS[n_axes]
    layer = made(channels[1], size, strides=stride, data_format="channels_last", **weights)
    layer.zeros = padding
    return _build(layer, (*[None] * n_axes, channels[0]))


def convolve(layer: keras.layers.Layer, images: tf.Tensor) -> tf.Tensor:
    """Apply a convolution to images with the zeros that belong around them."""
    return layer(padded(images, layer.zeros))


def transposed_convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    n_axes: int = 2,
    start: str | float | None = None,
) -> keras.layers.Layer:
    """A transposed convolution whose output has ``stride`` times the size of its input, with its weights.

    Parameters
    ----------
    channels
        How many come in and go out.
    size
        Entries of the kernel along each axis; even if the stride is 2.
    stride
        Step along each axis; with 1 nothing is cut off, and ``size - 1`` entries come to each axis.
    n_axes, start
        As for :func:`convolution`.
    """
    weights = _weights(channels[1] * math.prod(by_axis(size, n_axes)), start)  # PyTorch counts the outputs here
    padding = "valid" if stride == 1 else "same"
    layer = _TRANSPOSED[n_axes](
        channels[1], size, strides=stride, padding=padding, data_format="channels_last", **weights
    )
    layer.zeros = 0
    return _build(layer, (*[None] * n_axes, channels[0]))


def linear(n_inputs: int, n_outputs: int) -> keras.layers.Layer:
    """A fully connected layer with its weights, which start as PyTorch's do."""
    start = {"kernel_initializer": uniform(n_inputs**-0.5), "bias_initializer": uniform(n_inputs**-0.5)}
    return _build(keras.layers.Dense(n_outputs, **start), (n_inputs,))


def batch_norm(n_channels: int, n_axes: int = 2, deviation: float | None = None) -> keras.layers.Layer:
    """Batch normalisation with its weights, of any axes; its scale starts as 1, or around it with a deviation."""
    start = {} if deviation is None else {"gamma_initializer": keras.initializers.RandomNormal(1.0, deviation)}
    return _build(_BatchNorm(momentum=0.9, epsilon=1e-5, **start), (None, n_channels))


def instance_norm(n_channels: int, n_axes: int = 2) -> keras.layers.Layer:
    """Normalisation of every channel of every image by itself, with its weights."""
    return _build(keras.layers.GroupNormalization(groups=-1, epsilon=1e-5), (*[None] * n_axes, n_channels))


def channel_dropout(rate: float, n_axes: int = 2) -> keras.layers.Layer:
    """Dropout of whole channels."""
    layer = keras.layers.SpatialDropout2D if n_axes == 2 else keras.layers.SpatialDropout3D
    return layer(rate, data_format="channels_last")


def activation(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function between layers, by its name."""
    return {"leaky_relu": _slightly_leaky_relu, "relu": tf.nn.relu, "silu": tf.nn.silu}[name]


def _slightly_leaky_relu(images: tf.Tensor) -> tf.Tensor:
    return tf.nn.leaky_relu(images, 0.01)


@keras.saving.register_keras_serializable(package="delira", name="BatchNorm")
class _BatchNorm(keras.layers.BatchNormalization):
    """Keras keeps the variance of a batch, PyTorch an estimate of the variance of the data, n / (n - 1) times that."""

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)
        self.input_spec = None  # the weights fit images, volumes and vectors
        self._reduction_axes: list[int] = []

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None) -> tf.Tensor:
        self._reduction_axes = list(range(inputs.shape.rank - 1))
        if not (training and self.trainable):
            return super().call(inputs, training=training, mask=mask)
        kept = self.momentum * tf.convert_to_tensor(self.moving_variance)
        outputs = super().call(inputs, training=training, mask=mask)
        moved = tf.convert_to_tensor(self.moving_variance)
        n_values = tf.cast(tf.size(inputs) // tf.shape(inputs)[-1], moved.dtype)
        self.moving_variance.assign(moved + (moved - kept) / tf.maximum(n_values - 1, 1))
        return outputs


listed = list
relu, leaky_relu, tanh, reshape = tf.nn.relu, tf.nn.leaky_relu, tf.tanh, tf.reshape


def max_pool(images: tf.Tensor, size: int, *, padding: str | int = 0) -> tf.Tensor:
    """Largest entries of windows of (B, *spatial, C), at every other entry of each axis.

    Parameters
    ----------
    images
        What is pooled; nothing is below 0, if it is padded.
    size
        Entries of a window along each axis.
    padding
        ``"SAME"``: a window that is not full counts, too; or zeros at both ends of each axis.
    """
    # by its own name: tf.nn.max_pool of volumes has no gradient outside a graph (TensorFlow 2.21)
    pool = tf.nn.max_pool2d if images.shape.rank == 4 else tf.nn.max_pool3d
    if isinstance(padding, str):
        return pool(images, size, 2, padding)
    return pool(padded(images, padding), size, 2, "VALID")


def mean(images: tf.Tensor) -> tf.Tensor:
    """The mean over all positions, shape (B, C)."""
    return tf.reduce_mean(images, list(range(1, images.shape.rank - 1)))


def doubled(images: tf.Tensor) -> tf.Tensor:
    """Images with every entry twice along each spatial axis."""
    for axis in range(1, images.shape.rank - 1):
        images = tf.repeat(images, 2, axis)
    return images


def grown(images: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Images with zeros at the ends of spatial axes that are shorter than those of others."""
    missing = [[0, tf.shape(like)[axis] - tf.shape(images)[axis]] for axis in range(1, images.shape.rank - 1)]
    return tf.pad(images, [[0, 0], *missing, [0, 0]])


def cut(images: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Images without the ends of spatial axes that are longer than those of others."""
    lengths, found = like.shape, tf.shape(like)
    ends = [lengths[axis] or found[axis] for axis in range(1, images.shape.rank - 1)]
    return images[(slice(None), *[slice(end) for end in ends])]


def side_by_side(*images: tf.Tensor) -> tf.Tensor:
    """The channels of all images beside each other."""
    return tf.concat(images, -1)


def _weights(fan: int, start: str | float | None) -> dict[str, Any]:
    """How a kernel starts, and its bias if it has one; PyTorch's default, by the entries that go into one, if None."""
    if start is None:
        bound = 1 / math.sqrt(fan)
        return {"kernel_initializer": uniform(bound), "bias_initializer": uniform(bound)}
    if isinstance(start, float):
        return {"kernel_initializer": keras.initializers.RandomNormal(0.0, start), "use_bias": False}
    return {"kernel_initializer": {"he": he_normal, "xavier": xavier_normal}[start](), "use_bias": start == "xavier"}


def uniform(bound: float) -> keras.initializers.Initializer:
    """Start between ``-bound`` and ``bound``."""
    return keras.initializers.RandomUniform(-bound, bound)


def he_normal() -> keras.initializers.Initializer:
    """Start of a convolution in front of a ReLU, by what goes out (He et al. 2015)."""
    return keras.initializers.VarianceScaling(2.0, mode="fan_out", distribution="untruncated_normal")


def xavier_normal() -> keras.initializers.Initializer:
    """Start of a convolution by what comes in and goes out (Glorot & Bengio 2010)."""
    return keras.initializers.VarianceScaling(1.0, mode="fan_avg", distribution="untruncated_normal")


def _build(layer: keras.layers.Layer, shape: tuple[int | None, ...]) -> keras.layers.Layer:
    layer.build((None, *shape))
    return layer
