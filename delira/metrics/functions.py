"""Metrics in plain numpy."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from delira.errors import DataError, check_whole
from delira.metrics.scoring import per_sample
from delira.metrics.sklearn_metrics import AurocMetric, SklearnLogLoss
from delira.metrics.tree.criteria import Criterion, one_of_each_row
from delira.metrics.tree.labels import check_labels, check_settings, check_types
from delira.utils.arrays import Array

MAX_CLASSES = 1 << 16


def accuracy(y_true: Array, y_pred: Array, class_axis: int = 1) -> float:
    """Share of labels predicted correctly.

    Parameters
    ----------
    y_true
        Labels of shape ``(N, ...)`` or ``(N, 1)``; or one-hot, of the shape of ``y_pred``.
    y_pred
        Class scores of shape ``(N, C, ...)``, whose argmax over axis 1 is taken; or labels.
    class_axis
        Where the classes lie, ``-1`` for scores of shape ``(N, ..., C)``; a trainer's backend says it.

    Returns
    -------
    float
        Not a number if a prediction is not finite: NaN, or of class scores the highest infinite.

    Raises
    ------
    ConfigError
        If ``class_axis`` is no axis.
    DataError
        If the shapes do not fit, scores come where labels are needed, or a label is none of the classes.
    """
    return float(np.mean(hits(y_true, y_pred, class_axis)))


def hits(y_true: Array, y_pred: Array, class_axis: int = 1) -> np.ndarray:
    """Which labels are predicted correctly: 1, 0, or NaN where a prediction is not finite; float64 of their shape.

    Parameters
    ----------
    y_true, y_pred, class_axis
        As for :func:`accuracy`.
    """
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    axis = _axis("accuracy", class_axis, pred)
    check_settings("accuracy", class_axis=axis)
    if _is_one_hot(true, pred, axis):
        true, pred = true.argmax(axis), _chosen(pred, axis)
    true, pred, is_lost = _labels("accuracy", true, pred, axis)
    return np.where(is_lost, np.nan, true == pred)


@per_sample
def dice(y_true: Array, y_pred: Array, class_axis: int = 0) -> float:
    """Sørensen-Dice coefficient of one sample, the mean over its foreground classes.

    For each class but the background 0 that occurs in the label or in the prediction,
    ``2 |A ∩ B| / (|A| + |B|)``, where A and B are the pixels of that class in label and prediction.
    If neither has any foreground, the value is 1.0.

    Parameters
    ----------
    y_true
        Mask of one sample, integers of shape ``(...)`` or ``(1, ...)``.
    y_pred
        Mask of the same shape, or class scores of shape ``(C, ...)``, whose argmax is taken.
    class_axis
        Where the classes of the scores lie, ``-1`` for the shape ``(..., C)``; a trainer's backend says it.

    Returns
    -------
    float
        Not a number if a prediction is not finite.

    Raises
    ------
    ConfigError
        If ``class_axis`` is no axis.
    DataError
        If the shapes do not fit, scores come where labels are needed, or a label is negative.

    References
    ----------
    L. R. Dice, "Measures of the Amount of Ecologic Association Between Species", Ecology 26(3), 1945.
    """
    pred = np.asarray(y_pred)
    axis = _axis("dice", class_axis, pred)
    true, pred, is_lost = _labels("dice", np.asarray(y_true), pred, axis)
    if is_lost.any():
        return float("nan")
    true, pred = _as_index(true), _as_index(pred)
    n_classes = int(max(true.max(initial=0), pred.max(initial=0))) + 1
    sizes = np.bincount(true, minlength=n_classes) + np.bincount(pred, minlength=n_classes)
    overlap = np.bincount(true[true == pred], minlength=n_classes)
    present = np.flatnonzero(sizes[1:]) + 1
    return float(np.mean(2 * overlap[present] / sizes[present])) if len(present) else 1.0


def _axis(name: str, class_axis: Any, pred: np.ndarray) -> int:
    """Return where the classes are, counted from the first axis."""
    check_whole(name, at_least=-1, class_axis=class_axis)
    return int(class_axis) if class_axis != -1 else max(pred.ndim - 1, 1)


def _as_index(mask: np.ndarray) -> np.ndarray:
    if mask.dtype.kind not in "biuf":
        raise DataError(f"dice counts labels that are whole numbers, got labels of the type {mask.dtype}")
    if mask.size and (mask.min() < 0 or mask.max() >= MAX_CLASSES):
        raise DataError(
            f"dice counts labels from 0 to {MAX_CLASSES - 1}, got labels from {mask.min()} to {mask.max()}; "
            "give pixels to be ignored the background label 0 in both masks"
        )
    return mask.ravel().astype(np.intp, copy=False)


def _labels(name: str, true: np.ndarray, pred: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two label arrays of one shape, and where predictions are not finite; class scores lie along ``axis``."""
    n_classes = 0
    check_types(name, pred, true)
    if true.ndim > axis and true.shape[axis] == 1 and pred.shape != true.shape:
        true = true.squeeze(axis)  # the channel of a label that has only one
    if pred.ndim == true.ndim + 1 and pred.ndim > axis:
        # A single score is no class score: it must be a label, which is checked below.
        is_score = pred.shape[axis] > 1
        n_classes = pred.shape[axis] if is_score else 0
        pred = _chosen(pred, axis) if is_score else pred.squeeze(axis)
    if true.shape != pred.shape:
        raise DataError(
            f"{name} got labels of shape {true.shape} and predictions of shape {pred.shape}; predictions are "
            f"labels of the same shape, or class scores with one axis more, the classes on axis {axis}"
        )
    is_lost = ~np.isfinite(pred) if pred.dtype.kind == "f" else np.zeros(pred.shape, bool)
    for what, array, is_known in (("y_true", true, np.ones(true.shape, bool)), ("y_pred", pred, ~is_lost)):
        if (fractions := _fractions(array) & is_known).any():
            raise DataError(
                f"{name} got {what} of shape {array.shape} with values like {array[fractions][0]}, which are "
                "no labels; compare scores with a threshold first, e.g. y_pred > 0.5"
            )
    if n_classes:
        check_labels(name, true, n_classes)
    return true, pred, is_lost


