"""Confidence intervals: the percentile bootstrap over cases, or over whole groups of cases.

References
----------
B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall, 1993, chapter 13.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.utils.seeding import derive
from delira.utils.trees import iterate_leaves, map_leaves

N_DRAWS = 2000
LEVEL = 0.95
MAX_DROPPED = 0.05
"""Share of the draws that may fail, e.g. for want of a class, before there is no interval."""
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
    """

    def __init__(self, n: int, groups: Any = None, seed: int = 0, n_draws: int = N_DRAWS):
        self.n, self.seed, self.n_draws = n, seed, n_draws
        self.members: np.ndarray | None = None
        if groups is not None:
            _, self.members = np.unique(np.asarray(groups), return_inverse=True)

    @property
    def n_units(self) -> int:
        """Number of groups, or of cases where there are none."""
        return self.n if self.members is None else int(self.members.max(initial=-1)) + 1

    def units(self, chunk: int = 1) -> Iterator[np.ndarray]:
        """Drawn units, int64 of shape ``(at most chunk, n_units)``; the same whatever the chunk."""
        generator = np.random.default_rng(derive(self.seed, stream="bootstrap"))
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

    def interval(self, estimates: np.ndarray) -> Interval:
        """Percentiles of the estimates, float64 of shape ``(n_draws,)``; NaN is a failed draw."""
        valid = estimates[~np.isnan(estimates)]
        if len(estimates) - len(valid) > MAX_DROPPED * len(estimates):
            share = (len(estimates) - len(valid)) / len(estimates)
            return self.none(f"it could not be computed in {share:.0%} of the draws")
        tail = 50 * (1 - LEVEL)
        low, high = np.percentile(valid, [tail, 100 - tail])
        return Interval(float(low), float(high), self.n, self._n_groups)

    def none(self, note: str) -> Interval:
        """No interval, and why."""
        return Interval(np.nan, np.nan, self.n, self._n_groups, note)

    @property
    def _n_groups(self) -> int | None:
        return None if self.members is None else self.n_units


def mean_interval(values: Any, groups: Any = None, seed: int = 0, n_draws: int = N_DRAWS) -> Interval:
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

    Returns
    -------
    Interval
        NaN with a note if a value is NaN, or if there is only one case or group.
    """
    values = np.asarray(values, dtype=np.float64)
    draws = Resampling(len(values), groups, seed, n_draws)
    if (n_missing := int(np.isnan(values).sum())) > 0:
        return draws.none(f"it is NaN in {n_missing} of {len(values)} cases")
    if draws.n_units < 2:
        return draws.none(_too_few(draws))
    members = np.arange(len(values)) if draws.members is None else draws.members
    sums, sizes = np.bincount(members, weights=values), np.bincount(members)
    estimates = [sums[units].sum(1) / sizes[units].sum(1) for units in draws.units(max(1, CHUNK // draws.n_units))]
    return draws.interval(np.concatenate(estimates))


def score_interval(
    function: Callable[..., float],
    arrays: Sequence[Any],
    groups: Any = None,
    seed: int = 0,
    n_draws: int = N_DRAWS,
) -> Interval:
    """95 % interval of a function of a whole data set, evaluated again on every draw.

    A draw in which the function raises or gives NaN (the AUC of a draw with one class) is left out.

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
        NaN with a note if more than 5 % of the draws are left out, or there is only one case or group.
    """
    n_cases = len(next(iterate_leaves(arrays[0]))[1])
    draws = Resampling(n_cases, groups, seed, n_draws)
    if draws.n_units < 2:
        return draws.none(_too_few(draws))
    estimates = np.full(n_draws, np.nan)
    with warnings.catch_warnings():  # 2,000 times "only one class present" helps nobody
        warnings.simplefilter("ignore")
        for position, cases in enumerate(draws.cases()):
            try:
                estimates[position] = function(*(_take(array, cases) for array in arrays))
            except Exception:  # a metric raises what it likes; interval() counts the draws without a value
                continue
    return draws.interval(estimates)


def _take(array: Any, cases: np.ndarray) -> Any:
    return array[cases] if isinstance(array, np.ndarray) else map_leaves(lambda leaf: leaf[cases], array)


def _too_few(draws: Resampling) -> str:
    return f"there is only {draws.n_units} {'case' if draws.members is None else 'group'}"
