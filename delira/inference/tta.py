"""Test-time augmentation: the mean of what a network says of an image in several positions."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, is_count
from delira.inference.way import Arrays, Call, Inference, axis_in_space, space_of
from delira.utils.arrays import iterate_leaves, map_leaves

#: changes a batch, or outputs back: arrays by name -> arrays by name
Change = Callable[[Any], Any]


class TestTimeAugmentation(Inference):
    """Predicts a batch in several positions and gives the mean of the outputs, each put back into place.

    The batch as it is comes first. Flips are combined with each other, and with the rotations; positions that are the
    same are taken once. Outputs with as many axes as the inputs, and maps without channels, are put back; others, such
    as scores of whole images, are averaged as they are. Inputs have their channels first, ``(B, C, *space)``, outputs
    first or last; where the shapes allow both, first.

    Parameters
    ----------
    flips
        Axes in space, from 0, along which images are mirrored: all combinations, as nnU-Net has them.
    rotations
        Pairs of axes in space, in whose planes images are turned by 90, 180 and 270 degrees.
    functions
        Further pairs ``(change, undo)``: ``change(batch)`` returns a batch, ``undo(outputs)`` its outputs put back;
        dictionaries of numpy arrays of shape ``(B, ...)``, which they do not change in place.

    Raises
    ------
    ConfigError
        If there is nothing to do, or an argument is of no use.

    Examples
    --------
    >>> TestTimeAugmentation(flips=(0, 1)).n_positions
    4
    >>> TestTimeAugmentation(flips=(0, 1), rotations=[(0, 1)]).n_positions
    8
    """

    __test__ = False  # its name begins as those of tests do

    def __init__(
        self,
        flips: Sequence[int] = (),
        rotations: Sequence[tuple[int, int]] = (),
        functions: Sequence[tuple[Change, Change]] = (),
    ):
        self.flips, self.functions = _axes(flips), _pairs(functions)
        self.rotations = _planes(rotations)
        if not (self.flips or self.rotations or self.functions):
            raise ConfigError(
                "TestTimeAugmentation: there is nothing to do; name axes to flip, flips=(0, 1), planes to turn in, "
                "rotations=[(0, 1)], or functions=[(change, undo)]"
            )
        self._positions = list(self._different())

    @property
    def n_positions(self) -> int:
        """How often a network is called for one batch."""
        return len(self._positions) + len(self.functions)

    def __repr__(self) -> str:
        given = {"flips": self.flips, "rotations": self.rotations, "functions": self.functions}
        return f"TestTimeAugmentation({', '.join(f'{name}={value}' for name, value in given.items() if value)})"

    def _different(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Axes to flip, and quarter turns in each plane, of positions that differ; the first is the batch as it is."""
        n_axes = 1 + max((*self.flips, *(axis for plane in self.rotations for axis in plane)), default=0)
        # all of its values differ, and so do two positions unless they are the same
        sample = np.arange(np.prod([2] * n_axes)).reshape([1, 1] + [2] * n_axes)
        seen = set()
        for number in range(len(self.flips) + 1):
            for axes in itertools.combinations(self.flips, number):
                for turns in itertools.product(range(4), repeat=len(self.rotations)):
                    if (found := self._moved(sample, axes, turns, 2).tobytes()) not in seen:
                        seen.add(found)
                        yield axes, turns

    def _moved(self, array: Any, axes: Sequence[int], turns: Sequence[int], first: int) -> np.ndarray:
        """An array, whose axes in space begin at ``first``, flipped, then turned."""
        moved = np.flip(array, tuple(first + axis for axis in axes))
        for (one, other), number in zip(self.rotations, turns, strict=True):
            moved = np.rot90(moved, number, (first + one, first + other))
        return moved

    def _moved_back(self, array: Any, axes: Sequence[int], turns: Sequence[int], first: int) -> np.ndarray:
        back = array
        for (one, other), number in reversed(list(zip(self.rotations, turns, strict=True))):
            back = np.rot90(back, -number, (first + one, first + other))
        return np.asarray(np.flip(back, tuple(first + axis for axis in axes)))

    def __call__(self, call: Call, batch: Arrays, inputs: Collection[str]) -> dict[str, Any]:
        """Predict a batch in all positions.

        Raises
        ------
        DataError
            If the inputs lack an axis, or outputs differ in their shapes.
        """
        space = space_of(batch, inputs) if self.flips or self.rotations else ()
        used = {*self.flips, *(axis for plane in self.rotations for axis in plane)}
        if used and max(used) >= len(space):
            raise DataError(f"{self!r} names the axis {max(used)}, and the inputs have the shape {space} in space")
        means = _Mean()
        for axes, turns in self._positions:
            means.add(self._predict(call, batch, inputs, (space, axes, turns)))
        for change, undo in self.functions:
            means.add(undo(call(change(dict(batch)))))
        return means.result()

    def _predict(
        self, call: Call, batch: Arrays, inputs: Collection[str], position: tuple[tuple[int, ...], Any, Any]
    ) -> dict[str, Any]:
        """Predict a batch in one position, and put its outputs back."""
        space, axes, turns = position
        if not axes and not any(turns):
            return call(batch)

        def move(value: Any) -> Any:
            first = axis_in_space(value, space)
            return value if first is None else np.ascontiguousarray(self._moved(value, axes, turns, first))

        moved = {key: move(value) for key, value in batch.items()}
        inside = next(np.shape(moved[name])[2:] for name in inputs if np.shape(batch[name])[2:] == space)

        outputs = dict(call(moved))
        for path, leaf in iterate_leaves(outputs):
            self._refuse_maps(path, leaf, inside)

        def put_back(leaf: Any) -> Any:
            first = axis_in_space(leaf, inside)
            return leaf if first is None else self._moved_back(leaf, axes, turns, first)

        return dict(map_leaves(put_back, outputs))

    def _refuse_maps(self, path: tuple[Any, ...], leaf: Any, space: tuple[int, ...]) -> None:
        """Refuse what may be images and cannot be put back: the mean of maps in several positions is none."""
        if len(space) == 1 and np.shape(leaf)[1:] == space:
            raise DataError(
                f"the output {'.'.join(map(str, path))!r} has the shape {np.shape(leaf)}: of inputs of the length "
                f"{space[0]} it may be one value for each place, or scores of as many classes, which are not put back; "
                "let the network return (B, 1, length) for the former"
            )
        if np.ndim(leaf) == len(space) + 2 and axis_in_space(leaf, space) is None:
            raise DataError(
                f"the output {'.'.join(map(str, path))!r} has the shape {np.shape(leaf)} for inputs of {space} in "
                f"space, and is not put back by {self!r}: it has neither (B, C, *space) nor (B, *space, C); inputs "
                "have their channels first, and maps of another size are to be left out of what is predicted"
            )


