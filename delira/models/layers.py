"""What layers compute with besides weights, and where the axes of their weights are, in the words of every backend."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Settings = dict[str, Any]
"""Names of settings and plain values; ``"padding"`` as :func:`conv_settings` has it."""


def conv_settings(
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: object,
    *,
    is_transposed: bool = False,
) -> Settings:
    """Settings of a convolution.

    Parameters
    ----------
    kernel, strides, dilation
        By axis.
    padding
        ``"same"``, ``"valid"``, ``"causal"``, or pairs by axis: what is added before and after the image, or, of a
        transposed convolution, what is cut off its result.
    is_transposed
        Whether it is a transposed convolution.
    """
    word = padding.lower() if isinstance(padding, str) else None
    pairs: Any = padding
    if word == "valid":
        pairs = [(0, 0)] * len(kernel)
    elif word is not None:
        sizes = zip(kernel, strides, dilation, strict=True)
        pairs = [_added(word, *size, is_transposed) for size in sizes]
    known = pairs if pairs is None or None in pairs else tuple((int(low), int(high)) for low, high in pairs)
    ends = f'"{word}" with strides' if known is not None and None in known else known
    settings = {"strides": tuple(map(int, strides)), "dilation": tuple(map(int, dilation))}
    return {**settings, "padding": (word not in (None, "valid"), ends)}


def _added(word: str, size: int, stride: int, dilation: int, is_transposed: bool) -> tuple[int, int] | None:
    """Return what is added before and after an axis; ``None`` if that depends on its length."""
    reach = (size - 1) * dilation + 1
    if is_transposed:
        cut = max(reach - stride, 0)
        return cut // 2, cut - cut // 2
    if word == "causal":
        return reach - 1, 0
    if stride == 1 or reach == 1:
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    return None


def differences(source: Mapping[str, Any], target: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that both have, and that differ, each with both values.

    Explicit padding is compared only with padding by a word: layers of their own may add the rest.
    """
    found = []
    for name in source.keys() & target.keys():
        ours, theirs = source[name], target[name]
        if name == "padding":
            (is_word, ours), (is_other_word, theirs) = ours, theirs
            if not is_word and not is_other_word:
                continue
        is_close = isinstance(ours, float) and isinstance(theirs, float) and math.isclose(ours, theirs, rel_tol=1e-3)
        if ours is not None and theirs is not None and ours != theirs and not is_close:
            found.append((name, ours, theirs))
    return sorted(found)


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
