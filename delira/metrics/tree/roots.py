"""Metrics out of what is no metric: functions, and keys of the state."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import ConfigError
from delira.metrics.tree.metric import Metric
from delira.metrics.tree.moments import Weighted
from delira.state import Y_PRED, Y_TRUE, StateKey, X
from delira.utils.arrays import as_array, shape_of
from delira.utils.trees import iterate_leaves


class KeyMetric(Metric):
    """What the state has under a key; a single number counts for the samples of its batch.

    Parameters
    ----------
    key
        Of the state; its text is the name.
    """

    def __init__(self, key: StateKey):
        super().__init__(str(key))
        self.key = key

    def process(self, *args: Any) -> Any:
        """The value."""
        return for_samples(args[0][self.key], args[0])

    def state_dict(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}


class BatchLambda(Metric):
    """A function of a batch.

    Parameters
    ----------
    name
        What it is reported under.
    function
        Called as ``function(y_pred, y_true)``. If it returns a single number, that is the mean of its batch and
        counts for all samples of it; an array counts as it is.
    """

    def __init__(self, name: str, function: Callable[..., Any]):
        super().__init__(name)
        self.function = function

    def process(self, *args: Any) -> Any:
        """The value of the function for the predictions and targets of the state."""
        state = args[0]
        return for_samples(self.function(state[Y_PRED], state[Y_TRUE]), state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}


class StateLambda(BatchLambda):
    """A function of the state; ``name`` and ``function`` as for :class:`BatchLambda`."""

    def process(self, *args: Any) -> Any:
        """The value of the function."""
        return for_samples(self.function(args[0]), args[0])


def for_samples(value: Any, state: Mapping[Any, Any]) -> Any:
    """A single number of a batch with the number of its samples; any other value as it is."""
    if getattr(value, "shape", None) == ():
        return Weighted(value, n_samples(state))
    if value is None or isinstance(value, (Mapping, Weighted)):
        return value
    return value if shape_of(as_array(value)) else Weighted(value, n_samples(state))


def n_samples(state: Mapping[Any, Any]) -> int:
    """How many samples the batch in the state has: the length of its target, or of its input; 1 without data."""
    for key in (Y_TRUE, X):
        value = state.get(key)
        if (shape := getattr(value, "shape", None)) is not None and len(shape):  # that of TensorFlow is always true
            return int(shape[0])
        for _, leaf in iterate_leaves(value):
            shape = shape_of(leaf)
            if len(shape) > 0:
                return shape[0]
    return 1


def root_of(target: Any) -> Metric:
    """The metric that something stands for.

    Raises
    ------
    ConfigError
        If it is neither a metric, nor a key of the state, nor a function of one or two arguments.
    """
    if isinstance(target, Metric):
        return target
    if isinstance(target, StateKey):
        return KeyMetric(target)
    if not callable(target) or isinstance(target, type):
        raise ConfigError(f"{target!r} is neither a metric, nor a class of metrics, nor a state key, nor a function")
    name = getattr(target, "__name__", type(target).__name__)
    if str(getattr(target, "__module__", "")).startswith("sklearn."):
        raise ConfigError(
            f"{name} of scikit-learn is computed over whole data sets: put it into the list of metrics as it is, "
            f"or, for a value of each batch, lambda_metric({name!r})(lambda y_pred, y_true: ...)"
        )
    n_needed = sum(
        parameter.default is parameter.empty and parameter.kind in (0, 1)
        for parameter in inspect.signature(target).parameters.values()
    )
    if n_needed not in (1, 2):
        raise ConfigError(
            f"the metric {name} is called as f(y_pred, y_true) or f(state), but it needs {n_needed} arguments"
        )
    return (StateLambda if n_needed == 1 else BatchLambda)(name, target)
