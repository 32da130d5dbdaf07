"""Arrays larger than memory: mapped files and zarr stores, here or at a URL."""

import math
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from delira.data_loading import _content, _exact
from delira.data_loading.abstract_dataset import AbstractDataset, cut_array
from delira.data_loading.remote import Address, RemoteFile, RemoteSettings, as_remote_settings, known_by_size
from delira.data_loading.remote_arrays import RemoteNpy, all_stamps_of, open_remote_zarr, stamps_of, without_objects
from delira.errors import ConfigError, DataError, MissingKeyError, import_optional, noting
from delira.utils.urls import is_url

_WHOLE = 2**24  # bytes; what is larger is only glanced at
_N_BLOCKS = 64


class MappedDataset(AbstractDataset):
    """Arrays on disk whose first axis counts the samples; only the samples asked for are read.

    Files are opened read-only. A pickled dataset holds their paths and not their values: each worker process
    opens them itself, and all share what the system keeps of them in memory.

    Parameters
    ----------
    arrays
        ``{key: source of shape (n, ...)}``. A source is the path of a ``.npy`` file; the path of an array in a
        zarr store, e.g. ``"scans.zarr/images"``; a URL of either, e.g. ``"s3://bucket/scans.zarr/images"``, of any
        protocol of fsspec; an open zarr array; a ``numpy.memmap``; or, for what is small, an array in memory, which is
        pickled with its values.
    remote
        How data at a URL are reached and kept: a :class:`RemoteSettings` or a dict of its settings.

    Notes
    -----
    The fingerprint takes in arrays up to 16 MiB with all their values. Of larger ones it takes in shape, dtype,
    and 16 MiB in 64 blocks from all over the file (of a zarr store up to 64 samples): reading a terabyte would
    take hours. A change of single samples in between remains unseen.

    Raises
    ------
    DataError
        If a file is missing, incomplete or holds no array, or the lengths differ.
    MissingBackendError
        If zarr is needed and not installed.

    Examples
    --------
    >>> np.save("images.npy", np.zeros((3, 8, 8)))
    >>> dataset = MappedDataset({"data": "images.npy", "label": [0, 1, 1]})
    >>> len(dataset), dataset[2]["data"].shape
    (3, (8, 8))
    """

    def __init__(self, arrays: Mapping[str, Any], remote: RemoteSettings | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        if not isinstance(arrays, Mapping) or not arrays:
            got = "an empty dict" if isinstance(arrays, Mapping) else f"a {type(arrays).__name__}"
            raise DataError(f"MappedDataset needs a dict of paths and arrays, got {got}")
        settings = as_remote_settings(remote)
        self.data: dict[str, Rows] = {key: open_rows(key, source, settings) for key, source in arrays.items()}
        self._length = _exact.common_length({key: rows.shape[0] for key, rows in self.data.items()}, "MappedDataset")

    def __getstate__(self) -> dict[str, Any]:
        # labels that were read would travel with their values
        return {name: value for name, value in vars(self).items() if name != "_delira_labels"}

    _draws_nothing = True

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = _exact.to_index(index, self._length, self)
        return {key: rows.row(number) for key, rows in self.data.items()}

    def get_sample_from_index(self, index: int) -> int:
        """Return the number of the sample: nothing else is kept of it."""
        return index

    def get_batch(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return one array of shape (B, ...) per key, a copy in the order of ``indices``."""
        indices = _exact.from_the_front(indices, self._length, self)
        return {key: rows.take(indices) for key, rows in self.data.items()}

    def entry_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries; nothing is read."""
        _exact.to_index(index, self._length, self)
        return {key: rows.shape[1:] for key, rows in self.data.items()}

    def read_part(
        self, index: int, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Return a sample of which entries are cut; only the part is read, of a zarr store the chunks that it is in."""
        number = _exact.to_index(index, self._length, self)
        wanted = [*self.data] if keys is None else [*keys]
        if missing := [key for key in {*wanted, *parts} if key not in self.data]:
            raise MissingKeyError(f"no sample has the entries {sorted(missing)}; only {sorted(map(str, self.data))}")
        return {
            key: self.data[key].part(number, parts[key]) if key in parts else self.data[key].row(number)
            for key in wanted
        }

    def _read_labels(self, key: str) -> np.ndarray:
        if key not in self.data:
            raise MissingKeyError(
                f"no sample has an entry {key!r}; only {sorted(map(str, self.data))}; name one of these as key"
            )
        return self.data[key].whole()

    def _content(self) -> Any:
        return content_of_arrays(self)

    def _files(self) -> list[str]:
        return files_of_arrays(self)

    def _elsewhere(self) -> tuple[int, int]:
        found = [rows.elsewhere for rows in self.data.values() if rows.elsewhere[0]]
        return sum(size for size, _ in found), min((cache for _, cache in found), default=0)


def content_of_arrays(dataset: MappedDataset) -> dict[str, tuple[str, tuple[int, ...], Any]]:
    """Return what tells the arrays from others, without reading all of a large one."""
    return {key: (rows.dtype.str, rows.shape, rows.glance()) for key, rows in dataset.data.items()}


def files_of_arrays(dataset: MappedDataset) -> list[str]:
    """Return the files and stores that the arrays lie in, each once."""
    return list(dict.fromkeys(os.fspath(rows.path) for rows in dataset.data.values() if rows.path is not None))


# ------------------------------------------------------------------ arrays wherever they lie


class Rows:
    """Something to read samples from, whose first axis counts them: an array in memory, pickled with its values."""

    path: str | None = None
    """The file or store, None if there is none that others could open."""
    elsewhere: tuple[int, int] = (0, 0)
    """Bytes that lie at a URL, and those that the cache of it may take."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.dtype: np.dtype = np.dtype(array.dtype)

    def row(self, index: int) -> Any:
        """Read one sample; the result is a copy or may not be written to."""
        return self._array[index]

    def part(self, index: int, slices: tuple[slice, ...]) -> np.ndarray:
        """Read a part of one sample, cut along its last axes; a copy."""
        return cut_array(self.whole()[index], slices)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples in the order of ``indices``, shape (B,), which may repeat; a copy."""
        return self.whole()[indices]  # ndarray.take would copy a whole array of Fortran order

    def whole(self) -> np.ndarray:
        """Return everything, mapped if it can be."""
        return self._array  # type: ignore[no-any-return]

    def glance(self) -> Any:
        """Return what tells the content from others, without reading all of it if it is large."""
        return self.whole()

    def digest(self) -> str | None:
        """Return what tells the content from all others; None where the glance does.

        Raises
        ------
        ConfigError
            If nobody can tell.
        """
        return None


class FileRows(Rows):
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
        self.path = os.path.abspath(path)  # another process may have another working directory
        self.dtype, self.shape = dtype, shape
        self._offset, self._order = offset, order
        self._size = os.path.getsize(path)
        self._array = None

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

    def glance(self) -> Any:
        """Return blocks from all over the file."""
        array = self.whole()
        flat = array.reshape(-1) if self._order == "C" else array.T.reshape(-1)
        if array.nbytes <= _WHOLE:
            return flat
        length = _WHOLE // _N_BLOCKS // array.itemsize
        starts = np.linspace(0, flat.size - length, _N_BLOCKS).astype(np.int64)
        return [flat[start : start + length] for start in starts]


class ZarrRows(Rows):
    """An array in a zarr store; pickled the way zarr does it, for a store on disk without its values."""

    def __init__(self, array: Any, path: str | None) -> None:
        super().__init__(array)
        self.path = path

    def row(self, index: int) -> Any:
        """Read one sample."""
        return self._read(lambda: np.asarray(self._array[index])[()], index)

    def part(self, index: int, slices: tuple[slice, ...]) -> np.ndarray:
        """Read the chunks of one sample that a part of it is in."""
        return self._read(lambda: np.array(self._array[(index, ..., *slices)]), index)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples, each chunk once."""
        rows, places = np.unique(indices, return_inverse=True)
        return self._read(lambda: np.asarray(self._array.oindex[rows])[places], indices)

    def whole(self) -> np.ndarray:
        """Read everything."""
        return self._read(lambda: np.asarray(self._array[...]), "all samples")

    def glance(self) -> Any:
        """Return samples from all over the store."""
        if self.shape[0] * self._row_bytes <= _WHOLE:
            return self.whole()
        some = min(max(2, _WHOLE // self._row_bytes), _N_BLOCKS)
        return self.take(np.unique(np.linspace(0, self.shape[0] - 1, some).astype(np.int64)))

    def digest(self) -> str:
        """Return a sha256 (hex) of all values, which are read block by block."""
        step = max(1, _WHOLE // max(1, self._row_bytes))
        blocks = (np.arange(start, min(start + step, self.shape[0])) for start in range(0, self.shape[0], step))
        return _content.fingerprint_of([_content.fingerprint_of(self.take(block)) for block in blocks])

    @property
    def _row_bytes(self) -> int:
        return int(np.prod(self.shape[1:])) * self.dtype.itemsize

    def _read(self, read: Any, what: Any) -> Any:
        with noting(lambda: f"while {what} of {self._array} was read"):
            return read()


class RemoteRows(Rows):
    """A ``.npy`` file at a URL; pickled without its values, and it must stay the file that it was."""

    def __init__(self, array: RemoteNpy) -> None:
        super().__init__(array)
        self.elsewhere = (math.prod(self.shape) * self.dtype.itemsize, array.file.address.settings.cache_size)

    def row(self, index: int) -> Any:
        """Read one sample."""
        return self.take(np.array([index]))[0]

    def part(self, index: int, slices: tuple[slice, ...]) -> np.ndarray:
        """Read one sample from the first value of a part of it to the last one."""
        whole = [slice(0, length) for length in self.shape[1 : len(self.shape) - len(slices)]]
        with noting(lambda: f"while sample {index} of {self._array.file.address} was read"):
            return self._array.box([slice(index, index + 1), *whole, *slices])[0]  # type: ignore[no-any-return]

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Read samples, those that lie together at once."""
        with noting(lambda: f"while samples {indices.tolist()} of {self._array.file.address} were read"):
            return self._array.rows(np.asarray(indices))  # type: ignore[no-any-return]

    def whole(self) -> np.ndarray:
        """Read everything."""
        return self.take(np.arange(self.shape[0]))

    def glance(self) -> Any:
        """Return what the store says of the file."""
        return ["elsewhere", self._array.file.stamp]

    def digest(self) -> None:
        """Refuse a file of which the store says the size alone."""
        if not self._array.file.is_told:
            raise known_by_size(self._array.file)


class RemoteZarrRows(ZarrRows):
    """An array in a zarr store at a URL."""

    def __init__(self, array: Any, settings: RemoteSettings) -> None:
        super().__init__(array, None)
        self.elsewhere = (math.prod(self.shape) * self.dtype.itemsize, settings.cache_size)

    def glance(self) -> Any:
        """Return what the store says of the metadata and of some chunks."""
        return ["elsewhere", stamps_of(self._array)]

    def digest(self) -> str:
        """Return a sha256 (hex) of what the store says of all chunks; nothing is read."""
        return _content.fingerprint_of(all_stamps_of(self._array))


def open_rows(key: str, source: object, remote: RemoteSettings) -> Rows:
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
    if isinstance(source, str) and is_url(source):
        rows: Rows = _open_url(key, Address(source, remote))
    elif isinstance(source, (str, os.PathLike)):
        path = os.path.abspath(os.fsdecode(source))
        if not os.path.exists(path):
            raise DataError(f"there is no {path!r}, which entry {key!r} of a MappedDataset should be read from")
        rows = _open_zarr(key, path) if os.path.isdir(path) else _open_npy(key, path)
    elif isinstance(source, np.memmap) and isinstance(_exact.owner_of_memory(source), mmap.mmap):
        rows = _of_memmap(key, source)
    elif type(source).__module__.partition(".")[0] == "zarr":
        rows = _of_zarr(key, source, None)
    else:
        with noting(f"while entry {key!r} of a MappedDataset was turned into an array; pass an array or a path"):
            rows = Rows(_exact.exact_array(source, f"the values of {key!r}"))
    if not rows.shape:
        raise DataError(f"entry {key!r} is a single value without a first axis that counts samples, got {source!r}")
    return rows


def _open_url(key: str, address: Address) -> Rows:
    if not address.path.lower().endswith(".npy"):
        array = open_remote_zarr(address)
        return RemoteZarrRows(_checked_zarr(key, array), address.settings)
    array = RemoteNpy(RemoteFile.open(address, f"which entry {key!r} of a MappedDataset should be read from"))
    if array.is_fortran and len(array.shape) > 1:
        raise DataError(
            f"{str(address)!r} is in Fortran order, where the values of a sample lie all over the file; save it anew: "
            "numpy.save(file, numpy.ascontiguousarray(array))"
        )
    return RemoteRows(array)


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
    offset = start + array.ctypes.data - np.frombuffer(_exact.owner_of_memory(array), np.uint8).ctypes.data
    order: Literal["C", "F"] = "C" if array.flags.c_contiguous else "F"
    return FileRows(os.fsdecode(array.filename), array.dtype, array.shape, offset, order)


def _open_zarr(key: str, path: str) -> ZarrRows:
    zarr = import_optional("zarr", f"the folder {path!r}, taken for a zarr store,", "zarr")
    try:
        opened = zarr.open(path, mode="r")
    except Exception as error:
        raise DataError(f"the folder {path!r}, entry {key!r} of a MappedDataset, is no zarr store: {error}") from error
    return _of_zarr(key, opened, path)


def _of_zarr(key: str, array: object, path: str | None) -> ZarrRows:
    return ZarrRows(_checked_zarr(key, array), path)


def _checked_zarr(key: str, array: object) -> Any:
    if not hasattr(array, "shape"):
        names: Sequence[str] = sorted(array.array_keys()) if hasattr(array, "array_keys") else []
        raise DataError(f"entry {key!r} of a MappedDataset is a group of zarr arrays, {array}; pass one of {names}")
    return without_objects(array, f"the zarr array {array}, entry {key!r} of a MappedDataset,")
