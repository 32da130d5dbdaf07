"""Tests of differences case by case, of models as they were trained: paired bootstrap and McNemar's test.

References
----------
B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall, 1993, chapter 13: percentile intervals.
Q. McNemar, "Note on the sampling error of the difference between correlated proportions", Psychometrika 12, 1947.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from delira.comparison.outcomes import Outcome, refused
from delira.errors import DataError
from delira.metrics.of_cases import Statistic
from delira.report.bootstrap import CHUNK, MIN_UNITS, Interval, Resampling, Stratum, drawn_counts, too_few

MCNEMAR = "McNemar"


class OfCases(NamedTuple):
    """Values of a metric for cases that were tested, with what each counts; a case may be there several times."""

    values: np.ndarray
    """Float64 of shape ``(n,)``."""
    weights: np.ndarray
    """Float64 of shape ``(n,)``: the mean over folds is the sum of values times weights over the sum of weights."""


def percentiles(estimates: np.ndarray, draws: Resampling, level: float, fault: str = "lacks a class") -> Interval:
    """Return the percentile interval of drawn estimates, float64 of shape ``(n_draws,)``; none if one has no value.

    Parameters
    ----------
    estimates
        One for each draw.
    draws
        What was drawn.
    level
        How sure.
    fault
        What a draw without a value is like.
    """
    if n_failed := int(np.isnan(estimates).sum()):
        return draws.none(f"{n_failed:,} of {len(estimates):,} draws have no value, as a draw that {fault}")
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), draws.n, None if draws.members is None else draws.n_units)


def paired_bootstrap(
    first: OfCases, second: OfCases, cases: np.ndarray, groups: object, draws: Resampling, level: float = 0.95
) -> Interval:
    """Return the interval of the difference of two means, by drawing cases, or whole groups of them, for both at once.

    Parameters
    ----------
    first, second
        Values of the two, test by test, in the same order.
    cases
        The case of each test, whole numbers below ``draws.n``, shape ``(n,)``.
    groups
        Whether whole groups are drawn: those of ``draws``.
    draws
        Over the cases.
    level
        How sure.

    Returns
    -------
    Interval
        Of the second minus the first, or a note why there is none.
    """
    if draws.n_units < MIN_UNITS:
        return draws.none(too_few(draws.n_units, groups is not None))
    units = cases if draws.members is None else draws.members[cases]
    sums = [
        np.bincount(units, weights=weight, minlength=draws.n_units)
        for one in (first, second)
        for weight in (one.values * one.weights, one.weights)
    ]
    found = []
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw of which no case counts
        for drawn in draws.units(max(1, CHUNK // draws.n_units)):
            above_first, below_first, above_second, below_second = (each[drawn].sum(axis=1) for each in sums)
            found.append(above_second / below_second - above_first / below_first)
    return percentiles(np.concatenate(found), draws, level, "holds no case with a value")


def scores_bootstrap(
    first: Sequence[Statistic],
    second: Sequence[Statistic],
    folds: Sequence[np.ndarray],
    strata: Sequence[Stratum],
    level: float = 0.95,
) -> Interval:
    """Return the interval of the difference of two means over folds of a metric that is no mean over cases.

    Parameters
    ----------
    first, second
        For each fold the metric as a function of how often each of its cases was drawn.
    folds
        For each fold the places of its cases among all cases, shape ``(n_fold,)``.
    strata
        What is drawn: folds by themselves, or all cases where groups are in several folds; or each class of these.
    level
        How sure.

    References
    ----------
    X. Robin et al., "pROC: an open-source package for R and S+ to analyze and compare ROC curves", BMC Bioinformatics
    12, 2011: draws within each class.
    """
    n = sum(one.draws.n for one in strata)
    has_groups = strata[0].draws.members is not None
    everything = strata[0].draws if len(strata) == 1 else Resampling(n, n_draws=strata[0].draws.n_draws)
    units = [one.draws.n_units for one in strata]
    n_groups = sum(units) if has_groups else None
    if min(units) < MIN_UNITS:
        note = too_few(min(units), has_groups)
        return everything.none(note if len(strata) == 1 else f"in a fold {note}")._replace(n_groups=n_groups)
    chunk = max(1, CHUNK // max(1, sum(map(len, folds))))
    found = []
    # 2,000 times "only one class" helps nobody
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        for counts in drawn_counts(strata, n, chunk):
            values = [
                other(counts[:, places]) - this(counts[:, places])
                for this, other, places in zip(first, second, folds, strict=True)
            ]
            found.append(np.mean(values, axis=0))
    return percentiles(np.concatenate(found), everything, level)._replace(n_groups=n_groups)


def mcnemar_test(first: object, second: object) -> Outcome:
    """Return McNemar's exact test of two sets of answers to the same cases: of those that one alone has right.

    Parameters
    ----------
    first, second
        Whether each case is right, 0 or 1, shape ``(n,)``.

    Returns
    -------
    Outcome
        The statistic is the number of cases that the second alone has right. The p-value is that of a binomial test
        of them among all cases on which the two differ.

    Raises
    ------
    DataError
        If they are not 0 and 1 for the same cases.
    """
    from scipy import stats

    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape or one.ndim != 1 or not np.isin(np.r_[one, other], (0, 1)).all():
        raise DataError(f"McNemar's test needs 0 or 1 for each case of both, got {first!r:.80} and {second!r:.80}")
    only_second, only_first = int(np.sum(other > one)), int(np.sum(one > other))
    if not only_first + only_second:
        return refused(MCNEMAR, "both are right in the same cases")
    p_value = stats.binomtest(only_second, only_first + only_second).pvalue
    return Outcome(MCNEMAR, float(only_second), float(p_value))


def odds_ratio(first: object, second: object) -> float:
    """Return cases that the second alone has right over those that the first alone has; inf or NaN without any.

    Parameters
    ----------
    first, second
        As of :func:`mcnemar_test`.
    """
    one, other = np.asarray(first), np.asarray(second)
    only_second, only_first = int(np.sum(other > one)), int(np.sum(one > other))
    if not only_first:
        return float("inf") if only_second else float("nan")
    return only_second / only_first
