"""Where the axes of weights are in each framework, and in the portable form that all of them understand."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Layout:
    """What a framework makes of a weight, as opposed to its portable form, which is PyTorch's."""

    entry: str
    """Name of the weight in the portable form."""
    first: tuple[int, ...] = ()
    """The axes of the framework's array that come first in the portable one; the others follow in their order."""
    is_mirrored: bool = False
    """Whether kernels run in the other direction."""
    is_merged: bool = False
    """Whether the first two axes become one, with an axis of one entry behind it."""

    def to_portable(self, array: np.ndarray) -> np.ndarray:
        """Return the portable form of an array of the framework."""
        array = self._mirrored(np.moveaxis(array, self.first, range(len(self.first))))
        return array.reshape(-1, 1, *array.shape[2:]) if self.is_merged else array

    def from_portable(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return the framework's array, which has the given shape, of a portable one."""
        if self.is_merged:
            array = array.reshape(*(shape[axis] for axis in self.first), *array.shape[2:])
        return np.moveaxis(self._mirrored(array), range(len(self.first)), self.first)

    def _mirrored(self, array: np.ndarray) -> np.ndarray:
        return np.flip(array, tuple(range(2, array.ndim))) if self.is_mirrored else array


Layouts = Sequence[tuple[type | tuple[type, ...], Mapping[str, Layout]]]
"""Classes of layers, and the layouts of those of their weights that differ from the portable form."""


def renamed(**entries: str) -> dict[str, Layout]:
    """Layouts of weights that differ in nothing but their names, by those that the framework has."""
    return {own: Layout(entry) for own, entry in entries.items()}


def layout_of(layer: object, entry: str, layouts: Layouts) -> Layout:
    """The layout of one weight of a layer; one that nothing is said of is as it is.

    Parameters
    ----------
    layer
        The layer; None if nobody knows it.
    entry
        Name of the weight in the layer.
    layouts
        Those of the framework.
    """
    found = (known[entry] for kinds, known in layouts if isinstance(layer, kinds) and entry in known)
    return next(found, Layout(entry))
