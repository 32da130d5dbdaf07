"""ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition"), for images of any size."""

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


class ResNet18(Part):
    """Eight residual blocks of two 3x3 convolutions.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Numbers returned for each image.
    start_filts
        Channels of the first stage; each of the three others has twice as many as the one before.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = convolution((in_channels, width), 7, stride=2, bias=False, kernel=he_normal())
        self.bn1 = batch_norm(width)
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        self.fc = linear(8 * width, n_outputs)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Map images of shape (B, C, H, W) to (B, n_outputs)."""
        hidden = tf.nn.relu(self.bn1(self.conv1(padded(channels_last(images, self.conv1), 3))))
        hidden = tf.nn.max_pool2d(padded(hidden, 1), 3, 2, "VALID")  # behind the ReLU nothing is below the zeros
        for block in (*self.layer1, *self.layer2, *self.layer3, *self.layer4):
            hidden = block(hidden)
        return self.fc(tf.reduce_mean(hidden, [1, 2]))


class ResidualBlock(Part):
    """Two convolutions beside a shortcut.

    Parameters
    ----------
    in_channels, out_channels
        Channels of what comes in and goes out.
    stride
        Step of the first convolution.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution((in_channels, out_channels), 3, stride=stride, bias=False, kernel=he_normal())
        self.bn1 = batch_norm(out_channels)
        self.conv2 = convolution((out_channels, out_channels), 3, bias=False, kernel=he_normal())
        self.bn2 = batch_norm(out_channels)
        self.downsample: list[keras.layers.Layer] = []
        if stride != 1 or in_channels != out_channels:
            projection = convolution((in_channels, out_channels), 1, stride=stride, bias=False, kernel=he_normal())
            self.downsample = [projection, batch_norm(out_channels)]

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """Map (B, H, W, in_channels) to (B, H / stride, W / stride, out_channels)."""
        residual = tf.nn.relu(self.bn1(self.conv1(padded(hidden, 1))))
        residual = self.bn2(self.conv2(padded(residual, 1)))
        for layer in self.downsample:
            hidden = layer(hidden)
        return tf.nn.relu(residual + hidden)


def _stage(in_channels: int, out_channels: int, stride: int) -> list[ResidualBlock]:
    return [ResidualBlock(in_channels, out_channels, stride), ResidualBlock(out_channels, out_channels, 1)]
