"""The checkpoint container of backends without a format of their own: one zip of ``.npy`` arrays and JSON.

Nothing in it is ever executed. Entries are stored, not compressed, so that a small file cannot unpack
into a huge one, and each carries a CRC-32.
"""

import importlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delira.errors import CheckpointError, ConfigError
from delira.io.verify import BROKEN_ZIP, Record, read_record, stored_records
from delira.utils.checks import check_names, check_whole
from delira.utils.files import as_path
from delira.utils.foreign import open_regular
from delira.utils.patience import read_patiently

_TREE = "tree.json"
#: dictionaries and lists inside each other
DEEPEST = 200
_LONGEST_TREE = 1 << 28  # bytes of JSON; read, they take about twenty times as much memory
_LONGEST_HEADER = 1 << 14  # bytes before the numbers of an array
#: what zip, JSON and numpy raise for a file that is none of theirs
_GARBAGE = (*BROKEN_ZIP, AttributeError, ImportError, LookupError, SyntaxError, TypeError)
_EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)  # no clock in the file: equal trees give equal bytes


def write_tree(file: BinaryIO, tree: Mapping[str, Any]) -> None:
    """Write a tree of dictionaries (string keys), lists, numbers, strings, ``None`` and arrays.

    Parameters
    ----------
    file
        An open file; arrays are streamed to it.
    tree
        The tree.

    Raises
    ------
    ConfigError
        If ``file`` is not open for writing bytes, or ``tree`` is no dictionary.
    CheckpointError
        If the tree holds anything else, or itself, naming the place; or numbers and strings that do not fit into
        256 MiB of text.
    """
    can_write = getattr(file, "writable", None)
    is_open = callable(getattr(file, "write", None)) and not getattr(file, "closed", False)
    if not is_open or isinstance(file, io.TextIOBase) or (can_write is not None and not can_write()):
        raise ConfigError(f"write_tree: file is a file open for writing bytes, open(path, 'wb'), got {file!r}")
    if not isinstance(tree, Mapping):
        raise ConfigError(f"write_tree: tree is a dictionary, got {tree!r}")
    arrays: list[np.ndarray] = []
    text = json.dumps(_to_plain(tree, "", arrays), indent=1)
    if len(text) > _LONGEST_TREE:
        raise CheckpointError(
            f"the checkpoint holds {len(text) >> 20} MiB of numbers and strings outside of arrays, and "
            f"{_LONGEST_TREE >> 20} are allowed; keep long lists of numbers as arrays"
        )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, array in enumerate(arrays):
            entry = zipfile.ZipInfo(f"arrays/{number}.npy", _EPOCH_OF_ZIP)
            entry.file_size = array.nbytes + _LONGEST_HEADER  # about: beyond 2 GiB the header needs more room
            with archive.open(entry, "w") as record:
                np.lib.format.write_array(record, array, allow_pickle=False)
        archive.writestr(zipfile.ZipInfo(_TREE, _EPOCH_OF_ZIP), text)


def read_tree(path: str | Path, only: Sequence[str] | None = None) -> dict[str, Any]:
    """Read a tree written by :func:`write_tree`; the checksum of every record that is read is compared.

    Parameters
    ----------
    path
        The file.
    only
        Entries at the top that are read; arrays of the others are passed by. None: all.

    Raises
    ------
    ConfigError
        If ``path`` is no path, or ``only`` no list of names.
    CheckpointError
        If the file is no such container, or is damaged.
    UnreadableError
        If the system cannot read it now.
    """
    place = as_path(path, "path")
    if isinstance(only, (str, bytes, Mapping)):
        raise ConfigError(f"read_tree: only is a list of names, got {only!r}")
    if only is not None:
        check_names("read_tree", only=only)
    return read_patiently(place, lambda: _read_tree(place, only))


def _read_tree(path: Path, only: Sequence[str] | None) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            records = stored_records(file)
            if _TREE not in records:
                raise ValueError(f"it has no {_TREE}")
            if records[_TREE].size > _LONGEST_TREE:
                raise ValueError(f"{_TREE} has {records[_TREE].size >> 20} MiB; {_LONGEST_TREE >> 20} are allowed")
            plain = json.loads(read_record(file, records.pop(_TREE)), object_pairs_hook=_distinct)
            if only is not None and isinstance(plain, dict):
                plain = {name: entry for name, entry in plain.items() if name in only}
            tree = _from_plain(plain, file, records)
    except _GARBAGE as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path} is not a checkpoint: it holds a {type(tree).__name__}, not a dictionary")
    return tree


