"""Architectures of the ready networks, stated once for frameworks that compute with channels last.

Each class is the first base of its namesakes in the backends, whose second one is a module of the framework with the
layers of the backend as ``make``. ``**sources`` says where a layer draws its weights from, where it must be said.
"""

import itertools
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

from delira.errors import DataError
from delira.models.ready import check_modes
from delira.models.unet_plan import ByAxis, UNetPlan, check_depth

#: an array of the framework
Array = Any
Layer = Any


class Architecture:
    """What all architectures share: the layers of the backend, and layers one after the other."""

    make: ClassVar[ModuleType]

    def conv(self, layer: Layer, hidden: Array) -> Array:
        """Apply a convolution, and ReLU."""
        return self.make.relu(self.make.convolve(layer, hidden))

    def normalised(self, number: int, hidden: Array) -> Array:
        """Apply a convolution and the normalisation behind it, by their number."""
        return getattr(self, f"bn{number}")(self.make.convolve(getattr(self, f"conv{number}"), hidden))


class ResidualBlock(Architecture):
    """Two convolutions beside a shortcut.

    Parameters
    ----------
    in_channels, out_channels
        Channels of what comes in and goes out.
    stride
        Step of the first convolution.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, **sources: Any) -> None:
        super().__init__()
        make, start = self.make, {"start": "he", **sources}
        self.conv1 = make.convolution((in_channels, out_channels), 3, stride=stride, padding=1, **start)
        self.bn1 = make.batch_norm(out_channels, **sources)
        self.conv2 = make.convolution((out_channels, out_channels), 3, padding=1, **start)
        self.bn2 = make.batch_norm(out_channels, **sources)
        shortcut = []
        if stride != 1 or in_channels != out_channels:
            shortcut.append(make.convolution((in_channels, out_channels), 1, stride=stride, **start))
            shortcut.append(make.batch_norm(out_channels, **sources))
        self.downsample = make.listed(shortcut)

    def call(self, hidden: Array) -> Array:
        """Map (B, H, W, in_channels) to (B, H / stride, W / stride, out_channels)."""
        residual = self.normalised(2, self.make.relu(self.normalised(1, hidden)))
        for layer in self.downsample:
            hidden = layer(hidden)
        return self.make.relu(residual + hidden)


class ResNet18(Architecture):
    """ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition"), for images of any size.

    It has eight residual blocks of two 3x3 convolutions.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Numbers returned for each image.
    start_filts
        Channels of the first stage; each of the three others has twice as many as the one before.
    """

    block: ClassVar[type[ResidualBlock]]

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64, **sources: Any) -> None:
        super().__init__()
        make, width = self.make, start_filts
        self.conv1 = make.convolution((in_channels, width), 7, stride=2, padding=3, start="he", **sources)
        self.bn1 = make.batch_norm(width, **sources)
        for number, factor in enumerate((1, 2, 4, 8), 1):
            first = self.block(width, factor * start_filts, 1 if number == 1 else 2, **sources)
            width = factor * start_filts
            setattr(self, f"layer{number}", make.listed([first, self.block(width, width, 1, **sources)]))
        self.fc = make.linear(width, n_outputs, **sources)

    def call(self, images: Array) -> Array:
        """Map images of shape (B, C, H, W) to (B, n_outputs)."""
        hidden = self.make.relu(self.normalised(1, self.make.channels_last(images, self.conv1)))
        hidden = self.make.max_pool(hidden, 3, padding=1)
        for number in range(1, 5):
            for block in getattr(self, f"layer{number}"):
                hidden = block(hidden)
        return self.fc(self.make.mean(hidden))


class VGG3D(Architecture):
    """VGG-11 for volumes (after Simonyan & Zisserman 2015, "Very Deep Convolutional Networks", configuration A).

    Eight 3x3x3 convolutions with batch normalisation in five stages, then two fully connected layers. The mean over all
    positions stands in front of the latter, so that volumes may have any size.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Numbers returned for each volume.
    start_filts
        Channels of the first stage; the last two have eight times as many.
    """

    #: channels of what each convolution gives, by those of the first stage
    _widths = (1, 2, 4, 4, 8, 8, 8, 8)
    #: convolutions with a pooling behind them
    _pooled = (1, 2, 4, 6, 8)

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64, **sources: Any) -> None:
        super().__init__()
        make, before = self.make, in_channels
        for number, factor in enumerate(self._widths, 1):
            channels = (before, factor * start_filts)
            convolution = make.convolution(channels, 3, padding=1, n_axes=3, start="he", **sources)
            setattr(self, f"conv{number}", convolution)
            setattr(self, f"bn{number}", make.batch_norm(channels[1], n_axes=3, **sources))
            before = channels[1]
        self.fc1 = make.linear(before, before, **sources)
        self.fc2 = make.linear(before, n_outputs, **sources)

    def call(self, volumes: Array) -> Array:
        """Map volumes of shape (B, C, D, H, W) to (B, n_outputs)."""
        hidden = self.make.channels_last(volumes, getattr(self, "conv1"))  # noqa: B009 - set by its name
        for number in range(1, len(self._widths) + 1):
            hidden = self.make.relu(self.normalised(number, hidden))
            if number in self._pooled:  # an odd end is a window of its own: a volume never shrinks to nothing
                hidden = self.make.max_pool(hidden, 2, padding="SAME")
        return self.fc2(self.make.relu(self.fc1(self.make.mean(hidden))))


class MultilayerPerceptron(Architecture):
    """Fully connected layers with ReLU between them.

    Parameters
    ----------
    sizes
        Numbers that go in, those of each hidden layer, and those that come out.
    """

    def __init__(self, sizes: Sequence[int], **sources: Any) -> None:
        super().__init__()
        self.n_layers = len(sizes) - 1
        for number, (before, after) in enumerate(itertools.pairwise(sizes), 1):
            setattr(self, f"fc{number}", self.make.linear(before, after, **sources))

    def call(self, rows: Array) -> Array:
        """Map (B, n_features) to (B, n_outputs)."""
        for number in range(1, self.n_layers):
            rows = self.make.relu(getattr(self, f"fc{number}")(rows))
        return getattr(self, f"fc{self.n_layers}")(rows)


class DownConv(Architecture):
    """Two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out.
    """

    def __init__(self, n_axes: int, in_channels: int, out_channels: int, **sources: Any) -> None:
        super().__init__()
        start = {"padding": 1, "n_axes": n_axes, "start": "xavier", **sources}
        self.conv1 = self.make.convolution((in_channels, out_channels), 3, **start)
        self.conv2 = self.make.convolution((out_channels, out_channels), 3, **start)

    def call(self, hidden: Array) -> Array:
        """Map (B, *spatial, in_channels) to (B, *spatial, out_channels)."""
        return self.conv(self.conv2, self.conv(self.conv1, hidden))


class UpConv(Architecture):
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

    def __init__(
        self, n_axes: int, in_channels: int, out_channels: int, up_mode: str, merge_mode: str, **sources: Any
    ) -> None:
        super().__init__()
        channels, start = (in_channels, out_channels), {"n_axes": n_axes, "start": "xavier", **sources}
        self.upsamples, self.concatenates = up_mode == "upsample", merge_mode == "concat"
        if self.upsamples:
            # copies of entries and a 1x1 convolution can be exchanged, and so the latter has less to do
            self.upconv = self.make.convolution(channels, 1, **start)
        else:
            self.upconv = self.make.transposed_convolution(channels, 2, stride=2, **start)
        merged = out_channels * (2 if self.concatenates else 1)
        self.conv1 = self.make.convolution((merged, out_channels), 3, padding=1, **start)
        self.conv2 = self.make.convolution((out_channels, out_channels), 3, padding=1, **start)

    def call(self, hidden: Array, skip: Array) -> Array:
        """Map (B, *half, in_channels) and a level (B, *spatial, out_channels) to (B, *spatial, out_channels)."""
        hidden = self.make.convolve(self.upconv, hidden)
        # where the level has an odd size, pooling dropped its last entry
        hidden = self.make.grown(self.make.doubled(hidden) if self.upsamples else hidden, skip)
        hidden = self.make.side_by_side(hidden, skip) if self.concatenates else hidden + skip
        return self.conv(self.conv2, self.conv(self.conv1, hidden))


class UNet(Architecture):
    """U-Nets for images (Ronneberger et al. 2015) and volumes (Çiçek et al. 2016), with padded convolutions.

    They have levels of two convolutions, down with pooling and up again, each beside the level it came from.

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

    down: ClassVar[type[DownConv]]
    up: ClassVar[type[UpConv]]

    def __init__(
        self,
        n_axes: int,
        num_classes: int,
        in_channels: int,
        depth: int,
        start_filts: int,
        up_mode: str,
        merge_mode: str,
        **sources: Any,
    ) -> None:
        super().__init__()
        check_modes(up_mode, merge_mode)
        self.min_size = 2 ** (depth - 1)
        widths = [start_filts * 2**level for level in range(depth)]
        pairs = zip([in_channels, *widths[:-1]], widths, strict=True)
        self.down_convs = self.make.listed([self.down(n_axes, *channels, **sources) for channels in pairs])
        self.up_convs = self.make.listed(
            [self.up(n_axes, 2 * width, width, up_mode, merge_mode, **sources) for width in reversed(widths[:-1])]
        )
        self.conv_final = self.make.convolution((widths[0], num_classes), 1, n_axes=n_axes, start="xavier", **sources)

    def call(self, images: Array) -> Array:
        """Map (B, in_channels, *spatial) to logits of shape (B, num_classes, *spatial)."""
        hidden = self.make.channels_last(images, self.down_convs[0].conv1)
        if any(length is not None and length < self.min_size for length in images.shape[2:]):
            raise DataError(
                f"images of shape {list(images.shape[2:])} are too small: every axis needs at least {self.min_size} "
                "entries (2 ** (depth - 1)); pad them, or build the network with a smaller depth"
            )
        skips: list[Array] = []
        for level, down in enumerate(self.down_convs):
            hidden = down(hidden if level == 0 else self.make.max_pool(hidden, 2))
            skips.append(hidden)
        for level, up in enumerate(self.up_convs):
            hidden = up(hidden, skips[-2 - level])
        return self.make.channels_first(self.make.convolve(self.conv_final, hidden))


