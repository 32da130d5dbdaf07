"""Errors of predicted numbers."""

from typing import Any

import numpy as np

from delira.errors import ConfigError
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.aggregators import RootMean
from delira.metrics.tree.hanging import mean, running_mean
from delira.metrics.tree.labels import same_shape
from delira.metrics.tree.metric import MetricTree
from delira.metrics.tree.moments import Batch, Moments
from delira.metrics.tree.registry import default_for_key
from delira.state import Y_PRED, Y_TRUE, State
from delira.utils.arrays import ops_of, shape_of


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

    higher_is_better = False

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE):
        super().__init__("mae", pred_key, target_key)

    def process(self, *args: Any) -> Any:
        """Return the absolute difference of each value."""
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

    higher_is_better = False

    def process(self, *args: Any) -> Any:
        """Return the squared difference of each value."""
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

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE):
        super().__init__("mse", pred_key, target_key)


class _RootOfOutputs(RootMean):
    """The root of the mean of each output of values of shape ``(B, outputs)``, and the mean of these roots."""

    def __init__(self, name: str, multioutput: str):
        super().__init__(name)
        self.multioutput = multioutput

    def process(self, *args: Any) -> Any:
        """Take in the values of a batch; pixels count as samples."""
        shape = shape_of(args[0])
        return self.take(Batch(args[0], 0 if len(shape) == 2 and shape[1] > 1 else None))

    def compute(self, moments: Moments) -> Any:
        """Return the mean of the roots, or all of them."""
        roots = super().compute(moments)
        return np.mean(roots) if self.multioutput == "uniform_average" else roots


class RootMeanSquaredError(MetricTree):
    """The root of the mean of the squared differences, ``sklearn.metrics.root_mean_squared_error``.

    Of values of shape ``(B, outputs)`` the mean of the roots of all outputs; of any other shape one root of all.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape.
    multioutput
        ``"uniform_average"``, or ``"raw_values"``: a list of the roots.

    Raises
    ------
    ConfigError
        If ``multioutput`` is neither.
    """

    def __init__(self, pred_key: object = Y_PRED, target_key: object = Y_TRUE, multioutput: str = "uniform_average"):
        if multioutput not in ("uniform_average", "raw_values"):
            raise ConfigError(f"rmse: multioutput must be 'uniform_average' or 'raw_values', got {multioutput!r}")
        super().__init__(SquaredError("rmse", pred_key, target_key), [_RootOfOutputs("rmse", multioutput)])


default_for_key("rmse")(RootMeanSquaredError)


def difference(metric: Stateless, state: State) -> Any:
    """Prediction less target, at least as exact as float32."""
    pred, true = same_shape(metric.name, *metric.pair(state))
    return ops_of(pred).as_float(pred) - ops_of(true).as_float(true)
