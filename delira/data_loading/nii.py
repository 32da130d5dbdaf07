"""Volumes of medical images as arrays."""

import abc
import gzip
import json
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, overload

import numpy as np

from delira.data_loading._content import stem_of
from delira.data_loading._exact import cast
from delira.data_loading.open_array import OpenArray
from delira.errors import (
    ConfigError,
    DataError,
    MissingBackendError,
    check_flags,
    check_functions,
    check_paths,
    import_optional,
)

_OF_NIBABEL = (".nii", ".nii.gz", ".hdr", ".img", ".mgh", ".mgz")
_COMPRESSED = (".nii.gz", ".mgz")
_AT_ONCE = 2**20  # bytes
_DISPLACEMENT, _VECTOR = 1006, 1007  # intents of NIfTI whose fifth axis are components
_MILLIMETRES = {"meter": 1000.0, "micron": 0.001}
_LARGEST = 511  # of the CT values that load_sample_nii was made for


@overload
def load_nii(path: str | os.PathLike[str], geometry: Literal[False] = False) -> np.ndarray: ...
@overload
def load_nii(path: str | os.PathLike[str], geometry: Literal[True]) -> dict[str, Any]: ...
def load_nii(path: str | os.PathLike[str], geometry: bool = False) -> Any:
    """Load a volume.

    nibabel reads NIfTI, Analyze and MGH files, SimpleITK all others (``.nrrd``, ``.mha``, ...), and those too
    if it is there alone. The arrays are the same, with these exceptions, for which nibabel comes first: it
    notices a file that ends too early or whose checksum is wrong, keeps NaN (which SimpleITK reads as 0), and reads
    NIfTI-2 and sheared volumes.

    Parameters
    ----------
    path
        The file.
    geometry
        Whether to return a dict that says besides where the voxels lie.

    Returns
    -------
    ndarray of shape (z, y, x), or (t, z, y, x)
        dtype as in the file; float32 (float64 if that is in the file) where the file says how to scale.
        Colours, and the components of vectors (the fifth axis of a NIfTI file that is meant as such), are a last
        axis; the components of displacements are those in the file.
    dict
        With ``geometry=True``: ``data``, this array; ``spacing``, float64 of shape (3,), mm between voxels along
        (z, y, x); ``affine``, float64 of shape (4, 4), from voxel (x, y, z), as the file counts, to mm to the right,
        front and top (RAS+, as in nibabel), so that ``nibabel.Nifti1Image(data.T, affine)`` is the volume again; and
        ``name``, that of the file without its endings.

    Raises
    ------
    DataError
        If the file cannot be understood.
    OSError
        If it is missing or may not be read.
    MissingBackendError
        If no package of the extra ``medical`` that reads it is installed.
    """
    check_flags("load_nii", geometry=geometry)
    data = _with_either(path, _read_with_nibabel, _read_with_simple_itk)
    return {"data": data, **geometry_of(path), "name": stem_of(os.fspath(path))} if geometry else data


