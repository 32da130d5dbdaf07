"""One metric of several results: its value in each fold, for each case where it is a mean of cases, and its scores."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from delira.comparison.alignment import Aligned
from delira.errors import ConfigError, DeliraError, check_choice, did_you_mean
from delira.metrics.direction import MODES, higher_is_better
from delira.metrics.metric_set import evaluator
from delira.metrics.of_cases import CaseValues, Statistic, call_of, case_values, is_mean_of_cases, statistic_of
from delira.report import bootstrap
from delira.report.predictions import Part, arrays_of, folds_of, target_of
from delira.report.summary import fold_values, is_of_class, is_partial
from delira.utils.arrays import map_leaves

_CLOSE = 1e-5


class Measured(NamedTuple):
    """One metric of several results."""

    name: str
    higher_is_better: bool
    folds: np.ndarray
    """Float64 of shape ``(n_results, n_folds)``; NaN where it is not defined."""
    cases: list[list[CaseValues]] | None
    """Of each result and fold the values of its cases in ascending order; None if it is no mean over cases."""
    statistics: list[list[Statistic]] | None
    """Of a metric that is no mean over cases: of each result and fold what it is of drawn cases; None if that cannot
    be had."""
    scores: list[list[tuple[np.ndarray, np.ndarray]]] | None
    """Of the area under a ROC curve of two classes: labels and scores of each result and fold; None of others."""
    why_not: str = ""
    """Why there are neither values of cases nor statistics."""
    is_auroc: bool = False
    """Whether it is an area under a ROC curve, be it of more classes."""


def names_of(aligned: Aligned, asked: str | Sequence[str] | None) -> list[str]:
    """Return the metrics to compare: those that were asked for, or all that every result has.

    Parameters
    ----------
    aligned
        The results.
    asked
        A name, several, or None.

    Raises
    ------
    ConfigError
        If a result does not have one, or there is none in common.
    """
    have = {name: list(result.folds[0].metrics) for name, result in zip(aligned.names, aligned.results, strict=True)}
    everywhere = [metric for metric in next(iter(have.values())) if all(metric in each for each in have.values())]
    if asked is None:
        common = [name for name in everywhere if not is_of_class(aligned.results[0], name)]
        if not common:
            told = "; ".join(f"{name}: {', '.join(each) or 'none'}" for name, each in have.items())
            raise ConfigError(f"the results have no metric in common: {told}")
        return common
    wanted = [asked] if isinstance(asked, str) else asked
    if not isinstance(wanted, Sequence) or not wanted or not all(isinstance(name, str) for name in wanted):
        raise ConfigError(f"metric is the name of a metric, or a list of names, got {asked!r:.80}")
    for metric in dict.fromkeys(wanted):
        lacking = [name for name, each in have.items() if metric not in each]
        if len(lacking) == len(have):
            raise ConfigError(f"no result has the metric {metric!r}{did_you_mean(metric, everywhere)}")
        if lacking:
            raise ConfigError(
                f"{', '.join(lacking)} did not compute the metric {metric!r}{did_you_mean(metric, everywhere)}"
            )
    return list(dict.fromkeys(wanted))


def direction_of(metrics: Sequence[Any], name: str, given: str | Mapping[str, str] | None) -> bool:
    """Return True if large values are good.

    Parameters
    ----------
    metrics
        The metric of each result, in any form; None where it is not known.
    name
        What it is called.
    given
        ``"highest"`` or ``"lowest"``, for all metrics or by name; None: what delira knows.

    Raises
    ------
    ConfigError
        If nobody knows.
    """
    said = given.get(name) if isinstance(given, Mapping) else given
    if said is not None:
        check_choice("compare", MODES, direction=said)
        return MODES[said] == "highest"
    known = [found for metric in metrics if (found := higher_is_better(metric, name)) is not None]
    if not known:
        raise ConfigError(
            f"nobody knows whether a high {name!r} is good; say direction='highest' or direction='lowest', or "
            f"direction={{{name!r}: 'highest'}} of several metrics"
        )
    return known[0]


def measure(aligned: Aligned, name: str, direction: str | Mapping[str, str] | None) -> Measured:
    """Return what the results say of one metric.

    Parameters
    ----------
    aligned
        The results.
    name
        Of the metric.
    direction
        As of :func:`direction_of`.
    """
    metrics = [(result.metrics or {}).get(name) for result in aligned.results]
    is_high = direction_of(metrics, name, direction)
    folds = np.array([_in_order(aligned, position, name) for position in range(len(aligned.results))])
    cases = [_cases_of(aligned, position, name) for position in range(len(aligned.results))]
    known = [one for one in cases if one is not None]
    if len(known) == len(cases):
        return Measured(name, is_high, folds, known, None, None)
    if any(metric is None for metric in metrics):
        return Measured(name, is_high, folds, None, None, None, "the function that computed it is not known here")
    try:
        arrays = [_arrays(aligned, position, name) for position in range(len(metrics))]
    except DeliraError as error:  # predictions that were not kept
        return Measured(name, is_high, folds, None, None, None, str(error))
    size = sum(bootstrap.n_bytes(each) for one in arrays for each, _ in one)
    if size > bootstrap.RESAMPLING_LIMIT:
        why = f"its arrays ({size / 2**20:,.0f} MiB) are too large to be drawn again and again"
        return Measured(name, is_high, folds, None, None, None, why)
    calls = [[call_of(metric, each) for each, _ in one] for metric, one in zip(metrics, arrays, strict=True)]
    is_auroc = all(call is not None and call.name == "roc_auc_score" for one in calls for call in one)
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):  # of folds that lack a class
        statistics = [
            [_statistic(metric, name, *each) for each in one] for metric, one in zip(metrics, arrays, strict=True)
        ]
    return Measured(name, is_high, folds, None, statistics, _scores(calls) if is_auroc else None, "", is_auroc)


def _in_order(aligned: Aligned, position: int, name: str) -> np.ndarray:
    """Values of the folds, by their numbers."""
    result = aligned.results[position]
    values = dict(zip([fold.fold for fold in result.folds], fold_values(result)[name], strict=True))
    return np.array([values[number] for number in aligned.numbers], np.float64)


def _parts(aligned: Aligned, position: int) -> list[Part]:
    """Folds of a result, by their numbers."""
    return sorted(folds_of(aligned.results[position]), key=lambda part: part.folds[0].fold)


def _cases_of(aligned: Aligned, position: int, name: str) -> list[CaseValues] | None:
    """Values of the cases of each fold; None if the metric is no mean over them."""
    result, orders = aligned.results[position], aligned.orders[position]
    if result.is_per_case(name):
        may_lack = is_partial(result, name)
        found = []
        for fold, order in zip(aligned.folds[position], orders, strict=True):
            values = np.asarray(fold.metrics[name], np.float64)[order]
            has_value = ~np.isnan(values) if may_lack else np.ones(len(values), bool)
            found.append(CaseValues(np.where(has_value, values, 0.0), has_value.astype(np.float64)))
        return found
    metric = (result.metrics or {}).get(name)
    if metric is None or not is_mean_of_cases(metric):
        return None
    try:
        arrays = [arrays_of(result, name, part) for part in _parts(aligned, position)]
    except DeliraError:  # predictions that were not kept
        return None
    every = [case_values(metric, each) for each in arrays]
    found = [one for one in every if one is not None]
    means = [one.mean for one in found]
    if len(found) < len(every) or not np.allclose(means, _in_order(aligned, position, name), _CLOSE, _CLOSE, True):
        return None
    return [_ordered(one, order) for one, order in zip(found, orders, strict=True)]


def _ordered(found: CaseValues, order: np.ndarray) -> CaseValues:
    weights = np.ones(len(order)) if found.weights is None else found.weights[order]
    return CaseValues(np.where(weights > 0, found.values[order], 0.0), weights)


def _arrays(aligned: Aligned, position: int, name: str) -> list[tuple[Sequence[Any], Any]]:
    """What a metric reads in each fold, with the target, by ascending cases."""
    result = aligned.results[position]
    found: list[tuple[Sequence[Any], Any]] = []
    for part, order in zip(_parts(aligned, position), aligned.orders[position], strict=True):
        take: Callable[[Any], Any] = itemgetter(order)
        target = target_of(result, name, part)
        found.append(
            (
                [map_leaves(take, array) for array in arrays_of(result, name, part)],
                target[order] if isinstance(target, np.ndarray) else None,
            )
        )
    return found


def _statistic(metric: Any, name: str, arrays: Sequence[Any], target: Any) -> Statistic:
    """The metric as a function of how often each case was drawn."""
    evaluate = evaluator(metric, name)
    labels = bootstrap.classes_of(target, arrays)
    return statistic_of(metric, arrays, evaluate) or bootstrap.evaluated(lambda: None, evaluate, arrays, labels)


def _scores(calls: Sequence[Sequence[Any]]) -> list[list[tuple[np.ndarray, np.ndarray]]] | None:
    """Labels and scores of areas of two classes; None of more, or of a part of the curve."""
    found = []
    for one in calls:
        folds = []
        for call in one:
            true, score = (one_column(array) for array in (call.true, call.pred))
            unusual = {key for key, value in call.settings.items() if value is not None} - {"average", "multi_class"}
            if unusual or true.ndim != 1 or score.ndim != 1 or not np.isin(true, (0, 1)).all():
                return None
            folds.append((true.astype(np.int64), score.astype(np.float64)))
        found.append(folds)
    return found


def one_column(array: np.ndarray) -> np.ndarray:
    """Return an array of shape ``(n, 1)`` without its second axis, and any other one as it is.

    Parameters
    ----------
    array
        Of any shape.
    """
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
