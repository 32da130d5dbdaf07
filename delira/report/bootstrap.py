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

from delira.errors import ConfigError, DataError
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.checks import check_functions, check_whole
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
    """Why there is no interval."""


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
        if fold is not None:
            check_whole("Resampling", at_least=0, fold=fold)
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
        order = np.argsort(self.members, kind="stable")
        of_group = np.split(order, np.cumsum(np.bincount(self.members))[:-1])
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
    function: Callable[..., float],
    arrays: Sequence[Any],
    groups: object = None,
    seed: int = 0,
    n_draws: int = N_DRAWS,
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
    n_cases = _count_cases(arrays)
    draws = Resampling(n_cases, groups, seed, n_draws)
    if draws.n_units < 2:
        return draws.none(too_few(draws.n_units, groups is not None))
    estimates = np.full(n_draws, np.nan)
    with warnings.catch_warnings():  # 2,000 times "only one class present" helps nobody
        warnings.simplefilter("ignore")
        for position, cases in enumerate(draws.cases()):
            try:
                estimates[position] = function(*(map_leaves(operator.itemgetter(cases), array) for array in arrays))
            except Exception:  # a metric raises what it likes; interval() counts the draws without a value
                continue
    return draws.interval(estimates)


def _count_cases(arrays: object) -> int:
    """Of arrays, or trees of them, of one length."""
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
