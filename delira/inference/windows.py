"""Whole images and volumes by windows that overlap."""

import itertools
import math
import numbers
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, check_choice, check_numbers, expect, is_count, positive
from delira.inference.way import Arrays, Call, Inference, axis_in_space, space_of
from delira.utils.arrays import iterate_leaves, map_leaves

_WEIGHTINGS = ("gaussian", "constant")
_DTYPES = ("float32", "float16", "float64")
_PADDINGS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}
#: weights of a window are never less than that
_LEAST = 1e-3


class SlidingWindow(Inference):
    """Predicts images and volumes of any size by windows of one size, whose outputs are joined as a weighted mean.

    Windows lie on a grid from one end of each axis to the other; the last of an axis ends where the image does. An
    image that is smaller than a window is padded on both sides, and the output is cut to its size. Each window goes
    through the network's ``prepare_batch`` as a sample of its own. Inputs have their channels first, as ``(B, C,
    *space)``; outputs have the shape of the window in space, and their channels first, last as in TensorFlow, or none.

    Parameters
    ----------
    size
        Of a window, in voxels: one number, or one for each axis in space.
    overlap
        Part of a window that the next one covers, in [0, 1): one number, or one for each axis.
    weighting
        ``"gaussian"``: what is in the middle of a window counts more; ``"constant"``: all counts alike.
    batch_size
        Windows that the network gets at once.
    sigma
        Standard deviation of the gaussian, as a part of the size of the window: one number, or one for each axis.
    padding
        ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``; None refuses what is smaller than a window.
    pad_value
        Of constant padding.
    dtype
        In which outputs are summed up, ``"float32"`` or ``"float16"``, which also is theirs; None: that of the
        network's outputs, but at least float32. Sums in float16 are wrong by up to 0.3 % of the largest value where
        windows of a volume overlap by half, by 1 % where by three quarters.
    memory_map
        Folder for the outputs, which then are memory-mapped, in files that go with them; True: the system's for
        temporary files. Else they lie in memory.

    Raises
    ------
    ConfigError
        If an argument is of no use.

    References
    ----------
    Isensee et al., nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation, Nature
    Methods 18, 2021, supplementary note 2 (gaussian weighting). Equal to ``monai.inferers.sliding_window_inference``
    at equal ``roi_size``, ``overlap``, ``mode``, ``sigma_scale`` and ``padding_mode``.

    Examples
    --------
    >>> window = SlidingWindow((64, 64, 32), overlap=0.5, batch_size=2)
    >>> window.places((100, 64, 40))[:2]
    [(0, 0, 0), (0, 0, 8)]
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own
        self,
        size: int | Sequence[int],
        overlap: float | Sequence[float] = 0.5,
        weighting: str = "gaussian",
        batch_size: int = 1,
        *,
        sigma: float | Sequence[float] = 0.125,
        padding: str | None = "constant",
        pad_value: float = 0.0,
        dtype: Any = None,
        memory_map: bool | str | Path = False,
    ):
        self.size, self.overlap, self.sigma = _each(size), _each(overlap), _each(sigma)
        are_sizes = self.size and all(is_count(one) and one > 0 for one in self.size)
        expect(
            ("SlidingWindow: size", size, bool(are_sizes), "the voxels of a window, one number or one for each axis"),
            ("SlidingWindow: overlap", overlap, _are_in(self.overlap, 0, 1), "a part of a window, in [0, 1)"),
            ("SlidingWindow: sigma", sigma, _are_in(self.sigma, 1e-6, math.inf), "a part of a window, above 0"),
            ("SlidingWindow: weighting", weighting, weighting in _WEIGHTINGS, f"one of {', '.join(_WEIGHTINGS)}"),
            positive("SlidingWindow: batch_size", batch_size, "windows"),
        )
        check_choice("SlidingWindow", (None, *_PADDINGS), padding=padding)
        check_choice("SlidingWindow", (None, *_DTYPES), dtype=dtype if dtype is None else _name_of(dtype))
        check_numbers("SlidingWindow", pad_value=pad_value)
        if not isinstance(memory_map, (bool, str, Path)):
            raise ConfigError(f"SlidingWindow: memory_map is True, False or a folder, got {memory_map!r:.200}")
        self.weighting, self.batch_size = weighting, int(batch_size)
        self.padding, self.pad_value, self.memory_map = padding, pad_value, memory_map
        self.dtype = None if dtype is None else np.dtype(dtype)
        given = {len(one) for one in (self.size, self.overlap, self.sigma)} - {1}
        if len(given) > 1:
            raise ConfigError(
                f"SlidingWindow: size={size!r}, overlap={overlap!r} and sigma={sigma!r} are for different numbers of "
                "axes; give one number, or one for each axis in space"
            )
        #: of axes in space; None: any
        self.n_axes = next(iter(given), None)

    def __repr__(self) -> str:
        """What decides what is said; how much is done at once, and where it lies, does not."""
        size = self.size[0] if len(self.size) == 1 else self.size
        further = {"sigma": _short(self.sigma), "padding": self.padding, "pad_value": self.pad_value}
        further["dtype"] = None if self.dtype is None else self.dtype.name
        usual = {"sigma": 0.125, "padding": "constant", "pad_value": 0.0, "dtype": None}
        more = "".join(f", {name}={value!r}" for name, value in further.items() if value != usual[name])
        return f"SlidingWindow({size}, overlap={_short(self.overlap)}, weighting={self.weighting!r}{more})"

    # ------------------------------------------------------------------ where windows are

    def places(self, space: Sequence[int]) -> list[tuple[int, ...]]:
        """Where windows begin in an image, in voxels, the last axis fastest.

        Parameters
        ----------
        space
            Shape of the image in space; an axis that is shorter than the window is padded to its size.
        """
        sizes = self._of(self.size, len(space))
        return list(itertools.product(*self._starts([max(*pair) for pair in zip(space, sizes, strict=True)])))

    def _starts(self, space: Sequence[int]) -> list[list[int]]:
        """Where windows begin along each axis."""
        found = []
        sizes, overlaps = self._of(self.size, len(space)), self._of(self.overlap, len(space))
        for length, size, overlap in zip(space, sizes, overlaps, strict=True):
            step = size if length == size else max(1, int(size * (1 - overlap)))
            number = 1 + max(0, -(-(length - size) // step))
            found.append([min(one * step, length - size) for one in range(number)])
        return found

    def weights(self, n_axes: int) -> np.ndarray:
        """What each place of a window counts, float32 of the shape of a window with ``n_axes`` axes."""
        sizes = self._of(self.size, n_axes)
        if self.weighting == "constant":
            return np.ones(sizes, np.float32)
        whole = np.ones((), np.float32)
        for size, sigma in zip(sizes, self._of(self.sigma, n_axes), strict=True):
            x = np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)
            whole = whole[..., None] * np.exp(-(x**2) / np.float32(2 * (sigma * size) ** 2))
        least = max(float(whole.min()), _LEAST)
        return np.maximum(whole, np.float32(least))

    def _of(self, values: tuple[Any, ...], n_axes: int) -> tuple[Any, ...]:
        return values * n_axes if len(values) == 1 else values

    # ------------------------------------------------------------------ the prediction

    def __call__(self, call: Call, batch: Arrays, inputs: Collection[str]) -> dict[str, Any]:
        """Predict a batch window by window, each sample for itself.

        Raises
        ------
        DataError
            If no input has the axes of the window, an input is smaller than it and ``padding`` is None, or an output
            has another shape in space than the window.
        """
        space = space_of(batch, inputs, self.n_axes)
        if self.n_axes is None and len(self.size) == 1 and not space:
            raise DataError("the inputs have no axes in space")
        n_samples = len(next(iter(batch[name] for name in inputs)))
        outputs: dict[str, Any] = {}
        for number in range(n_samples):
            sample = {key: _row(value, number, n_samples) for key, value in batch.items()}
            self._predict(call, sample, space, (outputs, number, n_samples))
        return outputs

    def _predict(
        self, call: Call, sample: Arrays, space: tuple[int, ...], into: tuple[dict[str, Any], int, int]
    ) -> None:
        """Predict one sample, whose entries keep their axis of samples."""
        sizes = self._of(self.size, len(space))
        padded, before = self._padded(sample, space, sizes)
        whole = tuple(max(*pair) for pair in zip(space, sizes, strict=True))
        weights = self.weights(len(space))
        sums: _Sums | None = None
        for places in _chunks(itertools.product(*self._starts(whole)), self.batch_size):
            windows = {key: _windows(value, places, sizes, whole) for key, value in padded.items()}
            found = call(windows)
            _check(found, sizes, len(places))
            if sums is None:
                sums = _Sums(self, found, into, space, before)
            for position, place in enumerate(places):
                sums.add(found, position, place, weights)
        if sums is not None:
            sums.divide(self._starts(whole), weights)

    def _padded(
        self, sample: Arrays, space: tuple[int, ...], sizes: tuple[int, ...]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        """The entries at least as large as a window, and what was put before them."""
        lacking = [max(0, size - length) for size, length in zip(sizes, space, strict=True)]
        if not any(lacking):
            return dict(sample), (0,) * len(space)
        if self.padding is None:
            raise DataError(
                f"the window {sizes} is larger than the input of shape {space} in space; take a smaller one, or "
                "padding='constant'"
            )
        sides = [(one // 2, one - one // 2) for one in lacking]
        if self.padding == "reflect" and any(one >= length for one, length in zip(lacking, space, strict=True)):
            raise DataError(
                f"an input of shape {space} in space is too small to be reflected to the window {sizes}; take a "
                "smaller window, or padding='replicate'"
            )
        more = {"constant_values": self.pad_value} if self.padding == "constant" else {}

        def pad(value: Any) -> Any:
            if (first := axis_in_space(value, space)) is None:
                return value
            around = [*[(0, 0)] * first, *sides, *[(0, 0)] * (np.ndim(value) - first - len(sides))]
            return np.pad(np.asarray(value), around, mode=_PADDINGS[self.padding], **more)  # type: ignore[index,call-overload]

        return {key: pad(value) for key, value in sample.items()}, tuple(before for before, _ in sides)


class _Sums:
    """The weighted sums of the outputs of one sample, in place of its outputs."""

    def __init__(
        self,
        way: SlidingWindow,
        found: Arrays,
        into: tuple[dict[str, Any], int, int],
        space: tuple[int, ...],
        before: tuple[int, ...],
    ):
        outputs, number, n_samples = into
        self._space, self._before = space, before
        self._sizes = way._of(way.size, len(space))
        if not outputs:
            made = map_leaves(lambda leaf: self._empty(way, np.asarray(leaf), n_samples), dict(found))
            outputs.update(made)
        self._are_last = {path for path, leaf in iterate_leaves(found) if _has_channels_last(leaf, self._sizes)}
        #: the sums of the sample, with the axes in space last
        self._rows = {path: self._space_last(path, leaf[number]) for path, leaf in iterate_leaves(outputs)}

    def _space_last(self, path: tuple[Any, ...], row: np.ndarray) -> np.ndarray:
        return np.moveaxis(row, -1, 0) if path in self._are_last else row

    def _empty(self, way: SlidingWindow, leaf: np.ndarray, n_samples: int) -> np.ndarray:
        first = axis_in_space(leaf, self._sizes) or 1  # all were checked
        shape = (n_samples, *leaf.shape[1:first], *self._space, *leaf.shape[first + len(self._space) :])
        dtype = np.result_type(leaf.dtype, np.float32) if way.dtype is None else way.dtype
        if not way.memory_map:
            return np.zeros(shape, dtype)
        folder = None if way.memory_map is True else way.memory_map
        with tempfile.TemporaryFile(dir=folder) as file:  # which has no name, and goes with the array
            return np.memmap(file, dtype, "w+", shape=shape)

    def add(self, found: Arrays, position: int, place: tuple[int, ...], weights: np.ndarray) -> None:
        """Add what was found of one window."""
        starts = [one - before for one, before in zip(place, self._before, strict=True)]
        own, there = [], []
        for start, size, length in zip(starts, self._sizes, self._space, strict=True):
            own.append(slice(max(0, -start), min(size, length - start)))
            there.append(slice(max(0, start), min(length, start + size)))
        weight = weights[tuple(own)]
        for path, leaf in iterate_leaves(found):
            row = self._rows[path]
            read: tuple[Any, ...] = (..., *own)
            index: tuple[Any, ...] = (..., *there)
            part = self._space_last(path, np.asarray(leaf)[position])[read]
            row[index] += (part * weight).astype(row.dtype, copy=False)

    def divide(self, starts: Sequence[Sequence[int]], weights: np.ndarray) -> None:
        """Make means of the sums.

        Windows lie on a grid, so that the weights of one place along the first axis are those of the windows there:
        no second array of the size of the image is needed.
        """
        plane = [length + 2 * before for length, before in zip(self._space[1:], self._before[1:], strict=True)]
        plane = [max(*pair) for pair in zip(plane, self._sizes[1:], strict=True)]
        of_planes = np.zeros((self._sizes[0], *plane), np.float32)
        for place in itertools.product(*starts[1:]):
            there = tuple(slice(one, one + size) for one, size in zip(place, self._sizes[1:], strict=True))
            of_planes[(slice(None), *there)] += weights
        cut = tuple(slice(one, one + length) for one, length in zip(self._before[1:], self._space[1:], strict=True))
        of_planes = of_planes[(slice(None), *cut)]
        for x in range(self._space[0]):
            inside = [x + self._before[0] - one for one in starts[0]]
            total = sum(of_planes[one] for one in inside if 0 <= one < self._sizes[0])
            for row in self._rows.values():
                index: tuple[Any, ...] = (..., x, *[slice(None)] * len(plane))
                row[index] = row[index] / total


def _windows(value: Any, places: Sequence[tuple[int, ...]], sizes: Sequence[int], space: tuple[int, ...]) -> Any:
    """The windows of an entry as a batch; of what has no place in space, one copy for each."""
    first = axis_in_space(value, space)
    if first is None:
        return np.repeat(value, len(places), axis=0) if np.ndim(value) else value
    before = [slice(None)] * first
    slices = [tuple(slice(one, one + size) for one, size in zip(place, sizes, strict=True)) for place in places]
    if len(slices) == 1:
        return value[(*before, *slices[0])]
    return np.concatenate([value[(*before, *one)] for one in slices])


def _has_channels_last(leaf: Any, sizes: tuple[int, ...]) -> bool:
    return np.ndim(leaf) == len(sizes) + 2 and axis_in_space(leaf, sizes) == 1


def _check(found: Arrays, sizes: tuple[int, ...], n_windows: int) -> None:
    """Refuse outputs that cannot be put together."""
    for path, leaf in iterate_leaves(found):
        shape, name = np.shape(leaf), ".".join(map(str, path))
        if axis_in_space(leaf, sizes) is None or shape[0] != n_windows:
            raise DataError(
                f"the output {name!r} has the shape {shape} for {n_windows} windows of {sizes}; a sliding window joins "
                "outputs that have one value, or one of each channel, for each place of the window, of inputs that "
                "have their channels first"
            )
        if np.asarray(leaf).dtype.kind not in "fV":
            raise DataError(
                f"the output {name!r} is of {np.asarray(leaf).dtype}, of which no mean is made; let the network return "
                "scores, and take the largest of the whole image"
            )


def _row(value: Any, number: int, n_samples: int) -> Any:
    """One sample of an entry; what has none for each stays."""
    has_samples = np.ndim(value) > 0 and len(value) == n_samples
    return value[number : number + 1] if has_samples else value


def _chunks(places: Iterator[tuple[int, ...]], number: int) -> Iterator[list[tuple[int, ...]]]:
    while chunk := list(itertools.islice(places, number)):
        yield chunk


def _each(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple, np.ndarray)) else (values,)


def _are_in(values: tuple[Any, ...], low: float, high: float) -> bool:
    are_numbers = all(isinstance(one, numbers.Real) and not isinstance(one, bool) for one in values)
    return bool(values) and are_numbers and all(low <= float(one) < high for one in values)


def _name_of(dtype: Any) -> Any:
    """A type by its name, whichever way it is given; else what was given."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return dtype


def _short(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values
