"""Volumes of medical images as arrays."""

import abc
import json
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from delira.data_loading._exact import cast
from delira.errors import ConfigError, DataError, MissingBackendError, check_functions, check_paths, import_optional

_OF_NIBABEL = (".nii", ".nii.gz", ".hdr", ".img", ".mgh", ".mgz")
_DISPLACEMENT, _VECTOR = 1006, 1007  # intents of NIfTI whose fifth axis are components
_LARGEST = 511  # of the CT values that load_sample_nii was made for


def load_nii(path: str | os.PathLike[str]) -> np.ndarray:
    """Load a volume.

    nibabel reads NIfTI, Analyze and MGH files, SimpleITK all others (``.nrrd``, ``.mha``, ...), and those too
    if it is there alone. The arrays are the same, with these exceptions, for which nibabel comes first: it
    notices a file that ends too early, keeps NaN (which SimpleITK reads as 0), and reads NIfTI-2 and sheared
    volumes.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    ndarray of shape (z, y, x), or (t, z, y, x)
        dtype as in the file; float32 (float64 if that is in the file) where the file says how to scale.
        Colours, and the components of vectors (the fifth axis of a NIfTI file that is meant as such), are a last
        axis; the components of displacements are those in the file.

    Raises
    ------
    DataError
        If the file cannot be understood.
    OSError
        If it is missing or may not be read.
    MissingBackendError
        If no package of the extra ``medical`` that reads it is installed.
    """
    check_paths("load_nii", path=path)
    with open(path, "rb"):  # the system's own error for what is missing or forbidden
        pass
    name = os.fspath(path)
    missing = []
    is_of_nibabel = name.lower().endswith(_OF_NIBABEL)
    for read in (_read_with_nibabel, _read_with_simple_itk) if is_of_nibabel else (_read_with_simple_itk,):
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


def _read_with_nibabel(path: str) -> np.ndarray:
    image = import_optional("nibabel", f"reading {path!r}", "delira[medical]").load(path)
    values = np.asanyarray(image.dataobj)
    n_axes = 3
    if values.dtype.names:  # colours
        values, n_axes = np.stack([values[name] for name in values.dtype.names]), 4
    elif values.dtype != image.get_data_dtype():  # scaled
        values = values.astype(np.float32)
    if values.ndim == 5 and n_axes == 3 and values.shape[4] > 1 and _holds_vectors(image.header):
        values, n_axes = np.moveaxis(values, 4, 0), 4
    while values.ndim > n_axes and values.shape[-1] == 1:
        values = values[..., 0]
    # a copy: of an uncompressed file nibabel maps the memory, in the byte order of the file
    return np.array(values.T, dtype=values.dtype.newbyteorder("="), order="C")


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
