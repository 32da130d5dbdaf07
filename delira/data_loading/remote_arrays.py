"""Arrays at a URL, of which a part can be read: ``.npy`` by ranges of bytes, zarr by its chunks."""

import asyncio
import functools
import io
import math
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from delira.data_loading.remote import About, Address, RemoteFile, RemoteSettings, RemoteStream, known_by_size
from delira.errors import DataError, MissingBackendError, UnreadableError, import_optional

_N_STAMPS = 64
"""Chunks whose stamps tell a store from others."""
_METADATA = ("zarr.json", ".zarray")
_AT_ONCE = 8  # questions
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""What reads the header of a version of ``.npy``."""


class RemoteNpy:
    """A ``.npy`` file elsewhere, as an array that is indexed with slices of its last axes.

    Parameters
    ----------
    file
        The file, of which the header is read.

    Raises
    ------
    DataError
        If it is no complete ``.npy`` file of numbers.
    """

    def __init__(self, file: RemoteFile) -> None:
        self.file = file
        where = str(file.address)
        try:
            self.shape, self.is_fortran, self.dtype, self._offset = _header_of(file)
        except (ValueError, KeyError, EOFError) as error:
            raise DataError(
                f"{where!r} cannot be read as an array ({error or 'of another version'}); it must be a .npy file of "
                "numbers, as numpy.save writes it, or a zarr store"
            ) from error
        if self.dtype.hasobject:
            raise DataError(f"{where!r} holds Python objects, which are not read: they may run code; save numbers")
        if (wanted := self._offset + math.prod(self.shape) * self.dtype.itemsize) > file.size:
            raise DataError(f"{where!r} is cut off: it has {file.size} of {wanted} bytes; upload it again")

    def __getitem__(self, index: Any) -> np.ndarray:
        """Read a part: an ellipsis, and slices of the last axes with start and stop and no step."""
        slices = index[1:]
        whole = [slice(0, length) for length in self.shape[: len(self.shape) - len(slices)]]
        return self.box([*whole, *slices])

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Read samples in the order of ``indices``, shape (B,), which may repeat."""
        rows, places = np.unique(indices, return_inverse=True)
        if not rows.size:
            return np.empty((0, *self.shape[1:]), self.dtype)
        ends = np.flatnonzero(np.diff(rows) != 1) + 1
        runs = np.split(rows, ends)
        rest = [slice(0, length) for length in self.shape[1:]]
        return np.concatenate([self.box([slice(int(run[0]), int(run[-1]) + 1), *rest]) for run in runs])[places]

    def box(self, slices: Iterable[slice]) -> np.ndarray:
        """Read what lies in a slice of each axis: the bytes from its first value to its last one; a copy."""
        shape, places = self.shape, [(one.start or 0, one.stop) for one in slices]
        if self.is_fortran:
            shape, places = shape[::-1], places[::-1]
        lengths = [stop - start for start, stop in places]
        if min(lengths, default=1) <= 0:
            return np.empty([max(0, length) for length in self._turned(lengths)], self.dtype)
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        first = sum(start * stride for (start, _), stride in zip(places, strides, strict=True))
        last = sum((stop - 1) * stride for (_, stop), stride in zip(places, strides, strict=True))
        size = self.dtype.itemsize
        content = self.file.read(self._offset + first * size, self._offset + (last + 1) * size)
        flat = np.frombuffer(content, self.dtype)
        part = np.lib.stride_tricks.as_strided(flat, lengths, [stride * size for stride in strides], writeable=False)
        return np.array(part.T if self.is_fortran else part)

    def _turned(self, lengths: list[int]) -> list[int]:
        return lengths[::-1] if self.is_fortran else lengths


def _header_of(file: RemoteFile) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    for stream in (io.BytesIO(file.head()), io.BufferedReader(RemoteStream(file))):
        try:
            shape, is_fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
        except ValueError:
            if isinstance(stream, io.BytesIO) and file.size > len(stream.getvalue()):
                continue  # a long header
            raise
        return shape, is_fortran, dtype, stream.tell()
    raise AssertionError


