"""Metrics in plain numpy."""

from typing import Any

import numpy as np

from delira.errors import DataError
from delira.metrics.scoring import per_sample

MAX_CLASSES = 1 << 16


def accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of labels predicted correctly.

    Parameters
    ----------
    y_true
        Labels of shape ``(N, ...)`` or ``(N, 1)``; or one-hot, of the shape of ``y_pred``.
    y_pred
        Class scores of shape ``(N, C, ...)``, whose argmax over axis 1 is taken; or labels.

    Raises
    ------
    DataError
        If the shapes do not fit, or scores come where labels are needed.
    """
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if _is_one_hot(true, pred):
        true, pred = true.argmax(1), pred.argmax(1)
    true, pred = _labels("accuracy", true, pred, axis=1)
    return float(np.mean(true == pred))


@per_sample
def dice(y_true: Any, y_pred: Any) -> float:
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

    Raises
    ------
    DataError
        If the shapes do not fit, scores come where labels are needed, or a label is negative.

    References
    ----------
    L. R. Dice, "Measures of the Amount of Ecologic Association Between Species", Ecology 26(3), 1945.
    """
    true, pred = (_as_index(mask) for mask in _labels("dice", np.asarray(y_true), np.asarray(y_pred), axis=0))
    n_classes = int(max(true.max(initial=0), pred.max(initial=0))) + 1
    sizes = np.bincount(true, minlength=n_classes) + np.bincount(pred, minlength=n_classes)
    overlap = np.bincount(true[true == pred], minlength=n_classes)
    present = np.flatnonzero(sizes[1:]) + 1
    return float(np.mean(2 * overlap[present] / sizes[present])) if len(present) else 1.0


def _as_index(mask: np.ndarray) -> np.ndarray:
    if mask.size and (mask.min() < 0 or mask.max() >= MAX_CLASSES):
        raise DataError(
            f"dice counts labels from 0 to {MAX_CLASSES - 1}, got labels from {mask.min()} to {mask.max()}; "
            "give pixels to be ignored the background label 0 in both masks"
        )
    return mask.ravel().astype(np.intp, copy=False)


def _labels(name: str, true: np.ndarray, pred: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Two label arrays of one shape; class scores lie along ``axis``."""
    if true.ndim > axis and true.shape[axis] == 1 and pred.shape != true.shape:
        true = true.squeeze(axis)  # the channel of a label that has only one
    if pred.ndim == true.ndim + 1 and pred.ndim > axis:
        # A single score is no class score: it must be a label, which is checked below.
        is_score = pred.shape[axis] > 1
        if is_score and true.dtype.kind in "OSU":
            raise DataError(
                f"{name} got texts as labels and class scores as predictions; compare them with predicted labels "
                f"(scikit-learn: metric_keys={{{name!r}: ('label', 'label_pred')}}), or number the classes from 0"
            )
        pred = pred.argmax(axis) if is_score else pred.squeeze(axis)
    if true.shape != pred.shape:
        raise DataError(
            f"{name} got labels of shape {true.shape} and predictions of shape {pred.shape}; predictions are "
            f"labels of the same shape, or class scores with one axis more, the classes on axis {axis}"
        )
    for what, array in (("y_true", true), ("y_pred", pred)):
        if (fractions := _fractions(array)).any():
            raise DataError(
                f"{name} got {what} of shape {array.shape} with values like {array[fractions][0]}, which are "
                "no labels; compare scores with a threshold first, e.g. y_pred > 0.5"
            )
    return true, pred


def _fractions(array: np.ndarray) -> np.ndarray:
    """Where values are not whole numbers, NaN included."""
    return array != np.floor(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)


def _is_one_hot(true: np.ndarray, pred: np.ndarray) -> bool:
    """Whether both are one-hot or scores along axis 1, not label maps that happen to be 0 and 1."""
    if true.shape != pred.shape or true.ndim < 2 or true.shape[1] < 2 or not _one_per_row(true):
        return False
    if true.ndim > 2:
        return bool(_fractions(pred).any())
    return pred.dtype.kind == "f" or _one_per_row(pred)


def _one_per_row(array: np.ndarray) -> bool:
    return array.dtype.kind in "biuf" and bool(np.all((array == 0) | (array == 1)) and np.all(array.sum(1) == 1))
