"""Metrics of many draws of cases at once: a draw is how often each case counts, and scores are sorted only once.

References
----------
T. Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006: areas under curves from sorted
scores.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from delira.metrics.of_cases import Call, call_of

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
    for candidate in _candidates(call, n):
        if _agrees(candidate, arrays, evaluate):
            return candidate
    return None


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
        settings = dict(call.settings)
        averages = ["binary", "macro"] if settings.get("average", "binary") is None else [settings.get("average")]
        for average in averages:
            if (found := _of_pairs(call, n, {**settings, "average": average})) is not None:
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
    if score.ndim == 1 and true.ndim == 1:
        classes = np.unique(true)
        return [(true == classes[1], score)] if len(classes) == 2 else []
    if score.ndim != 2:
        return []
    if true.ndim == 1:
        if call.name == "roc_auc_score" and call.settings.get("multi_class") != "ovr":
            return []
        classes = np.unique(true)
        true = true[:, None] == classes
    if true.shape != score.shape or not np.isin(true, (0, 1)).all():
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


def _f_score(name: str) -> Callable[..., np.ndarray | None]:
    """Precision, recall, F and Jaccard: shares of hits in what is a class, or is taken for it."""

    def formula(matrices: np.ndarray, classes: np.ndarray, settings: dict[str, Any]) -> np.ndarray | None:
        known = {"average", "beta", "zero_division", "pos_label", "labels", "sample_weight"}
        is_usual = settings.get("zero_division", "warn") in ("warn", 0, 0.0) and not {*settings} - known
        if not is_usual:
            return None
        hit, n_true, n_pred = np.einsum("dcc->dc", matrices), matrices.sum(axis=2), matrices.sum(axis=1)
        average = settings.get("average") or "binary"
        if average == "micro":
            return _share(name, settings, *(array.sum(axis=1) for array in (hit, n_true, n_pred)))
        of_class = _share(name, settings, hit, n_true, n_pred)
        if average == "binary":
            position = np.flatnonzero(classes == settings.get("pos_label", 1))
            return of_class[:, position[0]] if len(position) and len(classes) <= 2 else None
        if average not in ("macro", "weighted"):
            return None
        weights = n_true if average == "weighted" else n_true + n_pred > 0
        return _ratio((of_class * weights).sum(axis=1), weights.sum(axis=1))

    return formula


def _share(name: str, settings: dict[str, Any], hit: np.ndarray, n_true: np.ndarray, n_pred: np.ndarray) -> np.ndarray:
    if name == "precision":
        return _ratio(hit, n_pred)
    if name == "recall":
        return _ratio(hit, n_true)
    if name == "jaccard":
        return _ratio(hit, n_true + n_pred - hit)
    square = settings.get("beta", 1.0) ** 2
    return _ratio((1 + square) * hit, square * n_true + n_pred)


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
    "f1_score": _f_score("f"),
    "fbeta_score": _f_score("f"),
    "jaccard_score": _f_score("jaccard"),
    "matthews_corrcoef": _correlation,
    "precision_score": _f_score("precision"),
    "recall_score": _f_score("recall"),
}
