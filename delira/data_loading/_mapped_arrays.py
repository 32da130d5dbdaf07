"""Arrays whose first axis counts samples, wherever they lie: in memory, in a mapped file, in a zarr store."""

import mmap
import os
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from delira.data_loading._content import fingerprint_of
from delira.data_loading._exact import exact_array
from delira.errors import ConfigError, DataError
from delira.utils.optional import import_optional

_WHOLE = 2**24  # bytes; what is larger is only glanced at
_N_BLOCKS = 64


class Rows(Protocol):
    """Something to read samples from; its first axis counts them."""

    shape: tuple[int, ...]
    dtype: np.dtype
    path: str | None
    """The file or store, None if there is none that others could open."""

    def row(self, index: int) -> Any:
        """Read one sample; the result is a copy or may not be written to."""

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples in the order of ``indices``, shape (B,), which may repeat; a copy."""

    def whole(self) -> np.ndarray:
        """Return everything, mapped if it can be."""

    def glance(self) -> Any:
        """Return what tells the content from others, without reading all of it if it is large."""


class LoadedRows:
    """An array in memory; pickled with its values."""

    def __init__(self, array: np.ndarray) -> None:
        self.path: str | None = None
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype

    def row(self, index: int) -> Any:
        """Read one sample."""
        return self._array[index]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples."""
        return self._array[indices]

    def whole(self) -> np.ndarray:
        """Return the array."""
        return self._array

    def glance(self) -> Any:
        """Return all of it."""
        return self._array