class _Mean:
    """The mean of trees of outputs, in float32 at least."""

    def __init__(self) -> None:
        self._sums: Any = None
        self._number = 0

    def add(self, outputs: Any) -> None:
        self._number += 1
        if self._sums is None:
            for path, leaf in iterate_leaves(outputs):
                if np.asarray(leaf).dtype.kind not in "fcV":
                    raise DataError(
                        f"the output {'.'.join(map(str, path))!r} is of {np.asarray(leaf).dtype}, of which test-time "
                        "augmentation makes no mean; let the network return scores alone, and take labels of their mean"
                    )
            self._sums = map_leaves(_summable, dict(outputs))
            return
        new = dict(iterate_leaves(outputs))
        for path, total in iterate_leaves(self._sums):
            if path not in new:
                raise MissingKeyError(f"the output {'.'.join(map(str, path))!r} is lacking in position {self._number}")
            if np.shape(new[path]) != total.shape:
                raise DataError(
                    f"the output {'.'.join(map(str, path))!r} has the shape {np.shape(new[path])} in position "
                    f"{self._number} of a test-time augmentation, and {total.shape} in the first; does undo put back "
                    "what change did?"
                )
            total += new[path]

    def result(self) -> dict[str, Any]:
        for _, total in iterate_leaves(self._sums):
            total /= self._number
        return dict(self._sums)


def _summable(leaf: Any) -> np.ndarray:
    array = np.asarray(leaf)
    return np.array(array, dtype=np.result_type(array.dtype, np.float32) if array.dtype.kind != "V" else np.float32)


def _axes(given: Any) -> tuple[int, ...]:
    axes = tuple(given) if isinstance(given, (tuple, list, range)) else (given,)
    if not all(map(is_count, axes)) or len({*axes}) < len(axes):
        raise ConfigError(f"TestTimeAugmentation: flips are different axes in space, from 0, got {given!r}")
    return tuple(map(int, axes))


def _planes(given: Any) -> tuple[tuple[int, int], ...]:
    planes = given if isinstance(given, (tuple, list)) else [None]
    planes = [planes] if len(planes) == 2 and not isinstance(planes[0], (tuple, list)) else planes
    found = [tuple(plane) if isinstance(plane, (tuple, list)) else () for plane in planes]
    if any(len(plane) != 2 or not all(map(is_count, plane)) or plane[0] == plane[1] for plane in found):
        raise ConfigError(
            f"TestTimeAugmentation: rotations are pairs of different axes in space, from 0, as [(0, 1)], got {given!r}"
        )
    return tuple((int(one), int(other)) for one, other in found)


def _pairs(given: Any) -> tuple[tuple[Change, Change], ...]:
    pairs = tuple(given) if isinstance(given, (tuple, list)) else (None,)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 and all(map(callable, pair)) for pair in pairs):
        raise ConfigError(f"TestTimeAugmentation: functions are pairs (change, undo), got {given!r}")
    return tuple((change, undo) for change, undo in pairs)