class ResidualUnit(Architecture):
    """Two convolutions with normalisation beside a shortcut, as in a ResNet (He et al. 2016).

    Parameters
    ----------
    channels
        How many come in and go out.
    kernel, stride
        Of the first convolution, by axis; the second has the same kernel.
    plan
        What else the units of the network share.
    """

    def __init__(
        self, channels: tuple[int, int], kernel: ByAxis, stride: ByAxis, plan: UNetPlan, **sources: Any
    ) -> None:
        super().__init__()
        make, axes = self.make, {"n_axes": plan.n_axes, **sources}
        normalisation = {"instance": make.instance_norm, "batch": make.batch_norm}[plan.norm]
        middle = tuple(length // 2 for length in kernel)
        start = {"start": "he", **axes}
        self.conv1 = make.convolution(channels, kernel, stride=stride, padding=middle, **start)
        self.norm1 = normalisation(channels[1], **axes)
        self.conv2 = make.convolution((channels[1], channels[1]), kernel, padding=middle, **start)
        self.norm2 = normalisation(channels[1], **axes)
        shortcut = []
        if channels[0] != channels[1] or max(stride) > 1:
            shortcut.append(make.convolution(channels, 1, stride=stride, **start))
            shortcut.append(normalisation(channels[1], **axes))
        self.shortcut = make.listed(shortcut)
        self.dropout = make.listed([make.channel_dropout(plan.dropout, **axes)] if plan.dropout else [])
        self.activate = make.activation(plan.activation)

    def call(self, hidden: Array) -> Array:
        """Map (B, *spatial, C) to (B, *strided, channels), the lengths divided by the stride and rounded up."""
        residual = self.activate(self.norm1(self.make.convolve(self.conv1, hidden)))
        for layer in self.dropout:
            residual = layer(residual)
        residual = self.norm2(self.make.convolve(self.conv2, residual))
        for layer in self.shortcut:
            hidden = layer(hidden)
        return self.activate(residual + hidden)


class ResidualDown(Architecture):
    """A level on the way down: residual units, of which the first is strided.

    Parameters
    ----------
    plan
        Of the network.
    level
        Number of the level, 0 for that of the images.
    """

    unit: ClassVar[type[ResidualUnit]]

    def __init__(self, plan: UNetPlan, level: int, **sources: Any) -> None:
        super().__init__()
        width, kernel, ones = plan.channels[level], plan.kernels[level], (1,) * plan.n_axes
        before, stride = (plan.channels[level - 1], plan.strides[level - 1]) if level else (plan.in_channels, ones)
        steps = [((before, width), stride), *[((width, width), ones)] * (plan.n_units[level] - 1)]
        self.units = self.make.listed([self.unit(channels, kernel, step, plan, **sources) for channels, step in steps])

    def call(self, hidden: Array) -> Array:
        """Map (B, *spatial, C) to (B, *strided, channels), the lengths divided by the stride and rounded up."""
        for unit in self.units:
            hidden = unit(hidden)
        return hidden


class ResidualUp(Architecture):
    """A level on the way up: a transposed convolution, beside the level it came from, and a residual unit.

    Parameters
    ----------
    plan, level
        As for the way down.
    """

    unit: ClassVar[type[ResidualUnit]]

    def __init__(self, plan: UNetPlan, level: int, **sources: Any) -> None:
        super().__init__()
        width, stride = plan.channels[level], plan.strides[level]
        start = {"n_axes": plan.n_axes, "start": "xavier", **sources}
        self.upconv = self.make.transposed_convolution(
            (plan.channels[level + 1], width), stride, stride=stride, **start
        )
        self.merge: Layer = self.unit((2 * width, width), plan.kernels[level], (1,) * plan.n_axes, plan, **sources)

    def call(self, hidden: Array, skip: Array) -> Array:
        """Map the deeper level, and this one (B, *spatial, C) of the way down, to (B, *spatial, C)."""
        # where a stride does not divide a length, the deeper level is that of a longer one
        return self.merge(self.make.side_by_side(self.make.cut(self.upconv(hidden), skip), skip))


class ResidualUNet(Architecture):
    """U-Nets of residual units with normalisation, strided convolutions, and outputs of several levels.

    As in Isensee et al. 2021 and 2024 ("nnU-Net", "nnU-Net Revisited"): more units on the way down than up, strides
    and kernels by level and axis. A length that the strides do not divide is rounded up on the way down and cut off
    on the way up.

    Parameters
    ----------
    plan
        What it is made of.
    """

    down: ClassVar[type[ResidualDown]]
    up: ClassVar[type[ResidualUp]]

    def __init__(self, plan: UNetPlan, **sources: Any) -> None:
        super().__init__()
        make, levels = self.make, range(len(plan.channels))
        self.reach = plan.reach
        self.downs = make.listed([self.down(plan, level, **sources) for level in levels])
        self.ups = make.listed([self.up(plan, level, **sources) for level in reversed(levels[:-1])])
        start = {"n_axes": plan.n_axes, "start": "xavier", **sources}
        heads = plan.channels[: 1 + plan.deep_supervision]
        self.heads = make.listed([make.convolution((width, plan.num_classes), 1, **start) for width in heads])

    def call(self, images: Array, n_scales: int) -> list[Array]:
        """Map (B, in_channels, *spatial) to logits of the first ``n_scales`` levels, each (B, num_classes, *level)."""
        hidden = self.make.channels_last(images, self.downs[0].units[0].conv1)
        check_depth(images.shape[2:], self.reach)
        skips: list[Array] = []
        for down in self.downs:
            hidden = down(hidden)
            skips.append(hidden)
        merged: list[Array] = []
        for step, up in enumerate(self.ups):
            hidden = up(hidden, skips[-2 - step])
            merged.append(hidden)
        wanted = zip(range(n_scales), self.heads, reversed(merged), strict=False)
        return [self.make.channels_first(self.make.convolve(head, level)) for _, head, level in wanted]


class Generator(Architecture):
    """Generator of DCGAN (Radford et al. 2016): images of 64 x 64 pixels out of noise, by transposed convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of.
    start_filts
        Channels in front of the last convolution; each one before has twice as many.
    """

    def __init__(self, n_channels: int, noise_length: int, start_filts: int = 64, **sources: Any) -> None:
        super().__init__()
        make, start = self.make, {"start": 0.02, **sources}
        widths = [noise_length, *(factor * start_filts for factor in (8, 4, 2, 1))]
        for number, channels in enumerate(itertools.pairwise(widths), 1):
            stride = 1 if number == 1 else 2
            setattr(self, f"conv{number}", make.transposed_convolution(channels, 4, stride=stride, **start))
            setattr(self, f"bn{number}", make.batch_norm(channels[1], deviation=0.02, **sources))
        self.conv5 = make.transposed_convolution((start_filts, n_channels), 4, stride=2, **start)

    def call(self, noise: Array) -> Array:
        """Map noise of shape (B, noise_length) to images of shape (B, n_channels, 64, 64) in [-1, 1]."""
        hidden = noise[:, None, None, :]
        for number in range(1, 5):
            hidden = self.make.relu(self.normalised(number, hidden))
        return self.make.channels_first(self.make.tanh(self.conv5(hidden)))


class Discriminator(Architecture):
    """Discriminator of DCGAN: one logit for each image of 64 x 64 pixels, high for real ones, by five convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    start_filts
        Channels behind the first convolution; each one after has twice as many.
    """

    def __init__(self, n_channels: int, start_filts: int = 64, **sources: Any) -> None:
        super().__init__()
        make, start = self.make, {"start": 0.02, **sources}
        halving = {"stride": 2, "padding": 1, **start}
        self.conv1 = make.convolution((n_channels, start_filts), 4, **halving)
        for number in range(2, 5):
            width = start_filts * 2 ** (number - 1)
            setattr(self, f"conv{number}", make.convolution((width // 2, width), 4, **halving))
            setattr(self, f"bn{number}", make.batch_norm(width, deviation=0.02, **sources))
        self.conv5 = make.convolution((8 * start_filts, 1), 4, **start)

    def call(self, images: Array) -> Array:
        """Map images of shape (B, n_channels, 64, 64) to logits of shape (B, 1)."""
        last = self.make.channels_last(images, self.conv1)
        if not _fits(images, (64, 64)):
            height, width = images.shape[2:]
            raise DataError(f"the images are {height} x {width} pixels; DCGAN takes 64 x 64: resize them")
        hidden = self.make.leaky_relu(self.make.convolve(self.conv1, last))
        for number in range(2, 5):
            hidden = self.make.leaky_relu(self.normalised(number, hidden))
        return self.make.reshape(self.make.convolve(self.conv5, hidden), (-1, 1))


class Encoder(Architecture):
    """Mean and logarithm of the variance of the latent variables of an image.

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        A quarter of their height and of their width.
    latent_dim
        Number of latent variables.
    start_filts
        Channels of the first convolution.
    """

    def __init__(
        self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int, **sources: Any
    ) -> None:
        super().__init__()
        make, halving = self.make, {"stride": 2, "padding": 1, **sources}
        self.conv1 = make.convolution((in_channels, start_filts), 4, **halving)
        self.conv2 = make.convolution((start_filts, 2 * start_filts), 4, **halving)
        self.image_size = (4 * size[0], 4 * size[1])
        self.n_features = 2 * start_filts * size[0] * size[1]
        self.mean = make.linear(self.n_features, latent_dim, **sources)
        self.log_var = make.linear(self.n_features, latent_dim, **sources)

    def call(self, images: Array) -> tuple[Array, Array]:
        """Map images of shape (B, in_channels, H, W) to two arrays of shape (B, latent_dim)."""
        last = self.make.channels_last(images, self.conv1)
        if not _fits(images, self.image_size):
            raise DataError(f"the images are {tuple(images.shape[2:])}, but the network takes {self.image_size}")
        hidden = self.conv(self.conv2, self.conv(self.conv1, last))
        hidden = self.make.reshape(self.make.channels_first(hidden), (-1, self.n_features))
        return self.mean(hidden), self.log_var(hidden)


class Decoder(Architecture):
    """Images out of latent variables.

    Parameters
    ----------
    in_channels, size, latent_dim, start_filts
        As in :class:`Encoder`.
    """

    def __init__(
        self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int, **sources: Any
    ) -> None:
        super().__init__()
        self.hidden_shape = (2 * start_filts, *size)
        self.fc = self.make.linear(latent_dim, 2 * start_filts * size[0] * size[1], **sources)
        self.conv1 = self.make.transposed_convolution((2 * start_filts, start_filts), 4, stride=2, **sources)
        self.conv2 = self.make.transposed_convolution((start_filts, in_channels), 4, stride=2, **sources)

    def call(self, latent: Array) -> Array:
        """Map latent variables of shape (B, latent_dim) to (B, in_channels, H, W)."""
        hidden = self.make.channels_last(self.make.reshape(self.make.relu(self.fc(latent)), (-1, *self.hidden_shape)))
        return self.make.channels_first(self.conv2(self.make.relu(self.conv1(hidden))))


def _fits(images: Array, size: tuple[int, int]) -> bool:
    """Return True if images have a size, as far as it is known where a program is traced."""
    return all(length in (None, wanted) for length, wanted in zip(images.shape[2:], size, strict=True))