class FileRows:
    """An array in a file, mapped read-only; pickled without its values and mapped again when needed.

    Parameters
    ----------
    path
        The file.
    dtype, shape, order
        How the values lie in the file, from byte ``offset`` on.
    offset
        Where the values begin, in bytes.
    """

    def __init__(
        self, path: str, dtype: np.dtype, shape: tuple[int, ...], offset: int, order: Literal["C", "F"]
    ) -> None:
        self.path: str | None = os.path.abspath(path)  # another process may have another working directory
        self.dtype, self.shape = dtype, shape
        self._offset, self._order = offset, order
        self._size = os.path.getsize(path)
        self._array: np.ndarray | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_array": None}

    def whole(self) -> np.ndarray:
        """Return the mapped array."""
        if self._array is None:
            path = str(self.path)
            if not os.path.isfile(path):
                raise DataError(f"{path!r} is gone; it held an array of a MappedDataset")
            if os.path.getsize(path) != self._size:
                raise DataError(f"{path!r} has changed since a MappedDataset was made of it; make a new one")
            mapped = np.memmap(path, self.dtype, "r", self._offset, self.shape, self._order)
            self._array = np.asarray(mapped)  # indexing the subclass takes several times as long
        return self._array

    def row(self, index: int) -> Any:
        """Read one sample."""
        return np.array(self.whole()[index])[()]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples."""
        return self.whole()[indices]  # ndarray.take would copy a whole array of Fortran order

    def glance(self) -> Any:
        """Return blocks from all over the file."""
        array = self.whole()
        flat = array.reshape(-1) if self._order == "C" else array.T.reshape(-1)
        if array.nbytes <= _WHOLE:
            return flat
        length = _WHOLE // _N_BLOCKS // array.itemsize
        starts = np.linspace(0, flat.size - length, _N_BLOCKS).astype(np.int64)
        return [flat[start : start + length] for start in starts]


class ZarrRows:
    """An array in a zarr store; pickled the way zarr does it, for a store on disk without its values."""

    def __init__(self, array: Any, path: str | None) -> None:
        self._array = array
        self.path = path
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)

    def row(self, index: int) -> Any:
        """Read one sample."""
        return self._read(lambda: np.asarray(self._array[index])[()], index)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples, each chunk once."""
        rows, places = np.unique(indices, return_inverse=True)
        return self._read(lambda: np.asarray(self._array.oindex[rows])[places], indices)

    def whole(self) -> np.ndarray:
        """Read everything."""
        return self._read(lambda: np.asarray(self._array[...]), "all samples")

    def glance(self) -> Any:
        """Return samples from all over the store."""
        n_rows, row_bytes = self.shape[0], int(np.prod(self.shape[1:])) * self.dtype.itemsize
        if n_rows * row_bytes <= _WHOLE:
            return self.whole()
        some = min(max(2, _WHOLE // row_bytes), _N_BLOCKS)
        return self.take(np.unique(np.linspace(0, n_rows - 1, some).astype(np.int64)))

    def digest(self) -> str:
        """Return a sha256 (hex) of all values, which are read block by block."""
        row_bytes = max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize)
        step = max(1, _WHOLE // row_bytes)
        starts = range(0, self.shape[0], step)
        return fingerprint_of([fingerprint_of(self.take(np.arange(self.shape[0])[start:][:step])) for start in starts])

    def _read(self, read: Any, what: Any) -> Any:
        try:
            return read()
        except Exception as error:
            error.add_note(f"while {what} of {self._array} was read")
            raise


def open_rows(key: str, source: object) -> Rows:
    """Open what a user names as an array; parameters as the items of ``MappedDataset``'s ``arrays``.

    Raises
    ------
    DataError
        If there is no array, or its first axis cannot count samples.
    ConfigError
        If it is a mapped array that another process could not map again.
    MissingBackendError
        If it is a zarr store and zarr is not installed.
    """
    rows: Rows
    if isinstance(source, (str, os.PathLike)):
        path = os.path.abspath(os.fsdecode(source))
        if not os.path.exists(path):
            raise DataError(f"there is no {path!r}, which entry {key!r} of a MappedDataset should be read from")
        rows = _open_zarr(key, path) if os.path.isdir(path) else _open_npy(key, path)
    elif isinstance(source, np.memmap) and isinstance(_root(source), mmap.mmap):
        rows = _of_memmap(key, source)
    elif type(source).__module__.partition(".")[0] == "zarr":
        rows = _of_zarr(key, source, None)
    else:
        rows = LoadedRows(_to_array(key, source))
    if not rows.shape:
        raise DataError(f"entry {key!r} is a single value without a first axis that counts samples, got {source!r}")
    return rows


def _open_npy(key: str, path: str) -> FileRows:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(
            f"{path!r}, entry {key!r} of a MappedDataset, cannot be mapped: {error}; "
            "it must be a complete .npy file of numbers, as numpy.save writes it, or a zarr store"
        ) from error
    if not isinstance(array, np.memmap):
        raise DataError(
            f"{path!r}, entry {key!r} of a MappedDataset, is an archive of arrays, which cannot be mapped; "
            "save each array with numpy.save"
        )
    return _of_memmap(key, array)


def _of_memmap(key: str, array: np.memmap) -> FileRows:
    if array.mode == "c" or not array.filename:
        reason = "is open in mode 'c': its changes are in no file" if array.filename else "has no file with a name"
        raise ConfigError(f"the memmap of entry {key!r} {reason}, so worker processes cannot open it; pass a path")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ConfigError(
            f"the memmap of entry {key!r} is a view with gaps; pass the whole memmap, and select samples by get_subset"
        )
    # a view has the offset of the memmap that it was cut from
    start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    first = np.frombuffer(_root(array), np.uint8).ctypes.data
    offset = start + array.ctypes.data - first
    order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
    return FileRows(os.fsdecode(array.filename), array.dtype, array.shape, offset, order)


def _root(array: object) -> Any:
    """Return what owns the memory of an array."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def _open_zarr(key: str, path: str) -> ZarrRows:
    zarr = import_optional("zarr", f"the folder {path!r}, taken for a zarr store,", "zarr")
    try:
        opened = zarr.open(path, mode="r")
    except Exception as error:
        raise DataError(f"the folder {path!r}, entry {key!r} of a MappedDataset, is no zarr store: {error}") from error
    return _of_zarr(key, opened, path)


def _of_zarr(key: str, array: object, path: str | None) -> ZarrRows:
    if not hasattr(array, "shape"):
        names: Sequence[str] = sorted(array.array_keys()) if hasattr(array, "array_keys") else []
        raise DataError(f"entry {key!r} of a MappedDataset is a group of zarr arrays, {array}; pass one of {names}")
    return ZarrRows(array, path)


def _to_array(key: str, source: object) -> np.ndarray:
    try:
        return exact_array(source, f"the values of {key!r}")
    except Exception as error:
        error.add_note(f"while entry {key!r} of a MappedDataset was turned into an array; pass an array or a path")
        raise
