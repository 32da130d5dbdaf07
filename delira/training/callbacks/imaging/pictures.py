"""What a callback shows, as arrays of numpy; and files of it."""

from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.training.callbacks.imaging.grid import as_numbers, visible
from delira.utils.arrays import as_array, ops_of, read_arrays
from delira.utils.files import publish
from delira.utils.optional import import_optional

#: number of channels -> what Pillow calls it
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def as_pictures(value: Any, channels_last: bool | None, who: str) -> np.ndarray:
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


def as_bytes(picture: np.ndarray, who: str) -> np.ndarray:
    """A picture as screens have it.

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
    image = import_optional("PIL.Image", who, "delira[images]")
    if not path.suffix[1:].isalpha():  # a number with a point in it is no ending
        path = path.with_name(f"{path.name}.png")
    kinds = image.registered_extensions()
    if path.suffix.lower() not in kinds:
        raise ConfigError(f"{who}: nobody knows how to write {path.suffix!r}; call the file {path.stem}.png")
    pixels = image.fromarray(as_bytes(picture, who))
    return publish(path, lambda file: pixels.save(file, format=kinds[path.suffix.lower()]), durable=False)
