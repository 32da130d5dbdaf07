"""More than two: Holm's correction of several p-values, and ranks of several methods over many data sets.

References
----------
S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.
J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning Research 7,
2006: Friedman's test, Nemenyi's critical difference and the diagram.
R. L. Iman, J. M. Davenport, "Approximations of the critical region of the Friedman statistic", Communications in
Statistics A9, 1980: Friedman's test by the F distribution, which is less conservative.
"""

import numpy as np

from delira.comparison.outcomes import Outcome, numbers_of, refused
from delira.errors import ConfigError, DataError

FRIEDMAN, IMAN_DAVENPORT = "Friedman", "Iman-Davenport"


def holm(p_values: object) -> np.ndarray:
    """Return p-values adjusted by Holm's step-down correction, float64 of shape ``(n,)``.

    Parameters
    ----------
    p_values
        Shape ``(n,)``; NaN stays NaN, and does not count.

    Raises
    ------
    DataError
        If one is no probability.
    """
    given = np.asarray(p_values, np.float64)
    has_value = ~np.isnan(given)
    found = numbers_of("p_values", given[has_value], 0)
    if len(found) and not 0 <= found.min() <= found.max() <= 1:
        raise DataError(f"p_values must be between 0 and 1, got {p_values!r:.200}")
    order = np.argsort(found, kind="stable")
    raised = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    adjusted = np.empty(len(found))
    adjusted[order] = np.minimum(raised, 1.0)
    result = np.full(given.shape, np.nan)
    result[has_value] = adjusted
    return result


def ranks_of(scores: object, higher_is_better: bool) -> np.ndarray:
    """Return the rank of each method on each data set, 1 for the best; equal ones share the mean of their ranks.

    Parameters
    ----------
    scores
        Shape ``(n_datasets, n_methods)``.
    higher_is_better
        Whether large scores are good.
    """
    from scipy import stats

    table = _table(scores)
    return np.asarray(stats.rankdata(-table if higher_is_better else table, axis=1))


def _table(scores: object) -> np.ndarray:
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2 or not np.isfinite(table).all():
        raise DataError(
            f"scores must be finite numbers of at least two methods on two data sets, got the shape {table.shape}"
        )
    return table


def friedman_test(scores: object) -> tuple[Outcome, Outcome]:
    """Return Friedman's test whether methods differ over data sets, by chi-squared and by F as Iman and Davenport say.

    Parameters
    ----------
    scores
        Shape ``(n_datasets, n_methods)``; at least three methods.
    """
    from scipy import stats

    table = _table(scores)
    n, k = table.shape
    if k < 3:
        raise DataError(f"Friedman's test compares at least three methods, got {k}; of two take wilcoxon_test")
    if (table == table[:, :1]).all():
        note = "all methods have the same score on each data set"
        return refused(FRIEDMAN, note), refused(IMAN_DAVENPORT, note)
    statistic, p_value = stats.friedmanchisquare(*table.T)
    left = n * (k - 1) - statistic
    by_f = (n - 1) * statistic / left if left > 0 else np.inf  # the same order on each data set
    p_by_f = stats.f.sf(by_f, k - 1, (k - 1) * (n - 1))
    few = f"{n} data sets are few: chi-squared is an approximation" if n < 10 else ""
    return Outcome(FRIEDMAN, float(statistic), float(p_value), few), Outcome(IMAN_DAVENPORT, float(by_f), float(p_by_f))


def kendalls_w(scores: object) -> float:
    """Return how far the data sets agree on the order of the methods, from 0 to 1: Friedman's statistic over its most.

    Parameters
    ----------
    scores
        Shape ``(n_datasets, n_methods)``.
    """
    table = _table(scores)
    statistic = friedman_test(table)[0].statistic
    return 0.0 if np.isnan(statistic) else statistic / (table.shape[0] * (table.shape[1] - 1))


def critical_difference(n_methods: int, n_datasets: int, alpha: float = 0.05) -> float:
    """Return how far apart mean ranks must be to differ by Nemenyi's test: q sqrt(k (k + 1) / 6 N) (Demšar 2006).

    Parameters
    ----------
    n_methods, n_datasets
        How many there are.
    alpha
        Level of the test.
    """
    from scipy import stats

    if n_methods < 2 or n_datasets < 2:
        raise ConfigError(f"Nemenyi's test needs two methods and data sets, got {n_methods} and {n_datasets}")
    q = stats.studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * _unit(n_methods, n_datasets))


def _unit(n_methods: int, n_datasets: int) -> float:
    """Return the standard error of a difference of two mean ranks."""
    return float(np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def nemenyi(mean_ranks: object, n_datasets: int) -> np.ndarray:
    """Return Nemenyi's p-values of all pairs, float64 of shape ``(n_methods, n_methods)``, 1 on the diagonal.

    Parameters
    ----------
    mean_ranks
        Of each method, shape ``(n_methods,)``.
    n_datasets
        Over how many data sets.
    """
    from scipy import stats

    ranks = numbers_of("mean_ranks", mean_ranks)
    apart = np.abs(ranks[:, None] - ranks) / _unit(len(ranks), n_datasets) * np.sqrt(2)
    rows, columns = np.triu_indices(len(ranks), 1)
    p_values = np.ones(apart.shape)
    # one at a time: the integral behind it takes milliseconds
    p_values[rows, columns] = stats.studentized_range.sf(apart[rows, columns], len(ranks), np.inf)
    return np.minimum(p_values, p_values.T)


def cliques(mean_ranks: object, reach: float) -> list[tuple[int, ...]]:
    """Return the largest sets of methods of which no two mean ranks are further apart than ``reach``, best first.

    Parameters
    ----------
    mean_ranks
        Shape ``(n_methods,)``.
    reach
        The critical difference.

    Returns
    -------
    list of tuple of int
        Numbers of the methods by rank; sets of one are left out.
    """
    ranks = numbers_of("mean_ranks", mean_ranks)
    order = np.argsort(ranks, kind="stable")
    found: list[tuple[int, ...]] = []
    end = 0
    for start in range(len(order)):
        last = int(np.searchsorted(ranks[order], ranks[order[start]] + reach, side="right"))
        if last - start > 1 and last > end:
            found.append(tuple(order[start:last].tolist()))
        end = max(end, last)
    return found
