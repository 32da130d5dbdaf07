"""What a metric hands to scikit-learn: labels and scores as they are compared, so that draws need not prepare them."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.metrics.forms import SklearnFunction, TreeMetric, in_form
from delira.metrics.sklearn_metrics import AurocMetric, SklearnClassificationMetric
from delira.metrics.tree.adapters import SklearnMetric, is_known
from delira.metrics.tree.counts import (
    BalancedAccuracy,
    CohenKappa,
    Counting,
    FBeta,
    MatthewsCorrCoef,
    Precision,
    Recall,
)
from delira.metrics.tree.curves import R2, PrAuc, RocAuc
from delira.metrics.tree.seen import LOST
from delira.utils.arrays import Array

#: metrics of a tree that count labels -> the function of scikit-learn that they are
_COUNTING = {
    BalancedAccuracy: "balanced_accuracy_score",
    CohenKappa: "cohen_kappa_score",
    FBeta: "fbeta_score",
    MatthewsCorrCoef: "matthews_corrcoef",
    Precision: "precision_score",
    Recall: "recall_score",
}


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
    if not isinstance(metric, (SklearnFunction, SklearnClassificationMetric)):
        return None
    attribute = "function" if isinstance(metric, SklearnFunction) else "score_fn"
    name, settings = function_of(metric)
    calls: list[Call] = []
    clone = copy.copy(metric)
    setattr(clone, attribute, _recorder(getattr(metric, attribute), name, settings, calls))
    clone(*arrays)
    return calls[0] if len(calls) == 1 and name else None


def function_of(metric: object) -> tuple[str, dict[str, Any]]:
    """Name and settings of the function of scikit-learn that a metric calls; an empty name if it is none."""
    if isinstance(metric, SklearnClassificationMetric):
        name = getattr(metric, "function", "")
        found, settings = (name, {}) if name else _unwrapped(metric.score_fn)
        return found, {**settings, **metric.kwargs}
    return _unwrapped(metric.function) if isinstance(metric, (SklearnFunction, SklearnMetric)) else ("", {})


def _unwrapped(function: Any) -> tuple[str, dict[str, Any]]:
    if not is_known(function):
        return "", {}
    settings: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        if function.args:
            return "", {}
        settings = {**function.keywords, **settings}
        function = function.func
    return function.__name__, settings


def _recorder(function: Any, name: str, settings: dict[str, Any], calls: list[Call]) -> Callable[..., float]:
    """Return what is called instead of a function, and keeps its arguments."""
    while isinstance(function, functools.partial):
        function = function.func

    def record(y_true: Array, y_pred: Array, **further: Any) -> float:
        calls.append(Call(name, np.asarray(y_true), np.asarray(y_pred), {**settings, **further}))
        return 0.0

    return functools.update_wrapper(record, function)


def _of_auroc(metric: AurocMetric, true: np.ndarray, pred: np.ndarray) -> Call | None:
    true, n_classes = true.ravel(), len(metric.classes)
    if metric.kwargs or not np.isin(true, metric.classes).all():
        return None
    if n_classes == 2:
        score = pred[:, 1] if pred.ndim == 2 and pred.shape[1] == 2 else pred.ravel()
        return Call("roc_auc_score", true == metric.classes[1], score, {}) if len(score) == len(true) else None
    return Call("roc_auc_score", true[:, None] == np.array(metric.classes), pred, {})


def _of_root(metric: TreeMetric, arrays: Sequence[Any]) -> Call | None:
    root = metric.metrics.trees[0].root
    if isinstance(root, Counting):
        name = _COUNTING.get(type(root), "")
        if not name or (root.ignore_index is not None and root.ignore_index in arrays[0]):
            return None
        found = root.labels(metric.state_of(*arrays))
        pred, true = np.asarray(found.pred), np.asarray(found.true)
        return None if (pred == LOST).any() else Call(name, true, pred, _settings_of(root))
    if not isinstance(root, (RocAuc, PrAuc, R2, SklearnMetric)):
        return None
    metric.reset()
    metric.update(*arrays)
    kept = root.state_dict()
    metric.reset()
    if isinstance(root, SklearnMetric):
        calls: list[Call] = []
        clone = copy.copy(root)
        name, settings = function_of(root)
        clone.function = _recorder(root.function, name, settings, calls)
        clone.compute(kept["true"], kept["pred"])
        return calls[0] if calls and name else None
    if isinstance(root, R2):
        return Call("r2_score", kept["true"].astype(np.float64), kept["pred"].astype(np.float64), {})
    columns: list[tuple[np.ndarray, np.ndarray]] = []
    ranked = copy.copy(root)
    # what it would compute of the columns, which it makes out of the predictions by what is known of them
    ranked.over_classes = lambda function, *scored: columns.extend(root.columns(*scored)) or 0.0  # type: ignore
    ranked.compute(kept["true"], kept["pred"])
    if not columns:
        return None
    name = "roc_auc_score" if isinstance(root, RocAuc) else "average_precision_score"
    is_class, score = (np.stack(each, axis=1) for each in zip(*columns, strict=True))
    return Call(name, is_class, score, {})


def _settings_of(root: Counting) -> dict[str, Any]:
    if isinstance(root, CohenKappa):
        return {"weights": root.weights}
    if not isinstance(root, (Precision, Recall, FBeta)):
        return {}
    return {"average": root.average, **({"beta": root.beta} if isinstance(root, FBeta) else {})}
