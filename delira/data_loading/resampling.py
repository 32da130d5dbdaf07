"""Volumes on another grid: to a spacing, and back to exactly the shape that they had."""

import itertools
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delira.data_loading._exact import as_array, check_count
from delira.errors import ConfigError, DataError, expect

_KINDS = ("image", "label", "probability")
_ORDERS = {"image": 3, "probability": 1}


def resample(
    array: Any, spacing: Sequence[float], new_spacing: Sequence[float], kind: str = "image", order: int | None = None
) -> np.ndarray:
    """Bring a volume to another spacing; the first voxel stays where it is.

    Parameters
    ----------
    array : ndarray of shape ``(*spatial,)`` or ``(C, *spatial)``
        The volume. The last axes are those of ``spacing``; axes before are channels, each resampled alone.
    spacing, new_spacing
        Between voxels along each axis, in mm, in the order of the axes: that of ``load_nii(path, geometry=True)``.
    kind
        ``"image"``: splines of the third order. ``"probability"``: linear, so that shares stay between 0 and 1 and add
        up to 1. ``"label"``: each class is a share of 0 or 1, made linear, and the largest wins; no new class can come.
    order
        Order of the splines of an image or of probabilities instead, 0 to 5; 0 is the nearest voxel. Of a label 0 is
        allowed instead of 1.

    Returns
    -------
    ndarray
        Of length ``ceil((n - 1) * spacing / new_spacing) + 1``, less what is a rounding error, along an axis of n
        voxels, so that the last voxel is within; its dtype is that of ``array``, float32 for an image of integers.
        Outside of the volume its border goes on.

    Raises
    ------
    ConfigError
        If a spacing, ``kind`` or ``order`` is none.
    DataError
        If ``array`` has fewer axes than ``spacing``, or values that cannot be resampled.

    See Also
    --------
    resample_like : the way back, to a shape.

    Notes
    -----
    Voxel i lies at ``i * spacing``, as the affine of NIfTI says, so the affine of the result has the same origin, and
    the columns of the old one, scaled. ``nibabel.processing.resample_to_output`` and SimpleITK agree inside. Nothing is
    smoothed before there are fewer voxels, as nnU-Net does not either.
    """
    before, after = _check_spacing("spacing", spacing), _check_spacing("new_spacing", new_spacing)
    if len(before) != len(after):
        raise ConfigError(f"spacing={spacing!r} and new_spacing={new_spacing!r} must have the same number of axes")
    volume = _check_volume(array, len(before), kind)
    shape = [
        # of (n - 1) * spacing / new_spacing the last digits are errors of rounding
        math.ceil(round((n - 1) * old / new, 6)) + 1
        for n, old, new in zip(volume.shape[-len(before) :], before, after, strict=True)
    ]
    return _on_grid(volume, shape, [new / old for old, new in zip(before, after, strict=True)], kind, order)


def resample_like(
    array: Any,
    shape: Sequence[int],
    spacing: Sequence[float],
    new_spacing: Sequence[float],
    kind: str = "label",
    order: int | None = None,
) -> np.ndarray:
    """Bring what :func:`resample` made, or what was predicted of it, back to the shape that it was made from.

    Parameters
    ----------
    array : ndarray of shape ``(*spatial,)`` or ``(C, *spatial)``
        What to bring back.
    shape
        The shape wanted along the last axes.
    spacing, new_spacing
        Of ``array``, and of the volume of this ``shape``, in mm.
    kind, order
        As in :func:`resample`.

    Returns
    -------
    ndarray of shape ``(*shape,)`` or ``(C, *shape)``

    Raises
    ------
    ConfigError, DataError
        As in :func:`resample`, or if ``shape`` has another number of axes.
    """
    before, after = _check_spacing("spacing", spacing), _check_spacing("new_spacing", new_spacing)
    is_list = isinstance(shape, Iterable) and not isinstance(shape, (str, bytes, Mapping))
    lengths = [check_count(n, f"shape[{axis}]", 1) for axis, n in enumerate(shape)] if is_list else []
    if not len(before) == len(after) == len(lengths):
        raise ConfigError(
            f"shape={shape!r}, spacing={spacing!r} and new_spacing={new_spacing!r} must have the same number of axes"
        )
    volume = _check_volume(array, len(before), kind)
    return _on_grid(volume, lengths, [new / old for old, new in zip(before, after, strict=True)], kind, order)


