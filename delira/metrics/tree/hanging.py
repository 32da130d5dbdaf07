"""Metrics made of functions and of keys of the state, what decorators hang on them, and what strings stand for."""

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from delira.errors import ConfigError, DataError, check_flags, check_functions, check_texts, check_whole, did_you_mean
from delira.metrics.gather import Weighted
from delira.metrics.of_arrays import is_of_sklearn
from delira.metrics.tree.aggregators import Max, Mean, Min, RunningMean, Std, ToDict, Var
from delira.metrics.tree.metric import Fleeting, Keeping, Metric, MetricTree, as_tree
from delira.state import Y_PRED, Y_TRUE, StateKey, X
from delira.utils.arrays import (
    Array,
    as_array,
    iterate_leaves,
    map_leaves,
    n_rows,
    ops_of,
    read_arrays,
    shape_of,
    to_plain,
)
from delira.utils.binding import has_more, needed, ordered, positional
from delira.utils.late import Lazy, read_lazy

M = TypeVar("M", bound=Metric)
P = ParamSpec("P")
#: what is no class, and on which something hangs: a metric, a state key, or a function of the state or of a batch
Target = Metric | StateKey | Callable[..., Any]
Dim = int | tuple[int, ...] | None


class Hanging(Protocol[P]):
    """A decorator of metrics: of a class it makes a class, of anything else a tree; with settings alone a decorator."""

    @overload
    def __call__(self, target: type[M], *args: P.args, **settings: P.kwargs) -> type[M]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, target: Target, *args: P.args, **settings: P.kwargs) -> MetricTree: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, *args: P.args, **settings: P.kwargs) -> "Hanging[[]]": ...


def _hanging(function: Callable[Concatenate[Any, P], Any]) -> Hanging[P]:
    """Let type checkers know what a function makes of what."""
    return function  # type: ignore[return-value]


@_hanging
def mean(target: object = None, *, dim: Dim = None) -> Any:
    """Hang a :class:`Mean` on a metric.

    Parameters
    ----------
    target
        A class of metrics, a metric, a tree, a state key, or a function: ``f(y_pred, y_true)`` or ``f(state)``.
        Left out, a decorator is returned.
    dim
        As for :class:`Mean`.

    Returns
    -------
    type or MetricTree
        For a class a class, on whose instances it hangs.
    """
    return _hang(functools.partial(Mean, dim=dim), target)


@_hanging
def running_mean(target: object = None, *, batch_size: int = 50, step_size: int = 10, dim: Dim = None) -> Any:
    """Hang a :class:`RunningMean` on a metric; ``batch_size``, ``step_size`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(RunningMean, batch_size=batch_size, step_size=step_size, dim=dim), target)


@_hanging
def var(target: object = None, *, unbiased: bool = True, dim: Dim = None) -> Any:
    """Hang a :class:`Var` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Var, unbiased=unbiased, dim=dim), target)


@_hanging
def std(target: object = None, *, unbiased: bool = True, dim: Dim = None) -> Any:
    """Hang a :class:`Std` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Std, unbiased=unbiased, dim=dim), target)


@_hanging
def max_(target: object = None, *, dim: Dim = None) -> Any:
    """Hang a :class:`Max` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Max, dim=dim), target)


@_hanging
def min_(target: object = None, *, dim: Dim = None) -> Any:
    """Hang a :class:`Min` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Min, dim=dim), target)


@_hanging
def to_dict(target: object = None) -> Any:
    """Hang a :class:`ToDict` on a metric.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(ToDict, target)


def _hang(make: Callable[[str], Metric], target: Any) -> Any:
    if target is None:
        return functools.partial(_hang, make)
    if isinstance(target, type) and issubclass(target, Metric):
        # a subclass under the same name: the class that was given is not changed, and pickle finds this one
        names = {"__module__": target.__module__, "__qualname__": target.__qualname__, "__doc__": target.__doc__}
        return type(target.__name__, (target,), {**names, "aggregates": (*target.aggregates, make)})
    tree = as_tree(root_of(target))
    return MetricTree(tree.root, [*tree.children, make(tree.root.name)])


Registered = TypeVar("Registered")
#: string -> (metric or class of metrics, arguments of the class)
_DEFAULTS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}


def default_for_key(key: str, *args: Any, **kwargs: Any) -> Callable[[Registered], Registered]:
    """Let a string stand for a metric, in all lists of metrics from now on; a decorator.

    Parameters
    ----------
    key
        The string; what it stood for before is replaced.
    *args, **kwargs
        For the class, if one is decorated: each list gets an instance of its own. Of a metric each gets a copy.

    Examples
    --------
    >>> from delira.metrics import MetricList, lambda_metric, mean
    >>> @default_for_key("bias")
    ... @mean
    ... @lambda_metric("bias")
    ... def bias(y_pred, y_true):
    ...     return y_pred - y_true
    >>> MetricList(["bias"]).names
    ['bias']
    """
    check_texts("default_for_key", key=key)

    def register(metric: Registered) -> Registered:
        _DEFAULTS[key] = (metric, args, kwargs)
        return metric

    return register


