"""Functions that load a sample from files, and normalise it; for ``load_fn`` of datasets and data managers."""

import contextlib
import functools
import itertools
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from delira.data_loading._content import describe_callable
from delira.data_loading._exact import as_array, cast, exact_array
from delira.data_loading._images import check_size, read_image, read_numbers, to_channels_first
from delira.data_loading.abstract_dataset import cut_array
from delira.data_loading.file_dataset import ending_of, to_endings
from delira.data_loading.nii import geometry_of, load_nii, open_nii
from delira.data_loading.open_array import OpenArray, load_array, open_array
from delira.data_loading.remote import as_remote_settings
from delira.errors import (
    ConfigError,
    DataError,
    MissingKeyError,
    check_flags,
    check_names,
    check_paths,
    check_texts,
    check_whole,
    did_you_mean,
    expect,
    noting,
)
from delira.utils.lazy import old_names
from delira.utils.urls import shown

_RANGES = {"-1,1": (-1.0, 1.0), "0,1": (0.0, 1.0)}


def norm_range(mode: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that scales an array to a range, by its own minimum and maximum.

    Its result is float32, or float64 where float32 cannot hold the values of the input. An array of equal
    values becomes the lower bound everywhere. What holds NaN or infinite values has no range: a ``DataError``.

    Parameters
    ----------
    mode
        ``"-1,1"`` or ``"0,1"``.

    Raises
    ------
    ConfigError
        If ``mode`` is something else.
    """
    if not isinstance(mode, str) or mode not in _RANGES:
        raise ConfigError(f"mode={mode!r} is no range{did_you_mean(mode, _RANGES)}")
    return functools.partial(_scale, *_RANGES[mode])  # a lambda could not be sent to another process


def norm_zero_mean_unit_std(data: np.ndarray) -> np.ndarray:
    """Subtract the mean and divide by the standard deviation.

    Parameters
    ----------
    data : ndarray of any shape
        It is normalised as a whole.

    Returns
    -------
    ndarray of the same shape
        float32, or float64 where float32 cannot hold the values of ``data``; zeros if all values are equal.

    Raises
    ------
    DataError
        If ``data`` are no numbers, or some of them NaN or infinite.
    """
    values, minimum, maximum = _read_values(data)
    if minimum == maximum:  # the standard deviation would be a rounding error
        return np.zeros_like(values)
    largest = max(abs(float(minimum)), abs(float(maximum)))
    if not 1e-100 < largest < 1e100:  # squares would be infinite, or zero
        values = values / largest
    mean, deviation = values.mean(dtype=np.float64), values.std(dtype=np.float64)
    return (values - float(mean)) / float(deviation)


def _scale(low: float, high: float, data: np.ndarray) -> np.ndarray:
    values, minimum, maximum = _read_values(data)
    if minimum == maximum:
        return np.full_like(values, low)
    with np.errstate(over="ignore"):
        is_wide = np.isinf(maximum - minimum)
    if is_wide:
        values, minimum, maximum = values / 2, minimum / 2, maximum / 2
    return (values - minimum) / (maximum - minimum) * (high - low) + low


def _read_values(data: object) -> tuple[np.ndarray, Any, Any]:
    """Return values as floating-point numbers, the least and the greatest; of none, these are zeros."""
    array = exact_array(data, "the values to be normalised")
    if array.dtype.kind not in "biuf":
        raise DataError(f"what is normalised must be an array of numbers, got {data!r:.100} ({array.dtype})")
    values = array.astype(np.result_type(array.dtype, np.float32), copy=False)
    minimum, maximum = (values.min(), values.max()) if values.size else (0, 0)
    if not (np.isfinite(minimum) and np.isfinite(maximum)):
        raise DataError(
            f"what is normalised holds {np.count_nonzero(~np.isfinite(values))} of {values.size} values that are NaN "
            "or infinite, and all others would depend on them; replace them first, e.g. "
            "numpy.nan_to_num(array, posinf=0, neginf=0)"
        )
    return values, minimum, maximum


_TO_MINUS_ONE_ONE = norm_range("-1,1")


def default_load_fn_2d(
    img_file: str, *label_files: str, img_shape: tuple[int, int], n_channels: int = 1
) -> dict[str, np.ndarray]:
    """Load one image and its labels.

    Parameters
    ----------
    img_file
        An image that imageio reads, or an array of shape (H, W) or (H, W, C) in a ``.npy`` file.
    *label_files
        Text files that hold numbers.
    img_shape
        Height and width that the image is resized to.
    n_channels
        Channels wanted. An image that has others is converted if that has one meaning: colours to gray
        (1), gray to equal colours (3), CMYK and palettes to colours; transparent parts of a picture are put on white.
        Pictures are turned upright as their EXIF orientation says.

    Returns
    -------
    dict
        ``data``: float32, shape ``(n_channels, *img_shape)``; 0 to 1 for images of 1, 8 or 16 bit, the values
        of the file otherwise. ``label_0``, ``label_1``, ...: float32, shape (1,) if the file holds one number.

    Raises
    ------
    DataError
        If a file cannot be understood, or the image has other channels than wanted; names the file.
    OSError
        If a file is missing or may not be read.
    MissingBackendError
        If a package of the extra ``images`` is not installed.
    """
    names = {f"label_files[{number}]": file for number, file in enumerate(label_files)}
    check_paths("default_load_fn_2d", img_file=img_file, **names)
    height_and_width = check_size("default_load_fn_2d", img_shape)
    check_whole("default_load_fn_2d", at_least=1, n_channels=n_channels)
    image = read_image(img_file, n_channels)
    try:
        sample = {"data": to_channels_first(image, height_and_width, n_channels)}
    except DataError as error:
        raise DataError(f"{os.fspath(img_file)!r} cannot be used: {error}") from None
    return sample | {f"label_{number}": read_numbers(file) for number, file in enumerate(label_files)}


def _files_of(sample_ext: object) -> dict[str, list[str]]:
    """Return names of files by entry, at least one for each."""
    if isinstance(sample_ext, Mapping) and sample_ext:
        with contextlib.suppress(TypeError):  # of what is no list
            files = {key: [names] if isinstance(names, str) else list(names) for key, names in sample_ext.items()}
            if all(names and all(isinstance(name, str) and name for name in names) for names in files.values()):
                return files
    raise ConfigError(
        f"sample_ext must say which files make which entry, e.g. {{'data': ['image.nii.gz']}}; got {sample_ext!r}"
    )


def _to_dtype(value: Any, key: str) -> np.dtype:
    try:
        dtype = np.dtype(value)
        if dtype.kind == "V":
            raise TypeError("it has several parts")
    except TypeError as error:
        raise ConfigError(f"dtype of {key!r} must be one of numpy's, e.g. 'float32', got {value!r}") from error
    return dtype


def _check_known(setting: str, given: Iterable[str], known: Collection[str]) -> None:
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"{setting} names {unknown[0]!r}, which is not loaded{did_you_mean(unknown[0], known)}")


_OPENERS: Mapping[Any, Callable[[str], OpenArray]] = {load_nii: open_nii, load_array: open_array}
"""What opens the files that a function loads, to read a part of them."""
_GEOMETRY = {"spacing", "affine", "name"}


class LoadSample:
    """Loads a sample from files in one folder; called with the path of the folder.

    Parameters
    ----------
    sample_ext
        ``{entry: names of files}``. The arrays of several files are stacked; that of one file gets a first
        axis of length 1. So either gives a shape (number of files, ...).
    sample_fn
        Called as ``sample_fn(path of a file, **kwargs)``; returns an array.
    dtype
        ``{entry: dtype}`` for entries to be cast, after they are normalised. Integers are made only of what is an
        integer up to rounding errors (a scaled mask) and fits.
    normalize
        Entries, and names of files, to be normalised: each file on its own.
    norm_fn
        How: takes and returns an array.
    geometry
        Whether samples say where their voxels lie: ``spacing``, ``affine`` and ``name`` as :func:`load_nii` gives
        them, of the first file of the first entry; ``name`` is that of the folder. ``sample_fn`` is ``load_nii`` then.
    **kwargs
        Handed to ``sample_fn``.

    Raises
    ------
    ConfigError
        If ``dtype`` or ``normalize`` names what is not loaded, a function cannot be called, or ``geometry`` does not
        fit the other arguments.

    Notes
    -----
    With ``load_nii`` or ``load_array``, and without ``**kwargs`` but ``remote``, patches read of an entry their part
    alone; an entry that is normalised is read whole.
    """

    def __init__(
        self,
        sample_ext: Mapping[str, str | Iterable[str]],
        sample_fn: Callable[..., Any],
        dtype: Mapping[str, Any] | None = None,
        normalize: str | Iterable[str] = (),
        norm_fn: Callable[[np.ndarray], np.ndarray] = _TO_MINUS_ONE_ONE,
        geometry: bool = False,
        **kwargs: Any,
    ) -> None:
        self._files = _files_of(sample_ext)
        check_flags(self, geometry=geometry)
        if geometry and (sample_fn is not load_nii or (twice := _GEOMETRY & self._files.keys())):
            raise ConfigError(
                "geometry=True needs sample_fn=load_nii, which says where voxels lie"
                if sample_fn is not load_nii
                else f"geometry=True makes the entries {sorted(_GEOMETRY)}, of which sample_ext has {sorted(twice)}"
            )
        self._geometry = geometry
        expect(("dtype", dtype, isinstance(dtype, Mapping | None), "a dict {entry: dtype}"))
        self._dtype = {key: _to_dtype(value, key) for key, value in (dtype or {}).items()}
        check_names(type(self).__name__, normalize=normalize)
        self._normalize = [normalize] if isinstance(normalize, str) else list(normalize)
        if sample_fn is load_array and "remote" in kwargs:  # as a dict it would show keys
            kwargs = kwargs | {"remote": as_remote_settings(kwargs["remote"])}
        self._sample_fn, self._norm_fn, self._kwargs = sample_fn, norm_fn, kwargs
        expect(
            ("sample_fn", sample_fn, callable(sample_fn), "a function"),
            ("norm_fn", norm_fn, callable(norm_fn), "a function"),
        )
        _check_known("dtype", self._dtype, self._files)
        _check_known("normalize", self._normalize, [*self._files, *itertools.chain(*self._files.values())])

    def __call__(self, path: str) -> dict[str, Any]:
        """Load the sample in the folder ``path``.

        Raises
        ------
        DataError
            If files of one entry have different shapes, or values that the ``dtype`` asked for cannot hold.
        """
        return {key: self._load_entry(path, key) for key in self._files} | self._where(path)

    def entry_shapes(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries; files are opened, and read where nothing else tells."""
        shapes = {key: (len(names), *self._open(path, key, names[0]).shape) for key, names in self._files.items()}
        return shapes | {key: np.shape(value) for key, value in self._where(path).items()}

    def read_part(
        self, path: str, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Load the sample in the folder ``path``, of which some entries are cut; as ``AbstractDataset.read_part``."""
        known = [*self._files, *(_GEOMETRY if self._geometry else ())]
        wanted = known if keys is None else [*keys]
        if missing := [key for key in {*wanted, *parts} if key not in known]:
            raise MissingKeyError(
                f"the sample in {shown(os.fspath(path))!r} has no entries {sorted(missing)}; it has {sorted(known)}"
            )
        entries = {key: self._load_entry(path, key, parts.get(key, ())) for key in self._files if key in wanted}
        where = self._where(path) if _GEOMETRY.intersection(wanted) else {}
        return {key: entries[key] if key in entries else where[key] for key in wanted}

    def __repr__(self) -> str:
        # also what a dataset is recognised by, see describe_callable
        return (
            f"{type(self).__name__}({self._files!r}, {describe_callable(self._sample_fn)}, dtype={self._dtype!r}, "
            f"normalize={self._normalize!r}, norm_fn={describe_callable(self._norm_fn)}, {self._kwargs!r}"
            f"{', geometry=True' if self._geometry else ''})"
        )

    def _where(self, path: str) -> dict[str, Any]:
        if not self._geometry:
            return {}
        first = next(iter(self._files.values()))[0]
        return {**geometry_of(os.path.join(path, first)), "name": os.path.basename(os.path.normpath(path))}

    def _load_entry(self, path: str, key: str, slices: tuple[slice, ...] = ()) -> np.ndarray:
        names = self._files[key]
        files = [os.path.join(path, name) for name in names]
        arrays = [
            self._open(path, key, name).read(slices) if slices else self._load_file(file, {key, name})
            for file, name in zip(files, names, strict=True)
        ]
        for file, array in zip(files, arrays, strict=True):
            if array.shape != arrays[0].shape:
                raise DataError(
                    f"the files of entry {key!r} differ in shape: {shown(file)!r} has {array.shape}, "
                    f"but {shown(files[0])!r} has {arrays[0].shape}"
                )
        stacked = np.stack(arrays)
        if key not in self._dtype:
            return stacked
        return cast(stacked, self._dtype[key], f"entry {key!r} of {shown(os.fspath(path))!r}")

    def _open(self, path: str, key: str, name: str) -> OpenArray:
        """Open a file, or load it where that is the only way to a part of it."""
        file, open_file = os.path.join(path, name), _OPENERS.get(self._sample_fn)
        if self._sample_fn is load_array and self._kwargs.keys() == {"remote"}:
            open_file, is_plain = functools.partial(open_array, **self._kwargs), True
        else:
            is_plain = not self._kwargs
        if open_file is None or not is_plain or {key, name}.intersection(self._normalize):
            return OpenArray(self._load_file(file, {key, name}))
        with noting(f"while {shown(file)!r} was loaded"):
            return open_file(file)

    def _load_file(self, file: str, names: set[str]) -> np.ndarray:
        with noting(f"while {shown(file)!r} was loaded"):
            array = as_array(self._sample_fn(file, **self._kwargs))
            return np.asarray(self._norm_fn(array)) if names.intersection(self._normalize) else array


class LoadSampleLabel(LoadSample):
    """Loads a sample from files in one folder, and its labels from one more file there.

    Parameters
    ----------
    sample_ext, sample_fn
        As in :class:`LoadSample`.
    label_ext
        Name of the file that holds the labels.
    label_fn
        Called as ``label_fn(path of that file, **kwargs)``; returns a dict of entries that the sample gets too.
    sample_kwargs
        The other arguments of :class:`LoadSample`: ``dtype``, ``normalize``, ``norm_fn`` and what is handed to
        ``sample_fn``.
    **kwargs
        Handed to ``label_fn``.
    """

    def __init__(
        self,
        sample_ext: Mapping[str, str | Iterable[str]],
        sample_fn: Callable[..., Any],
        label_ext: str,
        label_fn: Callable[..., Mapping[str, Any]],
        sample_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        is_dict = isinstance(sample_kwargs, Mapping | None)
        expect(("sample_kwargs", sample_kwargs, is_dict, "a dict of arguments of LoadSample"))
        super().__init__(sample_ext, sample_fn, **(sample_kwargs or {}))
        check_texts(type(self).__name__, label_ext=label_ext)
        expect(("label_fn", label_fn, callable(label_fn), "a function"))
        self._label_ext, self._label_fn, self._label_kwargs = label_ext, label_fn, kwargs

    def __call__(self, path: str) -> dict[str, Any]:
        """Load the sample in the folder ``path``, with its labels.

        Raises
        ------
        DataError
            If files of one entry have different shapes, or ``label_fn`` returns no dict, or an entry that the
            sample has already.
        """
        sample = super().__call__(path)
        return sample | self._labels(path, sample)

    def entry_shapes(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the entries; the labels are loaded for it."""
        shapes = super().entry_shapes(path)
        return shapes | {key: np.shape(value) for key, value in self._labels(path, shapes).items()}

    def read_part(
        self, path: str, parts: Mapping[str, tuple[slice, ...]], keys: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Load the sample in the folder ``path``, of which some entries are cut; as ``AbstractDataset.read_part``."""
        own = {*self._files, *(_GEOMETRY if self._geometry else ())}
        labels = {} if keys is not None and own.issuperset(keys) else self._labels(path, dict.fromkeys(own))
        wanted = [*own, *labels] if keys is None else [*keys]
        images = super().read_part(
            path,
            {key: part for key, part in parts.items() if key not in labels},
            [key for key in wanted if key not in labels],
        )
        cut = {key: cut_array(as_array(labels[key]), parts[key]) for key in labels if key in parts}
        return {key: (images | labels | cut)[key] for key in wanted}

    def _labels(self, path: str, sample: Mapping[str, Any]) -> dict[str, Any]:
        """Load the labels; ``sample`` has the entries that they must not have."""
        file = os.path.join(path, self._label_ext)
        with noting(f"while {shown(file)!r} was loaded"):
            labels = self._label_fn(file, **self._label_kwargs)
        if not isinstance(labels, Mapping):
            raise DataError(
                f"label_fn must return a dict, e.g. {{'label': 3}}, but returned a {type(labels).__name__} for {file!r}"
            )
        if twice := sorted(map(str, sample.keys() & labels.keys())):
            raise DataError(f"label_fn returned the entries {twice} for {file!r}, which the sample has already")
        return dict(labels)

    def __repr__(self) -> str:
        own = f"{self._label_ext!r}, {describe_callable(self._label_fn)}, {self._label_kwargs!r}"
        return f"{super().__repr__()} and ({own})"


def is_valid_image_file(fname: str, img_extensions: str | Iterable[str], gt_extensions: object) -> bool:
    """Return True if a file is an image that has ground truth next to it. Deprecated.

    Parameters
    ----------
    fname
        The file in question.
    img_extensions, gt_extensions
        As in :class:`BaseLazyDataset`, which does all this for a whole directory.
    """
    warnings.warn(
        "is_valid_image_file is deprecated; pass img_extensions and gt_extensions to BaseLazyDataset",
        DeprecationWarning,
        stacklevel=2,
    )
    ending = ending_of(fname, to_endings(img_extensions, "img_extensions"))
    if ending is None or not gt_extensions:
        return ending is not None
    truths_end = to_endings(gt_extensions, "gt_extensions")
    stem = os.path.basename(fname)[: -len(ending)]
    return any(
        (found := ending_of(name, truths_end)) is not None and name[: -len(found)] == stem
        for name in os.listdir(os.path.dirname(fname) or ".")
    )


__getattr__ = old_names(__name__)
