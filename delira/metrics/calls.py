"""What a metric hands to scikit-learn: labels and scores as they are compared, so that draws need not prepare them."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.metrics.forms import SklearnFunction, TreeMetric, in_form
from delira.metrics.sklearn_functions import is_known, unwrapped
from delira.metrics.sklearn_metrics import AurocMetric, SklearnClassificationMetric
from delira.metrics.tree.adapters import SklearnMetric
from delira.metrics.tree.counts import Counting
from delira.metrics.tree.curves import R2, Ranking
from delira.metrics.tree.seen import LOST
from delira.utils.arrays import Array


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
    root = metric.metrics.trees[0].root
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