def default_metric(key: str) -> Metric | Any:
    """Return a new instance, or a copy, of what a string stands for.

    Raises
    ------
    ConfigError
        If it stands for nothing.
    """
    if key not in _DEFAULTS:
        raise ConfigError(f"there is no metric {key!r}{did_you_mean(key, _DEFAULTS)}")
    metric, args, kwargs = _DEFAULTS[key]
    return metric(*args, **kwargs) if isinstance(metric, type) else copy.deepcopy(metric)


def known_keys() -> list[str]:
    """Return all strings that stand for a metric."""
    return sorted(_DEFAULTS)


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
        name = getattr(getattr(target, "func", target), "__name__", name)
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


class EpochLambda(Keeping):
    """A function of all predictions and targets of a pass, joined along the first axis, on their device.

    Parameters
    ----------
    name
        What it is reported under.
    function
        Called as ``function(y_pred, y_true)``, or the other way round if the names of its parameters say so.
    running
        Whether to report in training, during the pass, what it is over the batches so far: a lazy number, computed
        if it is read.
    step_size
        That is done for every ``step_size``-th batch, beginning with the first.
    """

    def __init__(self, name: str, function: Callable[..., Any], running: bool = True, step_size: int = 50):
        super().__init__(name)
        check_takes_two(self, function)
        check_flags(self, running=running)
        check_whole(self, at_least=1, step_size=step_size)
        self.function, self.running, self.step_size = function, running, step_size

    def _clear(self) -> None:
        #: predictions and targets of each batch
        self._batches: list[tuple[Any, ...]] = []
        self._n_batches = 0
        self._value: Any = None

    def process(self, *args: Any) -> Any:
        """Keep the predictions and targets of a batch."""
        state = args[0]
        self._batches.append(map_leaves(_kept, (state[Y_PRED], state[Y_TRUE])))
        if self.running and self.is_training and self._n_batches % self.step_size == 0:
            self._value = Lazy(functools.partial(self._compute, list(self._batches)))
        self._n_batches += 1
        return self._value

    def process_final(self, *args: Any) -> Any:
        """Return the value of the function; ``None`` if there was no batch."""
        return self._compute(self._batches) if self._batches else None

    def _compute(self, batches: list[tuple[Any, ...]]) -> Any:
        pred, true = _joined(batches)
        value = check_value(self.name, self.function(*ordered(self.function, pred, true, "prediction first")))
        return to_plain(read_arrays([as_array(value)])[0])

    def state_dict(self) -> dict[str, Any]:
        """Return what was kept, on the host."""
        kept = dict(zip(("predictions", "targets"), _joined(self._batches), strict=True)) if self._n_batches else {}
        host = map_leaves(lambda leaf: read_arrays([leaf])[0], kept)
        return read_lazy({"batches": self._n_batches, "value": self._value, **host})

    def take_in(self, state: Mapping[str, Any]) -> None:
        self._n_batches, self._value = self._n_batches + int(state["batches"]), state["value"]
        if state["batches"]:
            self._batches.append((state["predictions"], state["targets"]))

    def merge(self, other: Self) -> None:
        """Take in what another one has kept; what it has reported last is what is reported."""
        self._batches += other._batches
        self._n_batches += other._n_batches
        self._value = other._value if other._n_batches else self._value


def _kept(leaf: object) -> Any:
    array = as_array(leaf)
    return ops_of(array).keep(array)


def _joined(batches: list[Any]) -> Any:
    leaves = [dict(iterate_leaves(batch)) for batch in batches]
    # what comes from a checkpoint is on the host
    arrays = [[as_array(each[path], last) for each in leaves] for path, last in leaves[-1].items()]
    joined = iter([ops_of(each[-1]).concatenate(each) for each in arrays])
    return map_leaves(lambda leaf: next(joined), batches[-1])


def lambda_metric(name: str, on_epoch: bool = False) -> Callable[[Callable[..., Any]], Metric]:
    """Make a metric of a function ``f(y_pred, y_true)``; a decorator. Names of parameters win over their order.

    Parameters
    ----------
    name
        What it is reported under.
    on_epoch
        Whether it is called with the predictions and targets of a whole pass (:class:`EpochLambda`), or with those
        of each batch (:class:`BatchLambda`).

    Examples
    --------
    >>> @lambda_metric("error")
    ... def error(y_pred, y_true):
    ...     return abs(y_pred - y_true)
    """
    check_texts("lambda_metric", name=name)
    check_flags("lambda_metric", on_epoch=on_epoch)
    return lambda function: EpochLambda(name, function) if on_epoch else BatchLambda(name, function)
