"""U-Nets for images (Ronneberger et al. 2015) and volumes (Çiçek et al. 2016), with padded convolutions."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.networks.images import check_images
from delira.errors import DataError
from delira.models.ready import check_modes

#: axes -> convolution, transposed convolution, pooling
_LAYERS: dict[int, tuple[Any, Any, Any]] = {
    2: (nn.Conv2d, nn.ConvTranspose2d, nn.MaxPool2d),
    3: (nn.Conv3d, nn.ConvTranspose3d, nn.MaxPool3d),
}


class UNet(nn.Module):
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
        self.in_channels, self.n_axes = in_channels, n_axes
        self.min_size = 2 ** (depth - 1)
        widths = [start_filts * 2**level for level in range(depth)]
        self.pool = _LAYERS[n_axes][2](2)
        self.down_convs = nn.ModuleList(
            DownConv(n_axes, before, width) for before, width in zip([in_channels, *widths[:-1]], widths, strict=True)
        )
        self.up_convs = nn.ModuleList(
            UpConv(n_axes, 2 * width, width, up_mode, merge_mode) for width in reversed(widths[:-1])
        )
        self.conv_final = _LAYERS[n_axes][0](widths[0], num_classes, 1)
        self.apply(init_xavier)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *spatial) to logits of shape (B, num_classes, *spatial)."""
        check_images(images, self.in_channels, self.n_axes)
        if min(images.shape[2:]) < self.min_size:
            raise DataError(
                f"images of shape {list(images.shape[2:])} are too small: every axis needs at least {self.min_size} "
                "entries (2 ** (depth - 1)); pad them, or build the network with a smaller depth"
            )
        skips: list[torch.Tensor] = []
        hidden = images
        for level, down in enumerate(self.down_convs):
            hidden = down(hidden if level == 0 else self.pool(hidden))
            skips.append(hidden)
        for level, up in enumerate(self.up_convs):
            hidden = up(hidden, skips[-2 - level])
        return self.conv_final(hidden)


class DownConv(nn.Module):
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
        convolution = _LAYERS[n_axes][0]
        self.conv1 = convolution(in_channels, out_channels, 3, padding=1)
        self.conv2 = convolution(out_channels, out_channels, 3, padding=1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *spatial) to (B, out_channels, *spatial)."""
        return functional.relu(self.conv2(functional.relu(self.conv1(hidden))))


class UpConv(nn.Module):
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
        convolution, transposed, _ = _LAYERS[n_axes]
        self.upsample: nn.Module = nn.Identity()
        if up_mode == "transpose":
            self.upconv = transposed(in_channels, out_channels, 2, stride=2)
        else:
            # copies of entries and a 1x1 convolution can be exchanged, and so the latter has less to do
            self.upconv = convolution(in_channels, out_channels, 1)
            self.upsample = nn.Upsample(scale_factor=2.0, mode="nearest")
        self.concatenates = merge_mode == "concat"
        self.conv1 = convolution(out_channels * (2 if self.concatenates else 1), out_channels, 3, padding=1)
        self.conv2 = convolution(out_channels, out_channels, 3, padding=1)

    def forward(self, hidden: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *half) and a level (B, out_channels, *spatial) to (B, out_channels, *spatial)."""
        hidden = self.upsample(self.upconv(hidden))
        missing: list[int] = []  # where the level has an odd size, pooling dropped its last entry
        for axis in range(hidden.dim() - 1, 1, -1):
            missing += [0, skip.size(axis) - hidden.size(axis)]
        hidden = functional.pad(hidden, missing)
        hidden = torch.cat([hidden, skip], 1) if self.concatenates else hidden + skip
        return functional.relu(self.conv2(functional.relu(self.conv1(hidden))))


def init_xavier(module: nn.Module) -> None:
    """Draw the weights of a convolution as Glorot & Bengio 2010 do, biases 0; other modules stay as they are."""
    if isinstance(module, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        nn.init.xavier_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
