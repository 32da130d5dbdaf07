"""The checkpoint container of rooms without a format of their own: one zip of ``.npy`` arrays and JSON.

Nothing in it is ever executed. Entries are stored, not compressed, so that a small file cannot unpack
into a huge one, and each carries a CRC-32.
"""

import importlib
import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delira.errors import CheckpointError

_TREE = "tree.json"
#: what zip, JSON and numpy raise for a file that is none of theirs; a header may also claim a petabyte
_GARBAGE = (
    OSError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
)
_EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)  # no clock in the file: equal trees give equal bytes


def write_tree(file: BinaryIO, tree: Mapping[str, Any]) -> None:
    """Write a tree of dictionaries (string keys), lists, numbers, strings, ``None`` and arrays.

    Raises
    ------
    CheckpointError
        If the tree holds anything else; names the place.
    """
    arrays: list[np.ndarray] = []
    plain = _to_plain(tree, "", arrays)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, array in enumerate(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"arrays/{number}.npy", _EPOCH_OF_ZIP), buffer.getbuffer())
        text = json.dumps(plain, indent=1)
        archive.writestr(zipfile.ZipInfo(_TREE, _EPOCH_OF_ZIP), text)


def read_tree(path: str | Path) -> dict[str, Any]:
    """Read a tree written by :func:`write_tree`.

    Raises
    ------
    CheckpointError
        If the file is no such container, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise CheckpointError(f"{path}: entry {entry.filename!r} is compressed; delira never does that")
            tree = _from_plain(json.loads(archive.read(_TREE)), archive)
    except CheckpointError:
        raise
    except _GARBAGE as error:
        raise CheckpointError(f"{path} is not a readable checkpoint: {error}") from error
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path} is not a checkpoint: it holds a {type(tree).__name__}, not a dictionary")
    return tree


def _to_plain(value: Any, place: str, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise CheckpointError(
                    f"checkpoint entry {place or '/'} has the key {key!r}; keys must be plain strings"
                )
        return {key: _to_plain(item, f"{place}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, f"{place}/{number}", arrays) for number, item in enumerate(value)]
    if isinstance(value, np.generic) and not isinstance(value, (np.void, np.complexfloating)):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.type is not np.void:
        entry = {"$array": len(arrays)}
        if value.dtype.isbuiltin == 2:  # registered by ml_dtypes, e.g. bfloat16: kept by their bits
            entry["$dtype"] = value.dtype.name
            value = value.view(f"u{value.dtype.itemsize}")
        arrays.append(value)
        return entry
    raise CheckpointError(f"checkpoint entry {place} is a {type(value).__name__}, which cannot be stored safely")


def _from_plain(value: Any, archive: zipfile.ZipFile) -> Any:
    if isinstance(value, list):
        return [_from_plain(item, archive) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" not in value:
        return {key: _from_plain(item, archive) for key, item in value.items()}
    # read as a whole: the zip layer then compares the CRC
    buffer = io.BytesIO(archive.read(f"arrays/{int(value['$array'])}.npy"))
    array = np.lib.format.read_array(buffer, allow_pickle=False)
    if "$dtype" in value:
        array = array.view(getattr(importlib.import_module("ml_dtypes"), str(value["$dtype"])))
    return array
