"""Tests of differences fold by fold; the folds of one data set share training data, so their differences depend.

References
----------
C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52, 2003: the corrected t-test.
R. R. Bouckaert, E. Frank, "Evaluating the replicability of significance tests for comparing learning algorithms",
PAKDD 2004: the same for repeated k-fold cross-validation.
A. Benavoli, G. Corani, J. Demšar, M. Zaffalon, "Time for a change: a tutorial for comparing multiple classifiers
through Bayesian analysis", Journal of Machine Learning Research 18, 2017, section 4.1: the Bayesian correlated t-test.
F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from delira.comparison.outcomes import Outcome, numbers_of, refused
from delira.errors import ConfigError, DataError

CORRECTED, NAIVE, WILCOXON = "corrected t", "naive paired t", "Wilcoxon"
_CLOSE = 1e-12
"""Differences whose spread is this share of their size are the same number, but for rounding."""
MAX_SIGNS = 13
"""Differences of which all 8,192 ways to choose their signs are counted, so that ties do no harm."""
MAX_EXACT = 50
"""Differences whose signed ranks are counted exactly, if no two of them are equally large."""


class Posterior(NamedTuple):
    """Where the true mean difference is, as the Bayesian correlated t-test believes after seeing the folds."""

    below: float
    """Probability that it is below the region of practical equivalence."""
    inside: float
    """That it is inside: the difference is too small to matter."""
    above: float
    """That it is above."""
    rope: float
    """Half the width of the region, in units of the metric."""


def share_tested(n_test: Sequence[int], n_train: Sequence[int]) -> float:
    """Return cases in the test part over cases that were learned from, the mean over folds.

    Parameters
    ----------
    n_test, n_train
        Of each fold. What was set aside to choose the epoch is part of the training: the network was made with it.

    Raises
    ------
    DataError
        If a fold has no case in one of the two.
    """
    tested, trained = numbers_of("n_test", n_test, 1), numbers_of("n_train", n_train, 1)
    if tested.shape != trained.shape or min(tested.min(), trained.min()) <= 0:
        raise DataError(f"each fold needs cases to train and to test, got n_test={n_test} and n_train={n_train}")
    return float(np.mean(tested / trained))


def _variance(differences: np.ndarray, share: float) -> float:
    """Return the corrected variance of the mean, (1/n + n_test/n_train) s² (Nadeau and Bengio, section 3)."""
    if not 0 <= share < np.inf:
        raise ConfigError(f"share is n_test / n_train, a number of at least 0, got {share!r}")
    return float((1 / len(differences) + share) * np.var(differences, ddof=1))


def has_no_spread(differences: np.ndarray) -> bool:
    """Return True if all differences are the same number, but for rounding: no test can tell how far it is from 0."""
    return bool(np.ptp(differences) <= _CLOSE * max(1.0, float(np.abs(differences).max())))


def corrected_t_test(differences: object, share: float) -> Outcome:
    """Return the corrected resampled t-test of Nadeau and Bengio, with n - 1 degrees of freedom.

    Parameters
    ----------
    differences
        One for each fold, or for each fold of each repeat, shape ``(n,)``.
    share
        Cases tested over cases learned from; see :func:`share_tested`.

    Returns
    -------
    Outcome
        Without numbers, and with a note, if all differences are the same.
    """
    return _t_test(CORRECTED, numbers_of("differences", differences), share)


def naive_t_test(differences: object) -> Outcome:
    """Return the paired t-test that takes folds for independent; it finds differences that are not there.

    It is here so that docs can say how often; no comparison shows it.

    Parameters
    ----------
    differences
        One for each fold, shape ``(n,)``.
    """
    return _t_test(NAIVE, numbers_of("differences", differences), 0.0)


def _t_test(name: str, differences: np.ndarray, share: float) -> Outcome:
    from scipy import stats

    if has_no_spread(differences):
        return refused(name, "the difference is the same in all folds, so that there is no spread to compare it with")
    statistic = float(differences.mean() / np.sqrt(_variance(differences, share)))
    return Outcome(name, statistic, float(2 * stats.t.sf(abs(statistic), len(differences) - 1)))


def corrected_interval(differences: object, share: float, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean difference that belongs to :func:`corrected_t_test`.

    Parameters
    ----------
    differences, share
        As there.
    level
        How sure.

    Returns
    -------
    tuple of float
        Its ends; both are the difference if it is the same in all folds.
    """
    from scipy import stats

    found = numbers_of("differences", differences)
    reach = stats.t.ppf(0.5 + level / 2, len(found) - 1) * np.sqrt(_variance(found, share))
    return float(found.mean() - reach), float(found.mean() + reach)


