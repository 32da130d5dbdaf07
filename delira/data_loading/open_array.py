"""Arrays in files, of which a part can be read: ``load_array`` and what opens a file without reading it."""

import io
import os
import posixpath
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from delira.data_loading.abstract_dataset import cut_array
from delira.data_loading.remote import Address, RemoteFile, RemoteSettings, RemoteStream, as_remote_settings
from delira.data_loading.remote_arrays import HEADERS, RemoteNpy, open_remote_zarr, without_objects
from delira.errors import DataError, check_paths, import_optional, listed, noting
from delira.utils.urls import is_url, shown

_HOLDS_SEVERAL = (".npz", ".zarr", ".h5", ".hdf5")
_LOCAL_HEADER = struct.Struct("<26xHH")  # of a zip: lengths of name and extra field, which the values follow


class OpenArray:
    """An array of which nothing but its shape has been read.

    Parameters
    ----------
    array
        What is indexed with slices, e.g. a memmap or a zarr array.
    shape
        Its shape, where it does not say so itself.
    """

    def __init__(self, array: Any, shape: tuple[int, ...] | None = None) -> None:
        self._array = array
        self.shape: tuple[int, ...] = tuple(array.shape if shape is None else shape)

    def read(self, slices: tuple[slice, ...] = ()) -> np.ndarray:
        """Read what lies in slices of the last axes, by default everything; an array of the caller's own."""
        values = cut_array(self._array, slices)
        return values.astype(values.dtype.newbyteorder("="), copy=False)


def load_array(path: str | os.PathLike[str], remote: RemoteSettings | Mapping[str, Any] | None = None) -> np.ndarray:
    """Load an array from a file; as ``sample_fn`` of :class:`LoadSample` it lets patches read their part alone.

    ==============================  =======================================================================
    ``x.npy``                       the part alone is read
    ``x.npz/name``                  the part alone if ``numpy.savez`` wrote it; all if ``savez_compressed`` did
    ``x.zarr``, ``x.zarr/name``     the chunks that the part is in; compressed (needs zarr)
    ``x.h5/name``                   the chunks that the part is in; compressed if it was written so (needs h5py)
    ==============================  =======================================================================

    Parameters
    ----------
    path
        The file or store, or its URL. Behind what holds several arrays follows the name of one; it may be left out if
        there is but one.
    remote
        How data at a URL are reached and kept: a :class:`RemoteSettings` or a dict of its settings.

    Returns
    -------
    ndarray
        Shape and dtype as in the file.

    Raises
    ------
    DataError
        If the file has another ending, cannot be understood, or holds no such array.
    OSError
        If it is missing or may not be read, or a URL does not answer; what is missing at a URL is a ``DataError``.
    MissingBackendError
        If zarr, h5py, fsspec or the package of a protocol is needed and not installed.
    """
    check_paths("load_array", path=path)
    return open_array(path, remote).read()


def open_array(path: str | os.PathLike[str], remote: RemoteSettings | Mapping[str, Any] | None = None) -> OpenArray:
    """Open what :func:`load_array` loads; parameters and errors as there."""
    settings = as_remote_settings(remote)
    if isinstance(path, str) and is_url(path):
        return _open_url(path, settings)
    name = os.path.normpath(os.fspath(path))
    file, inner = _divided(name)
    os.stat(file)  # the system's own error for what is missing
    return _opened(name, os.path.splitext(file)[1].lower(), lambda ending: _OPENERS[ending](file, inner))


def _opened(name: str, ending: str, open_: Callable[[str], OpenArray]) -> OpenArray:
    if ending not in _OPENERS:
        raise DataError(f"{name!r} is no array that load_array knows, which are {', '.join(_OPENERS)}")
    try:
        return open_(ending)
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, struct.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{name!r} cannot be read as an array ({error}); is it damaged?") from error


def _open_url(url: str, settings: RemoteSettings) -> OpenArray:
    address = Address(url, settings)
    scheme, separator, path = address.path.partition("://")
    file, inner = _divided(posixpath.normpath(path))
    ending = os.path.splitext(file)[1].lower()
    if inner and ending != ".zarr":  # of a store every array has an address of its own
        address = Address(url.replace(address.path, f"{scheme}{separator}{file}", 1), settings)
    return _opened(shown(url), ending, lambda ending: _open_at(address, ending, inner))


