"""Walk nested dictionaries, lists and tuples whose leaves are arrays or numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def map_leaves(function: Callable[[Any], Any], tree: object) -> Any:
    """Apply ``function`` to every leaf and keep the shape of the tree."""
    if isinstance(tree, Mapping):
        return {key: map_leaves(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a namedtuple takes its fields one by one
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(function, value) for value in tree)
    return function(tree)


def iterate_leaves(tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield ``(path, leaf)`` for every leaf, depth first."""
    waiting = [(path, tree)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            inner = [((*path, key), value) for key, value in part.items()]
        elif isinstance(part, (list, tuple)):
            inner = [((*path, position), value) for position, value in enumerate(part)]
        else:
            yield path, part
            continue
        waiting.extend(reversed(inner))


def n_rows(*trees: Any) -> int:
    """Samples of a batch: the length of the first array of the first tree that has one; 1 if none has."""
    for tree in trees:
        # most trees are arrays, and there is one at every step
        own = getattr(tree, "shape", None)
        shapes = (getattr(leaf, "shape", None) for _, leaf in iterate_leaves(tree)) if own is None else (own,)
        for shape in shapes:
            if shape is not None and len(shape):  # a TensorShape is truthy even if it is empty
                return int(shape[0])
    return 1


def spread(value: object) -> tuple[Any, ...]:
    """Positional arguments of an input, a prediction or a target: those of a tuple or list, nothing for None."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
