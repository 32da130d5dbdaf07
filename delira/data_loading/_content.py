"""A fingerprint of data: the same for equal content, in every process and on every machine."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_CHUNK = 2**24  # bytes hashed at once, so that memory-mapped arrays need not fit into memory


def fingerprint_of(content: object) -> str:
    """Return the sha256 (hex) of a tree of mappings, lists, arrays and plain values."""
    digest = hashlib.sha256()
    _add(digest, content)
    return digest.hexdigest()


def describe_callable(function: object) -> str:
    """Name a function so that moving it to another module does not change the name."""
    return str(getattr(function, "__qualname__", None) or _stable_repr(function))


def describe_item(item: object) -> tuple[Any, ...]:
    """Describe what a lazy dataset loads from: the item, and the size of the file or files it names.

    Tuples, lists and dicts of items are described one by one. Modification times are left out, because a
    copy of the data is the same data.
    """
    if isinstance(item, Mapping):
        return tuple((key, *describe_item(value)) for key, value in item.items())
    if isinstance(item, (list, tuple)):
        return tuple(map(describe_item, item))
    if not isinstance(item, (str, os.PathLike)) or not os.path.exists(item):
        return (item,)
    if os.path.isdir(item):
        with os.scandir(os.fspath(item)) as entries:
            return (item, sorted((entry.name, entry.stat().st_size) for entry in entries if entry.is_file()))
    return (item, os.path.getsize(item))


def _add(digest: Any, value: Any) -> None:
    # each value starts with its type and length: ["ab"] and ["a", "b"] must differ
    if isinstance(value, Mapping):
        digest.update(b"mapping %d;" % len(value))
        _add_each(digest, (part for key in sorted(value, key=repr) for part in (key, value[key])))
    elif isinstance(value, (set, frozenset)):  # their order differs from process to process
        digest.update(b"set %d;%s" % (len(value), "".join(sorted(map(fingerprint_of, value))).encode()))
    elif isinstance(value, (list, tuple)):
        digest.update(b"sequence %d;" % len(value))
        _add_each(digest, value)
    elif isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        _add_array(digest, np.asarray(value))
    else:
        text = f"{type(value).__name__} {_stable_repr(value)}".encode()
        digest.update(b"value %d;%s" % (len(text), text))


def _add_each(digest: Any, values: Iterable[Any]) -> None:
    for value in values:
        _add(digest, value)


def _add_array(digest: Any, array: np.ndarray) -> None:
    digest.update(f"array {array.dtype.str} {array.shape};".encode())
    if array.dtype.hasobject or array.dtype.kind == "T":  # the bytes are addresses
        _add_each(digest, array.reshape(-1).tolist())
        return
    rows = array if array.ndim else array.reshape(1)
    step = max(1, _CHUNK * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        chunk = np.ascontiguousarray(rows[start : start + step])
        digest.update(chunk.reshape(-1).view(np.uint8).data)


def _stable_repr(value: object) -> str:
    """``repr`` without memory addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