# ------------------------------------------------------------------ zarr


def open_remote_zarr(address: Address) -> Any:
    """Open an array or a group of a zarr store elsewhere; of an array nothing but its metadata is read.

    Raises
    ------
    DataError
        If there is none.
    MissingBackendError
        If zarr is not installed.
    """
    zarr = import_optional("zarr", f"{str(address)!r}, taken for a zarr store,", "zarr>=3")
    try:
        return zarr.open(store=store_at(address.url, address.settings), mode="r")
    except (DataError, UnreadableError, MissingBackendError):
        raise
    except Exception as error:
        raise DataError(
            f"there is no zarr store at {str(address)!r}, and it is no .npy file ({type(error).__name__}: {error})"
        ) from error


def without_objects(array: Any, where: str) -> Any:
    """Return an array of a zarr store, here or elsewhere, of which no chunk has been read.

    Parameters
    ----------
    array
        As zarr opened it.
    where
        What it is, for the message.

    Raises
    ------
    DataError
        If its metadata say that to read it is to unpickle it, or that it holds other Python objects.
    """
    metadata = getattr(array, "metadata", array)  # zarr 2 has all of it at the array
    found = [*(getattr(metadata, "filters", None) or ()), getattr(metadata, "compressor", None)]
    unpickling = [name for name in _names_of([*found, *getattr(metadata, "codecs", ())]) if "pickle" in name.lower()]
    if unpickling or array.dtype.kind == "O":
        by = f" by the codec {unpickling[0]}" if unpickling else ""
        raise DataError(
            f"{where} holds Python objects{by}, which are not read: they may run code; write it anew as numbers, or "
            "texts as dtype=str"
        )
    return array


def _names_of(codecs: Iterable[Any]) -> list[str]:
    names = []
    for codec in codecs:
        names += [getattr(codec, "codec_id", None) or getattr(codec, "codec_name", None) or type(codec).__name__]
        names += _names_of(getattr(codec, "codecs", ()))  # of the chunks in a shard
    return names


def store_at(url: str, settings: RemoteSettings) -> Any:
    """Make a store of zarr of what lies at an address; a copy in another process is made anew."""
    return _store_class()(Address(url, settings))


def stamps_of(array: Any) -> list[tuple[str, str | None]]:
    """Return what the store says of the metadata and of some chunks from all over an array, of which none is read."""
    store, names = array.store, _objects_of(array, _N_STAMPS)
    return [(name, store.stamp(_below(array.path, name))) for name in names]


def all_stamps_of(array: Any) -> list[tuple[str, str]]:
    """Return what the store says of the metadata and of all chunks of an array, of which none is read.

    Raises
    ------
    ConfigError
        If it says no more of one than its size.
    """
    store, root, n_chunks = array.store, array.path, math.prod(_grid_of(array))
    found = store.listed(root, n_chunks)
    if not any(name in found for name in _METADATA) or not all(about.is_told for about in found.values()):
        names = _objects_of(array, n_chunks)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            files = pool.map(store.file, (_below(root, name) for name in names))
            found = {name: file for name, file in zip(names, files, strict=True) if file is not None}
    if unknown := [name for name, about in found.items() if not about.is_told]:
        raise known_by_size(f"{unknown[0]!r} of the zarr array at {store}")
    return sorted((name, about.stamp) for name, about in found.items())


def _objects_of(array: Any, most: int) -> list[str]:
    """Names of the metadata of an array and of at most so many of its chunks, from all over it."""
    counts = _grid_of(array)
    total = math.prod(counts)
    some: Any = np.unique(np.linspace(0, total - 1, min(total, most)).astype(np.int64)) if total else []
    places = (tuple(map(int, np.unravel_index(number, counts))) if counts else () for number in some)
    return [*_METADATA, *(array.metadata.encode_chunk_key(place) for place in places)]


