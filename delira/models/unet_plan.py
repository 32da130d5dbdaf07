"""What a U-Net of residual units is made of, level by level: checked, and complete."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypedDict

from delira.errors import ConfigError, DataError, check_choice, check_numbers, check_that, check_whole

#: a number for each axis of an image
ByAxis = tuple[int, ...]

NORMS = ("instance", "batch")
ACTIVATIONS = ("leaky_relu", "relu", "silu")
_NAME = "ResidualUNet"


class UNetDetails(TypedDict, total=False):
    """The further keywords of a U-Net of residual units; :class:`UNetPlan` says what they mean."""

    kernels: int | Sequence[int | Sequence[int]]
    n_units: int | Sequence[int]
    activation: str
    dropout: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class UNetPlan:
    """The levels of a U-Net, from the images down; numbers that are one for all levels or axes are written out."""

    n_axes: int
    """2 for images, 3 for volumes."""
    num_classes: int
    """Number of classes, with the background."""
    in_channels: int = 1
    """Channels of the images."""
    channels: Sequence[int] = (32, 64, 128, 256, 320)
    """Channels of each level, which also says how many levels there are: at least two."""
    strides: Any = 2
    """How many entries of a level become one of the next: one number, or one for each step from a level to the next.
    A step is a number, or one for each axis: ``(1, 2, 2)`` keeps the slices of a volume apart."""
    kernels: Any = 3
    """Entries of the convolutions, odd: one number, or one for each level; of these each may be one for each axis."""
    n_units: Any = 2
    """Residual units of a level on the way down: one number, or one for each level. On the way up a level has one."""
    norm: str = "instance"
    """``"instance"``: every channel of every image by itself, whatever the batch; ``"batch"``: over the batch, with
    running statistics."""
    activation: str = "leaky_relu"
    """``"leaky_relu"`` (of slope 0.01), ``"relu"`` or ``"silu"``."""
    dropout: float = 0.0
    """Share of the channels that are dropped in each residual unit in training."""
    deep_supervision: int = 0
    """How many coarser levels learn by the losses, too: at most two less than there are levels."""

    def __post_init__(self) -> None:
        sizes = {"num_classes": self.num_classes, "in_channels": self.in_channels}
        check_whole(_NAME, at_least=1, **sizes)
        check_that(
            isinstance(self.channels, Sequence) and not isinstance(self.channels, str) and len(self.channels) >= 2,
            _NAME,
            "channels has a number for each level, of at least two",
            self.channels,
        )
        n_levels = len(self.channels)
        plain: dict[str, Any] = {
            **{name: int(value) for name, value in sizes.items()},
            "channels": _by_level("channels", tuple(self.channels), n_levels),
            "n_units": _by_level("n_units", self.n_units, n_levels),
            "strides": self._by_axis("strides", self.strides, n_levels - 1, "steps between levels"),
            "kernels": self._by_axis("kernels", self.kernels, n_levels, "levels"),
        }
        for kernel in itertools.chain(*plain["kernels"]):
            check_that(kernel % 2 == 1, _NAME, "kernels are odd, so that they have a middle", self.kernels)
        check_choice(_NAME, NORMS, norm=self.norm)
        check_choice(_NAME, ACTIVATIONS, activation=self.activation)
        check_numbers(_NAME, at_least=0, dropout=self.dropout)
        check_that(self.dropout < 1, _NAME, "dropout is below 1, as something must be left", self.dropout)
        check_whole(_NAME, at_least=0, deep_supervision=self.deep_supervision)
        if self.deep_supervision > n_levels - 2:
            raise ConfigError(
                f"{_NAME}: of {n_levels} levels at most {n_levels - 2} coarser ones can learn by the losses, got "
                f"deep_supervision={self.deep_supervision}; neither the first nor the last is one of them"
            )
        plain |= {"dropout": float(self.dropout), "deep_supervision": int(self.deep_supervision)}
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def _by_axis(self, name: str, given: Any, n_levels: int, of: str) -> tuple[ByAxis, ...]:
        """Numbers by level and axis."""
        entries = [given] * n_levels if isinstance(given, Integral) else given
        check_that(
            isinstance(entries, Sequence) and len(entries) == n_levels,
            _NAME,
            f"{name} is one whole number, or one for each of the {n_levels} {of}",
            given,
        )
        return tuple(_by_level(name, entry, self.n_axes, "axes") for entry in entries)

    @property
    def arguments(self) -> dict[str, Any]:
        """What a network of this plan is built with."""
        return {name: value for name, value in vars(self).items() if name != "n_axes"}

    @property
    def reach(self) -> ByAxis:
        """How many entries of an image are one of the deepest level, by axis."""
        return tuple(math.prod(lengths) for lengths in zip(*self.strides, strict=True))


def _by_level(name: str, given: Any, length: int, of: str = "levels") -> tuple[int, ...]:
    numbers = [given] * length if isinstance(given, Integral) else given
    check_that(
        isinstance(numbers, Sequence) and len(numbers) == length,
        _NAME,
        f"{name} has one whole number, or one for each of the {length} {of}",
        given,
    )
    for number in numbers:
        check_whole(_NAME, at_least=1, **{name: number})
    return tuple(map(int, numbers))


def check_depth(shape: Sequence[int | None], reach: ByAxis) -> None:
    """Refuse images of which the deepest level has a single entry, which normalisation makes zero.

    Parameters
    ----------
    shape
        Of an image without its channels; None: as long as it may be.
    reach
        See :attr:`UNetPlan.reach`.

    Raises
    ------
    DataError
        Naming both.
    """
    if all(length is not None and length <= stride for length, stride in zip(shape, reach, strict=True)):
        raise DataError(
            f"images of shape {list(shape)} are too small: the strides make one entry of {list(reach)}, and "
            "normalisation of a single entry leaves nothing of it; pad them, or build the network with fewer channels "
            "(levels) or smaller strides"
        )
