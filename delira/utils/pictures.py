"""Pictures as arrays of shape (c, h, w), side by side, as bytes and as files; and figures that notebooks show."""

import functools
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from delira.errors import (
    ConfigError,
    check_flags,
    check_numbers,
    check_that,
    check_whole,
    did_you_mean,
    import_optional,
)
from delira.utils.arrays import Array, as_array, ops_of, read_arrays
from delira.utils.files import publish

if TYPE_CHECKING:
    import matplotlib.figure


#: of matplotlib, which only a plot imports
Figure: TypeAlias = "matplotlib.figure.Figure"
#: number of channels -> what Pillow calls it
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def as_numbers(pictures: np.ndarray) -> np.ndarray:
    """Return a picture as float32; bytes are scaled from [0, 255] to [0, 1]."""
    return pictures.astype(np.float32) / (255 if pictures.dtype == np.uint8 else 1)


def visible(picture: np.ndarray) -> np.ndarray:
    """Return the picture with its values clipped to [0, 1]; NaN becomes 0."""
    return np.nan_to_num(np.clip(picture, 0.0, 1.0), nan=0.0)


def side_by_side(pictures: np.ndarray, columns: int = 8, padding: int = 2, pad_value: float = 0.0) -> np.ndarray:
    """Lay numbers of shape ``(n, c, h, w)`` out in rows, as :func:`delira.callbacks.make_grid` says."""
    n, c, h, w = pictures.shape
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    grid = np.full((c, rows * (h + padding) + padding, columns * (w + padding) + padding), pad_value, np.float32)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        top, left = row * (h + padding) + padding, column * (w + padding) + padding
        grid[:, top : top + h, left : left + w] = picture
    return visible(grid)


def as_bytes(picture: np.ndarray, who: str) -> np.ndarray:
    """Return a picture as screens have it.

    Parameters
    ----------
    picture
        Shape ``(c, h, w)``, numbers in [0, 1].
    who
        For the message.

    Returns
    -------
    ndarray of shape (h, w) or (h, w, c)
        uint8.

    Raises
    ------
    ConfigError
        If it has not 1, 3 or 4 channels.
    """
    if len(picture) not in _MODES:
        raise ConfigError(
            f"{who}: a picture has 1, 3 or 4 channels, got the shape {picture.shape}; pass channels_last= if its axes "
            "are in another order, or choose channels by transform="
        )
    pixels = np.round(visible(picture) * 255).astype(np.uint8)
    return pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)


def write_picture(path: Path, picture: np.ndarray, who: str) -> Path:
    """Write a picture to a file, completely or not at all; ``.png`` is added to a name without an ending.

    Raises
    ------
    ConfigError
        If nobody knows the ending.
    """
    image: Any = import_optional("PIL.Image", who, "delira[images]")
    if not path.suffix[1:].isalpha():  # a number with a point in it is no ending
        path = path.with_name(f"{path.name}.png")
    kinds = image.registered_extensions()
    if path.suffix.lower() not in kinds:
        raise ConfigError(f"{who}: nobody knows how to write {path.suffix!r}; call the file {path.stem}.png")
    pixels = image.fromarray(as_bytes(picture, who))
    return publish(path, lambda file: pixels.save(file, format=kinds[path.suffix.lower()]), durable=False)


@functools.cache
def picture_class() -> "type[Figure]":
    """Return a figure that notebooks show although pyplot, which would draw it for them, was never imported.

    Raises
    ------
    MissingBackendError
        If matplotlib is not there, as after ``pip install --no-deps``.
    """
    import_optional("matplotlib.figure", "a plot", "matplotlib")
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    return Picture


class GridLayout(TypedDict, total=False):
    """The keywords of :func:`make_grid`."""

    nrow: int
    padding: int
    normalize: bool
    norm_range: tuple[float, float] | None
    scale_each: bool
    pad_value: float


