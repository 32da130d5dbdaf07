"""Which out-of-fold cases were predicted best and worst."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import MissingKeyError
from delira.metrics.direction import higher_is_better
from delira.metrics.functions import dice
from delira.metrics.scoring import lookup
from delira.report.classified import Classified, class_names, classify, known_of_pair
from delira.report.parts import entry_pairs, true_and_predicted
from delira.report.regression import regressed

MAX_VALUES = 1 << 26
"""Masks of more pixels in all are not compared case by case."""


class Ranking(NamedTuple):
    """A number for each case."""

    name: str
    """What the number is."""
    cases: np.ndarray
    """Indices in the data set, int64 of shape ``(n,)``."""
    scores: np.ndarray
    """float64 of shape ``(n,)``."""
    is_high_good: bool | None
    """None if nobody knows."""
    texts: Any = None
    """Case -> its true and its predicted value as texts, or None."""
    masks: Any = None
    """Case -> its true and its predicted mask, int64, or None."""

    def extremes(self, n: int) -> tuple[list[int], list[int]]:
        """Positions of the worst and the best cases (of the lowest and the highest, where nobody knows), each once."""
        order = np.argsort(-self.scores if self.is_high_good is False else self.scores, kind="stable")
        n = min(n, len(order) // 2) or len(order)
        return order[:n].tolist(), order[n:][::-1][:n].tolist()


def rank(result: Any) -> Ranking | None:
    """Order the tested cases; None if nothing tells good from bad.

    A classification is ordered by the probability of the true class, a regression by the absolute error, masks by
    Dice, or by the first metric over samples, and anything else by the first metric over samples.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    tested = np.flatnonzero(result.oof.mask)
    if not len(tested):
        return None
    if (cases := classify(result, each_once=True)) is not None:
        return _of_classes(cases, tested[cases.kept], class_names(result, cases.n_classes))
    if (found := regressed(result, each_once=True)) is not None:
        true, pred, kept = found
        index = tested[kept]
        texts = {case: (f"{t:.4g}", f"{p:.4g}") for case, t, p in zip(index.tolist(), true, pred, strict=True)}
        return Ranking("absolute error", index, np.abs(pred - true), False, texts.get)
    pair = _mask_keys(result)
    masks = None if pair is None else functools.partial(_masks, result, pair)
    for name, values in result.oof.per_case.items():
        kept = np.isfinite(values[tested])
        if kept.any():
            is_high_good = higher_is_better((result.metrics or {}).get(name), name)
            return Ranking(name, tested[kept], values[tested[kept]], is_high_good, masks=masks)
    if masks is None or _n_values(result.oof, pair) > MAX_VALUES:
        return None
    shown = map(masks, tested.tolist())
    scores = np.array([np.nan if each is None else dice(*each) for each in shown])
    kept = np.isfinite(scores)
    return Ranking("Dice", tested[kept], scores[kept], True, masks=masks) if kept.any() else None


def _of_classes(cases: Classified, index: np.ndarray, names: Sequence[str]) -> Ranking:
    places = {case: position for position, case in enumerate(index.tolist())}

    def texts(case: int) -> tuple[str, str]:
        true, pred = int(cases.true[places[case]]), int(cases.predicted[places[case]])
        sure = "" if cases.probabilities is None else f" ({cases.probabilities[places[case], pred]:.0%})"
        return names[true], names[pred] + sure

    if cases.probabilities is None:
        return Ranking("predicted right", index, cases.is_hit.astype(float), True, texts)
    score = cases.probabilities[np.arange(len(index)), cases.true]
    return Ranking("probability of the true class", index, score, True, texts)


def why_unranked(result: Any) -> str:
    """Why masks that :func:`rank` does not order are not, and what to do; empty of anything else.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    pair = _mask_keys(result) if result.oof.mask.any() else None
    if (n_values := _n_values(result.oof, pair)) <= MAX_VALUES:
        return ""
    return (
        f"No best and worst samples are shown: the predicted masks have {n_values:,} values in all, and more than "
        f"{MAX_VALUES:,} are not compared sample by sample. Give kfold a metric over samples, "
        "such as metrics={'dice': delira.metrics.dice} of labels or class scores, and they are chosen by that."
    )


# ------------------------------------------------------------------ masks


def _mask_keys(result: Any) -> tuple[str, str] | None:
    """Return the entries that are masks and predicted masks, or class scores of each pixel."""
    oof = result.oof
    first = int(np.flatnonzero(oof.mask)[0])
    pairs = (true_and_predicted(oof, pair) for pair in entry_pairs(result))
    return next((pair for pair in pairs if pair is not None and _masks(result, pair, first) is not None), None)


def _masks(result: Any, pair: tuple[str, str], case: int) -> tuple[np.ndarray, np.ndarray] | None:
    """True and predicted class of each pixel of a case, int64 of shape ``(H, W)`` or ``(D, H, W)``."""
    try:
        true, pred = lookup(result.oof.targets, pair[0]), lookup(result.oof.predictions, pair[1])
    except MissingKeyError:
        return None
    if true is None or pred is None:
        return None
    true, pred = np.asarray(true[case]), np.asarray(pred[case])
    if true.dtype.kind not in "biuf" or pred.dtype.kind not in "biuf" or true.ndim < 2:
        return None
    space = true.shape[1:] if true.ndim > 2 and true.shape[0] == 1 else true.shape
    true = true.reshape(space)
    if len(space) not in (2, 3) or min(space) < 2 or not np.array_equal(true, np.round(true)):
        return None
    known = known_of_pair(result, pair)
    for axis in (-1, 0) if known.class_axis == -1 else (0, -1):
        if pred.ndim == len(space) + 1 and pred.shape[axis] > 1 and np.moveaxis(pred, axis, 0).shape[1:] == space:
            return true.astype(np.int64), pred.argmax(axis=axis)
    if pred.size != math.prod(space):
        return None
    pred = pred.reshape(space)
    is_label = pred.dtype.kind != "f" or (pred.min() >= 0 and np.array_equal(pred, np.round(pred)))
    if known.output in ("logits", "probabilities", "numbers"):
        pred = pred > (0.0 if known.output == "logits" else 0.5)
    elif not is_label:
        pred = pred > (0.5 if pred.min() >= 0 and pred.max() <= 1 else 0.0)
    return true.astype(np.int64), pred.astype(np.int64)


def _n_values(oof: Any, pair: tuple[str, str] | None) -> int:
    if pair is None:
        return 0
    pred = lookup(oof.predictions, pair[1])
    return int(sum(np.size(item) for item in pred)) if pred.dtype.hasobject else int(pred.size)
