"""VGG-11 for volumes (after Simonyan & Zisserman 2015, "Very Deep Convolutional Networks", configuration A)."""

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.networks.layers import BatchNorm, channels_last, convolution, he_normal, linear, max_pool


class VGG3D(nnx.Module):
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
    rngs
        What the weights are drawn from.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64, *, rngs: nnx.Rngs) -> None:
        width = start_filts
        self.conv1, self.bn1 = _convolution(in_channels, width, rngs)
        self.conv2, self.bn2 = _convolution(width, 2 * width, rngs)
        self.conv3, self.bn3 = _convolution(2 * width, 4 * width, rngs)
        self.conv4, self.bn4 = _convolution(4 * width, 4 * width, rngs)
        self.conv5, self.bn5 = _convolution(4 * width, 8 * width, rngs)
        self.conv6, self.bn6 = _convolution(8 * width, 8 * width, rngs)
        self.conv7, self.bn7 = _convolution(8 * width, 8 * width, rngs)
        self.conv8, self.bn8 = _convolution(8 * width, 8 * width, rngs)
        self.fc1 = linear(8 * width, 8 * width, rngs)
        self.fc2 = linear(8 * width, n_outputs, rngs)

    def __call__(self, volumes: jax.Array) -> jax.Array:
        """Map volumes of shape (B, C, D, H, W) to (B, n_outputs)."""
        hidden = _pool(nnx.relu(self.bn1(self.conv1(channels_last(volumes, self.conv1)))))
        hidden = _pool(nnx.relu(self.bn2(self.conv2(hidden))))
        hidden = nnx.relu(self.bn3(self.conv3(hidden)))
        hidden = _pool(nnx.relu(self.bn4(self.conv4(hidden))))
        hidden = nnx.relu(self.bn5(self.conv5(hidden)))
        hidden = _pool(nnx.relu(self.bn6(self.conv6(hidden))))
        hidden = nnx.relu(self.bn7(self.conv7(hidden)))
        hidden = _pool(nnx.relu(self.bn8(self.conv8(hidden))))
        return self.fc2(nnx.relu(self.fc1(jnp.mean(hidden, (1, 2, 3)))))


def _convolution(in_channels: int, out_channels: int, rngs: nnx.Rngs) -> tuple[nnx.Conv, BatchNorm]:
    channels = (in_channels, out_channels)
    convolved = convolution(channels, (3, 3, 3), padding=1, bias=False, kernel=he_normal, rngs=rngs)
    return convolved, BatchNorm(out_channels, rngs=rngs)


def _pool(volumes: jax.Array) -> jax.Array:
    # an odd end is a window of its own: a volume never shrinks to nothing
    return max_pool(volumes, 2, padding="SAME")
