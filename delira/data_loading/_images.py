"""Images as arrays, channels first, and numbers as text."""

import io
import os
import warnings
from collections.abc import Iterable

import numpy as np

from delira.errors import DataError, check_whole, expect, import_optional

_COLOURS = {"CMYK": "RGB", "YCbCr": "RGB", "HSV": "RGB", "P": "RGB", "PA": "RGBA", "RGBa": "RGBA", "La": "LA"}
"""Modes of Pillow whose channels are neither gray nor red, green and blue -> what is made of them."""
_ORIENTATION, _PHOTOMETRIC = 274, 262  # tags of EXIF and TIFF


def check_size(owner: object, img_shape: object) -> tuple[int, int]:
    """Refuse what is no height and width; ``owner`` is as in :mod:`delira.errors`."""
    sizes = tuple(img_shape) if isinstance(img_shape, Iterable) and not isinstance(img_shape, (str, bytes)) else ()
    name = owner if isinstance(owner, str) else type(owner).__name__
    expect((f"{name}: img_shape", img_shape, len(sizes) == 2, "a height and a width"))
    check_whole(owner, at_least=1, **{f"img_shape[{place}]": size for place, size in enumerate(sizes)})
    return int(sizes[0]), int(sizes[1])


def read_image(file: str, n_channels: int = 0, content: bytes | None = None) -> np.ndarray:
    """Return the values of an image, upright, shape (H, W) or (H, W, C).

    Channels are gray, colours (red, green, blue), and after these opacity; where ``n_channels`` are as many as the
    four of CMYK, these. Integers are in the byte order of this machine. With ``content`` these bytes are read, and the
    file need not be there.
    """
    if content is None:
        with open(file, "rb"):  # the system's own error for what is missing or forbidden
            pass
    name = os.fspath(file)
    try:
        if name.lower().endswith(".npy"):
            image = np.load(file)
        else:
            read = import_optional("imageio.v3", "reading an image", "delira[images]").imread
            seen = _seen_by_pillow(name, n_channels, content)
            image = np.asarray(read(file if content is None else content)) if seen is None else seen
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


def _seen_by_pillow(name: str, n_channels: int, content: bytes | None) -> np.ndarray | None:
    """Read an image with what its values alone do not tell: inks, palettes, transparent colours, the way up.

    None if Pillow does not know the format, or reads less of it than imageio.
    """
    import_optional("PIL", "reading an image", "delira[images]")
    from PIL import Image, UnidentifiedImageError

    try:
        picture = Image.open(name if content is None else io.BytesIO(content))
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
            image = _with_opacity(image, clear, name, content)
        # of TIFF files it has been applied already, and the tag is gone
        return _upright(image, picture.getexif().get(_ORIENTATION, 1))


def _with_opacity(image: np.ndarray, clear: int | tuple[int, ...], name: str, content: bytes | None) -> np.ndarray:
    """Add a last channel of opacity: none where the image has the colour ``clear``."""
    if image.ndim == 2:
        image = image[..., np.newaxis]
    if image.shape[2] not in (1, 3):  # has opacity of its own
        return image
    if image.dtype == bool:
        image = image.astype(np.uint8) * np.uint8(255)
    colour = np.array(clear, dtype=np.int64)
    with open(name, "rb") if content is None else io.BytesIO(content) as file:
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
