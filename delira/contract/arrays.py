"""The role of a backend that turns its arrays into numpy's, joins and copies them; batches of arrays alone."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from delira.contract.kinds import Array, ByName, Role, Tree
from delira.errors import NetworkError
from delira.utils.arrays import map_leaves, ops_of


class ArraysRole(Role):
    """Arrays on their way to the host. In the plain case they are numpy's."""

    role = "arrays"

    kinds: ClassVar[tuple[type[Any], ...]] = ()
    """Classes of the framework's arrays."""

    number: ClassVar[str] = "a loss or training metric"
    """What single numbers are."""

    single: ClassVar[str] = ""
    """What a user does whose loss is no single number, as the end of a sentence."""

    @staticmethod
    def array(value: Tree) -> Any:
        """An array of the framework as one of numpy on the host; other values as they are."""
        return value

    @staticmethod
    def join(arrays: Sequence[Any]) -> Any:
        """Arrays of the framework as one, along the samples."""
        return ops_of(arrays[0]).concatenate(arrays)

    @classmethod
    def to_numpy(cls, tree: Tree) -> Any:
        """Turn every tensor of a nested structure into a numpy array on the host."""
        return map_leaves(cls.array, tree) if cls.kinds else tree

    @classmethod
    def convert(cls, args: Sequence[Any], kwargs: ByName) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named trees in numpy, in which arrays without axes have the shape ``(1,)``."""

        def convert(value: Tree) -> Any:
            array = cls.array(value)
            return array.reshape(1) if isinstance(value, cls.kinds) and array.ndim == 0 else array

        return [map_leaves(convert, value) for value in args], {k: map_leaves(convert, v) for k, v in kwargs.items()}

    @classmethod
    def concatenate(cls, trees: Sequence[Any]) -> Any:
        """One tree of arrays out of those of the parts of a batch, along the samples; the rest is that of the last.

        A prepared batch is cut by ``array[start:stop]``; ``len(array)`` is its number of samples, and what has
        ``shape == ()`` is not cut.
        """
        last = trees[-1]
        if isinstance(last, Mapping):
            return {key: cls.concatenate([tree[key] for tree in trees]) for key in last}
        if isinstance(last, (list, tuple)):
            parts = [cls.concatenate(entries) for entries in zip(*trees, strict=True)]
            return type(last)(*parts) if hasattr(last, "_fields") else type(last)(parts)
        if isinstance(last, np.ndarray):
            return np.concatenate(trees) if last.ndim else last
        return cls.join(list(trees)) if isinstance(last, cls.kinds) and last.ndim else last

    def read_scalars(self, values: Sequence[Any]) -> np.ndarray:
        """Bring many single values to the host at once, as float64 of shape ``(len(values),)``."""
        if wrong := [shape for value in values if math.prod(shape := tuple(getattr(value, "shape", ()))) != 1]:
            raise NetworkError(
                f"{self.number} has the shape {wrong[0]}; the closure returns single numbers{self.single}"
            )
        return read_numbers(self.on_host(values))

    def on_host(self, values: Sequence[Any]) -> Sequence[Any]:
        """Single values brought to the host at once, where that is faster than one by one."""
        return values

    def snapshot(self, tree: Tree, previous: Any = None) -> Any:
        """A copy of a checkpoint tree on the host that later training cannot change.

        ``previous`` is a snapshot that is no longer needed; its memory may be used again.
        """
        return copy.deepcopy(tree)

    def nonfinite(self, weights: ByName) -> list[str]:
        """Names of the weights that hold an infinite value or none that is a number."""
        arrays = self.to_numpy(dict(weights))
        with np.errstate(over="ignore", invalid="ignore"):  # a sum is fast, and finite only if all of it is
            suspects = [name for name, array in arrays.items() if not np.isfinite(np.sum(array))]
        return [name for name in suspects if not np.isfinite(arrays[name]).all()]


def read_numbers(values: Sequence[Any]) -> np.ndarray:
    """Numbers of the host, and arrays with one each, as float64 of shape ``(len(values),)``.

    Raises
    ------
    NetworkError
        If a value is no real number, such as a text, a tuple or None.
    """
    numbers = [value.item() if hasattr(value, "item") else value for value in values]
    return np.array([one if isinstance(one, (int, float)) else _as_float(one) for one in numbers], dtype=np.float64)


def _as_float(value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise NetworkError(
        f"a loss or training metric is a {type(value).__name__}, {value!r:.60}; the closure returns single real numbers"
    )


def only_arrays(tree: Tree, convert: Callable[[Array], Any], *, keeps_empty: bool = True) -> Any:
    """A tree without the leaves of which ``convert`` makes None, and without lists that hold any; None if it is one.

    Parameters
    ----------
    tree
        A batch, or a part of one.
    convert
        Makes an array of a leaf, or None.
    keeps_empty
        Whether dictionaries and lists in which nothing is left stay.
    """
    if isinstance(tree, Mapping):
        found = {key: only_arrays(value, convert, keeps_empty=keeps_empty) for key, value in tree.items()}
        kept: Any = {key: value for key, value in found.items() if value is not None}
    elif isinstance(tree, (list, tuple)):
        items = [only_arrays(item, convert, keeps_empty=keeps_empty) for item in tree]
        if any(item is None for item in items):
            return None
        kept = type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    else:
        return convert(tree)
    return kept if kept or keeps_empty else None