def geometry_of(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return ``spacing`` and ``affine`` of a volume, see :func:`load_nii`; its values are not read."""
    affine = _with_either(path, _affine_with_nibabel, _affine_with_simple_itk)
    return {"spacing": np.sqrt((affine[:3, :3] ** 2).sum(axis=0))[::-1].copy(), "affine": affine}


def open_nii(path: str | os.PathLike[str]) -> OpenArray:
    """Open what :func:`load_nii` loads, to read a part of it.

    Of an uncompressed file this part alone is read; a compressed one is decompressed up to its end. Colours, vectors,
    and what SimpleITK reads are read whole.
    """
    opened = _with_either(path, _open_with_nibabel, lambda name: None)
    return OpenArray(load_nii(path)) if opened is None else opened


def _with_either(path: Any, with_nibabel: Callable[[str], Any], with_simple_itk: Callable[[str], Any]) -> Any:
    """Ask of a file what the package says that reads it; errors as in :func:`load_nii`."""
    check_paths("load_nii", path=path)
    with open(path, "rb"):  # the system's own error for what is missing or forbidden
        pass
    name = os.fspath(path)
    missing = []
    is_of_nibabel = name.lower().endswith(_OF_NIBABEL)
    for read in (with_nibabel, with_simple_itk) if is_of_nibabel else (with_simple_itk,):
        try:
            return read(name)
        except MissingBackendError as error:
            missing.append(error)
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"{name!r} cannot be read as a volume ({type(error).__name__}); is it damaged?") from error
    raise missing[0]


def load_sample_nii(files: Mapping[str, Any], label_load_cls: Callable[[Any], "BaseLabelGenerator"]) -> dict[str, Any]:
    """Load volumes and their labels. Deprecated: :class:`LoadSampleLabel` does it for any range of values.

    Parameters
    ----------
    files
        ``img``: one path or a list; ``label``: a path; optionally ``mask``: a path.
    label_load_cls
        Called with ``files["label"]``; the ``get_labels()`` of what it returns are entries of the sample.

    Returns
    -------
    dict
        ``data``: float32 of shape (number of volumes, z, y, x), divided by 511; ``mask``: int64, (z, y, x);
        and the labels.

    Raises
    ------
    DataError
        If the largest value of all volumes is not above 1 and at most 511, a value is NaN or infinite, volumes have
        different shapes, or the mask holds no integers.
    """
    _deprecated("load_sample_nii", "use LoadSampleLabel with sample_fn=load_nii")
    check_functions("load_sample_nii", label_load_cls=label_load_cls)
    paths = _paths_of(files)
    loaded = [load_nii(path) for path in paths]
    shapes = {path: volume.shape for path, volume in zip(paths, loaded, strict=True)}
    if len({*shapes.values()}) > 1:
        raise DataError(f"the volumes of one sample must have one shape, got {shapes}")
    volumes = np.stack(loaded)
    if not 1 < volumes.max() <= _LARGEST or not np.isfinite(volumes.min()):
        raise DataError(
            f"load_sample_nii divides by {_LARGEST} and needs a largest value above 1 and at most that, but found "
            f"values from {volumes.min()} to {volumes.max()} in {', '.join(map(repr, paths))}; use LoadSample with "
            "norm_range"
        )
    sample: dict[str, Any] = {"data": (volumes / _LARGEST).astype(np.float32)}
    if "mask" in files:
        sample["mask"] = cast(load_nii(files["mask"]), np.dtype(np.int64), f"the mask {os.fspath(files['mask'])!r}")
    labels = label_load_cls(files["label"])
    if not hasattr(labels, "get_labels"):
        raise ConfigError(
            f"label_load_cls must make something with get_labels(), as a BaseLabelGenerator, not a "
            f"{type(labels).__name__}"
        )
    return sample | dict(labels.get_labels())


def _paths_of(files: object) -> list[str]:
    """Paths of the volumes, that of the mask checked; what the label is, the user's own class knows."""
    if not isinstance(files, Mapping) or not {"img", "label"} <= files.keys():
        raise ConfigError(f"files of load_sample_nii must be a dict with 'img' and 'label', got {files!r}")
    images = files["img"]
    several = isinstance(images, Collection) and not isinstance(images, (str, Mapping)) and len(images) > 0
    paths = list(images) if several else [images]
    named = {f"img[{number}]": path for number, path in enumerate(paths)}
    check_paths("files of load_sample_nii", **named, **{name: files[name] for name in {"mask"} & files.keys()})
    return [os.fspath(path) for path in paths]


class BaseLabelGenerator(abc.ABC):
    """Reads labels from a JSON file. Deprecated: a function that returns a dict does, see :class:`LoadSampleLabel`.

    Parameters
    ----------
    fpath
        The file; what is in it is kept as ``data``.

    Raises
    ------
    DataError
        If it is no JSON file.
    """

    def __init__(self, fpath: str) -> None:
        _deprecated("BaseLabelGenerator", "hand LoadSampleLabel a function that returns a dict of labels")
        self.fpath = fpath
        self.data = self._load()

    def _load(self) -> Any:
        with open(self.fpath, encoding="utf-8") as file:
            try:
                return json.load(file)
            except ValueError as error:
                raise DataError(f"the label file {os.fspath(self.fpath)!r} is no JSON: {error}") from error

    @abc.abstractmethod
    def get_labels(self) -> dict[str, Any]:
        """Return the entries that the sample gets."""


def _opened_by_nibabel(path: str) -> Any:
    return import_optional("nibabel", f"reading {path!r}", "delira[medical]").load(path)


def _read_with_nibabel(path: str) -> np.ndarray:
    image = _opened_by_nibabel(path)
    values = _checked_values(path, image) if path.lower().endswith(_COMPRESSED) else np.asanyarray(image.dataobj)
    n_axes = 3
    if values.dtype.names:  # colours
        values, n_axes = np.stack([values[name] for name in values.dtype.names]), 4
    else:
        values = _scaled(values, image)
    if values.ndim == 5 and n_axes == 3 and values.shape[4] > 1 and _holds_vectors(image.header):
        values, n_axes = np.moveaxis(values, 4, 0), 4
    while values.ndim > n_axes and values.shape[-1] == 1:
        values = values[..., 0]
    # a copy: of an uncompressed file nibabel maps the memory, in the byte order of the file
    return np.array(values.T, dtype=values.dtype.newbyteorder("="), order="C")


def _checked_values(path: str, image: Any) -> np.ndarray:
    """The values of a compressed file, whose checksum stands behind them, where nibabel does not look."""
    with gzip.open(path) as stream:
        values = np.asanyarray(type(image).from_stream(stream).dataobj)
        while stream.read(_AT_ONCE):
            pass
    return values


def _scaled(values: np.ndarray, image: Any) -> np.ndarray:
    return values.astype(np.float32) if values.dtype != image.get_data_dtype() else values


def _open_with_nibabel(path: str) -> OpenArray | None:
    image = _opened_by_nibabel(path)
    shape = tuple(map(int, image.shape))
    if image.get_data_dtype().names or (len(shape) == 5 and _holds_vectors(image.header)):
        return None
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    return OpenArray(_NibabelPart(image, len(shape)), shape[::-1])


class _NibabelPart:
    """What :func:`load_nii` would return, read by slices of its last axes."""

    def __init__(self, image: Any, n_axes: int) -> None:
        self._image, self._n_axes = image, n_axes

    def __getitem__(self, index: Any) -> np.ndarray:
        slices = index[1:]  # after an ellipsis
        whole = (slice(None),) * (self._n_axes - len(slices))
        rest = (0,) * (len(self._image.shape) - self._n_axes)
        values: np.ndarray = np.asanyarray(self._image.dataobj[(*slices[::-1], *whole, *rest)])
        return np.array(_scaled(values, self._image).T, order="C")


def _affine_with_nibabel(path: str) -> np.ndarray:
    image = _opened_by_nibabel(path)
    unit = image.header.get_xyzt_units()[0] if hasattr(image.header, "get_xyzt_units") else "mm"
    affine = np.array(image.affine, dtype=np.float64)
    affine[:3] *= _MILLIMETRES.get(unit, 1.0)
    return affine


def _affine_with_simple_itk(path: str) -> np.ndarray:
    itk = import_optional("SimpleITK", f"reading {path!r}", "delira[medical]")
    reader = itk.ImageFileReader()
    reader.SetFileName(path)
    reader.ReadImageInformation()
    n_axes = reader.GetDimension()
    used = min(3, n_axes)
    turned = np.reshape(reader.GetDirection(), (n_axes, n_axes))[:used, :used]
    affine = np.eye(4)
    affine[:used, :used] = turned * np.array(reader.GetSpacing())[:used]
    affine[:used, 3] = reader.GetOrigin()[:used]
    affine[:2] *= -1  # its axes point to the left and the back
    return affine


def _read_with_simple_itk(path: str) -> np.ndarray:
    itk = import_optional("SimpleITK", f"reading {path!r}", "delira[medical]")
    image = itk.ReadImage(path)
    array: np.ndarray = itk.GetArrayFromImage(image)
    if not image.HasMetaDataKey("intent_code"):  # no NIfTI
        return array
    is_vector = image.GetNumberOfComponentsPerPixel() > 1
    if int(image.GetMetaData("intent_code")) == _DISPLACEMENT:
        if image.GetNumberOfComponentsPerPixel() != 3:
            raise DataError(f"{path!r} holds displacements of other than three components; nibabel reads them")
        array[..., :2] *= -1  # it has turned x and y from the file's RAS to its own LPS
    if is_vector and image.GetDimension() == 2 and int(image.GetMetaData("dim[0]")) > 2:
        return array[np.newaxis]  # of vectors it drops an axis of one slice, of other values it does not
    return array


def _holds_vectors(header: Any) -> bool:
    is_nifti = "intent_code" in header.keys() if hasattr(header, "keys") else False  # noqa: SIM118  no mapping
    return is_nifti and int(header["intent_code"]) in (_DISPLACEMENT, _VECTOR)


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated; {instead}", DeprecationWarning, stacklevel=3)