def _on_grid(volume: np.ndarray, shape: list[int], steps: list[float], kind: str, order: int | None) -> np.ndarray:
    """Read a volume at every ``steps`` voxels, so often as ``shape`` says."""
    degree = _check_order(order, kind)
    n_axes = len(shape)
    if volume.shape[-n_axes:] == tuple(shape) and all(step == 1 for step in steps):
        return volume.astype(_dtype_of(volume, kind))
    dtype = _dtype_of(volume, kind)
    result = np.empty((*volume.shape[:-n_axes], *shape), dtype)
    for channel in itertools.product(*map(range, volume.shape[:-n_axes])):
        if kind == "label":
            result[channel] = _label_on_grid(volume[channel], shape, steps, degree)
        else:
            result[channel] = _read_at(volume[channel].astype(np.float64), shape, steps, degree)
    return result


def _label_on_grid(label: np.ndarray, shape: list[int], steps: list[float], degree: int) -> np.ndarray:
    if degree == 0:
        return _read_at(label, shape, steps, 0)
    classes = np.unique(label)
    best, winner = np.full(shape, -1.0, np.float32), np.zeros(shape, label.dtype)
    for value in classes:  # one at a time: all at once would take as many volumes
        share = _read_at((label == value).astype(np.float32), shape, steps, degree)
        is_larger = share > best + 1e-6  # of equal shares the smaller class wins, whatever the rounding
        best[is_larger], winner[is_larger] = share[is_larger], value
    return winner


def _read_at(values: np.ndarray, shape: list[int], steps: list[float], degree: int) -> np.ndarray:
    from scipy.ndimage import affine_transform

    found: np.ndarray = affine_transform(values, np.array(steps), 0, tuple(shape), order=degree, mode="nearest")
    return found


def _dtype_of(volume: np.ndarray, kind: str) -> np.dtype:
    return volume.dtype if kind == "label" or volume.dtype.kind == "f" else np.dtype(np.float32)


def _check_spacing(name: str, spacing: object) -> list[float]:
    is_list = isinstance(spacing, Iterable) and not isinstance(spacing, (str, bytes, Mapping))
    values: list[Any] = [*spacing] if is_list else []  # type: ignore[misc]
    are_lengths = [
        isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_)) and 0 < float(value) < math.inf
        for value in values
    ]
    if not values or not all(are_lengths):
        raise ConfigError(
            f"{name} must list the mm between voxels along each axis, e.g. (3.0, 1.0, 1.0), got {spacing!r}"
        )
    return [float(value) for value in values]


def _check_volume(array: object, n_axes: int, kind: str) -> np.ndarray:
    expect(("kind", kind, isinstance(kind, str) and kind in _KINDS, f"one of {', '.join(map(repr, _KINDS))}"))
    volume = as_array(array)
    if volume.ndim < n_axes or not volume.size:
        raise DataError(
            f"a volume with at least the {n_axes} axes of spacing is needed, got an array of shape {volume.shape}"
        )
    if volume.dtype.kind not in ("biu" if kind == "label" else "biuf"):
        what = "classes, which are integers" if kind == "label" else "numbers"
        raise DataError(f"kind={kind!r} resamples {what}, got {volume.dtype}")
    if volume.dtype.kind == "f" and not np.isfinite(volume).all():
        raise DataError("the volume has values that are NaN or infinite, which would spread; replace them first")
    return volume


def _check_order(order: object, kind: str) -> int:
    if order is None:
        return _ORDERS.get(kind, 1)
    highest = 1 if kind == "label" else 5
    return _in_range(order, highest)


def _in_range(order: object, highest: int) -> int:
    is_right = isinstance(order, numbers.Integral) and not isinstance(order, bool) and 0 <= int(order) <= highest
    expect(("order", order, is_right, f"an integer from 0 to {highest}"))
    return int(order)  # type: ignore[call-overload, no-any-return]
