"""Metrics out of what is no metric: functions, and keys of the state."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from delira.errors import ConfigError, DataError
from delira.metrics.sklearn_functions import is_of_sklearn
from delira.metrics.tree.metric import Fleeting, Metric
from delira.metrics.tree.moments import Weighted
from delira.state import Y_PRED, Y_TRUE, StateKey, X
from delira.utils.arrays import Array, as_array, shape_of
from delira.utils.binding import ordered
from delira.utils.checks import check_functions
from delira.utils.parameters import has_more, needed, positional
from delira.utils.trees import n_rows


class KeyMetric(Fleeting):
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
        return for_samples(args[0][self.key], args[0])


class BatchLambda(Fleeting):
    """A function of a batch.

    Parameters
    ----------
    name
        What it is reported under.
    function
        Called as ``function(y_pred, y_true)``, or the other way round if the names of its parameters say so. If it
        returns a single number, that is the mean of its batch and counts for all samples of it; an array counts as it
        is.
    """

    def __init__(self, name: str, function: Callable[..., Any]):
        super().__init__(name)
        self.check(function)
        self.function = function

    def check(self, function: object) -> None:
        """Refuse what is no function of a prediction and a target."""
        check_takes_two(self, function)

    def process(self, *args: Any) -> Any:
        """Return the value of the function for the predictions and targets of the state."""
        state = args[0]
        pair = ordered(self.function, state[Y_PRED], state[Y_TRUE], "prediction first")
        return for_samples(check_value(self.name, self.function(*pair)), state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function itself."""
        return self.function(*args, **kwargs)


class StateLambda(BatchLambda):
    """A function of the state; ``name`` and ``function`` as for :class:`BatchLambda`."""

    def check(self, function: object) -> None:
        check_functions(self, function=function)

    def process(self, *args: Any) -> Any:
        return for_samples(check_value(self.name, self.function(args[0])), args[0])


def check_takes_two(owner: Any, function: Any) -> None:
    """Refuse what cannot be called with a prediction and a target.

    Raises
    ------
    ConfigError
        If it is no function, or one of other arguments.
    """
    check_functions(owner, function=function)
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # of C, without a signature
        return
    if len(needed(parameters)) > 2 or (len(positional(parameters)) < 2 and not has_more(parameters)):
        name = getattr(function, "__name__", type(function).__name__)
        raise ConfigError(f"{type(owner).__name__}: function is f(y_pred, y_true), but {name} takes other arguments")


def check_value(name: str, value: object) -> Any:
    """Return a value as it is; refused if it is a text, which is no number.

    Raises
    ------
    DataError
        Naming the metric.
    """
    if isinstance(value, (str, bytes)):
        raise DataError(f"the metric {name!r} returned the text {value!r:.60}, and not numbers")
    return value


def for_samples(value: object, state: Mapping[Any, Any]) -> Any:
    """Return a single number of a batch with the number of its samples; any other value as it is."""
    is_one = getattr(value, "shape", None) == ()
    if not is_one and (value is None or isinstance(value, (Mapping, Weighted)) or shape_of(as_array(value))):
        return value
    # the length of its target, or of its input; 1 without data
    return Weighted(value, n_rows(state.get(Y_TRUE), state.get(X)))


def root_of(target: Array) -> Metric:
    """Return the metric that something stands for.

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
    if is_of_sklearn(target):
        raise ConfigError(
            f"{name} of scikit-learn is computed over whole data sets: put it into the list of metrics as it is, "
            f"or, for a value of each batch, lambda_metric({name!r})(lambda y_pred, y_true: ...)"
        )
    try:
        n_needed = len(needed(inspect.signature(target).parameters))
    except ValueError:
        raise ConfigError(
            f"the metric {name} does not tell what it is called with; write lambda y_pred, y_true: {name}(...), or "
            f"lambda state: {name}(...)"
        ) from None
    if n_needed not in (1, 2):
        raise ConfigError(
            f"the metric {name} is called as f(y_pred, y_true) or f(state), but it needs {n_needed} arguments"
        )
    return (StateLambda if n_needed == 1 else BatchLambda)(name, target)
