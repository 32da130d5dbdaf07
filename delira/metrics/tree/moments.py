"""Count, mean, spread and extremes of numbers that come in parts, without keeping the numbers."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.utils.arrays import as_array, ops_of, shape_of

#: an array with more values than this is reduced on its device; smaller ones are brought to the host as they are
LARGE = 4096


class Weighted(NamedTuple):
    """What a metric returns if its numbers do not count the same.

    A mean takes them with their weights. The other aggregators take a single number as one observation, and of an
    array what has a weight.
    """

    value: Any
    """Numbers, of shape ``()`` or any other."""
    weight: Any
    """For a single number how many samples it is the mean of; for an array, of the same shape, which values count."""


class Moments:
    """Merges means and sums of squared deviations of parts, in float64.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.
    """

    def __init__(self) -> None:
        self.count = 0.0
        self.mean: Any = np.float64(np.nan)
        self.squares: Any = np.float64(0.0)
        self.least: Any = np.float64(np.inf)
        self.largest: Any = np.float64(-np.inf)

    def add(self, values: np.ndarray, axis: Any = None) -> None:
        """Take in numbers; with ``axis`` those along the other axes are kept apart."""
        values = np.asarray(values, dtype=np.float64)
        count = values.size if axis is None else int(np.prod([values.shape[a] for a in np.atleast_1d(axis)]))
        if count:
            mean = values.mean(axis=axis, keepdims=True)
            with np.errstate(invalid="ignore"):  # infinite values have no spread
                squares = np.square(values - mean).sum(axis=axis)
            self.merge(count, mean.reshape(np.shape(squares)), squares, values.min(axis=axis), values.max(axis=axis))

    def merge(self, count: float, mean: Any, squares: Any, least: Any, largest: Any) -> None:
        """Take in numbers of which only these are known."""
        if count == 0:
            return
        if self.count == 0:
            self.count, self.mean, self.squares = count, mean, squares
        else:
            total = self.count + count
            with np.errstate(invalid="ignore"):
                change = mean - self.mean
                self.squares = self.squares + squares + change**2 * self.count * count / total
                self.mean = self.mean + change * count / total
            self.count = total
        self.least, self.largest = np.minimum(self.least, least), np.maximum(self.largest, largest)

    def variance(self, correction: float) -> Any:
        """The variance; not a number where there are not more numbers than ``correction``."""
        if self.count <= correction:
            return np.full(np.shape(self.mean), np.nan)
        return self.squares / (self.count - correction)

    def state_dict(self) -> dict[str, Any]:
        """Everything, as a checkpoint tree."""
        return {name: np.array(value) for name, value in vars(self).items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after what a state has seen."""
        for name, value in state.items():
            setattr(self, name, float(value) if name == "count" else np.array(value, dtype=np.float64)[()])


class Part(NamedTuple):
    """The numbers of one batch, on their device: as they are, or reduced."""

    arrays: tuple[Any, ...]
    """``(values,)`` or ``(values, mask)``; reduced ``([mean, squares, least, largest],)``, and the count if masked."""
    is_reduced: bool
    weight: float | None
    """How many samples a single number is the mean of; how many numbers were reduced."""


def part_of(value: Any, axis: Any = None) -> Part:
    """Of what a metric returned, what has to be kept."""
    weight: Any = None
    if isinstance(value, Weighted):
        value, weight = value
    values = as_array(value)
    if weight is not None and not shape_of(weight):
        return Part((values,), False, float(weight))
    size = math.prod(shape_of(values))
    mask = None if weight is None else as_array(weight, values)
    if axis is None and size > LARGE:
        with np.errstate(invalid="ignore", divide="ignore"):  # of a batch without numbers, which is left out
            return Part((_reduce(values, mask, size),), True, size if mask is None else None)
    return Part((values,) if mask is None else (values, mask), False, None)


def _reduce(values: Any, mask: Any, size: int) -> Any:
    ops = ops_of(values)
    values = ops.wide(values)
    if mask is None:
        mean = ops.sum(values) / size
        parts = [mean, ops.sum((values - mean) ** 2), ops.least(values), ops.largest(values)]
    else:
        count = ops.wide(ops.sum(mask))
        mean = ops.sum(ops.where(mask, values, 0.0)) / count
        squares = ops.sum(ops.where(mask, (values - mean) ** 2, 0.0))
        least, largest = ops.where(mask, values, np.inf), ops.where(mask, values, -np.inf)
        parts = [mean, squares, ops.least(least), ops.largest(largest), count]
    return ops.concatenate(parts)


def moments_of(part: Part, arrays: list[np.ndarray], axis: Any, is_weighted: bool = True) -> Moments:
    """The moments of one batch, whose arrays were read."""
    moments = Moments()
    if part.is_reduced:
        mean, squares, least, largest, *count = arrays[0].astype(np.float64)
        moments.merge(part.weight if part.weight is not None else count[0], mean, squares, least, largest)
    elif part.weight is not None and is_weighted:
        mean = arrays[0].astype(np.float64).reshape(())[()]
        moments.merge(part.weight, mean, np.float64(0), mean, mean)
    else:
        moments.add(arrays[0] if len(arrays) == 1 else arrays[0][arrays[1].astype(bool)], axis)
    return moments
