"""Errors of predicted numbers."""

from typing import Any

from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.aggregators import RootMean, mean, running_mean
from delira.metrics.tree.labels import same_shape
from delira.metrics.tree.metric import MetricTree
from delira.metrics.tree.registry import default_for_key
from delira.state import Y_PRED, Y_TRUE
from delira.utils.arrays import ops_of


@default_for_key("mae")
@running_mean
@mean
class MeanAbsoluteError(Stateless):
    """The mean of the absolute differences of all values.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    def __init__(self, pred_key: Any = Y_PRED, target_key: Any = Y_TRUE):
        super().__init__("mae", pred_key, target_key)

    def process(self, *args: Any) -> Any:
        """The absolute difference of each value."""
        return abs(difference(self, args[0]))


class SquaredError(Stateless):
    """The squared differences of all values.

    Parameters
    ----------
    name
        What it is reported under.
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    def process(self, *args: Any) -> Any:
        """The squared difference of each value."""
        return difference(self, args[0]) ** 2


@default_for_key("mse")
@running_mean
@mean
class MeanSquaredError(SquaredError):
    """The mean of the squared differences of all values.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    def __init__(self, pred_key: Any = Y_PRED, target_key: Any = Y_TRUE):
        super().__init__("mse", pred_key, target_key)


class RootMeanSquaredError(MetricTree):
    """The root of the mean of the squared differences of all values.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    """

    def __init__(self, pred_key: Any = Y_PRED, target_key: Any = Y_TRUE):
        super().__init__(SquaredError("rmse", pred_key, target_key), [RootMean("rmse")])


default_for_key("rmse")(RootMeanSquaredError)


def difference(metric: Stateless, state: Any) -> Any:
    """Prediction less target, at least as exact as float32."""
    pred, true = same_shape(metric.name, *metric.pair(state))
    return ops_of(pred).as_float(pred) - ops_of(true).as_float(true)
