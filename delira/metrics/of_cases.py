"""Metrics of drawn cases: what they hand to scikit-learn, their value for each case, and many draws at once.

A draw is how often each case counts; scores are sorted only once.

References
----------
T. Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006: areas under curves from sorted
scores.
"""

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.metrics.gather import Weighted, with_mask
from delira.metrics.metric_set import SklearnFunction, TreeMetric, in_form
from delira.metrics.of_arrays import AurocMetric, SklearnClassificationMetric, accuracy, hits, is_known, unwrapped
from delira.metrics.per_class import may_lack_values
from delira.metrics.tree.accuracies import (
    BinaryAccuracy,
    CategoricalAccuracy,
    MeanAbsoluteError,
    MeanSquaredError,
    TopKCategoricalAccuracy,
)
from delira.metrics.tree.adapters import AlongAxis, ArrayMetric, SklearnMetric
from delira.metrics.tree.aggregators import Mean
from delira.metrics.tree.counts import Counting
from delira.metrics.tree.criteria import class_scores, one_score, read_values
from delira.metrics.tree.curves import R2, Ranking
from delira.metrics.tree.labels import LOST
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
    if not isinstance(metric, (SklearnFunction, SklearnClassificationMetric)):
        return None
    attribute = "function" if isinstance(metric, SklearnFunction) else "score_fn"
    return _recorded(metric, attribute, lambda clone: clone(*arrays))


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


def _recorded(metric: object, attribute: str, evaluate: Callable[[Any], object]) -> Call | None:
    """Return the call that a copy of a metric makes, whose function, the attribute, only keeps its arguments."""
    name, settings = function_of(metric)
    calls: list[Call] = []

    def record(y_true: Array, y_pred: Array, **further: Any) -> float:
        calls.append(Call(name, np.asarray(y_true), np.asarray(y_pred), {**settings, **further}))
        return 0.0

    clone = copy.copy(metric)
    setattr(clone, attribute, functools.update_wrapper(record, unwrapped(getattr(metric, attribute))[0]))
    evaluate(clone)
    return calls[0] if len(calls) == 1 and name else None


def _of_auroc(metric: AurocMetric, true: np.ndarray, pred: np.ndarray) -> Call | None:
    true, n_classes = true.ravel(), len(metric.classes)
    if metric.kwargs or not np.isin(true, metric.classes).all():
        return None
    if metric.output == "logits" and pred.ndim == 2 and pred.shape[1] == n_classes:
        pred = one_score(pred, "logits") if n_classes == 2 else class_scores(pred, "logits")
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
        return _recorded(root, "function", lambda clone: clone.compute(true, pred))
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


def of_values(values: np.ndarray, may_lack: bool) -> CaseValues:
    """Return values of cases, of which each counts the same; if ``may_lack``, one that is NaN does not count."""
    if not may_lack:
        return CaseValues(values, None)
    has_value = ~np.isnan(values)
    return CaseValues(np.where(has_value, values, 0.0), has_value.astype(np.float64))


def is_mean_of_cases(metric: object) -> bool:
    """Return True if it is known that a metric is a mean over cases: then a case may be drawn whatever its fold.

    Parameters
    ----------
    metric
        In any form. A function of the user's own is none that is known, unless it is computed over samples.
    """
    return _values_of(metric) is not None


def case_values(metric: Any, arrays: Sequence[Any]) -> CaseValues | None:
    """Return the value of each case; None if they are not had by themselves, or the metric is no mean over cases.

    Parameters
    ----------
    metric
        In any form.
    arrays
        What it reads, each of shape ``(n, ...)``, or a tree of such.
    """
    values_of = _values_of(metric)
    return None if values_of is None else values_of(arrays)


