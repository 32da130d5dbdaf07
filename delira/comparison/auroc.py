"""DeLong's test of two areas under ROC curves of the same cases, fold by fold.

Scores of different folds are those of different networks, on scales of their own. So areas are compared within each
fold; the differences are averaged, and their variances added.

References
----------
E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating
characteristic curves: a nonparametric approach", Biometrics 44, 1988.
X. Sun, W. Xu, "Fast implementation of DeLong's algorithm for comparing the areas under correlated receiver operating
characteristic curves", IEEE Signal Processing Letters 21, 2014: by ranks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from delira.comparison.outcomes import Outcome, numbers_of, refused
from delira.errors import DataError

DELONG = "DeLong"
MIN_OF_CLASS = 2
"""Cases of each class without which there is no variance."""


class Areas(NamedTuple):
    """Areas under two ROC curves of the same cases."""

    first: float
    second: float
    variance: float
    """Of the second minus the first; NaN where a class has fewer than two cases."""

    @property
    def difference(self) -> float:
        """The second minus the first."""
        return self.second - self.first


def delong_areas(is_positive: object, first: object, second: object) -> Areas:
    """Return both areas, and the variance of their difference as DeLong et al. estimate it.

    Parameters
    ----------
    is_positive
        Labels 0 and 1, shape ``(n,)``.
    first, second
        Scores of the two, the larger the more like 1, shape ``(n,)``.

    Raises
    ------
    DataError
        If labels are not both 0 and 1, or scores are no finite numbers of the same cases.
    """
    labels = np.asarray(is_positive)
    if labels.ndim != 1 or set(np.unique(labels).tolist()) != {0, 1}:
        raise DataError(f"DeLong's test needs labels 0 and 1, both of them, of shape (n,), got {is_positive!r:.200}")
    scores = np.stack([numbers_of("scores", first), numbers_of("scores", second)])
    if scores.shape[1] != len(labels):
        raise DataError(f"there are {len(labels)} labels and {scores.shape[1]} scores; one score for each case")
    of_positive, of_negative = _placements(scores, labels == 1)
    first_area, second_area = of_positive.mean(axis=1).tolist()
    if min(of_positive.shape[1], of_negative.shape[1]) < MIN_OF_CLASS:
        return Areas(first_area, second_area, float("nan"))
    variance = sum(np.var(each[1] - each[0], ddof=1) / each.shape[1] for each in (of_positive, of_negative))
    return Areas(first_area, second_area, float(variance))


def _placements(scores: np.ndarray, is_positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each case the share of the other class that it is on the right side of, by ranks (Sun and Xu)."""
    from scipy import stats

    positive, negative = scores[:, is_positive], scores[:, ~is_positive]
    n_positive, n_negative = positive.shape[1], negative.shape[1]
    ranks = stats.rankdata(np.concatenate([positive, negative], axis=1), axis=1)
    above = (ranks[:, :n_positive] - stats.rankdata(positive, axis=1)) / n_negative
    below = 1 - (ranks[:, n_positive:] - stats.rankdata(negative, axis=1)) / n_positive
    return above, below


def delong_test(folds: Sequence[Areas]) -> Outcome:
    """Return DeLong's test of the mean difference over folds.

    The variance of a mean of independent differences is the sum of their variances over the number of folds squared.
    They are independent as far as no case is tested twice, and given the networks that were trained.

    Parameters
    ----------
    folds
        The areas of each.

    Returns
    -------
    Outcome
        The statistic is that of a normal distribution.
    """
    from scipy import stats

    differences = np.array([one.difference for one in folds])
    variances = np.array([one.variance for one in folds])
    if np.isnan(variances).any():
        return refused(DELONG, f"a fold has fewer than {MIN_OF_CLASS} cases of a class")
    variance = float(variances.sum()) / len(folds) ** 2
    if not variance:
        return refused(DELONG, "both order the cases of each fold in the same way")
    statistic = float(differences.mean() / np.sqrt(variance))
    return Outcome(DELONG, statistic, float(2 * stats.norm.sf(abs(statistic))))
