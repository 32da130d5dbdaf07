"""Files become arrays: images, channels first, and numbers as text."""

import os
import warnings

import numpy as np

from delira.errors import DataError
from delira.utils.optional import import_optional


def read_image(file: str) -> np.ndarray:
    """Return the values of an image as they are stored, shape (H, W) or (H, W, C)."""
    with open(file, "rb"):  # the system's own error for what is missing or forbidden
        pass
    name = os.fspath(file)
    try:
        if name.lower().endswith(".npy"):
            return np.load(file)
        read = import_optional("imageio.v3", "reading an image", "delira[images]").imread
        return np.asarray(read(file))
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
    if image.dtype in (np.uint8, np.uint16):
        image = image.astype(np.float32) / np.iinfo(image.dtype).max
        if image.shape[2] in (2, 4) and n_channels in (1, 3):  # the last channel is opacity
            image = image[..., :-1] * image[..., -1:] + (1 - image[..., -1:])
    image = _with_channels(image.astype(np.float32), n_channels)
    if image.shape[:2] != tuple(img_shape):
        resize = import_optional("skimage.transform", "resizing an image", "delira[images]").resize
        image = resize(image, img_shape, mode="reflect", anti_aliasing=True, preserve_range=True)
    return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32)


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