def _to_plain(value: Any, place: str, arrays: list[np.ndarray], depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise CheckpointError(f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself")
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str) or key.startswith("$")]:
            raise CheckpointError(
                f"checkpoint entry {place or '/'} has the key {wrong[0]!r}; keys must be plain strings"
            )
        return {key: _to_plain(item, f"{place}/{key}", arrays, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, f"{place}/{number}", arrays, depth + 1) for number, item in enumerate(value)]
    if isinstance(value, np.generic) and not isinstance(value, (np.void, np.complexfloating)):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    is_array = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)  # its mask would be lost
    if is_array and not value.dtype.hasobject and value.dtype.type is not np.void:
        entry = {"$array": len(arrays)}
        if value.dtype.isbuiltin == 2:  # registered by ml_dtypes, e.g. bfloat16: kept by their bits
            entry["$dtype"] = value.dtype.name
            value = value.view(f"u{value.dtype.itemsize}")
        arrays.append(value)
        return entry
    raise CheckpointError(f"checkpoint entry {place} is a {type(value).__name__}, which cannot be stored safely")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"{_TREE} has a dictionary with two entries of the same name among {sorted(found)}")
    return found


def _from_plain(value: object, file: io.BufferedReader, records: dict[str, Record]) -> Any:
    if isinstance(value, list):
        return [_from_plain(item, file, records) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" not in value:
        return {key: _from_plain(item, file, records) for key, item in value.items()}
    if unknown := value.keys() - {"$array", "$dtype"}:
        raise ValueError(f"{_TREE} says {sorted(unknown)} of an array, which nobody understands")
    name = f"arrays/{int(value['$array'])}.npy"
    if name not in records:  # each is named once, or a small file could ask for one large array many times
        raise ValueError(f"{_TREE} names {name}, which is not there or was named before")
    array = _array(read_record(file, records.pop(name)), name)
    if "$dtype" not in value:
        return array
    dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), str(value["$dtype"])))
    if dtype.isbuiltin != 2:
        raise ValueError(f"{_TREE} names the type {value['$dtype']!r}, which is none of ml_dtypes")
    return array.view(dtype)


def _array(content: bytearray, name: str) -> np.ndarray:
    """Return the array of an ``.npy`` record, in the memory of ``content``."""
    head = io.BytesIO(content[:_LONGEST_HEADER])
    if (version := np.lib.format.read_magic(head)) != (1, 0):
        raise ValueError(f"{name} is of version {version} of its format; (1, 0) is expected")
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype.hasobject:
        raise ValueError(f"{name} holds pickled objects, which could run code when loaded")
    start = head.tell()
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(f"{name} claims shape {shape} of {dtype}, but has {len(content) - start} bytes of numbers")
    return np.ndarray(shape, dtype, content, start, order="F" if in_columns else "C")


def check_model(owner: str, model: Any, kind: Any, what: str) -> None:
    """Refuse a model of another kind.

    Parameters
    ----------
    owner
        Name of the function.
    model
        What was given.
    kind
        Class of models; ``… | None`` where it may be left out.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    if not isinstance(model, kind):
        raise ConfigError(f"{owner}: model is {what}, got {model!r}")


def check_saved(
    owner: str,
    optimizers: Any,
    epoch: object = None,
    *,
    is_optimizer: Callable[[Any], bool] = lambda optimizer: False,
    what: str = "optimizer",
) -> None:
    """Refuse optimizers that are no dictionary of them, and an epoch that is no number; None is none.

    Parameters
    ----------
    owner
        Name of the function.
    optimizers, epoch
        What was given.
    is_optimizer
        Whether a value is one of the backend.
    what
        The same in words.

    Raises
    ------
    ConfigError
        Naming what was given.
    """
    is_named = isinstance(optimizers, Mapping) and all(isinstance(name, str) for name in optimizers)
    if optimizers is not None and not (is_named and all(map(is_optimizer, optimizers.values()))):
        raise ConfigError(f"{owner}: optimizers is a dict, name -> {what}, got {optimizers!r}")
    if epoch is not None:
        check_whole(owner, at_least=0, epoch=epoch)


def check_kept(tree: object, place: str = "", depth: int = 0) -> None:
    """Refuse a tree that holds itself, or masked arrays, before anything copies it: masks would be lost.

    Parameters
    ----------
    tree
        The tree, or a part of it.
    place, depth
        Where the part is.

    Raises
    ------
    CheckpointError
        Naming the place.
    """
    if depth > DEEPEST:
        raise CheckpointError(f"checkpoint entry {place[:80]}… is nested deeper than {DEEPEST} levels, or holds itself")
    if isinstance(tree, np.ma.MaskedArray):
        raise CheckpointError(f"checkpoint entry {place} is a MaskedArray, which cannot be stored safely")
    parts = enumerate(tree) if isinstance(tree, (list, tuple)) else ()
    for name, part in tree.items() if isinstance(tree, Mapping) else parts:
        check_kept(part, f"{place}/{name}", depth + 1)