def _chosen(scores: np.ndarray, axis: int) -> np.ndarray:
    """Return the labels with the highest score, not a number where that is not finite."""
    found, top = scores.argmax(axis), scores.max(axis)
    is_lost = ~np.isfinite(top) if scores.dtype.kind == "f" else np.zeros(top.shape, bool)
    return np.where(is_lost, np.nan, found) if is_lost.any() else found


def _fractions(array: np.ndarray) -> np.ndarray:
    """Return where values are not whole numbers, NaN included."""
    return array != np.floor(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)


def _is_one_hot(true: np.ndarray, pred: np.ndarray, axis: int) -> bool:
    """Return True if both are one-hot or scores along an axis, not label maps that happen to be 0 and 1."""
    if true.shape != pred.shape or not one_of_each_row(true, axis):
        return False
    return bool(_fractions(pred).any()) if true.ndim > 2 else pred.dtype.kind == "f" or one_of_each_row(pred, axis)


def with_known(metric: object, known: Criterion) -> Any:
    """A metric of delira that is told whether scores are logits, and where their classes lie; any other as it is."""
    if isinstance(metric, (SklearnLogLoss, AurocMetric)) and metric.output is None and known.output is not None:
        metric = copy.copy(metric)
        metric.output = known.output
    return AlongAxis(metric) if known.class_axis == -1 and metric in (accuracy, dice) else metric


class AlongAxis:
    """A function of delira whose class scores have their classes on the last axis, or on the first where only it fits.

    Parameters
    ----------
    function
        With a ``class_axis``, of all samples, or of one (:class:`~delira.metrics.PerSample`).
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        functools.update_wrapper(self, function)
        #: ``"sample"`` or ``"dataset"``, as the function has it
        self.over = getattr(function, "over", "dataset")

    def __call__(self, y_true: Array, y_pred: Array) -> Any:
        """Return the value for labels and predictions."""
        true, pred = np.asarray(y_true), np.asarray(y_pred)
        first = 0 if self.over == "sample" else 1
        if pred.ndim < first + 2 or pred.dtype.kind != "f" or pred.ndim < true.ndim:
            return self.function(y_true, y_pred)
        fits = [-1]
        if pred.ndim == true.ndim + 1:  # where the other axes are those of the target
            fits = [at for at in (-1, first) if tuple(np.delete(pred.shape, at)) == true.shape] or fits
        return self.function(y_true, y_pred, class_axis=fits[0])

    def __repr__(self) -> str:
        return f"AlongAxis({self.function!r}, -1)"