def _values_of(metric: Any) -> Callable[[Sequence[Any]], CaseValues | None] | None:
    """Return what gives the values of a mean over cases; None if a metric is not known to be one."""
    metric = in_form(metric)
    if getattr(metric, "over", None) == "sample":
        return functools.partial(_of_samples, metric)
    if metric is accuracy:
        return lambda arrays: _of_rows(hits(*arrays), len(arrays[0]))
    if isinstance(metric, AlongAxis):
        return functools.partial(_of_samples, lambda true, pred: metric(true[None], pred[None]))
    root = metric.tree.root if isinstance(metric, TreeMetric) else metric
    if isinstance(root, ArrayMetric):
        return _values_of(root.function)
    if isinstance(metric, TreeMetric) and not isinstance(root, SklearnMetric):
        children = metric.tree.children
        is_mean = isinstance(root, _ROOTS) and any(type(child) is Mean and child.dim is None for child in children)
        if isinstance(root, Hausdorff):
            is_mean = not children
        return functools.partial(_of_tree, metric) if is_mean else None
    name, settings = function_of(root)
    is_usual = settings.get("normalize", True) is True and settings.get("sample_weight") is None
    is_mean = name in MEANS and is_usual and isinstance(settings.get("multioutput", ""), str)
    return functools.partial(_of_call, metric) if is_mean else None


def _of_samples(metric: Callable[..., float], arrays: Sequence[Any]) -> CaseValues:
    values = np.array([metric(*sample) for sample in zip(*arrays, strict=True)], np.float64)
    return of_values(values, may_lack_values(metric))


def _of_call(metric: object, arrays: Sequence[Any]) -> CaseValues | None:
    call = call_of(metric, arrays)
    if call is None or call.settings.get("multioutput", "uniform_average") != "uniform_average":
        return None
    return _of_rows(_FORMULAS[call.name](call), len(arrays[0])) if call.name in _FORMULAS else None


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


def _of_rows(rows: np.ndarray | None, n: int) -> CaseValues | None:
    """Return means of the rows of each case."""
    if rows is None or not rows.ndim or rows.shape[0] % n:
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


Statistic = Callable[[np.ndarray], np.ndarray]
"""Counts of the cases, of shape ``(draws, n)``, to the values of the draws, float64 of shape ``(draws,)``."""

MAX_PAIRS = 1 << 24
"""Numbers in the table of cases and pairs of labels; larger ones are not made."""
_TOLERANCE = 1e-6


def statistic_of(metric: object, arrays: Sequence[Any], evaluate: Callable[..., float]) -> Statistic | None:
    """Return a metric of many draws at once; None if it has to be evaluated draw by draw.

    What it gives is compared with the metric itself for all cases and for three draws. A draw that lacks a class of
    the cases is not a number: there the metric is not defined, or means something else.

    Parameters
    ----------
    metric
        In any form.
    arrays
        What it reads, each of shape ``(n, ...)``.
    evaluate
        The metric as a function of such arrays.
    """
    call, n = call_of(metric, arrays), len(arrays[0])
    if call is None or not n or len(call.true) % n or len(call.pred) != len(call.true):
        return None
    return next((found for found in _candidates(call, n) if _agrees(found, arrays, evaluate)), None)


