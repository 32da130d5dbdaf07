"""Confidence intervals: the percentile bootstrap over cases, or over whole groups of cases, of all folds or of each.

References
----------
B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall, 1993, chapter 13.
"""

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError, check_functions, check_whole, if_given
from delira.metrics.of_cases import CaseValues, Statistic
from delira.report.predictions import Part
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.seeding import derive

N_DRAWS = 2000
LEVEL = 0.95
MIN_UNITS = 5
"""Cases, or groups, of which draws say something: those of one are all the same, those of three nearly."""
CHUNK = 1 << 22
"""Indices drawn at once by :func:`mean_interval` (32 MiB)."""


class Interval(NamedTuple):
    """A confidence interval, and what it rests on."""

    low: float
    high: float
    n: int
    """Cases."""
    n_groups: int | None = None
    """Groups, where whole groups were drawn."""
    note: str = ""
    """Why there is no interval; or that it is of draws within classes, and why."""


class Resampling:
    """The seeded draws over ``n`` cases: the same for every metric, so that their intervals are comparable.

    Parameters
    ----------
    n
        Number of cases.
    groups
        Group of each case, shape ``(n,)``; whole groups are drawn.
    seed
        Of the run; the draws are a stream of their own.
    n_draws
        How often the cases are drawn, with replacement.
    fold
        Of which fold the cases are, if each has draws of its own.
    """

    def __init__(self, n: int, groups: object = None, seed: int = 0, n_draws: int = N_DRAWS, fold: int | None = None):
        check_whole("Resampling", at_least=0, n=n, seed=seed)
        check_whole("Resampling", at_least=1, n_draws=n_draws)
        check_whole("Resampling", at_least=0, **if_given(fold=fold))
        self.n, self.seed, self.n_draws = n, seed, n_draws
        self.counters = () if fold is None else (fold,)
        self.members: np.ndarray | None = None
        if groups is not None:
            found = np.asarray(groups)
            if found.shape != (n,):
                raise DataError(f"groups must be one for each of {n} cases, got {groups!r:.200}")
            _, self.members = np.unique(found, return_inverse=True)

    @property
    def n_units(self) -> int:
        """Number of groups, or of cases where there are none."""
        return self.n if self.members is None else int(self.members.max(initial=-1)) + 1

    def units(self, chunk: int = 1) -> Iterator[np.ndarray]:
        """Drawn units, int64 of shape ``(at most chunk, n_units)``; the same whatever the chunk."""
        generator = np.random.default_rng(derive(self.seed, *self.counters, stream="bootstrap"))
        for start in range(0, self.n_draws, chunk):
            yield generator.integers(self.n_units, size=(min(chunk, self.n_draws - start), self.n_units))

    def cases(self) -> Iterator[np.ndarray]:
        """Drawn cases of each draw, int64; as many as there are, where whole groups are not drawn."""
        if self.members is None:
            yield from (units[0] for units in self.units())
            return
        of_group = np.split(np.argsort(self.members, kind="stable"), np.cumsum(np.bincount(self.members))[:-1])
        for units in self.units():
            yield np.concatenate([of_group[unit] for unit in units[0]])

    def counts(self, chunk: int = 1) -> Iterator[np.ndarray]:
        """How often each case was drawn, int64 of shape ``(at most chunk, n)``; the draws of :meth:`units`."""
        for units in self.units(chunk):
            shifted = units + self.n_units * np.arange(len(units))[:, None]
            counts = np.bincount(shifted.ravel(), minlength=units.size).reshape(len(units), self.n_units)
            yield counts if self.members is None else counts[:, self.members]

    def interval(self, estimates: np.ndarray, fault: str = "lacks a class") -> Interval:
        """Percentiles of the estimates, float64 of shape ``(n_draws,)``.

        There is no interval if one is not a number: without the draws that lack a class, the others would tell of data
        that have more of it. ``fault`` says what such a draw is like.
        """
        if (n_failed := int(np.isnan(estimates).sum())) > 0:
            return self.none(f"{n_failed:,} of {len(estimates):,} draws have no value, as a draw that {fault}")
        tail = 50 * (1 - LEVEL)
        low, high = np.percentile(estimates, [tail, 100 - tail])
        return Interval(float(low), float(high), self.n, self._n_groups)

    def none(self, note: str) -> Interval:
        """No interval, and why."""
        return Interval(np.nan, np.nan, self.n, self._n_groups, note)

    @property
    def _n_groups(self) -> int | None:
        return None if self.members is None else self.n_units


