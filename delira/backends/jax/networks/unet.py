"""U-Nets for images (Ronneberger et al. 2015) and volumes (Çiçek et al. 2016), with padded convolutions."""

import functools

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.networks.layers import (
    channels_first,
    channels_last,
    convolution,
    max_pool,
    transposed_convolution,
    xavier_normal,
)
from delira.errors import DataError
from delira.models.ready import check_modes


class UNet(nnx.Module):
    """Levels of two convolutions, down with pooling and up again, each beside the level it came from.

    Parameters
    ----------
    n_axes
        2 for images, 3 for volumes.
    num_classes, in_channels
        Channels that go out and come in.
    depth
        Number of levels; every spatial axis needs at least ``2 ** (depth - 1)`` entries.
    start_filts
        Channels of the first level; each further one has twice as many.
    modes
        ``up_mode``, ``"transpose"``: transposed convolutions, or ``"upsample"``: every entry twice, and a 1x1
        convolution; and ``merge_mode``, ``"concat"``: channels side by side, or ``"add"``: sums.
    rngs
        What the weights are drawn from.
    """

    def __init__(
        self,
        n_axes: int,
        num_classes: int,
        in_channels: int,
        depth: int,
        start_filts: int,
        modes: tuple[str, str],
        rngs: nnx.Rngs,
    ) -> None:
        check_modes(*modes)
        self.min_size = 2 ** (depth - 1)
        widths = [start_filts * 2**level for level in range(depth)]
        self.down_convs = nnx.List(
            DownConv(n_axes, before, width, rngs)
            for before, width in zip([in_channels, *widths[:-1]], widths, strict=True)
        )
        self.up_convs = nnx.List(UpConv(n_axes, 2 * width, width, modes, rngs) for width in reversed(widths[:-1]))
        self.conv_final = convolution((widths[0], num_classes), (1,) * n_axes, kernel=xavier_normal, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        """Map (B, in_channels, *spatial) to logits of shape (B, num_classes, *spatial)."""
        hidden = channels_last(images, self.down_convs[0].conv1)
        if min(images.shape[2:]) < self.min_size:
            raise DataError(
                f"images of shape {list(images.shape[2:])} are too small: every axis needs at least {self.min_size} "
                "entries (2 ** (depth - 1)); pad them, or build the network with a smaller depth"
            )
        skips: list[jax.Array] = []
        for level, down in enumerate(self.down_convs):
            hidden = down(hidden if level == 0 else max_pool(hidden, 2))
            skips.append(hidden)
        for level, up in enumerate(self.up_convs):
            hidden = up(hidden, skips[-2 - level])
        return channels_first(self.conv_final(hidden))


class DownConv(nnx.Module):
    """Two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out.
    rngs
        What the weights are drawn from.
    """

    def __init__(self, n_axes: int, in_channels: int, out_channels: int, rngs: nnx.Rngs) -> None:
        make = functools.partial(convolution, size=(3,) * n_axes, padding=1, kernel=xavier_normal, rngs=rngs)
        self.conv1 = make((in_channels, out_channels))
        self.conv2 = make((out_channels, out_channels))

    def __call__(self, hidden: jax.Array) -> jax.Array:
        """Map (B, *spatial, in_channels) to (B, *spatial, out_channels)."""
        return nnx.relu(self.conv2(nnx.relu(self.conv1(hidden))))


class UpConv(nnx.Module):
    """Doubling of the resolution, merging with the level of that resolution, and two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out; the level has ``out_channels`` too.
    modes
        As in :class:`UNet`.
    rngs
        What the weights are drawn from.
    """

    def __init__(
        self, n_axes: int, in_channels: int, out_channels: int, modes: tuple[str, str], rngs: nnx.Rngs
    ) -> None:
        make = functools.partial(convolution, size=(3,) * n_axes, padding=1, kernel=xavier_normal, rngs=rngs)
        channels, start = (in_channels, out_channels), {"kernel": xavier_normal, "rngs": rngs}
        self.upsamples, self.concatenates = modes[0] == "upsample", modes[1] == "concat"
        if self.upsamples:
            # copies of entries and a 1x1 convolution can be exchanged, and so the latter has less to do
            self.upconv = convolution(channels, (1,) * n_axes, **start)
        else:
            self.upconv = transposed_convolution(channels, (2,) * n_axes, stride=2, **start)
        merged = out_channels * (2 if self.concatenates else 1)
        self.conv1 = make((merged, out_channels))
        self.conv2 = make((out_channels, out_channels))

    def __call__(self, hidden: jax.Array, skip: jax.Array) -> jax.Array:
        """Map (B, *half, in_channels) and a level (B, *spatial, out_channels) to (B, *spatial, out_channels)."""
        hidden = self.upconv(hidden)
        if self.upsamples:
            for axis in range(1, hidden.ndim - 1):
                hidden = jnp.repeat(hidden, 2, axis)
        # where the level has an odd size, pooling dropped its last entry
        missing = [(0, wanted - there) for wanted, there in zip(skip.shape[1:-1], hidden.shape[1:-1], strict=True)]
        hidden = jnp.pad(hidden, [(0, 0), *missing, (0, 0)])
        hidden = jnp.concatenate([hidden, skip], -1) if self.concatenates else hidden + skip
        return nnx.relu(self.conv2(nnx.relu(self.conv1(hidden))))
