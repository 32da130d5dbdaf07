"""VGG-11 for volumes (after Simonyan & Zisserman 2015, "Very Deep Convolutional Networks", configuration A)."""

import keras
import tensorflow as tf

from delira.backends.tensorflow.networks.layers import (
    Part,
    batch_norm,
    channels_last,
    convolution,
    he_normal,
    linear,
    padded,
)


class VGG3D(Part):
    """Eight 3x3x3 convolutions with batch normalisation in five stages, then two fully connected layers.

    The mean over all positions stands in front of the latter, so that volumes may have any size.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Numbers returned for each volume.
    start_filts
        Channels of the first stage; the last two have eight times as many.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1, self.bn1 = _convolution(in_channels, width)
        self.conv2, self.bn2 = _convolution(width, 2 * width)
        self.conv3, self.bn3 = _convolution(2 * width, 4 * width)
        self.conv4, self.bn4 = _convolution(4 * width, 4 * width)
        self.conv5, self.bn5 = _convolution(4 * width, 8 * width)
        self.conv6, self.bn6 = _convolution(8 * width, 8 * width)
        self.conv7, self.bn7 = _convolution(8 * width, 8 * width)
        self.conv8, self.bn8 = _convolution(8 * width, 8 * width)
        self.fc1 = linear(8 * width, 8 * width)
        self.fc2 = linear(8 * width, n_outputs)

    def call(self, volumes: tf.Tensor) -> tf.Tensor:
        """Map volumes of shape (B, C, D, H, W) to (B, n_outputs)."""
        hidden = _pool(tf.nn.relu(self.bn1(self.conv1(padded(channels_last(volumes, self.conv1), 1)))))
        hidden = _pool(tf.nn.relu(self.bn2(self.conv2(padded(hidden, 1)))))
        hidden = tf.nn.relu(self.bn3(self.conv3(padded(hidden, 1))))
        hidden = _pool(tf.nn.relu(self.bn4(self.conv4(padded(hidden, 1)))))
        hidden = tf.nn.relu(self.bn5(self.conv5(padded(hidden, 1))))
        hidden = _pool(tf.nn.relu(self.bn6(self.conv6(padded(hidden, 1)))))
        hidden = tf.nn.relu(self.bn7(self.conv7(padded(hidden, 1))))
        hidden = _pool(tf.nn.relu(self.bn8(self.conv8(padded(hidden, 1)))))
        return self.fc2(tf.nn.relu(self.fc1(tf.reduce_mean(hidden, [1, 2, 3]))))


def _convolution(in_channels: int, out_channels: int) -> tuple[keras.layers.Layer, keras.layers.Layer]:
    convolved = convolution((in_channels, out_channels), 3, n_axes=3, bias=False, kernel=he_normal())
    return convolved, batch_norm(out_channels)


def _pool(volumes: tf.Tensor) -> tf.Tensor:
    # an odd end is a window of its own: a volume never shrinks to nothing
    return tf.nn.max_pool3d(volumes, 2, 2, "SAME")
