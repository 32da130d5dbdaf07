"""Batches as compiled steps take them: without what is no array."""

from collections.abc import Callable, Mapping
from typing import Any

from delira.contract.kinds import Array, Tree


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
