"""One sample in one file: a header of JSON, then the bytes of its arrays; nothing in it can run code."""

import dataclasses
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from delira.data_loading._arrays import as_array
from delira.data_loading._collate import check_mapping
from delira.errors import DataError, MissingKeyError

_MAGIC = b"delira sample 1\n"
_PREAMBLE = struct.Struct("<16s32sQ8x")  # magic, sha256 of the header, length of the header
_ALIGNMENT = 64  # bytes; arrays that begin at odd addresses are slow
_KINDS = "biufcmMSU"  # numbers, times and strings: their bytes are their values
_MAPPED_FROM = 2**20
"""Files of so many bytes are mapped. A mapping costs a file descriptor as long as an array of it lives, and
a process may have 65,530 of them, so small files are read."""

Stamp = tuple[int, int, int]


class DamagedEntryError(Exception):
    """A file is not what was written; says what is wrong with it."""


def pack(sample: object, index: int, content: str, read: Mapping[str, str] | None = None) -> list[bytes | memoryview]:
    """Turn a sample into the pieces of a file, to be written one behind the other.

    Parameters
    ----------
    sample
        A mapping of arrays, tensors, numbers, strings and such mappings.
    index
        Its number in the dataset, for messages.
    content
        What tells the files that the sample was made from, as they are now, from others.
    read
        Further files that were read for it, and what tells each from others.

    Raises
    ------
    DataError
        If an entry is None or an array of objects, or has a name that is no string.
    """
    check_mapping(sample, f"sample {index}")
    pieces: list[bytes | memoryview] = []
    size = 0

    def add(value: object, name: str) -> Any:
        nonlocal size
        if isinstance(value, Mapping):
            return {_check_name(key, name, index): add(inner, f"{name}/{key}") for key, inner in value.items()}
        array = _to_array(value, name[1:], index)
        bytes_of = array.reshape(-1).view(np.uint8).data if array.nbytes else b""
        start, size = size, size + array.nbytes + -array.nbytes % _ALIGNMENT
        pieces.extend((bytes_of, bytes(size - start - array.nbytes)))
        return [array.dtype.str, list(array.shape), start, hashlib.sha256(bytes_of).hexdigest()]

    header = json.dumps(
        {"content": content, "entries": add(sample, ""), "read": dict(read or {}), "size": size}
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return [_PREAMBLE.pack(_MAGIC, hashlib.sha256(header).digest(), len(header)), header, *pieces]


@dataclasses.dataclass(frozen=True)
class Entry:
    """An opened file."""

    content: str
    """As given to :func:`pack`."""
    read: Mapping[str, str]
    """As given to :func:`pack`."""
    stamp: Stamp
    """Inode, size in bytes and time of the last change (ns) of the file: other if it was written again."""
    _entries: Mapping[str, Any]
    _values: memoryview
    """The part behind the header, in memory or mapped; changes of it do not reach the file."""

    def sample(self) -> dict[str, Any]:
        """Return the sample, its leaves arrays that may be written to."""
        return self._tree(self._entries)

    def array(self, key: str, index: int) -> np.ndarray:
        """Return a copy of one entry after having checked its checksum; ``index`` is for messages.

        Raises
        ------
        MissingKeyError
            If there is no such entry.
        DamagedEntryError
            If it is not what was written.
        """
        if key not in self._entries:
            raise MissingKeyError(
                f"sample {index} has no entry {key!r}; it has {sorted(self._entries)}; name one of these as key"
            )
        if isinstance(self._entries[key], Mapping):
            raise DataError(f"entry {key!r} of sample {index} is a dict; name an entry that is an array")
        self._check(self._entries[key], key)
        return self._leaf(self._entries[key]).copy()  # does not keep the whole file

    def check(self) -> None:
        """Compare all entries with their checksums.

        Raises
        ------
        DamagedEntryError
            If one is not what was written.
        """
        for name, leaf in _leaves(self._entries):
            self._check(leaf, name)

    def _check(self, leaf: Any, name: str) -> None:
        array = self._leaf(leaf)
        if hashlib.sha256(array.reshape(-1).view(np.uint8).data if array.nbytes else b"").hexdigest() != leaf[3]:
            raise DamagedEntryError(f"the checksum of entry {name!r} is wrong")

    def _tree(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: self._tree(value) if isinstance(value, Mapping) else self._leaf(value)
            for key, value in entries.items()
        }

    def _leaf(self, leaf: Any) -> np.ndarray:
        dtype, shape, start, _ = leaf
        return np.ndarray(shape, dtype, self._values, start)


def open_entry(path: Path) -> Entry:
    """Open a file; only its header is checked.

    Raises
    ------
    FileNotFoundError
        If there is none.
    DamagedEntryError
        If the header is not what was written, or the length does not fit to it.
    """
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if status.st_size < _MAPPED_FROM:
            return _unpack(bytearray(file.read()), stamp)
        # a private mapping: who writes to an array changes a copy of its page
        return _unpack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), stamp)


def write_pieces(pieces: list[bytes | memoryview], file: BinaryIO) -> None:
    """Write what :func:`pack` returned."""
    for piece in pieces:
        file.write(piece)


def _unpack(buffer: Any, stamp: Stamp) -> Entry:
    if len(buffer) < _PREAMBLE.size:
        raise DamagedEntryError(f"it ends after {len(buffer)} bytes")
    magic, checksum, length = _PREAMBLE.unpack_from(buffer)
    values = memoryview(buffer)[_PREAMBLE.size :]
    if magic != _MAGIC or hashlib.sha256(values[:length]).digest() != checksum:
        raise DamagedEntryError("its header is damaged")
    header = json.loads(bytes(values[:length]))
    if len(values) != length + header["size"]:
        raise DamagedEntryError(f"it has {len(buffer)} bytes instead of {_PREAMBLE.size + length + header['size']}")
    return Entry(header["content"], header["read"], stamp, header["entries"], values[length:])


def _leaves(entries: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entries.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{key}/")
        else:
            yield f"{path}{key}", value


def _check_name(key: object, name: str, index: int) -> str:
    if not isinstance(key, str):
        where = f"entry {name[1:]!r} of sample {index}" if name else f"sample {index}"
        raise DataError(f"{where} has an entry named {key!r}; a cached sample needs names that are strings")
    return key


def _to_array(value: object, name: str, index: int) -> np.ndarray:
    try:
        array = np.asarray(as_array(value), order="C")
    except Exception as error:
        error.add_note(f"while entry {name!r} of sample {index} was turned into an array, to be cached")
        raise
    if array.dtype.kind not in _KINDS:
        got = (
            "None"
            if value is None
            else f"a {type(value).__name__}" + (f" of dtype {array.dtype}" if hasattr(value, "dtype") else "")
        )
        raise DataError(
            f"entry {name!r} of sample {index} is {got}, which cannot be cached; "
            "make it an array of numbers or strings, or leave it out"
        )
    return array
