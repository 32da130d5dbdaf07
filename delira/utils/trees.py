"""Walk nested dictionaries, lists and tuples whose leaves are arrays or numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply ``function`` to every leaf and keep the shape of the tree."""
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a namedtuple takes its fields one by one
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, value) for value in tree)
    return function(tree)


def iterate_leaves(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield ``(path, leaf)`` for every leaf, depth first."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from iterate_leaves(value, (*path, key))
    elif isinstance(tree, (list, tuple)):
        for position, value in enumerate(tree):
            yield from iterate_leaves(value, (*path, position))
    else:
        yield path, tree
