"""Functions of whole arrays with what somebody says of the predictions that they are given."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from delira.metrics.functions import accuracy, dice
from delira.metrics.sklearn_metrics import AurocMetric, SklearnLogLoss
from delira.metrics.tree.criteria import Criterion
from delira.utils.arrays import Array


def with_known(metric: object, known: Criterion) -> Any:
    """A metric of delira that is told whether scores are logits, and where their classes lie; any other as it is."""
    if isinstance(metric, (SklearnLogLoss, AurocMetric)) and metric.output is None and known.output is not None:
        metric = copy.copy(metric)
        metric.output = known.output
    if known.class_axis == -1 and metric in (accuracy, dice):
        return AlongAxis(metric, -1)
    return metric


class AlongAxis:
    """A function of delira whose class scores have their classes on another axis than it takes by itself.

    Parameters
    ----------
    function
        With a ``class_axis``, of all samples, or of one (:class:`~delira.metrics.PerSample`).
    axis
        Where the classes of a batch lie, 1 or -1; the other of the two where only that fits.
    """

    def __init__(self, function: Callable[..., Any], axis: int):
        self.function, self.axis = function, axis
        functools.update_wrapper(self, function)
        #: ``"sample"`` or ``"dataset"``, as the function has it
        self.over = getattr(function, "over", "dataset")

    def __call__(self, y_true: Array, y_pred: Array) -> Any:
        """Return the value for labels and predictions."""
        true, pred = np.asarray(y_true), np.asarray(y_pred)
        first = 0 if self.over == "sample" else 1
        if pred.ndim < first + 2 or pred.dtype.kind != "f" or pred.ndim < true.ndim:
            return self.function(y_true, y_pred)
        axis = first if self.axis == 1 else -1
        if pred.ndim == true.ndim + 1:  # where the other axes are those of the target
            fits = [at for at in (axis, first if axis == -1 else -1) if _without(pred, at) == true.shape]
            axis = fits[0] if fits else axis
        return self.function(y_true, y_pred, class_axis=axis)

    def __repr__(self) -> str:
        return f"AlongAxis({self.function!r}, {self.axis})"


def _without(array: np.ndarray, axis: int) -> tuple[int, ...]:
    """Return the shape without one axis."""
    position = axis % array.ndim
    return array.shape[:position] + array.shape[position + 1 :]