def posterior_of_difference(differences: object, share: float, rope: float) -> Posterior:
    """Return the Bayesian correlated t-test: how probable it is that the difference is below, inside, above a region.

    The posterior of the mean difference is Student's t with n - 1 degrees of freedom around the mean, with the
    variance of the corrected t-test: (1/n + rho / (1 - rho)) s², where rho is the share of a fold that is tested, so
    that rho / (1 - rho) is n_test / n_train.

    Parameters
    ----------
    differences, share
        As of :func:`corrected_t_test`.
    rope
        Half the width of the region of practical equivalence, in units of the metric.
    """
    from scipy import stats

    found = numbers_of("differences", differences)
    if not 0 <= rope < np.inf:
        raise ConfigError(f"rope is half the width of a region, a number of at least 0, got {rope!r}")
    centre, scale = float(found.mean()), float(np.sqrt(_variance(found, share)))
    if has_no_spread(found):
        below, above = float(centre < -rope), float(centre > rope)
    else:
        below = float(stats.t.cdf(-rope, len(found) - 1, centre, scale))
        above = float(stats.t.sf(rope, len(found) - 1, centre, scale))
    return Posterior(below, max(0.0, 1 - below - above), above, rope)


def wilcoxon_test(differences: object) -> Outcome:
    """Return Wilcoxon's signed-rank test, exact for few differences without ties; those that are 0 are left out.

    It takes the differences for independent, which those of folds that share training data are not.

    Parameters
    ----------
    differences
        One for each fold, or for each data set, shape ``(n,)``.

    Returns
    -------
    Outcome
        The statistic is the smaller sum of ranks.
    """
    from scipy import stats

    found = numbers_of("differences", differences)
    counted = found[found != 0]
    if not len(counted):
        return refused(WILCOXON, "all differences are 0")
    if len(counted) <= MAX_SIGNS:
        statistic, p_value = _by_all_signs(counted)
    else:
        has_ties = len(np.unique(np.abs(counted))) < len(counted)
        statistic, p_value = stats.wilcoxon(
            counted, method="approx" if has_ties or len(counted) > MAX_EXACT else "exact"
        )
    smallest = 2.0 ** (1 - len(counted))
    note = f"with {len(counted)} differences that are not 0 its p cannot be below {smallest:.4g}"
    return Outcome(WILCOXON, float(statistic), float(p_value), note if smallest > 0.01 else "")


def _by_all_signs(differences: np.ndarray) -> tuple[float, float]:
    """Smaller sum of signed ranks, and the share of all choices of signs whose smaller sum is no larger."""
    from scipy import stats

    ranks = stats.rankdata(np.abs(differences))
    signs = np.arange(1 << len(ranks))[:, None] >> np.arange(len(ranks)) & 1
    above = signs @ ranks
    smaller = np.minimum(above, ranks.sum() - above)
    statistic = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    return float(statistic), float(np.mean(smaller <= statistic))  # sums of halves are exact


def rank_biserial(differences: object) -> float:
    """Return the matched-pairs rank correlation: ranks in favour minus ranks against, over all ranks, in [-1, 1].

    Parameters
    ----------
    differences
        Shape ``(n,)``; those that are 0 are left out.

    Returns
    -------
    float
        1 if all differences are above 0; 0 if there is no difference at all.

    References
    ----------
    D. S. Kerby, "The simple difference formula", Comprehensive Psychology 3, 2014.
    """
    from scipy import stats

    found = numbers_of("differences", differences)
    found = found[found != 0]
    if not len(found):
        return 0.0
    ranks = stats.rankdata(np.abs(found))
    return float((ranks * np.sign(found)).sum() / ranks.sum())


def standardised(differences: object) -> float:
    """Return the mean difference over its standard deviation (ddof 1); NaN if all differences are the same.

    Parameters
    ----------
    differences
        Shape ``(n,)``.
    """
    found = numbers_of("differences", differences)
    return float("nan") if has_no_spread(found) else float(found.mean() / found.std(ddof=1))
