"""A sample as a small picture: grey or RGB, one slice of a volume, masks of the same pixels."""

import base64
import io
import math
from typing import Any, NamedTuple

import numpy as np

from delira.utils.checks import import_optional

MAX_PIXELS = 160
"""Longer sides are thinned out."""
MAX_CHANNELS = 16
"""A first axis longer than that is one of space."""
TRUE, PREDICTED, BOTH = (86, 180, 233), (230, 159, 0), (255, 255, 255)
"""Colours of outlines."""


class Plane(NamedTuple):
    """Which part of an array is a picture."""

    space: tuple[int, ...]
    """Shape without channels."""
    channel_axis: int | None
    is_colour: bool
    words: str
    """What is left out, e.g. ``"channel 0 of 4"``."""


def plane_of(shape: tuple[int, ...], mask_shape: tuple[int, ...] = ()) -> Plane | None:
    """Return how an array of this shape becomes a picture; None if it is none.

    Parameters
    ----------
    shape
        Of the image, channels included.
    mask_shape
        Of its mask, without channels, which tells axes of space from one of channels.
    """
    if len(shape) == 1:
        side = math.isqrt(shape[0])
        if side < 8 or side * side != shape[0]:
            return None
        return Plane((side, side), None, False, f"{shape[0]} values as {side} × {side}")
    axis = _channel_axis(shape, mask_shape)
    space = shape if axis is None else shape[:axis] + shape[axis + 1 :]
    if len(space) not in (2, 3) or min(space[-2:]) < 4:
        return None
    n_channels = 1 if axis is None else shape[axis]
    is_colour = n_channels == 3 and len(space) == 2
    return Plane(space, axis, is_colour, "" if is_colour or n_channels == 1 else f"channel 0 of {n_channels}")


def _channel_axis(shape: tuple[int, ...], mask_shape: tuple[int, ...]) -> int | None:
    if mask_shape == shape or len(shape) < 3:
        return None
    if mask_shape and mask_shape == shape[1:]:
        return 0
    if mask_shape and mask_shape == shape[:-1]:
        return len(shape) - 1
    if shape[0] in (1, 3) or (shape[0] <= MAX_CHANNELS and shape[-1] not in (1, 3)):
        return 0
    return len(shape) - 1 if shape[-1] in (1, 3) else None


def picture(image: np.ndarray, plane: Plane, at: int | None = None) -> np.ndarray:
    """Return the picture, uint8 of shape ``(H, W)`` or ``(H, W, 3)``.

    Parameters
    ----------
    image
        An array of the shape that ``plane`` is of.
    plane
        Which part of it is drawn.
    at
        Slice of a volume; the middle one if None.
    """
    if plane.channel_axis is None:
        channels = image.reshape(1, *plane.space)
    else:
        channels = np.moveaxis(image, plane.channel_axis, 0)
    chosen = [_flat_slice(channel, at) for channel in channels[: 3 if plane.is_colour else 1]]
    values = np.stack(chosen, axis=-1).astype(np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    low, high = _scale(values, plane.is_colour)
    shades = np.round(255 * np.clip((values - low) / (high - low), 0, 1)).astype(np.uint8)
    return shades if plane.is_colour else shades[..., 0]


def mask_slice(mask: np.ndarray, at: int | None) -> np.ndarray:
    """Return the classes of the pixels of the picture, uint8 of shape ``(H, W)``."""
    return np.clip(_flat_slice(mask, at), 0, 255).astype(np.uint8)


def fullest_slice(*masks: np.ndarray) -> int | None:
    """Return the slice of volumes in which masks cover most; None for pictures."""
    if masks[0].ndim < 3:
        return None
    covered = np.any([mask > 0 for mask in masks], axis=0).sum(axis=(1, 2))
    return int(covered.argmax()) if covered.any() else len(covered) // 2


def _flat_slice(values: np.ndarray, at: int | None) -> np.ndarray:
    if values.ndim == 3:
        values = values[len(values) // 2 if at is None else at]
    step = -(-max(values.shape) // MAX_PIXELS)
    return values[::step, ::step]


def _scale(values: np.ndarray, is_colour: bool) -> tuple[float, float]:
    """Values that are black and white."""
    low, high = float(values.min()), float(values.max())
    if is_colour and low >= 0 and high <= 255:
        return 0.0, 1.0 if high <= 1 else 255.0
    if not is_colour:  # single pixels far outside shall not make everything else grey
        inner_low, inner_high = np.percentile(values, (0.2, 99.8)).tolist()
        low, high = (inner_low, inner_high) if inner_low < inner_high else (low, high)
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def outlined(image: np.ndarray, true: np.ndarray | None, predicted: np.ndarray | None) -> np.ndarray:
    """The picture large enough to be looked at, with the outlines of masks on it; uint8 of shape ``(H, W, 3)``."""
    factor = max(1, MAX_PIXELS // max(image.shape[:2]))
    drawn = image.repeat(factor, axis=0).repeat(factor, axis=1)
    drawn = np.repeat(drawn[..., None], 3, axis=2) if drawn.ndim == 2 else drawn
    masks = [mask for mask in (true, predicted) if mask is not None]
    edges = [_edges(mask.repeat(factor, axis=0).repeat(factor, axis=1)) for mask in masks]
    for edge, colour in zip(edges, (TRUE, PREDICTED), strict=False):
        drawn[edge] = colour
    if len(edges) > 1:
        drawn[edges[0] & edges[1]] = BOTH
    return drawn


def _edges(mask: np.ndarray) -> np.ndarray:
    """Pixels of a class with a neighbour of another one; the border of the picture is no edge."""
    padded = np.pad(mask, 1, mode="edge")
    inner = padded[1:-1, 1:-1]
    neighbours = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    return np.asarray((inner > 0) & np.any([inner != other for other in neighbours], axis=0))


def data_uri(drawn: np.ndarray) -> str:
    """Return a picture as the address of an ``<img>``, which loads nothing."""
    image: Any = import_optional("PIL.Image", "a picture on a page", "pillow")
    buffer = io.BytesIO()
    image.fromarray(drawn).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
