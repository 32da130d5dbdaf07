"""One row of numbers per metric: spread over the folds, value and interval over all out-of-fold cases."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delira.errors import MissingKeyError
from delira.metrics.forms import evaluator
from delira.metrics.scoring import keys_of, lookup
from delira.report.bootstrap import Interval, mean_interval, score_interval
from delira.utils.trees import iterate_leaves, map_leaves

RESAMPLING_LIMIT = 1 << 25
"""Arrays above this size (32 MiB) are not resampled 2,000 times for an interval."""


def fold_values(result: Any) -> dict[str, np.ndarray]:
    """Metric name to its value in each fold, float64 of shape ``(n_folds,)``; of many values the mean."""
    names = list(result.folds[0].metrics) if result.folds else []
    return {name: np.array([np.mean(fold.metrics[name]) for fold in result.folds], float) for name in names}


def summarise(result: Any) -> dict[str, dict[str, Any]]:
    """Summarise a cross-validation.

    Parameters
    ----------
    result
        With ``folds``, ``oof``, ``metrics``, ``metric_keys``, ``groups``, ``without_intervals`` and ``seed`` of a
        ``KFoldResult``.

    Returns
    -------
    dict
        Metric name to ``mean`` and ``std`` (ddof 1) over folds, ``oof`` (value over all out-of-fold cases),
        ``ci_low`` and ``ci_high`` (95 %), ``n`` (cases), ``n_groups`` (or None), ``note``: why a number
        is missing, and ``has_oof``: whether ``oof`` was computed, be it NaN.
    """
    rows = {}
    for name, values in fold_values(result).items():
        oof, interval = _pooled(result, name)
        rows[name] = {
            "mean": float(np.mean(values)),
            "std": float(np.std(values, ddof=1)) if len(values) > 1 else np.nan,
            "oof": np.nan if oof is None else oof,
            "ci_low": interval.low,
            "ci_high": interval.high,
            "n": interval.n,
            "n_groups": interval.n_groups,
            "note": interval.note,
            "has_oof": oof is not None,
        }
    return rows


def _pooled(result: Any, name: str) -> tuple[float | None, Interval]:
    """Value and interval of one metric over all cases that were tested."""
    oof = result.oof
    groups = None if result.groups is None else np.asarray(result.groups)[oof.mask]
    n_groups = None if groups is None else len(np.unique(groups))

    def missing(note: str) -> Interval:
        return Interval(np.nan, np.nan, int(oof.mask.sum()), n_groups, note)

    if name in oof.per_case:
        values = oof.per_case[name][oof.mask]
        if result.without_intervals:
            return float(np.mean(values)), missing(result.without_intervals)
        return float(np.mean(values)), mean_interval(values, groups, result.seed or 0)
    metric = (result.metrics or {}).get(name)
    if metric is None:
        return None, missing("the function that computed it is not known here")
    try:
        arrays = metric_arrays(result, name)
        evaluate = evaluator(metric, name)
        value = evaluate(*arrays)
    except Exception as error:  # a metric raises what it likes; the other metrics shall still be shown
        return None, missing(f"it could not be computed over all cases ({type(error).__name__}: {error})")
    if result.without_intervals:
        return value, missing(result.without_intervals)
    if not getattr(metric, "is_fast", True):
        return value, missing("it is computed mask by mask, which takes too long to be drawn 2,000 times")
    if (size := sum(_n_bytes(leaf) for array in arrays for _, leaf in iterate_leaves(array))) > RESAMPLING_LIMIT:
        return value, missing(
            f"its arrays ({size / 2**20:,.0f} MiB) are too large to be drawn 2,000 times; "
            "a metric over samples (delira.metrics.per_sample) has an interval at any size"
        )
    return value, score_interval(evaluate, arrays, groups, result.seed or 0)


def metric_arrays(result: Any, name: str) -> Sequence[Any]:
    """What a metric reads, for all tested cases, in the order of its arguments.

    Raises
    ------
    MissingKeyError
        If an entry was not kept, or does not have one row per case.
    """
    oof = result.oof
    values = {**oof.predictions, **oof.targets}  # as in a MetricSet's update: the batch wins
    arrays = []
    for key in keys_of(result.metrics, result.metric_keys)[name]:
        array = lookup(values, key)
        if any(leaf is None for _, leaf in iterate_leaves(array)):
            raise MissingKeyError(f"the entry {key!r} does not have one row per case")
        arrays.append(array if oof.mask.all() else map_leaves(lambda leaf: leaf[oof.mask], array))
    return arrays


def _n_bytes(array: np.ndarray) -> int:
    return sum(np.asarray(item).nbytes for item in array) if array.dtype.hasobject else array.nbytes