def _open_at(address: Address, ending: str, inner: str) -> OpenArray:
    if ending == ".zarr":
        return _of_zarr(open_remote_zarr(address), str(address), "")
    file = RemoteFile.open(address, "which an array should be read from")
    if ending == ".npy":
        return OpenArray(RemoteNpy(file))
    if ending == ".npz":
        with zipfile.ZipFile(io.BufferedReader(RemoteStream(file))) as archive:
            name = _only_one(str(address), inner, {entry.removesuffix(".npy"): None for entry in archive.namelist()})
            with archive.open(f"{name}.npy") as member:
                return OpenArray(np.lib.format.read_array(member, allow_pickle=False))
    h5py = import_optional("h5py", f"reading {str(address)!r}", "h5py")
    return _of_hdf5(lambda: h5py.File(io.BufferedReader(RemoteStream(file)), "r"), str(address), inner)


def _divided(path: str) -> tuple[str, str]:
    """The file or store, and the name of the array in it."""
    file = path
    while (parent := os.path.dirname(file)) != file and file:
        if file.lower().endswith(_HOLDS_SEVERAL):
            return file, os.path.relpath(path, file).replace(os.sep, "/") if file != path else ""
        file = parent
    return path, ""


def _open_npy(file: str, inner: str) -> OpenArray:
    return OpenArray(np.load(file, mmap_mode="r", allow_pickle=False))


def _open_npz(file: str, inner: str) -> OpenArray:
    with zipfile.ZipFile(file) as archive:
        names = {name.removesuffix(".npy"): name for name in archive.namelist()}
        entry = archive.getinfo(names[_only_one(file, inner, names)])
        with archive.open(entry) as member:
            if entry.compress_type != zipfile.ZIP_STORED:
                return OpenArray(np.lib.format.read_array(member, allow_pickle=False))
            read_header = HEADERS[np.lib.format.read_magic(member)]
            shape, is_fortran, dtype = read_header(member)
            offset = member.tell()
    if dtype.hasobject:
        raise ValueError("it holds objects")
    with open(file, "rb") as raw:
        raw.seek(entry.header_offset)
        start = entry.header_offset + _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size)))
    if not np.prod(shape):
        return OpenArray(np.empty(shape, dtype))
    return OpenArray(np.memmap(file, dtype, "r", start + offset, shape, "F" if is_fortran else "C"))


def _open_zarr(file: str, inner: str) -> OpenArray:
    zarr = import_optional("zarr", f"reading {file!r}", "zarr")
    with noting(f"while {file!r} was opened"):
        try:
            opened = zarr.open(file, mode="r")
        except Exception as error:
            raise DataError(f"{file!r} is no zarr store: {error}") from error
    return _of_zarr(opened, file, inner)


def _of_zarr(opened: Any, name: str, inner: str) -> OpenArray:
    is_array = hasattr(opened, "shape")
    array = opened if is_array else opened[_only_one(name, inner, dict.fromkeys(opened.array_keys()))]
    return OpenArray(without_objects(array, repr(name)))


def _open_hdf5(file: str, inner: str) -> OpenArray:
    h5py = import_optional("h5py", f"reading {file!r}", "h5py")
    return _of_hdf5(lambda: h5py.File(file, "r"), file, inner)


def _of_hdf5(open_: Callable[[], Any], file: str, inner: str) -> OpenArray:
    try:
        with open_() as opened:
            arrays = {name: None for name, value in opened.items() if hasattr(value, "shape")}
            name = inner if inner in opened else _only_one(file, inner, arrays)
            shape = tuple(opened[name].shape)
    except OSError as error:
        raise DataError(f"{file!r} cannot be read as HDF5 ({error}); is it damaged?") from error
    return OpenArray(_Hdf5(open_, name), shape)


class _Hdf5:
    """An array in an HDF5 file, which is open only while something is read: open ones do not outlive a fork."""

    def __init__(self, open_: Callable[[], Any], name: str) -> None:
        self._open, self._name = open_, name

    def __getitem__(self, slices: Any) -> np.ndarray:
        with self._open() as opened:
            return np.asarray(opened[self._name][slices])


def _only_one(file: str, inner: str, names: Mapping[str, Any]) -> str:
    if not inner and len(names) == 1:
        return next(iter(names))
    if inner not in names:
        got = f"no array {inner!r}" if inner else f"{len(names)} arrays"
        known = listed(sorted(names), 10)
        raise DataError(f"{file!r} holds {got}; write the name behind the path, as {file + '/NAME'!r}: {known}")
    return inner


_OPENERS: dict[str, Callable[[str, str], OpenArray]] = {
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".zarr": _open_zarr,
    ".h5": _open_hdf5,
    ".hdf5": _open_hdf5,
}
