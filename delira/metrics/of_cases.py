"""Metrics that are means over cases: which they are, and their value for each case."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.metrics.forms import SklearnFunction, TreeMetric, in_form
from delira.metrics.functions import AlongAxis, accuracy, hits
from delira.metrics.sklearn_metrics import AurocMetric, SklearnClassificationMetric, is_known, unwrapped
from delira.metrics.tree.accuracies import (
    BinaryAccuracy,
    CategoricalAccuracy,
    MeanAbsoluteError,
    MeanSquaredError,
    TopKCategoricalAccuracy,
)
from delira.metrics.tree.adapters import ArrayMetric, SklearnMetric
from delira.metrics.tree.aggregators import Mean
from delira.metrics.tree.counts import Counting
from delira.metrics.tree.criteria import read_values
from delira.metrics.tree.curves import R2, Ranking
from delira.metrics.tree.labels import LOST
from delira.metrics.tree.moments import Weighted, with_mask
from delira.metrics.tree.overlap import Dice, Hausdorff, IoU
from delira.state import CRITERION, State
from delira.utils.arrays import Array, read_arrays


class Call(NamedTuple):
    """A call of a function of scikit-learn."""

    name: str
    """Of the function."""
    true: np.ndarray
    """Its first argument, of shape ``(rows, ...)``; a case has as many rows as every other."""
    pred: np.ndarray
    """Its second."""
    settings: dict[str, Any]
    """By keyword."""


def call_of(metric: object, arrays: Sequence[Any]) -> Call | None:
    """Return the call that computes a metric of arrays; None if it is no single one of a function that is known.

    Parameters
    ----------
    metric
        In any form.
    arrays
        What it reads, in the order of its arguments.
    """
    metric = in_form(metric)
    if len(arrays) != 2 or not all(isinstance(array, np.ndarray) for array in arrays):
        return None
    if isinstance(metric, AurocMetric):
        return _of_auroc(metric, *arrays)
    if isinstance(metric, TreeMetric):
        return _of_root(metric, arrays)
    if isinstance(metric, SklearnFunction):
        return _recorded(metric, "function", metric.function, lambda clone: clone(*arrays))
    if isinstance(metric, SklearnClassificationMetric):
        return _recorded(metric, "score_fn", metric.score_fn, lambda clone: clone(*arrays))
    return None


def function_of(metric: object) -> tuple[str, dict[str, Any]]:
    """Name and settings of the function of scikit-learn that a metric calls; an empty name if it is none."""
    given, further = getattr(metric, "function", None), {}
    if isinstance(metric, SklearnClassificationMetric):
        further = metric.kwargs
        if given:
            return given, further
        given = metric.score_fn
    elif not isinstance(metric, (SklearnFunction, SklearnMetric)):
        return "", {}
    function, args, settings = unwrapped(given)
    return (function.__name__, {**settings, **further}) if is_known(given) and not args else ("", further)


def _recorded(metric: Any, attribute: str, function: Any, evaluate: Callable[[Any], object]) -> Call | None:
    """Return the call that a copy of a metric makes, whose function only keeps its arguments."""
    name, settings = function_of(metric)
    calls: list[Call] = []

    def record(y_true: Array, y_pred: Array, **further: Any) -> float:
        calls.append(Call(name, np.asarray(y_true), np.asarray(y_pred), {**settings, **further}))
        return 0.0

    clone = copy.copy(metric)
    setattr(clone, attribute, functools.update_wrapper(record, unwrapped(function)[0]))
    evaluate(clone)
    return calls[0] if len(calls) == 1 and name else None


def _of_auroc(metric: AurocMetric, true: np.ndarray, pred: np.ndarray) -> Call | None:
    true, n_classes = true.ravel(), len(metric.classes)
    if metric.kwargs or not np.isin(true, metric.classes).all():
        return None
    if n_classes == 2:
        score = pred[:, 1] if pred.ndim == 2 and pred.shape[1] == 2 else pred.ravel()
        return Call("roc_auc_score", true == metric.classes[1], score, {}) if len(score) == len(true) else None
    return Call("roc_auc_score", true[:, None] == np.array(metric.classes), pred, {})


def _of_root(metric: TreeMetric, arrays: Sequence[Any]) -> Call | None:
    root = metric.tree.root
    if isinstance(root, Counting):
        if not root.function or (root.ignore_index is not None and root.ignore_index in arrays[0]):
            return None
        found = root.labels(metric.state_of(*arrays))
        pred, true = np.asarray(found.pred), np.asarray(found.true)
        return None if (pred == LOST).any() else Call(root.function, true, pred, root.settings)
    if not isinstance(root, (Ranking, R2, SklearnMetric)):
        return None
    metric.reset()
    metric.update(*arrays)
    kept = root.state_dict()
    metric.reset()
    true, pred = kept["true"], kept["pred"]
    if isinstance(root, SklearnMetric):
        return _recorded(root, "function", root.function, lambda clone: clone.compute(true, pred))
    if isinstance(root, R2):
        return Call("r2_score", true.astype(np.float64), pred.astype(np.float64), {})
    scored = root.scored(true, pred)
    columns = [] if scored is None else root.columns(*scored)
    if not columns:
        return None
    is_class, score = (np.stack(each, axis=1) for each in zip(*columns, strict=True))
    return Call(root.function, is_class, score, {})


#: functions of scikit-learn that are the mean of a value for each row
MEANS = frozenset({
    "accuracy_score", "brier_score_loss", "coverage_error", "dcg_score", "hamming_loss", "hinge_loss",
    "label_ranking_average_precision_score", "label_ranking_loss", "log_loss", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_pinball_loss", "mean_poisson_deviance",
    "mean_squared_error", "mean_squared_log_error", "mean_tweedie_deviance", "ndcg_score", "top_k_accuracy_score",
    "zero_one_loss",
})  # fmt: skip
#: roots of trees that return a value for each sample, or for each of its pixels
_ROOTS = (
    BinaryAccuracy, CategoricalAccuracy, Dice, IoU, MeanAbsoluteError, MeanSquaredError, TopKCategoricalAccuracy,
)  # fmt: skip


class CaseValues(NamedTuple):
    """What a metric is the weighted mean of."""

    values: np.ndarray
    """One for each case, float64 of shape ``(n,)``."""
    weights: np.ndarray | None
    """What each counts, float64 of shape ``(n,)``; None: all the same."""
    is_evaluated: bool = False
    """Whether the metric itself gave the values, so that it need not be asked again for their mean."""

    @property
    def mean(self) -> float:
        """The value of the metric; not a number if no case counts."""
        if self.weights is None:
            return float(np.mean(self.values))
        counted = self.weights > 0
        total = self.weights[counted].sum()
        return float(np.sum(self.values[counted] * self.weights[counted]) / total) if total else float("nan")


def is_mean_of_cases(metric: object) -> bool:
    """Return True if it is known that a metric is a mean over cases: then a case may be drawn whatever its fold.

    Parameters
    ----------
    metric
        In any form. A function of the user's own is none that is known, unless it is computed over samples.
    """
    metric = in_form(metric)
    if getattr(metric, "over", None) == "sample" or metric is accuracy or isinstance(metric, AlongAxis):
        return True
    if isinstance(metric, TreeMetric):
        root, children = metric.tree.root, metric.tree.children
        if isinstance(root, ArrayMetric):
            return is_mean_of_cases(root.function)
        if isinstance(root, Hausdorff):
            return not children
        if not isinstance(root, SklearnMetric):
            return isinstance(root, _ROOTS) and any(type(child) is Mean and child.dim is None for child in children)
        metric = root
    name, settings = function_of(metric)
    is_usual = settings.get("normalize", True) is True and settings.get("sample_weight") is None
    return name in MEANS and is_usual and isinstance(settings.get("multioutput", ""), str)


def case_values(metric: Any, arrays: Sequence[Any]) -> CaseValues | None:
    """Return the value of each case; None if they are not had by themselves, or the metric is no mean over cases.

    Parameters
    ----------
    metric
        In any form.
    arrays
        What it reads, each of shape ``(n, ...)``, or a tree of such.
    """
    metric = in_form(metric)
    if not is_mean_of_cases(metric):
        return None
    if getattr(metric, "over", None) == "sample":
        return CaseValues(np.array([metric(*sample) for sample in zip(*arrays, strict=True)], np.float64), None)
    if metric is accuracy:
        return _of_rows(hits(*arrays), len(arrays[0]))
    if isinstance(metric, AlongAxis):
        rows = zip(*arrays, strict=True)
        return CaseValues(np.array([metric(true[None], pred[None]) for true, pred in rows], np.float64), None)
    root = metric.tree.root if isinstance(metric, TreeMetric) else None
    if isinstance(root, ArrayMetric):
        return case_values(root.function, arrays)
    if root is not None and not isinstance(root, SklearnMetric):
        return _of_tree(metric, arrays)
    call = call_of(metric, arrays)
    if call is None or call.settings.get("multioutput", "uniform_average") != "uniform_average":
        return None
    formula = _FORMULAS.get(call.name)
    found = None if formula is None else formula(call)
    return None if found is None else _of_rows(found, len(arrays[0]))


def _of_tree(metric: TreeMetric, arrays: Sequence[Any]) -> CaseValues | None:
    root, n = metric.tree.root, len(arrays[0])
    metric.reset()
    if isinstance(root, Hausdorff):
        metric.update(*arrays)
        values, counts = root.values
        metric.reset()
        return CaseValues(values, counts.astype(np.float64), is_evaluated=True)
    state = metric.state_of(*arrays)
    if np.size(arrays[0]) == np.size(arrays[1]):  # all values tell what they are, as at the end of a pass
        state = State({**state, CRITERION: read_values(metric.criterion, np.asarray(arrays[1]), np.asarray(arrays[0]))})
    found = with_mask(root.process(state))
    value, weight, doubt = found if isinstance(found, Weighted) else (found, None, None)
    if weight is None:
        return _of_rows(read_arrays([value])[0], n)
    value, weight = (array.astype(np.float64).reshape(n, -1) for array in read_arrays([value, weight]))
    if doubt is not None:
        value = np.where(np.isfinite(read_arrays([doubt])[0]).reshape(n, -1), value, np.nan)
    total = weight.sum(axis=1)
    sums = np.where(weight > 0, value, 0.0) * weight
    return CaseValues(sums.sum(axis=1) / np.maximum(total, 1.0), total)


def _of_rows(rows: np.ndarray, n: int) -> CaseValues | None:
    """Return means of the rows of each case."""
    if not rows.ndim or rows.shape[0] % n:
        return None
    return CaseValues(rows.astype(np.float64).reshape(n, -1).mean(axis=1), None)


def _log_losses(call: Call) -> np.ndarray | None:
    """Of labels that number the columns, or of yes and no with the probability of yes."""
    true, pred = call.true, call.pred.astype(np.float64)
    if {*call.settings} - {"labels"} or true.ndim != 1 or true.dtype.kind not in "biuf":
        return None
    if pred.ndim == 1:
        if not np.isin(true, (0, 1)).all():
            return None
        pred = np.stack([1 - pred, pred], axis=1)
    elif true.min() < 0 or true.max() >= pred.shape[1]:
        return None
    smallest = np.finfo(call.pred.dtype if call.pred.dtype.kind == "f" else np.float64).eps
    return np.asarray(-np.log(np.clip(pred[np.arange(len(true)), true.astype(int)], smallest, 1 - smallest)))


def _differences(call: Call, power: int) -> np.ndarray:
    return np.asarray(np.abs(call.true.astype(np.float64) - call.pred.astype(np.float64)) ** power)


def _hits(call: Call) -> np.ndarray:
    same = np.asarray(call.true == call.pred)
    return same if same.ndim == 1 else np.asarray(same.all(axis=1))


_FORMULAS: dict[str, Callable[[Call], np.ndarray | None]] = {
    "accuracy_score": _hits,
    "zero_one_loss": lambda call: ~_hits(call),
    "hamming_loss": lambda call: np.asarray(call.true != call.pred),
    "mean_absolute_error": functools.partial(_differences, power=1),
    "mean_squared_error": functools.partial(_differences, power=2),
    "log_loss": _log_losses,
}