def _grid_of(array: Any) -> list[int]:
    grain = getattr(array, "shards", None) or array.chunks
    return [-(-length // size) for length, size in zip(array.shape, grain, strict=True)]


def _below(root: str, name: str) -> str:
    return f"{root}/{name}" if root else name


@functools.cache
def _store_class() -> type:
    store = import_optional("zarr.abc.store", "a zarr store at a URL", "zarr>=3").Store
    return type("RemoteStore", (_RemoteObjects, store), {})


class _RemoteObjects:
    """What a store of zarr does, where objects are files elsewhere; zarr is not known before it is needed."""

    supports_writes = supports_deletes = False
    supports_listing = True

    def __init__(self, address: Address) -> None:
        super().__init__(read_only=True)  # type: ignore[call-arg]
        self._address = address
        self._files: dict[str, RemoteFile | None] = {}

    def __reduce__(self) -> Any:
        return store_at, (self._address.url, self._address.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RemoteObjects) and self._address.url == other._address.url

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return str(self._address)

    __repr__ = __str__

    def with_read_only(self, read_only: bool = True) -> Any:
        """Return this store: it cannot be written."""
        return self

    def stamp(self, key: str) -> str | None:
        """What the store says of an object; None if there is none."""
        file = self.file(key)
        return None if file is None else file.stamp

    def listed(self, root: str, n_files: int) -> dict[str, About | RemoteFile]:
        """What the store says of all objects below a name, or said when they were first read; empty if it does not."""
        found: dict[str, Any] = {**(self._address / root if root else self._address).listed(n_files)}
        prefix = f"{root}/" if root else ""
        for key, file in [*self._files.items()] if found else ():  # what is read is what it was then, or an error
            if key.startswith(prefix):
                found[key.removeprefix(prefix)] = file
        return {name: about for name, about in found.items() if about is not None}

    def file(self, key: str) -> RemoteFile | None:
        """An object, as it was when it was first asked for; None if there was none."""
        if key not in self._files:
            self._files[key] = RemoteFile.find(self._address / key, keeps=False)
        return self._files[key]

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return an object, or a range of it; None if there is none."""
        content = await asyncio.to_thread(self._read, key, byte_range)
        return None if content is None else prototype.buffer.from_bytes(content)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        """Return ranges of objects."""
        return [*await asyncio.gather(*(self.get(key, prototype, one) for key, one in key_ranges))]

    async def exists(self, key: str) -> bool:
        """Return True if there is such an object."""
        return await asyncio.to_thread(self.file, key) is not None

    async def getsize(self, key: str) -> int:
        """Return the length of an object in bytes."""
        if (file := await asyncio.to_thread(self.file, key)) is None:
            raise FileNotFoundError(key)
        return file.size

    async def set(self, key: str, value: Any) -> None:
        """Refuse it."""
        raise DataError(f"{self} is read only")

    async def delete(self, key: str) -> None:
        """Refuse it."""
        raise DataError(f"{self} is read only")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names below one."""
        prefix = prefix.strip("/")
        for name in await asyncio.to_thread((self._address / prefix if prefix else self._address).names):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Refuse it: it would go through the whole store."""
        raise NotImplementedError(f"the objects of {self} are not listed")
        yield ""

    def list(self) -> AsyncIterator[str]:
        """Refuse it: it would go through the whole store."""
        return self.list_prefix("")

    def _read(self, key: str, byte_range: Any) -> bytes | None:
        if (file := self.file(key)) is None:
            return None
        start, stop = _limits(byte_range, file.size)
        return file.read(start, stop)


def _limits(byte_range: Any, size: int) -> tuple[int, int]:
    """First and last byte of one of zarr's ways to say it."""
    if byte_range is None:
        return 0, size
    if hasattr(byte_range, "suffix"):
        return max(0, size - byte_range.suffix), size
    if hasattr(byte_range, "offset"):
        return min(byte_range.offset, size), size
    return byte_range.start, min(byte_range.end, size)
