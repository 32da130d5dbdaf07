"""ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition"), for images of any size."""

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.networks.layers import (
    BatchNorm,
    channels_last,
    convolution,
    he_normal,
    linear,
    max_pool,
)


class ResNet18(nnx.Module):
    """Eight residual blocks of two 3x3 convolutions.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Numbers returned for each image.
    start_filts
        Channels of the first stage; each of the three others has twice as many as the one before.
    rngs
        What the weights are drawn from.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64, *, rngs: nnx.Rngs) -> None:
        width = start_filts
        self.conv1 = _convolution((in_channels, width), (7, 7), 2, rngs)
        self.bn1 = BatchNorm(width, rngs=rngs)
        self.layer1 = _stage(width, width, 1, rngs)
        self.layer2 = _stage(width, 2 * width, 2, rngs)
        self.layer3 = _stage(2 * width, 4 * width, 2, rngs)
        self.layer4 = _stage(4 * width, 8 * width, 2, rngs)
        self.fc = linear(8 * width, n_outputs, rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Map images of shape (B, C, H, W) to (B, n_outputs)."""
        hidden = nnx.relu(self.bn1(self.conv1(channels_last(images, self.conv1))))
        hidden = max_pool(hidden, 3, padding=1)
        for block in (*self.layer1, *self.layer2, *self.layer3, *self.layer4):
            hidden = block(hidden)
        return self.fc(jnp.mean(hidden, (1, 2)))


class ResidualBlock(nnx.Module):
    """Two convolutions beside a shortcut.

    Parameters
    ----------
    in_channels, out_channels
        Channels of what comes in and goes out.
    stride
        Step of the first convolution.
    rngs
        What the weights are drawn from.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, rngs: nnx.Rngs) -> None:
        self.conv1 = _convolution((in_channels, out_channels), (3, 3), stride, rngs)
        self.bn1 = BatchNorm(out_channels, rngs=rngs)
        self.conv2 = _convolution((out_channels, out_channels), (3, 3), 1, rngs)
        self.bn2 = BatchNorm(out_channels, rngs=rngs)
        self.downsample = nnx.List([])
        if stride != 1 or in_channels != out_channels:
            self.downsample.append(_convolution((in_channels, out_channels), (1, 1), stride, rngs))
            self.downsample.append(BatchNorm(out_channels, rngs=rngs))

    def __call__(self, hidden: jax.Array) -> jax.Array:
        """Map (B, H, W, in_channels) to (B, H / stride, W / stride, out_channels)."""
        residual = self.bn2(self.conv2(nnx.relu(self.bn1(self.conv1(hidden)))))
        for layer in self.downsample:
            hidden = layer(hidden)
        return nnx.relu(residual + hidden)


def _stage(in_channels: int, out_channels: int, stride: int, rngs: nnx.Rngs) -> nnx.List:
    first = ResidualBlock(in_channels, out_channels, stride, rngs)
    return nnx.List([first, ResidualBlock(out_channels, out_channels, 1, rngs)])


def _convolution(channels: tuple[int, int], size: tuple[int, int], stride: int, rngs: nnx.Rngs) -> nnx.Conv:
    padding = size[0] // 2
    return convolution(channels, size, stride=stride, padding=padding, bias=False, kernel=he_normal, rngs=rngs)
