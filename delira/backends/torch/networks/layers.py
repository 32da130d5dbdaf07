"""The layers of the ready networks. How they start is drawn when all of them are there, in the order of PyTorch."""

from collections.abc import Callable

from torch import nn

from delira.models.ready import by_axis

_CONVOLUTIONS: dict[int, Callable[..., nn.Module]] = {2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED: dict[int, Callable[..., nn.Module]] = {
    2: nn.ConvTranspose2d,
    3: nn.ConvTranspose3d,
}


def convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    n_axes: int = 2,
    start: str | float | None = None,
) -> nn.Module:
    """A convolution, of numbers for all axes or each; without a bias where ``start`` is ``"he"`` or a deviation."""
    has_bias = start in (None, "xavier")
    sizes, strides, ends = (by_axis(given, n_axes) for given in (size, stride, padding))
    return _CONVOLUTIONS[n_axes](*channels, sizes, stride=strides, padding=ends, bias=has_bias)


def transposed_convolution(
    channels: tuple[int, int],
    size: int | tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    n_axes: int = 2,
    start: str | float | None = None,
) -> nn.Module:
    """A transposed convolution whose output has ``stride`` times the size of its input; with 1 nothing is cut off."""
    sizes, strides, has_bias = by_axis(size, n_axes), by_axis(stride, n_axes), start in (None, "xavier")
    padding = tuple(0 if step == 1 else (length - step) // 2 for length, step in zip(sizes, strides, strict=True))
    return _TRANSPOSED[n_axes](*channels, sizes, stride=strides, padding=padding, bias=has_bias)


def batch_norm(n_channels: int, n_axes: int = 2, deviation: float | None = None) -> nn.Module:
    """Batch normalisation; how its scale starts with a ``deviation`` is drawn later."""
    return nn.BatchNorm2d(n_channels) if n_axes == 2 else nn.BatchNorm3d(n_channels)


def instance_norm(n_channels: int, n_axes: int = 2) -> nn.Module:
    """Normalisation of every channel of every image by itself, with a scale and a bias."""
    return (nn.InstanceNorm2d if n_axes == 2 else nn.InstanceNorm3d)(n_channels, affine=True)


def channel_dropout(rate: float, n_axes: int = 2) -> nn.Module:
    """Dropout of whole channels."""
    return nn.Dropout2d(rate) if n_axes == 2 else nn.Dropout3d(rate)


def activation(name: str) -> nn.Module:
    """A function between layers, by its name."""
    return {"leaky_relu": nn.LeakyReLU(0.01), "relu": nn.ReLU(), "silu": nn.SiLU()}[name]


linear = nn.Linear


def listed(layers: list[nn.Module]) -> nn.Module:
    """Layers one after the other; of none, one that passes on what it gets."""
    return nn.Sequential(*layers) if layers else nn.Identity()
