"""Scores of classes, in columns that mean the same in every fold."""

import numpy as np

from delira.contract.kinds import Network
from delira.errors import DataError

#: labels from here on are names of classes, not numbers of columns
_MAX_COLUMNS = 1 << 12


def class_scores(network: Network, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Scores of shape ``(n, n_classes)`` of a fitted classifier with one label a sample.

    Parameters
    ----------
    network
        The :class:`SklearnEstimator`.
    rows
        Inputs of shape ``(n, n_features)``.
    labels
        What it predicts for them, of shape ``(n,)``.
    """
    estimator = network.estimator
    classes = np.asarray(estimator.classes_)
    for method, is_probability in (("predict_proba", True), ("decision_function", False)):
        if not hasattr(estimator, method):
            continue
        scores = np.asarray(getattr(estimator, method)(rows))
        if scores.ndim == 1 and len(classes) == 2:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        if scores.shape == (len(rows), len(classes)) and (is_probability or not _has_pairs(estimator, classes)):
            return _spread(scores, _columns(classes, network), is_probability)
    return _spread((labels[:, None] == classes).astype(np.float64), _columns(classes, network), True)


def _has_pairs(estimator: Network, classes: np.ndarray) -> bool:
    """Return True if scores are of pairs of classes (``SVC(decision_function_shape="ovo")``): of 3 there are 3, too."""
    parameters = estimator.get_params(deep=True).items()
    return len(classes) == 3 and any(
        n.rpartition("__")[2] == "decision_function_shape" and v == "ovo" for n, v in parameters
    )


def _spread(scores: np.ndarray, places: tuple[np.ndarray, int], is_probability: bool) -> np.ndarray:
    """The scores in their columns; a class that the estimator never saw is the least likely one."""
    columns, n_columns = places
    if n_columns == len(columns) and (columns == np.arange(n_columns)).all():
        return scores
    least = 0 if is_probability else scores.min(axis=1, keepdims=True) - 1
    spread = np.broadcast_to(least, (len(scores), n_columns)).astype(scores.dtype)
    spread[:, columns] = scores
    return spread


def _columns(own: np.ndarray, network: Network) -> tuple[np.ndarray, int]:
    """The column of each class, and their number."""
    learned, given, found = own.tolist(), network.classes, network.columns
    if given is not None and (unknown := [name for name in learned if name not in given]):
        raise DataError(f"the estimator has learned the labels {unknown}, which are not among classes={given}")
    if given is None:  # a transform may have made other labels than those of the data set
        given = found if found is not None and set(learned) <= set(found) else learned
        if _are_numbers(np.asarray(given)):
            return own.astype(np.int64), int(max(given)) + 1
    places = {name: column for column, name in enumerate(given)}
    return np.array([places[name] for name in learned]), len(given)


def _are_numbers(classes: np.ndarray) -> bool:
    """Return True if labels are numbers of columns."""
    if classes.dtype.kind not in "iuf" or not len(classes):
        return False
    return bool(classes.min() >= 0 and classes.max() < _MAX_COLUMNS and (classes == classes.astype(np.int64)).all())
