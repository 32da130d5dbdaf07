"""Curves of several folds on one grid, their mean and the spread around it.

References
----------
T. Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006, section 8.1: vertical averaging.
J. Davis, M. Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006: why precision is not
interpolated linearly.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from delira.report.classified import Classified, one_against_rest

GRID = np.arange(101) / 100
"""Where curves are averaged; to the bit the shares of whole numbers that rates are, as precision leaps there."""
OnGrid = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]
"""Is it the class, and its scores, to the curve at ``GRID`` and its area."""


class Band(NamedTuple):
    """Curves of folds over one axis."""

    x: np.ndarray
    """Shape ``(P,)``."""
    folds: dict[int, np.ndarray]
    """Fold to its curve, shape ``(P,)``."""
    areas: dict[int, float]
    """Fold to the area under its curve, as scikit-learn computes it, not on the grid."""

    @property
    def mean(self) -> np.ndarray:
        """Over folds, shape ``(P,)``."""
        return np.asarray(np.mean([*self.folds.values()], axis=0))

    @property
    def std(self) -> np.ndarray:
        """Over folds (ddof 1; 0 for one fold), shape ``(P,)``."""
        curves = np.array([*self.folds.values()])
        return np.asarray(np.std(curves, axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(self.x)))

    @property
    def area(self) -> tuple[float, float]:
        """Mean and standard deviation of the folds' areas; NaN where there are too few."""
        areas = [*self.areas.values()]
        std = float(np.std(areas, ddof=1)) if len(areas) > 1 else np.nan
        return float(np.mean(areas)) if areas else np.nan, std


def roc_bands(folds: Mapping[int, Classified]) -> tuple[Band, dict[int, Band]]:
    """True-positive rate over false-positive rate: of the mean over classes, and of each class against the rest.

    Parameters
    ----------
    folds
        Fold to its cases; a fold in which no class has others beside it has no curve.

    Returns
    -------
    tuple
        The band of the macro average (of two classes that of the second), and bands by class.
    """
    from sklearn.metrics import auc, roc_curve

    def on_grid(is_class: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
        false_rate, true_rate, _ = roc_curve(is_class, score)
        curve = np.interp(GRID, false_rate, true_rate)
        curve[0] = 0.0
        return curve, float(auc(false_rate, true_rate))

    return _bands(folds, on_grid)


def precision_recall_bands(folds: Mapping[int, Classified]) -> tuple[Band, dict[int, Band]]:
    """Precision over recall, with average precision as the area; otherwise as :func:`roc_bands`."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    def on_grid(is_class: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
        precision, recall, _ = precision_recall_curve(is_class, score)
        # recall falls; the precision at a recall is that of the threshold which reaches it
        at = np.searchsorted(recall[::-1], GRID, side="left")
        return precision[::-1][np.minimum(at, len(recall) - 1)], float(average_precision_score(is_class, score))

    return _bands(folds, on_grid)


def _bands(folds: Mapping[int, Classified], on_grid: OnGrid) -> tuple[Band, dict[int, Band]]:
    macro, classes = Band(GRID, {}, {}), dict[int, Band]()
    for fold, cases in folds.items():
        found = {number: on_grid(is_class, score) for number, is_class, score in one_against_rest(cases)}
        for number, (curve, area) in found.items():
            band = classes.setdefault(number, Band(GRID, {}, {}))
            band.folds[fold], band.areas[fold] = curve, area
        if found:
            curves, areas = zip(*found.values(), strict=True)
            macro.folds[fold], macro.areas[fold] = np.mean(curves, axis=0), float(np.mean(areas))
    return macro, dict(sorted(classes.items()))


def curve_band(epochs: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Epochs that every fold has, and mean and standard deviation (ddof 1) over the folds there."""
    common = np.array(sorted(set.intersection(*(set(each.tolist()) for each in epochs))))
    rows = [dict(zip(at.tolist(), each.tolist(), strict=True)) for at, each in zip(epochs, values, strict=True)]
    table = np.array([[row[epoch] for epoch in common.tolist()] for row in rows]).reshape(len(rows), len(common))
    std = table.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(common))
    return common, table.mean(axis=0), std
