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
from delira.data_loading.file_dataset import ending_of, to_endings
from delira.errors import (
    ConfigError,
    DataError,
    check_names,
    check_paths,
    check_texts,
    check_whole,
    did_you_mean,
    expect,
    import_optional,
    noting,
)
from delira.utils.lazy import old_names

_COLOURS = {"CMYK": "RGB", "YCbCr": "RGB", "HSV": "RGB", "P": "RGB", "PA": "RGBA", "RGBa": "RGBA", "La": "LA"}
"""Modes of Pillow whose channels are neither gray nor red, green and blue -> what is made of them."""
_ORIENTATION, _PHOTOMETRIC = 274, 262  # tags of EXIF and TIFF
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
    **kwargs
        Handed to ``sample_fn``.

    Raises
    ------
    ConfigError
        If ``dtype`` or ``normalize`` names what is not loaded, or a function cannot be called.
    """

    def __init__(
        self,
        sample_ext: Mapping[str, str | Iterable[str]],
        sample_fn: Callable[..., Any],
        dtype: Mapping[str, Any] | None = None,
        normalize: str | Iterable[str] = (),
        norm_fn: Callable[[np.ndarray], np.ndarray] = _TO_MINUS_ONE_ONE,
        **kwargs: Any,
    ) -> None:
        self._files = _files_of(sample_ext)
        expect(("dtype", dtype, isinstance(dtype, Mapping | None), "a dict {entry: dtype}"))
        self._dtype = {key: _to_dtype(value, key) for key, value in (dtype or {}).items()}
        check_names(type(self).__name__, normalize=normalize)
        self._normalize = [normalize] if isinstance(normalize, str) else list(normalize)
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
        return {key: self._load_entry(path, key) for key in self._files}

    def __repr__(self) -> str:
        # also what a dataset is recognised by, see describe_callable
        return (
            f"{type(self).__name__}({self._files!r}, {describe_callable(self._sample_fn)}, dtype={self._dtype!r}, "
            f"normalize={self._normalize!r}, norm_fn={describe_callable(self._norm_fn)}, {self._kwargs!r})"
        )

    def _load_entry(self, path: str, key: str) -> np.ndarray:
        files = [os.path.join(path, name) for name in self._files[key]]
        arrays = [self._load_file(file, {key, name}) for file, name in zip(files, self._files[key], strict=True)]
        for file, array in zip(files, arrays, strict=True):
            if array.shape != arrays[0].shape:
                raise DataError(
                    f"the files of entry {key!r} differ in shape: {file!r} has {array.shape}, "
                    f"but {files[0]!r} has {arrays[0].shape}"
                )
        stacked = np.stack(arrays)
        return cast(stacked, self._dtype[key], f"entry {key!r} of {path!r}") if key in self._dtype else stacked

    def _load_file(self, file: str, names: set[str]) -> np.ndarray:
        with noting(f"while {file!r} was loaded"):
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
        file = os.path.join(path, self._label_ext)
        with noting(f"while {file!r} was loaded"):
            labels = self._label_fn(file, **self._label_kwargs)
        if not isinstance(labels, Mapping):
            raise DataError(
                f"label_fn must return a dict, e.g. {{'label': 3}}, but returned a {type(labels).__name__} for {file!r}"
            )
        if twice := sorted(map(str, sample.keys() & labels.keys())):
            raise DataError(f"label_fn returned the entries {twice} for {file!r}, which the sample has already")
        return sample | dict(labels)

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


# ------------------------------------------------------------------ images, channels first, and numbers as text


def check_size(owner: object, img_shape: object) -> tuple[int, int]:
    """Refuse what is no height and width; ``owner`` is as in :mod:`delira.errors`."""
    sizes = tuple(img_shape) if isinstance(img_shape, Iterable) and not isinstance(img_shape, (str, bytes)) else ()
    name = owner if isinstance(owner, str) else type(owner).__name__
    expect((f"{name}: img_shape", img_shape, len(sizes) == 2, "a height and a width"))
    check_whole(owner, at_least=1, **{f"img_shape[{place}]": size for place, size in enumerate(sizes)})
    return int(sizes[0]), int(sizes[1])


def read_image(file: str, n_channels: int = 0) -> np.ndarray:
    """Return the values of an image, upright, shape (H, W) or (H, W, C).

    Channels are gray, colours (red, green, blue), and after these opacity; where ``n_channels`` are as many as the
    four of CMYK, these. Integers are in the byte order of this machine.
    """
    with open(file, "rb"):  # the system's own error for what is missing or forbidden
        pass
    name = os.fspath(file)
    try:
        if name.lower().endswith(".npy"):
            image = np.load(file)
        else:
            read = import_optional("imageio.v3", "reading an image", "delira[images]").imread
            seen = _seen_by_pillow(name, n_channels)
            image = np.asarray(read(file)) if seen is None else seen
        return image.astype(image.dtype.newbyteorder("="), copy=False)
    except DataError:
        raise
    except (OSError, ValueError, RuntimeError, EOFError, SyntaxError) as error:  # each from some format
        raise DataError(f"{name!r} cannot be read as an image ({type(error).__name__}); is it damaged?") from error


def to_channels_first(image: np.ndarray, img_shape: tuple[int, ...], n_channels: int) -> np.ndarray:
    """Convert an image of shape (H, W) or (H, W, C); see :func:`default_load_fn_2d`.

    Returns
    -------
    ndarray of shape (n_channels, *img_shape), dtype float32
    """
    shape = image.shape
    if image.ndim == 2:
        image = image[..., np.newaxis]
    if image.ndim != 3 or not image.size:
        raise DataError(f"an image of shape (H, W) or (H, W, C) is needed, got an array of shape {shape}")
    if image.dtype.kind == "c":
        raise DataError("it holds complex numbers, which would lose their imaginary part")
    if image.dtype.kind not in "biuf":
        raise DataError(f"it holds no numbers ({image.dtype})")
    if image.dtype in (np.uint8, np.uint16):
        image = image.astype(np.float32) / np.iinfo(image.dtype).max
        if image.shape[2] in (2, 4) and n_channels in (1, 3):  # the last channel is opacity
            image = image[..., :-1] * image[..., -1:] + (1 - image[..., -1:])
    image = _with_channels(image.astype(np.float32), n_channels)
    if image.shape[:2] != tuple(img_shape):
        resize = import_optional("skimage.transform", "resizing an image", "delira[images]").resize
        image = resize(image, img_shape, mode="reflect", anti_aliasing=True, preserve_range=True)
    return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)


def _seen_by_pillow(name: str, n_channels: int) -> np.ndarray | None:
    """Read an image with what its values alone do not tell: inks, palettes, transparent colours, the way up.

    None if Pillow does not know the format, or reads less of it than imageio.
    """
    import_optional("PIL", "reading an image", "delira[images]")
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(name)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):  # another format
        return None
    with picture:
        is_film = getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO"  # of cameras: one picture, twice
        if is_film or (picture.mode == "CMYK" and n_channels == 4):
            return None
        if picture.mode == "LAB":
            raise DataError(f"{name!r} has the colours of CIELAB, which cannot be converted; save it as RGB")
        is_white_zero = picture.format == "TIFF" and picture.tag_v2.get(_PHOTOMETRIC) == 0  # type: ignore[attr-defined]
        is_wide = picture.format == "PPM" and picture.mode == "I"
        clear = picture.info.get("transparency")
        is_plain = picture.format == "TIFF" and picture.mode not in _COLOURS and not is_white_zero
        if is_plain and picture.getexif().get(_ORIENTATION, 1) == 1:
            return None
        mode, wanted = picture.mode, _COLOURS.get(picture.mode, picture.mode)
        if mode == "P" and (clear is not None or getattr(picture.palette, "mode", "") == "RGBA"):
            wanted = "RGBA"
        image = np.asarray(picture if mode == wanted else picture.convert(wanted))
        if is_wide:  # Pillow spreads the values over 16 bit, and keeps them in 32
            image = image.astype(np.uint16)
        if is_white_zero and image.dtype == np.uint16:  # of 1 and 8 bit it has done that itself
            image = np.iinfo(np.uint16).max - image
        if clear is not None and mode != "P":
            image = _with_opacity(image, clear, name)
        # of TIFF files it has been applied already, and the tag is gone
        return _upright(image, picture.getexif().get(_ORIENTATION, 1))


def _with_opacity(image: np.ndarray, clear: int | tuple[int, ...], name: str) -> np.ndarray:
    """Add a last channel of opacity: none where the image has the colour ``clear``."""
    if image.ndim == 2:
        image = image[..., np.newaxis]
    if image.shape[2] not in (1, 3):  # has opacity of its own
        return image
    if image.dtype == bool:
        image = image.astype(np.uint8) * np.uint8(255)
    colour = np.array(clear, dtype=np.int64)
    with open(name, "rb") as file:
        header = file.read(25)
    bits = header[24] if header.startswith(b"\x89PNG") else 8
    if bits < 8:  # the values have been spread over 8 bit, the colour has not
        colour = colour * (255 // (2**bits - 1))
    opacity = np.where((image == colour).all(axis=2), 0, np.iinfo(image.dtype).max)
    return np.dstack([image, opacity.astype(image.dtype)])


def _upright(image: np.ndarray, orientation: object) -> np.ndarray:
    """Turn an image as its EXIF orientation says, 1 to 8; other values mean nothing."""
    if orientation in (5, 6, 7, 8):
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        image = image[::-1]
    if orientation in (2, 3, 6, 7):
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


def read_numbers(file: str) -> np.ndarray:
    """Return the numbers of a text file as float32, shape (1,) if there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of an empty file
            return np.loadtxt(file, dtype=np.float32, ndmin=1)
    except (ValueError, UserWarning) as error:
        raise DataError(f"the label file {os.fspath(file)!r} does not hold numbers as text: {error}") from error


def _with_channels(image: np.ndarray, n_channels: int) -> np.ndarray:
    """Convert an image of shape (H, W, C), dtype float32, to the channels wanted."""
    given = image.shape[2]
    if given == n_channels:
        return image
    if given == 1 and n_channels == 3:
        return image.repeat(3, axis=2)
    if given == 3 and n_channels == 1:
        return image @ np.array([[0.2125], [0.7154], [0.0721]], np.float32)  # ITU-R BT.709, as in scikit-image
    if given > 4:  # hardly colours
        height, width = image.shape[1:]
        raise DataError(
            f"an array of shape {image.shape} is no image of {n_channels} channels. If it has {image.shape[0]} pages "
            f"or frames of {height} x {width}, write a load_fn that picks one, or keep each in a file of its own; "
            f"if it is an image of {given} channels, pass n_channels={given}"
        )
    raise DataError(f"an image of {given} channels cannot be turned into one of {n_channels}; pass n_channels={given}")


__getattr__ = old_names(__name__)