def _agrees(statistic: Statistic, arrays: Sequence[Any], evaluate: Callable[..., float]) -> bool:
    n = len(arrays[0])
    generator = np.random.default_rng(0)
    counts = np.stack([np.ones(n, int), *(np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(3))])
    for value, count in zip(statistic(counts), counts, strict=True):
        if np.isnan(value):  # of a draw that lacks a class
            continue
        cases = np.repeat(np.arange(n), count)
        try:
            expected = evaluate(*(array[cases] for array in arrays))
        except Exception:  # a metric raises what it likes
            return False
        if not np.isclose(value, expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            return False
    return True


def _candidates(call: Call, n: int) -> Iterator[Statistic]:
    """Statistics that may be what was called."""
    rows = len(call.true) // n
    if call.name in ("roc_auc_score", "average_precision_score"):
        columns = _columns(call)
        if columns:
            yield _mean_of([_ranked(call.name, *column, rows) for column in columns])
    elif call.name in ("r2_score", "root_mean_squared_error"):
        if call.settings.get("multioutput", "uniform_average") == "uniform_average":
            true, pred = (np.asarray(array, np.float64).reshape(n * rows, -1) for array in (call.true, call.pred))
            of_output = _explained if call.name == "r2_score" else _root_error
            yield _mean_of([of_output(*column, n) for column in zip(true.T, pred.T, strict=True)])
    elif call.name in _OF_PAIRS and call.true.ndim == call.pred.ndim == 1:
        if any(call.settings.get(name) is not None for name in ("labels", "sample_weight")):
            return
        given = call.settings.get("average", "binary")
        for average in ("binary", "macro") if given is None else (call.settings.get("average"),):
            if (found := _of_pairs(call, n, {**call.settings, "average": average})) is not None:
                yield found


def _mean_of(statistics: Sequence[Statistic]) -> Statistic:
    return lambda counts: np.mean([statistic(counts) for statistic in statistics], axis=0)


# ------------------------------------------------------------------ scores


def _columns(call: Call) -> list[tuple[np.ndarray, np.ndarray]]:
    """What is ranked: whether each row is of the class, and its score, for every class; empty if that is not known."""
    unusual = {*call.settings} - {"average", "multi_class", "labels"}
    if unusual or call.settings.get("average", "macro") != "macro" or call.settings.get("labels") is not None:
        return []
    true, score = call.true, call.pred
    if true.ndim == 1:
        classes = np.unique(true)
        if score.ndim == 1:
            return [(true == classes[1], score)] if len(classes) == 2 else []
        if call.name == "roc_auc_score" and call.settings.get("multi_class") != "ovr":
            return []
        true = true[:, None] == classes
    if score.ndim != 2 or true.shape != score.shape or not np.isin(true, (0, 1)).all():
        return []
    return list(zip(true.T.astype(bool), score.T, strict=True))


def _ranked(name: str, is_class: np.ndarray, score: np.ndarray, rows: int) -> Statistic:
    """Return the area under the ROC curve, or average precision."""
    order = np.argsort(score, kind="stable")[::-1]
    cases, is_class, score = order // rows, is_class[order].astype(np.float64), score[order]
    starts = np.flatnonzero(np.r_[True, score[1:] != score[:-1]])  # equal scores are at one threshold

    def area(counts: np.ndarray) -> np.ndarray:
        of_rows = counts[:, cases].astype(np.float64)
        every, true = (np.add.reduceat(table, starts, axis=1) for table in (of_rows, of_rows * is_class))
        false = every - true
        n_true, n_false = true.sum(axis=1), false.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            if name == "roc_auc_score":
                found = (false * (np.cumsum(true, axis=1) - 0.5 * true)).sum(axis=1) / (n_true * n_false)
            else:
                reached, seen = np.cumsum(true, axis=1), np.cumsum(every, axis=1)
                found = (true * np.where(seen > 0, reached / seen, 0.0)).sum(axis=1) / n_true
        return np.where((n_true > 0) & (n_false > 0), found, np.nan)

    return area


# ------------------------------------------------------------------ numbers


def _by_case(values: np.ndarray, n: int) -> np.ndarray:
    return np.asarray(values.reshape(n, -1).sum(axis=1))


def _explained(true: np.ndarray, pred: np.ndarray, n: int) -> Statistic:
    """Return the share of variance that is explained."""
    centred, rows = true - true.mean(), len(true) // n
    left, first, second = _by_case((true - pred) ** 2, n), _by_case(centred, n), _by_case(centred**2, n)

    def share(counts: np.ndarray) -> np.ndarray:
        spread = counts @ second - (counts @ first) ** 2 / (counts.sum(axis=1) * rows)
        is_spread = spread > 1e-12 * max(float(second.sum()), np.finfo(float).tiny)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(is_spread, 1 - counts @ left / spread, np.nan)

    return share


def _root_error(true: np.ndarray, pred: np.ndarray, n: int) -> Statistic:
    left, rows = _by_case((true - pred) ** 2, n), len(true) // n
    return lambda counts: np.sqrt(counts @ left / (counts.sum(axis=1) * rows))


# ------------------------------------------------------------------ pairs of labels


def _of_pairs(call: Call, n: int, settings: dict[str, Any]) -> Statistic | None:
    """Return what follows from how often which label was taken for which."""
    formula = _OF_PAIRS[call.name]
    classes, numbers = np.unique(np.concatenate([call.true, call.pred]), return_inverse=True)
    size = len(classes)
    if n * size**2 > MAX_PAIRS:
        return None
    true, pred = numbers[: len(call.true)], numbers[len(call.true) :]
    case = np.arange(len(true)) // (len(true) // n)
    index = (case * size + true) * size + pred
    pairs = np.bincount(index, minlength=n * size**2).reshape(n, size**2).astype(np.float64)
    occurs = np.bincount(true, minlength=size) > 0
    if formula(np.ones((1, size, size)), classes, settings) is None:
        return None

    def value(counts: np.ndarray) -> np.ndarray:
        matrices = (counts @ pairs).reshape(-1, size, size)
        found = np.asarray(formula(matrices, classes, settings))
        lacks = (matrices.sum(axis=2)[:, occurs] == 0).any(axis=1)
        return np.where(lacks, np.nan, found)

    return value


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return a quotient that is 0 where there is nothing below the line."""
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)


def _recalls(matrices: np.ndarray, classes: np.ndarray, settings: dict[str, Any]) -> np.ndarray | None:
    if settings.get("adjusted"):
        return None
    n_true = matrices.sum(axis=2)
    return _ratio(_ratio(np.einsum("dcc->dc", matrices), n_true).sum(axis=1), (n_true > 0).sum(axis=1))


#: how often hits count above the line, and true labels, predicted ones and hits below it; others are F scores
_SHARES = {"precision_score": (1, 0, 1, 0), "recall_score": (1, 1, 0, 0), "jaccard_score": (1, 1, 1, -1)}


def _of_classes(name: str, matrices: np.ndarray, classes: np.ndarray, settings: dict[str, Any]) -> np.ndarray | None:
    """Precision, recall, F and Jaccard: shares of hits in what is a class, or is taken for it."""
    known = {"average", "beta", "zero_division", "pos_label", "labels", "sample_weight"}
    if settings.get("zero_division", "warn") not in ("warn", 0, 0.0) or {*settings} - known:
        return None
    hit, n_true, n_pred = np.einsum("dcc->dc", matrices), matrices.sum(axis=2), matrices.sum(axis=1)
    average = settings.get("average") or "binary"
    if average == "micro":
        hit, n_true, n_pred = (array.sum(axis=1) for array in (hit, n_true, n_pred))
    square = settings.get("beta", 1.0) ** 2
    above, of_true, of_pred, below = _SHARES.get(name, (1 + square, square, 1, 0))
    shares = _ratio(above * hit, of_true * n_true + of_pred * n_pred + below * hit)
    if average == "micro":
        return shares
    if average == "binary":
        position = np.flatnonzero(classes == settings.get("pos_label", 1))
        return shares[:, position[0]] if len(position) and len(classes) <= 2 else None
    if average not in ("macro", "weighted"):
        return None
    weights = n_true if average == "weighted" else n_true + n_pred > 0
    return _ratio((shares * weights).sum(axis=1), weights.sum(axis=1))


def _correlation(matrices: np.ndarray, classes: np.ndarray, settings: dict[str, Any]) -> np.ndarray | None:
    n_true, n_pred, n = matrices.sum(axis=2), matrices.sum(axis=1), matrices.sum(axis=(1, 2))
    both = np.einsum("dcc->d", matrices) * n - (n_true * n_pred).sum(axis=1)
    spread = (n**2 - (n_pred**2).sum(axis=1)) * (n**2 - (n_true**2).sum(axis=1))
    return _ratio(both, np.sqrt(spread))


def _agreement(matrices: np.ndarray, classes: np.ndarray, settings: dict[str, Any]) -> np.ndarray | None:
    if not {*settings} <= {"weights", "labels", "average", "sample_weight"}:
        return None
    place = np.arange(len(classes), dtype=float)
    apart = np.abs(place[:, None] - place)
    weights = settings.get("weights")
    cost = apart != 0 if weights is None else apart if weights == "linear" else apart**2
    n_true, n_pred, n = matrices.sum(axis=2), matrices.sum(axis=1), matrices.sum(axis=(1, 2))
    expected = np.einsum("di,dj->dij", n_true, n_pred) / n[:, None, None]
    missed, chance = (matrices * cost).sum(axis=(1, 2)), (expected * cost).sum(axis=(1, 2))
    return np.where(chance > 0, 1 - _ratio(missed, chance), np.nan)


_OF_PAIRS: dict[str, Callable[..., np.ndarray | None]] = {
    "balanced_accuracy_score": _recalls,
    "cohen_kappa_score": _agreement,
    "matthews_corrcoef": _correlation,
    **{name: functools.partial(_of_classes, name) for name in (*_SHARES, "f1_score", "fbeta_score")},
}
