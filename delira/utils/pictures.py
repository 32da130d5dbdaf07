"""Pictures as arrays of shape (c, h, w), side by side, as bytes and as files; and figures that notebooks show."""

import functools
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from delira.errors import ConfigError, import_optional
from delira.utils.files import publish

if TYPE_CHECKING:
    import matplotlib.figure

#: of matplotlib, which only a plot imports
Figure: TypeAlias = "matplotlib.figure.Figure"
#: number of channels -> what Pillow calls it
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def as_numbers(pictures: np.ndarray) -> np.ndarray:
    """As float32; bytes from [0, 255] to [0, 1]."""
    return pictures.astype(np.float32) / (255 if pictures.dtype == np.uint8 else 1)


def visible(picture: np.ndarray) -> np.ndarray:
    """With numbers in [0, 1] alone: what is beyond is cut off, and what is no number is 0."""
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
