"""What the cache keeps: each sample in a file that can run no code, and what the files it is made of contain."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.data_loading._content import fingerprint_of, is_own_file
from delira.data_loading._exact import as_array, check_mapping
from delira.errors import DataError, MissingKeyError, noting

_MAGIC = b"delira sample 1\n"
_PREAMBLE = struct.Struct("<16s32sQ8x")  # magic, sha256 of the header, length of the header
_ALIGNMENT = 64  # bytes; arrays that begin at odd addresses are slow
_KINDS = "biufcmMSU"  # numbers, times and strings: their bytes are their values
_MAPPED_FROM = 2**20
"""Files of so many bytes are mapped. A mapping costs a file descriptor as long as an array of it lives, and
a process may have 65,530 of them, so small files are read."""

Stamp = tuple[int, int, int]

_LARGE = 2**28  # bytes; reading a mapped file of a terabyte would take hours
_SETTLED = 2 * 10**9  # ns; a file changed twice within one tick of the clock would look unchanged
_NOT_DATA = (".py", ".pyc", ".so", ".pyd", ".dll")
_SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/", "/lib")
_recording = threading.local()


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
        bytes_of = _bytes_of(array)
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
        for key, value in self._entries.items():
            self._check(value, key)

    def _check(self, part: Any, name: str) -> None:
        if isinstance(part, Mapping):
            for key, value in part.items():
                self._check(value, f"{name}/{key}")
        elif hashlib.sha256(_bytes_of(self._leaf(part))).hexdigest() != part[3]:
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


def _bytes_of(array: np.ndarray) -> memoryview | bytes:
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""


def _check_name(key: object, name: str, index: int) -> str:
    if not isinstance(key, str):
        where = f"entry {name[1:]!r} of sample {index}" if name else f"sample {index}"
        raise DataError(f"{where} has an entry named {key!r}; a cached sample needs names that are strings")
    return key


def _to_array(value: object, name: str, index: int) -> np.ndarray:
    with noting(f"while entry {name!r} of sample {index} was turned into an array, to be cached"):
        array = np.asarray(as_array(value), order="C")
    if array.dtype.kind not in _KINDS:
        got = "None" if value is None else f"a {type(value).__name__}"
        got += f" of dtype {array.dtype}" if hasattr(value, "dtype") else ""
        raise DataError(
            f"entry {name!r} of sample {index} is {got}, which cannot be cached; "
            "make it an array of numbers or strings, or leave it out"
        )
    return array


# ------------------------------------------------------------------ what files contain, without reading them each time


class SourceHashes:
    """Hashes of files, kept in a file under (size, times of last change of content and status, inode).

    Parameters
    ----------
    file
        Where hashes are kept, a line of JSON for each. Processes append to it at once; a line that one of
        them did not finish is passed over.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __getstate__(self) -> dict[str, Any]:
        return {"_file": self._file}

    def content_of(self, paths: Iterable[str]) -> str:
        """Return what tells files, and folders with all that is in them, from others; their names do not count."""
        return fingerprint_of([self._tree(path) if os.path.isdir(path) else self._hash(path) for path in paths])

    def stamps_of(self, paths: Iterable[str]) -> dict[str, str]:
        """Return what tells each file from others: its content, of files above 256 MiB size and time of change.

        Raises
        ------
        OSError
            If one is not there any more.
        """
        found = {path: os.stat(path) for path in paths}
        return {
            path: self._hash(path) if status.st_size <= _LARGE else f"{status.st_size} {status.st_mtime_ns}"
            for path, status in found.items()
        }

    def _tree(self, folder: str) -> list[Any]:
        files = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
        return [(os.path.relpath(file, folder), self._hash(file)) for file in sorted(files) if os.path.isfile(file)]

    def _hash(self, path: str) -> str:
        path = os.path.abspath(path)
        status = os.stat(path)
        # who sets the time of a file cannot set that of its status
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED:
            self._known[path] = (stamp, content)
            # the line break in front parts it from a line that was not finished
            line = f"\n{json.dumps({'path': path, 'stamp': stamp, 'sha256': content})}\n".encode()
            with contextlib.suppress(OSError), open(self._file, "ab", buffering=0) as file:  # only saves time
                file.write(line)
        return content

    @functools.cached_property
    def _known(self) -> dict[str, tuple[list[int], str]]:
        known = {}
        with contextlib.suppress(OSError), open(self._file, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    known[entry["path"]] = (entry["stamp"], entry["sha256"])
        return known


# ------------------------------------------------------------------ which files are read while a sample is made


@contextlib.contextmanager
def opened_files(files: list[str]) -> Iterator[None]:
    """Append the files that this thread opens for reading through Python, each once, as absolute paths.

    Left out are files of Python, of packages and of the system, and those that were written meanwhile.
    """
    _listen()
    found: dict[str, bool] = {}  # whether it was only read
    outer, _recording.found = getattr(_recording, "found", None), found
    try:
        yield
    finally:
        _recording.found = outer
    files += filter(
        _is_data, dict.fromkeys(os.path.abspath(path) for path, is_only_read in found.items() if is_only_read)
    )


@functools.cache
def _listen() -> None:
    sys.addaudithook(_note)  # for good: Python takes none away again


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := getattr(_recording, "found", None)) is None:
        return
    path, _, flags = arguments
    if isinstance(flags, int) and isinstance(path, (str, bytes)):
        name = os.fsdecode(path)
        found[name] = found.get(name, True) and not flags & (os.O_WRONLY | os.O_RDWR)


def _is_data(path: str) -> bool:
    is_code = path.endswith(_NOT_DATA) or path.startswith(_SYSTEM) or not is_own_file(path)
    return not is_code and os.path.isfile(path)
