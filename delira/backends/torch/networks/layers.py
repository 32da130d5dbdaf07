"""The layers of the ready networks. How they start is drawn when all of them are there, in the order of PyTorch."""

from torch import nn

_CONVOLUTIONS: dict[int, type[nn.Conv2d] | type[nn.Conv3d]] = {2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED: dict[int, type[nn.ConvTranspose2d] | type[nn.ConvTranspose3d]] = {
    2: nn.ConvTranspose2d,
    3: nn.ConvTranspose3d,
}


def convolution(
    channels: tuple[int, int],
    size: int,
    *,
    stride: int = 1,
    padding: int = 0,
    n_axes: int = 2,
    start: str | float | None = None,
) -> nn.Module:
    """A convolution; without a bias where ``start`` is ``"he"`` or a standard deviation."""
    has_bias = start in (None, "xavier")
    return _CONVOLUTIONS[n_axes](*channels, size, stride=stride, padding=padding, bias=has_bias)


def transposed_convolution(
    channels: tuple[int, int], size: int, *, stride: int = 1, n_axes: int = 2, start: str | float | None = None
) -> nn.Module:
    """A transposed convolution whose output has ``stride`` times the size of its input; with 1 nothing is cut off."""
    padding, has_bias = 0 if stride == 1 else (size - stride) // 2, start in (None, "xavier")
    return _TRANSPOSED[n_axes](*channels, size, stride=stride, padding=padding, bias=has_bias)


def batch_norm(n_channels: int, n_axes: int = 2, deviation: float | None = None) -> nn.Module:
    """Batch normalisation; how its scale starts with a ``deviation`` is drawn later."""
    return nn.BatchNorm2d(n_channels) if n_axes == 2 else nn.BatchNorm3d(n_channels)


linear = nn.Linear


def listed(layers: list[nn.Module]) -> nn.Module:
    """Layers one after the other; of none, one that passes on what it gets."""
    return nn.Sequential(*layers) if layers else nn.Identity()
