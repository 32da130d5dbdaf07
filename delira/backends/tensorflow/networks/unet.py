"""U-Nets for images (Ronneberger et al. 2015) and volumes (Çiçek et al. 2016), with padded convolutions."""

import tensorflow as tf

from delira.backends.tensorflow.networks.layers import (
    Part,
    channels_first,
    channels_last,
    convolution,
    padded,
    transposed_convolution,
    xavier_normal,
)
from delira.errors import DataError
from delira.models.ready import check_modes


class UNet(Part):
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
    up_mode
        ``"transpose"``: transposed convolutions; ``"upsample"``: every entry twice, and a 1x1 convolution.
    merge_mode
        ``"concat"``: channels side by side; ``"add"``: sums.
    """

    def __init__(
        self,
        n_axes: int,
        num_classes: int,
        in_channels: int,
        depth: int,
        start_filts: int,
        up_mode: str,
        merge_mode: str,
    ) -> None:
        super().__init__()
        check_modes(up_mode, merge_mode)
        self.min_size = 2 ** (depth - 1)
        widths = [start_filts * 2**level for level in range(depth)]
        self.down_convs = [
            DownConv(n_axes, before, width) for before, width in zip([in_channels, *widths[:-1]], widths, strict=True)
        ]
        self.up_convs = [UpConv(n_axes, 2 * width, width, up_mode, merge_mode) for width in reversed(widths[:-1])]
        self.conv_final = convolution((widths[0], num_classes), 1, n_axes=n_axes, kernel=xavier_normal())

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Map (B, in_channels, *spatial) to logits of shape (B, num_classes, *spatial)."""
        hidden = channels_last(images, self.down_convs[0].conv1)
        spatial = images.shape[2:]
        if any(length is not None and length < self.min_size for length in spatial):
            raise DataError(
                f"images of shape {list(spatial)} are too small: every axis needs at least {self.min_size} "
                "entries (2 ** (depth - 1)); pad them, or build the network with a smaller depth"
            )
        skips = []
        for level, down in enumerate(self.down_convs):
            hidden = down(hidden if level == 0 else _pool(hidden))
            skips.append(hidden)
        for level, up in enumerate(self.up_convs):
            hidden = up(hidden, skips[-2 - level])
        return channels_first(self.conv_final(hidden))


class DownConv(Part):
    """Two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out.
    """

    def __init__(self, n_axes: int, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = convolution((in_channels, out_channels), 3, n_axes=n_axes, kernel=xavier_normal())
        self.conv2 = convolution((out_channels, out_channels), 3, n_axes=n_axes, kernel=xavier_normal())

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """Map (B, *spatial, in_channels) to (B, *spatial, out_channels)."""
        hidden = tf.nn.relu(self.conv1(padded(hidden, 1)))
        return tf.nn.relu(self.conv2(padded(hidden, 1)))


class UpConv(Part):
    """Doubling of the resolution, merging with the level of that resolution, and two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out; the level has ``out_channels`` too.
    up_mode, merge_mode
        As in :class:`UNet`.
    """

    def __init__(self, n_axes: int, in_channels: int, out_channels: int, up_mode: str, merge_mode: str) -> None:
        super().__init__()
        channels, start = (in_channels, out_channels), xavier_normal()
        self.upsamples = up_mode == "upsample"
        if self.upsamples:
            # copies of entries and a 1x1 convolution can be exchanged, and so the latter has less to do
            self.upconv = convolution(channels, 1, n_axes=n_axes, kernel=start)
        else:
            self.upconv = transposed_convolution(channels, 2, stride=2, n_axes=n_axes, kernel=start)
        self.concatenates = merge_mode == "concat"
        merged = out_channels * (2 if self.concatenates else 1)
        self.conv1 = convolution((merged, out_channels), 3, n_axes=n_axes, kernel=xavier_normal())
        self.conv2 = convolution((out_channels, out_channels), 3, n_axes=n_axes, kernel=xavier_normal())

    def call(self, hidden: tf.Tensor, skip: tf.Tensor) -> tf.Tensor:
        """Map (B, *half, in_channels) and a level (B, *spatial, out_channels) to (B, *spatial, out_channels)."""
        hidden = self.upconv(hidden)
        axes = range(1, hidden.shape.rank - 1)
        if self.upsamples:
            for axis in axes:
                hidden = tf.repeat(hidden, 2, axis)
        # where the level has an odd size, pooling dropped its last entry
        missing = [[0, tf.shape(skip)[axis] - tf.shape(hidden)[axis]] for axis in axes]
        hidden = tf.pad(hidden, [[0, 0], *missing, [0, 0]])
        hidden = tf.concat([hidden, skip], -1) if self.concatenates else hidden + skip
        hidden = tf.nn.relu(self.conv1(padded(hidden, 1)))
        return tf.nn.relu(self.conv2(padded(hidden, 1)))


def _pool(hidden: tf.Tensor) -> tf.Tensor:
    # by its own name: tf.nn.max_pool of volumes has no gradient outside a graph (TensorFlow 2.21)
    pool = tf.nn.max_pool2d if hidden.shape.rank == 4 else tf.nn.max_pool3d
    return pool(hidden, 2, 2, "VALID")
