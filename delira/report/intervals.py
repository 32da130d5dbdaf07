"""Which cases an interval of a cross-validation draws: those of all folds, or those of each."""

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from delira.metrics.of_cases import CaseValues, Statistic, statistic_of
from delira.report.bootstrap import CHUNK, MIN_UNITS, Interval, Resampling, too_few
from delira.report.parts import Part
from delira.utils.arrays import iterate_leaves, map_leaves

RESAMPLING_LIMIT = 1 << 25
"""Arrays above this size (32 MiB) are not resampled 2,000 times for an interval."""
_MAX_CLASSES = 20
"""Whole numbers of more different values are no classes."""


class Draws:
    """The draws behind an interval, the same for every metric.

    Parameters
    ----------
    parts
        Whose values are averaged.
    groups
        Group of every sample of the data set, or None.
    seed
        Of the run.
    within
        Whether each part is drawn by itself; else cases are drawn, and each part has those of them that it tested.
    """

    def __init__(self, parts: Sequence[Part], groups: object, seed: int, *, within: bool):
        self.parts, self.seed, self.within = parts, seed, within
        self.groups = None if groups is None else np.asarray(groups)
        self.cases = np.unique(np.concatenate([part.cases for part in parts]))

    def units(self, cases: np.ndarray) -> int:
        """Return how many groups, or cases, there are among some cases."""
        return len(cases) if self.groups is None else len(np.unique(self.groups[cases]))

    @property
    def note(self) -> str:
        """Why nothing can be drawn; empty if it can."""
        if (n_units := self.units(self.cases)) < MIN_UNITS:
            return too_few(n_units, self.groups is not None)
        counts = [self.units(part.cases) for part in self.parts] if len(self.parts) > 1 else []
        unit = "case" if self.groups is None else "group"
        if counts and max(counts) < MIN_UNITS:
            return f"every fold holds fewer than {MIN_UNITS} {unit}s, too few to draw from"
        for part, count in zip(self.parts, counts, strict=False):
            if count < MIN_UNITS:
                held = f"{count} {unit}{'' if count == 1 else 's'}"
                return f"{part.name} holds only {held}, fewer than {MIN_UNITS}, too few to draw from"
        return ""

    def counts(self) -> Iterator[list[np.ndarray]]:
        """How often each case of each part was drawn, arrays of shape ``(draws, n)``, some draws at a time."""
        chunk = max(1, CHUNK // max(1, sum(len(part.cases) for part in self.parts)))
        if self.within:
            drawn = [self._resampling(part.cases, part.folds[0].fold).counts(chunk) for part in self.parts]
            yield from (list(each) for each in zip(*drawn, strict=True))
            return
        places = [np.searchsorted(self.cases, part.cases) for part in self.parts]
        for counts in self._resampling(self.cases).counts(chunk):
            yield [counts[:, place] for place in places]

    def _resampling(self, cases: np.ndarray, fold: int | None = None) -> Resampling:
        return Resampling(len(cases), None if self.groups is None else self.groups[cases], self.seed, fold=fold)

    def interval(self, statistics: Sequence[Statistic], fault: str = "lacks a class") -> Interval:
        """Of the mean over the parts of a statistic of each; ``fault`` is that of draws without a value."""
        whole = self._resampling(self.cases)
        if self.note:
            return whole.none(self.note)
        estimates, has_all = [], []
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # 2,000 times "only one class" helps nobody
            warnings.simplefilter("ignore")
            for drawn in self.counts():
                values = [statistic(counts) for statistic, counts in zip(statistics, drawn, strict=True)]
                estimates.append(np.mean(values, axis=0))
                has_all.append(np.all([counts.any(axis=1) for counts in drawn], axis=0))
        found = np.concatenate(estimates)
        is_only_empty = not (np.isnan(found) & np.concatenate(has_all)).any()
        return whole.interval(found, "has no case of one of the folds" if is_only_empty else fault)


def of_case_values(found: CaseValues) -> Statistic:
    """Return the mean of values of cases, as a function of how often each was drawn."""
    weights = np.ones(len(found.values)) if found.weights is None else found.weights
    weighted = np.where(weights > 0, found.values, 0.0) * weights
    return lambda counts: (counts @ weighted) / (counts @ weights)


def evaluated(
    tell: Callable[[], None], evaluate: Callable[..., float], arrays: Sequence[Any], classes: np.ndarray | None
) -> Statistic:
    """Return a metric as a function of how often each case was drawn, evaluated draw by draw.

    Parameters
    ----------
    tell
        Called for each draw.
    evaluate
        The metric as a function of arrays: all that is known of it is what it returns.
    arrays
        What it reads of one part.
    classes
        Labels of the cases; draws that lack one of these classes have no value.
    """
    codes = None if classes is None else np.unique(classes, return_inverse=True)[1].ravel()

    def value(count: np.ndarray) -> float:
        tell()
        if codes is not None and not np.bincount(codes, weights=count).all():
            return float("nan")
        cases = np.repeat(np.arange(len(count)), count)
        try:
            return evaluate(*(map_leaves(operator.itemgetter(cases), array) for array in arrays))
        except Exception:  # a metric raises what it likes; a draw without a value means no interval
            return float("nan")

    return lambda counts: np.array([value(count) for count in counts], np.float64)


def fast_statistic(metric: object, arrays: Sequence[Any], evaluate: Callable[..., float]) -> Statistic | None:
    """Return a metric of many draws at once; None where it has to be evaluated draw by draw."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return statistic_of(metric, arrays, evaluate)


def classes_of(target: object, others: Sequence[Any]) -> np.ndarray | None:
    """Labels of classes, of shape ``(n,)``; None if a target is none, or nobody knows.

    Parameters
    ----------
    target
        The entry of the batch that a metric reads.
    others
        What else it reads: scores with a column for each class, or labels, tell that whole numbers are classes.
    """
    if not isinstance(target, np.ndarray) or target.dtype.hasobject or not target.size:
        return None
    labels = target.reshape(len(target), -1)
    if labels.shape[1] != 1:
        return None
    labels = labels[:, 0]
    if labels.dtype.kind in "bUS" or (labels.dtype.kind in "iuf" and np.isin(labels, (0, 1)).all()):
        return labels
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        return None
    leaves = [leaf for other in others for _, leaf in iterate_leaves(other)]
    is_scored = any(leaf.ndim == 2 and 1 < leaf.shape[1] > labels.max() and leaf.dtype.kind == "f" for leaf in leaves)
    is_labelled = labels.max() < _MAX_CLASSES and any(leaf.ndim == 1 and leaf.dtype.kind in "iu" for leaf in leaves)
    return labels if is_scored or is_labelled else None


def n_bytes(arrays: Sequence[Any]) -> int:
    """Memory of what a metric reads."""
    return sum(
        sum(np.asarray(item).nbytes for item in leaf) if leaf.dtype.hasobject else leaf.nbytes
        for array in arrays
        for _, leaf in iterate_leaves(array)
    )