def mean_interval(
    values: object, groups: object = None, seed: int = 0, n_draws: int = N_DRAWS, weights: object = None
) -> Interval:
    """95 % interval of the mean of one value per case.

    Parameters
    ----------
    values
        Shape ``(n,)``.
    groups
        Group (patient, site) of each case, shape ``(n,)``: whole groups are drawn, and the mean is that of
        all their cases.
    seed
        Of the run.
    n_draws
        How often the cases are drawn.
    weights
        What each case counts in the mean, shape ``(n,)``; all the same if None.

    Returns
    -------
    Interval
        NaN with a note if a value is not finite, or if there is only one case or group.
    """
    values = _numbers_of_cases("values", values)
    draws = Resampling(len(values), groups, seed, n_draws)
    if weights is not None:
        weights = _numbers_of_cases("weights", weights)
        if weights.shape != values.shape or not (weights >= 0).all() or not np.isfinite(weights).all():
            raise DataError(f"weights must be one finite number of at least 0 for each value, got {weights!r:.200}")
    for what, found in (("NaN", np.isnan(values)), ("infinite", np.isinf(values))):
        if found.any():
            return draws.none(f"it is {what} in {int(found.sum()):,} of {len(values):,} cases")
    if draws.n_units < 2:
        return draws.none(too_few(draws.n_units, groups is not None))
    members = np.arange(len(values)) if draws.members is None else draws.members
    sums = np.bincount(members, weights=values if weights is None else values * weights)
    sizes = np.bincount(members, weights=weights)
    with np.errstate(invalid="ignore"):  # no case of a draw may count
        estimates = [sums[units].sum(1) / sizes[units].sum(1) for units in draws.units(max(1, CHUNK // draws.n_units))]
    return draws.interval(np.concatenate(estimates))


def _numbers_of_cases(name: str, given: object) -> np.ndarray:
    """One number for each case, float64 of shape ``(n,)``."""
    try:
        found = np.asarray(given)
    except ValueError as error:  # lists of several lengths
        raise DataError(f"{name} must be one number for each case, got {given!r:.200}: {error}") from error
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "biuf":
        raise DataError(f"{name} must be one number for each case, got {given!r:.200}")
    return found.astype(np.float64)


def score_interval(
    function: Callable[..., float], arrays: Sequence[Any], groups: object = None, seed: int = 0, n_draws: int = N_DRAWS
) -> Interval:
    """95 % interval of a function of a whole data set, evaluated again on every draw.

    There is none if the function raises or gives NaN in a draw (the AUC of a draw with one class).

    Parameters
    ----------
    function
        Called with the resampled arrays.
    arrays
        Each of shape ``(n, ...)``, or a tree of such arrays.
    groups, seed, n_draws
        As in :func:`mean_interval`.

    Returns
    -------
    Interval
        NaN with a note if a draw has no value, or there is only one case or group.
    """
    check_functions("score_interval", function=function)
    draws = Resampling(_count_cases(arrays), groups, seed, n_draws)
    if draws.n_units < 2:
        return draws.none(too_few(draws.n_units, groups is not None))
    with warnings.catch_warnings(action="ignore"):  # 2,000 times "only one class present" helps nobody
        return draws.interval(np.array([_of_draw(function, arrays, cases) for cases in draws.cases()]))


def _of_draw(function: Callable[..., float], arrays: Sequence[Any], cases: np.ndarray) -> float:
    """Return the value of a function of drawn cases; NaN if it has none, which means no interval."""
    try:
        return float(function(*(map_leaves(operator.itemgetter(cases), array) for array in arrays)))
    except Exception:  # a metric raises what it likes
        return float("nan")


def _count_cases(arrays: object) -> int:
    """Return the number of cases in arrays, or trees of arrays, which must have one length."""
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise ConfigError(f"arrays must be a list of arrays with one entry for each case, got {arrays!r:.200}")
    lengths = {np.shape(leaf)[:1] for tree in arrays for _, leaf in iterate_leaves(tree)}
    if len(lengths) != 1 or lengths == {()}:
        raise DataError(f"arrays must have one entry for each case, all of them, got {arrays!r:.200}")
    return int(lengths.pop()[0])


def too_few(n_units: int, are_groups: bool) -> str:
    """Why there is no interval of so few cases or groups."""
    unit = "group" if are_groups else "case"
    return f"there is only 1 {unit}" if n_units == 1 else f"there are only {n_units} {unit}s, fewer than {MIN_UNITS}"


class Stratum(NamedTuple):
    """Cases that are drawn among themselves: as many of them, or of their groups, are in every draw."""

    draws: Resampling
    places: np.ndarray
    """Of its cases among all cases, int64 of shape ``(draws.n,)``."""


def strata_of(cases: np.ndarray, labels: np.ndarray | None, groups: np.ndarray | None) -> list[np.ndarray]:
    """Return the places of cases that are drawn among themselves: by class, so that no draw lacks one.

    A group is drawn among those with the same highest label: of two classes, groups with a positive case, and those
    without.

    Parameters
    ----------
    cases
        Places of the cases, shape ``(n,)``.
    labels
        Of each, shape ``(n,)``; None: there are no labels, and nothing is parted.
    groups
        Group of each, shape ``(n,)``, or None.

    Returns
    -------
    list of ndarray
        The highest label first; all cases together where one part would have too few to be drawn from.
    """
    if labels is None:
        return [cases]
    codes = np.unique(labels, return_inverse=True)[1].ravel()
    units = np.arange(len(cases)) if groups is None else np.unique(groups, return_inverse=True)[1]
    highest = np.zeros(units.max(initial=-1) + 1, np.int64)
    np.maximum.at(highest, units, codes)
    if np.unique(highest, return_counts=True)[1].min(initial=MIN_UNITS) < MIN_UNITS:
        return [cases]
    return [cases[highest[units] == label] for label in np.unique(highest)[::-1]]


def drawn_counts(strata: Sequence[Stratum], n: int, chunk: int) -> Iterator[np.ndarray]:
    """How often each of ``n`` cases was drawn, all strata together, int64 of shape ``(at most chunk, n)``."""
    for drawn in zip(*(one.draws.counts(chunk) for one in strata), strict=True):
        counts = np.zeros((len(drawn[0]), n), np.int64)
        for one, own in zip(strata, drawn, strict=True):
            counts[:, one.places] = own
        yield counts


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
        if within and len(self.cases) < sum(len(part.cases) for part in parts):
            raise ValueError("parts that share cases are not drawn by themselves: the draws of a case are one number")

    @property
    def note(self) -> str:
        """Why nothing can be drawn; empty if it can."""
        if (n_units := self._resampling(self.cases).n_units) < MIN_UNITS:
            return too_few(n_units, self.groups is not None)
        counts = [self._resampling(part.cases).n_units for part in self.parts] if len(self.parts) > 1 else []
        unit = "case" if self.groups is None else "group"
        if counts and max(counts) < MIN_UNITS:
            return f"every fold holds fewer than {MIN_UNITS} {unit}s, too few to draw from"
        for part, count in zip(self.parts, counts, strict=False):
            if count < MIN_UNITS:
                held = f"{count} {unit}{'' if count == 1 else 's'}, fewer than {MIN_UNITS}"
                return f"{part.name} holds only {held}, too few to draw from"
        return ""

    def _resampling(self, cases: np.ndarray, fold: int | None = None) -> Resampling:
        return Resampling(len(cases), None if self.groups is None else self.groups[cases], self.seed, fold=fold)

    def _strata(self, labels: Sequence[np.ndarray] | None) -> list[Stratum]:
        """What is drawn by itself: each part, or all cases; with labels of the cases of each part each of these."""
        places = [np.searchsorted(self.cases, part.cases) for part in self.parts]
        if labels is None:
            if self.within:
                folds = [part.folds[0].fold for part in self.parts]
                drawn = [self._resampling(part.cases, fold) for part, fold in zip(self.parts, folds, strict=True)]
                return list(map(Stratum, drawn, places))
            return [Stratum(self._resampling(self.cases), np.arange(len(self.cases)))]
        known, codes = np.unique(np.concatenate(labels), return_inverse=True)
        of_cases = np.zeros(len(self.cases), np.int64)
        of_cases[np.concatenate(places)] = codes.ravel()
        groups = None if self.groups is None else self.groups[self.cases]
        drawn_alone = places if self.within else [np.arange(len(self.cases))]
        found = []
        for part, where in zip(self.parts, drawn_alone, strict=self.within):
            first = len(known) * part.folds[0].fold if self.within else 0
            own = strata_of(where, of_cases[where], None if groups is None else groups[where])
            # a stream for each, by the number of the fold
            found += [Stratum(self._resampling(self.cases[each], first + at), each) for at, each in enumerate(own)]
        return found

    def interval(
        self, statistics: Sequence[Statistic], fault: str = "lacks a class", labels: Sequence[np.ndarray] | None = None
    ) -> Interval:
        """Of the mean over the parts of a statistic of each.

        Parameters
        ----------
        statistics
            Of each part.
        fault
            What a draw without a value is like.
        labels
            Of the cases of each part. Where draws lack a class, cases are drawn once more, each among those of its
            label (X. Robin et al., "pROC", BMC Bioinformatics 12, 2011), which the note says. None: there is no
            interval then.
        """
        estimates, empty = self._estimates(statistics, self._strata(None))
        whole = self._resampling(self.cases)
        found = whole.interval(estimates, empty or fault)
        if labels is None or not np.isnan(estimates).any():
            return found
        again = whole.interval(self._estimates(statistics, self._strata(labels))[0])
        if again.note:
            return found
        n_failed = int(np.isnan(estimates).sum())
        why = f"{n_failed:,} of {len(estimates):,} draws of all cases have no value, as a draw that {empty or fault}"
        return again._replace(note=f"drawn within classes, whose shares stay as they are, since {why}")

    def _estimates(self, statistics: Sequence[Statistic], strata: Sequence[Stratum]) -> tuple[np.ndarray, str]:
        """Return the estimate of each draw; and what those without a value are like, if each lacks all of a fold."""
        estimates, has_all = [], []
        places = [np.searchsorted(self.cases, part.cases) for part in self.parts]
        chunk = max(1, CHUNK // max(1, sum(map(len, places))))
        # 2,000 times "only one class" helps nobody
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            for counts in drawn_counts(strata, len(self.cases), chunk):
                drawn = [counts[:, place] for place in places]
                values = [statistic(each) for statistic, each in zip(statistics, drawn, strict=True)]
                estimates.append(np.mean(values, axis=0))
                has_all.append(np.all([each.any(axis=1) for each in drawn], axis=0))
        found = np.concatenate(estimates)
        is_only_empty = not (np.isnan(found) & np.concatenate(has_all)).any()
        return found, "has no case of one of the folds" if is_only_empty else ""


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
        return _of_draw(evaluate, arrays, np.repeat(np.arange(len(count)), count))

    return lambda counts: np.array([value(count) for count in counts], np.float64)


def classes_of(target: object, arrays: Sequence[Any]) -> np.ndarray | None:
    """Labels of classes, of shape ``(n,)``; None if a target is none, or nobody knows.

    Parameters
    ----------
    target
        The entry of the batch that a metric reads.
    arrays
        All that it reads: scores with a column for each class, or labels, tell that whole numbers are classes.
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
    leaves = [leaf for array in arrays if array is not target for _, leaf in iterate_leaves(array)]
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