def make_grid(
    images: Array,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    norm_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> np.ndarray:
    """Lay pictures out in rows.

    Parameters
    ----------
    images
        Array of shape ``(n, c, h, w)``, of numbers in [0, 1], or of bytes in [0, 255].
    nrow
        Pictures in a row.
    padding
        Pixels around each picture.
    normalize
        Whether numbers are stretched to [0, 1]: those of ``norm_range``, or those that there are.
    norm_range
        Smallest and largest number; what is beyond them is cut off. Bytes are in [0, 1] here, too.
    scale_each
        Whether each picture is stretched by its own smallest and largest number.
    pad_value
        Number between the pictures.

    Returns
    -------
    ndarray of shape (c, H, W)
        float32 in [0, 1]: what is beyond is cut off, and what is no number is 0. With ``m = min(n, nrow)`` pictures
        in a row, ``W = m * (w + padding) + padding``, and ``H`` likewise.

    Raises
    ------
    ConfigError
        If there is no picture, or an argument is impossible.
    """
    check_layout(
        nrow=nrow, padding=padding, normalize=normalize, norm_range=norm_range, scale_each=scale_each,
        pad_value=pad_value,
    )  # fmt: skip
    pictures = np.asarray(images)
    if pictures.ndim != 4 or not pictures.size:
        raise ConfigError(f"a grid is made of images in an array of shape (n, c, h, w), got {pictures.shape}")
    pictures = as_numbers(pictures)
    if normalize:
        parts = [stretched(picture, norm_range) for picture in (pictures if scale_each else pictures[None])]
        pictures = np.reshape(parts, pictures.shape)
    return side_by_side(pictures, nrow, padding, pad_value)


def stretched(numbers: np.ndarray, limits: tuple[float, float] | None = None) -> np.ndarray:
    """Return numbers with 0 and 1 in the place of limits, or of the smallest and largest one."""
    if limits is None:
        finite = numbers[np.isfinite(numbers)]
        limits = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low, high = limits
    # the same number everywhere is 0
    return (np.clip(numbers, low, high) - low) / np.float32(max(high - low, 1e-5))


def check_layout(who: str = "make_grid", **layout: Any) -> GridLayout:
    """Keywords of :func:`make_grid`, if they are.

    Raises
    ------
    ConfigError
        If one is unknown or impossible.
    """
    if unknown := sorted(layout.keys() - GridLayout.__annotations__.keys()):
        guess = did_you_mean(unknown[0], GridLayout.__annotations__)
        raise ConfigError(f"{who} takes {', '.join(GridLayout.__annotations__)}, not {unknown[0]!r}{guess}")
    check_whole(who, at_least=1, nrow=layout.get("nrow", 8))
    check_whole(who, at_least=0, padding=layout.get("padding", 2))
    check_flags(who, normalize=layout.get("normalize", False), scale_each=layout.get("scale_each", False))
    check_numbers(who, pad_value=layout.get("pad_value", 0.0))
    limits = layout.get("norm_range")
    is_pair = isinstance(limits, (list, tuple)) and len(limits) == 2 and limits[0] < limits[1]
    check_that(limits is None or is_pair, who, "norm_range is (smallest, largest)", limits)
    return GridLayout(**layout)  # type: ignore[typeddict-item]


def as_pictures(value: object, channels_last: bool | None, who: str) -> np.ndarray:
    """Pictures of any framework.

    Parameters
    ----------
    value
        One picture of shape ``(c, h, w)`` or ``(h, w)``, or several of shape ``(n, c, h, w)``; ``(h, w, c)`` and
        ``(n, h, w, c)`` where the channels are last.
    channels_last
        Whether they are; None: as the framework has it, so they are in arrays of TensorFlow and JAX.
    who
        For the message.

    Returns
    -------
    ndarray of shape (n, c, h, w)
        float32; bytes are in [0, 1] then.

    Raises
    ------
    ConfigError
        If the shape is none of these.
    """
    array = as_array(value)
    is_last = ops_of(array).class_axis == -1 if channels_last is None else channels_last
    pictures: np.ndarray = read_arrays([array])[0]
    if pictures.ndim not in (2, 3, 4):
        raise ConfigError(
            f"{who}: a picture has the shape (channels, height, width), got {pictures.shape}; choose it in on_batch, "
            "or by transform="
        )
    if pictures.ndim == 2:
        pictures = pictures[None]
    elif is_last:
        pictures = np.moveaxis(pictures, -1, -3)
    return as_numbers(pictures if pictures.ndim == 4 else pictures[None])
