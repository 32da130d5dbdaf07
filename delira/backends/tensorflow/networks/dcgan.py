"""Generator and discriminator of DCGAN (Radford et al. 2016), for images of 64 x 64 pixels."""

from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.networks.layers import (
    Part,
    batch_norm,
    channels_first,
    channels_last,
    convolution,
    padded,
    transposed_convolution,
)
from delira.errors import DataError


class Generator(Part):
    """Images out of noise, by five transposed convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of.
    start_filts
        Channels in front of the last convolution; each one before has twice as many.
    """

    def __init__(self, n_channels: int, noise_length: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = transposed_convolution((noise_length, 8 * width), 4, **_start())
        self.bn1 = _batch_norm(8 * width)
        self.conv2 = transposed_convolution((8 * width, 4 * width), 4, stride=2, **_start())
        self.bn2 = _batch_norm(4 * width)
        self.conv3 = transposed_convolution((4 * width, 2 * width), 4, stride=2, **_start())
        self.bn3 = _batch_norm(2 * width)
        self.conv4 = transposed_convolution((2 * width, width), 4, stride=2, **_start())
        self.bn4 = _batch_norm(width)
        self.conv5 = transposed_convolution((width, n_channels), 4, stride=2, **_start())

    def call(self, noise: tf.Tensor) -> tf.Tensor:
        """Map noise of shape (B, noise_length) to images of shape (B, n_channels, 64, 64) in [-1, 1]."""
        hidden = noise[:, None, None, :]
        hidden = tf.nn.relu(self.bn1(self.conv1(hidden)))
        hidden = tf.nn.relu(self.bn2(self.conv2(hidden)))
        hidden = tf.nn.relu(self.bn3(self.conv3(hidden)))
        hidden = tf.nn.relu(self.bn4(self.conv4(hidden)))
        return channels_first(tf.tanh(self.conv5(hidden)))


class Discriminator(Part):
    """One logit for each image, high for real ones, by five convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    start_filts
        Channels behind the first convolution; each one after has twice as many.
    """

    def __init__(self, n_channels: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = convolution((n_channels, width), 4, stride=2, **_start())
        self.conv2 = convolution((width, 2 * width), 4, stride=2, **_start())
        self.bn2 = _batch_norm(2 * width)
        self.conv3 = convolution((2 * width, 4 * width), 4, stride=2, **_start())
        self.bn3 = _batch_norm(4 * width)
        self.conv4 = convolution((4 * width, 8 * width), 4, stride=2, **_start())
        self.bn4 = _batch_norm(8 * width)
        self.conv5 = convolution((8 * width, 1), 4, **_start())

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Map images of shape (B, n_channels, 64, 64) to logits of shape (B, 1)."""
        last = channels_last(images, self.conv1)
        if not images.shape[2:].is_compatible_with([64, 64]):
            height, width = images.shape[2:]
            raise DataError(f"the images are {height} x {width} pixels; DCGAN takes 64 x 64: resize them")
        hidden = tf.nn.leaky_relu(self.conv1(padded(last, 1)))
        hidden = tf.nn.leaky_relu(self.bn2(self.conv2(padded(hidden, 1))))
        hidden = tf.nn.leaky_relu(self.bn3(self.conv3(padded(hidden, 1))))
        hidden = tf.nn.leaky_relu(self.bn4(self.conv4(padded(hidden, 1))))
        return tf.reshape(self.conv5(hidden), [-1, 1])


def _start() -> dict[str, Any]:
    """Start of a convolution, as Radford et al. draw it."""
    return {"bias": False, "kernel": keras.initializers.RandomNormal(0.0, 0.02)}


def _batch_norm(n_channels: int) -> keras.layers.Layer:
    return batch_norm(n_channels, gamma_initializer=keras.initializers.RandomNormal(1.0, 0.02))
