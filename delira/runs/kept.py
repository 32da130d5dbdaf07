"""What a fold keeps of its test: each array once, in a file of which large ones are read as memory maps."""

import contextlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import CheckpointError, MissingKeyError
from delira.io.container import read_npy, write_npy
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.files import publish, refuse_link

#: file of the predictions of a fold, arrays named by their path in the tree, and the indices of their cases
PREDICTIONS = "predictions.npz"


class NotKept(dict[str, Any]):
    """No predictions or targets, of a fold that was to keep none: says so to whoever asks for one."""

    def __missing__(self, name: object) -> Any:
        raise MissingKeyError(f"{name!r} was not kept, since the cross-validation was run with keep_predictions=False")


@dataclass(frozen=True)
class InFile:
    """Stands in the result of a fold for an array in the file of its predictions."""

    name: str
    crc: int


def write_predictions(path: Path, indices: np.ndarray, predictions: Mapping[str, Any]) -> Any:
    """Write the predictions of a fold, completely or not at all.

    Parameters
    ----------
    path
        The file.
    indices
        Of the cases in the data set.
    predictions
        Tree of arrays of shape ``(n, ...)``.

    Returns
    -------
    tree
        The same with :class:`InFile` in the place of each array in the file; what is left, as arrays of differing
        shapes, cannot be there.
    """
    named = {}
    for place, leaf in iterate_leaves(predictions):
        if isinstance(leaf, np.ndarray) and _is_plain(leaf.dtype) and leaf.dtype.isbuiltin != 2:  # numpy reads no other
            named["/".join(("predictions", *map(str, place)))] = leaf
    crcs: dict[str, int] = {}

    def write(file: Any) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in {"indices": indices, **named}.items():
                crcs[name] = write_npy(archive, f"{name}.npy", array)

    publish(path, write)
    files = {id(array): InFile(name, crcs[name]) for name, array in named.items()}
    return map_leaves(lambda leaf: files.get(id(leaf), leaf), predictions)


def read_predictions(path: Path, predictions: Any) -> Any:
    """Return a tree of :func:`write_predictions` with its arrays; large ones are memory maps.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged, or of another test of the fold.
    OSError
        If it is a link to somewhere else, or cannot be read now.
    """
    names = {leaf.name: leaf.crc for _, leaf in iterate_leaves(predictions) if isinstance(leaf, InFile)}
    if not names:
        return predictions
    refuse_link(path)
    found = read_npy(path, names)
    return map_leaves(lambda leaf: found[leaf.name] if isinstance(leaf, InFile) else leaf, predictions)


def packed_or_none(value: object) -> Any:
    """Return None of what cannot be packed, as tensors: they belong to the checkpoint."""
    with contextlib.suppress(CheckpointError):
        return pack(value)
    return None


# a container of its own around each value: keys may be numbers, tuples stay tuples, scalars keep their dtype


def pack(value: Any) -> Any:
    """Return a value as the entry of a container.

    Raises
    ------
    CheckpointError
        If it is nothing that can be stored.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is dict:
        return {"dict": [[pack(key), pack(item)] for key, item in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [pack(item) for item in value]}
    if isinstance(value, np.generic) and _is_plain(value.dtype):
        return {"scalar": np.asarray(value)}
    if type(value) in (np.ndarray, np.memmap):
        if value.dtype == object:
            return {"objects": [pack(item) for item in value.flat], "shape": [*value.shape]}
        if _is_plain(value.dtype):
            return {"array": value}
    if type(value) is InFile:
        return {"file": [value.name, value.crc]}
    raise CheckpointError(f"a {type(value).__name__} cannot be stored safely")


def _is_plain(dtype: np.dtype) -> bool:
    return not dtype.hasobject and dtype.type is not np.void


def unpack(plain: object) -> Any:
    """Return what :func:`pack` was given."""
    if not isinstance(plain, dict):
        return plain
    content: Any
    kind, content = next(iter(plain.items()), ("", None))
    if kind == "dict":
        return {unpack(key): unpack(item) for key, item in content}
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](map(unpack, content))
    if kind == "objects":
        array = np.empty(len(content), dtype=object)
        for position, item in enumerate(content):
            array[position] = unpack(item)
        return array.reshape(plain["shape"])
    if kind == "file":
        return InFile(*content)
    if kind not in ("array", "scalar"):
        raise ValueError(f"unknown kind of value {kind!r}")
    return content if kind == "array" else content[()]
