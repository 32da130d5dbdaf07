"""What a metric is: its kind, the entries it reads, and the one number it must return."""

import copy
import functools
import inspect
import numbers
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, check_functions, did_you_mean
from delira.utils.arrays import as_tensor, iterate_leaves, map_leaves, ops_of
from delira.utils.binding import Order, needed, order_of, ordered

Kind = Literal["dataset", "sample", "stream"]

DEFAULT_KEYS = ("label", "pred")


class PerSample:
    """A metric that is called once per sample; made by :func:`per_sample`."""

    over = "sample"

    def __init__(self, function: Callable[..., Any]):
        check_functions(self, function=function)
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arrays: Any, **kwargs: Any) -> Any:
        """Evaluate on the arrays of one sample."""
        return self.function(*arrays, **kwargs)

    def __repr__(self) -> str:
        return f"per_sample({getattr(self.function, '__qualname__', self.function)})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Used as a decorator it hides the function's name, so it is pickled by that name itself.
        name = getattr(self, "__qualname__", "")
        module = sys.modules.get(getattr(self, "__module__", ""))
        return name if getattr(module, name, None) is self else (PerSample, (self.function,))


def per_sample(function: Callable[..., Any]) -> PerSample:
    """Make a metric of one sample: ``function(y_true_i, y_pred_i)`` gives one number for each.

    Also a decorator. Such a metric needs no memory for the predictions of a whole data set, and the
    spread of its values over the samples is known.

    Examples
    --------
    >>> import numpy as np
    >>> distance = per_sample(lambda y_true, y_pred: np.abs(y_true - y_pred).max())
    >>> float(distance(np.array([1, 2]), np.array([1, 5])))
    3.0
    """
    return PerSample(function)


def raw_kind_of(metric: Any, name: str = "metric") -> Kind:
    """Return how a metric is computed, if it is a function of arrays or an object that sees batches.

    Raises
    ------
    ConfigError
        If it is neither a function nor an object with ``update``, ``compute`` and ``reset``, or if its
        attribute ``over`` is text other than ``"sample"`` and ``"dataset"``.
    """
    over = getattr(metric, "over", "dataset")
    if isinstance(over, str) and over not in ("sample", "dataset"):
        raise ConfigError(f"metric {name!r} has over={over!r}; allowed are 'sample' and 'dataset'")
    if is_stream(metric):
        return "stream"
    is_class = isinstance(metric, type)
    if is_class or not callable(metric):
        what = f"the class {metric.__name__}" if is_class else f"of type {type(metric).__name__}"
        raise ConfigError(
            f"metric {name!r} is {what}; give a function f(y_true, y_pred), "
            "delira.metrics.per_sample(f), or an object with update, compute and reset"
        )
    return "sample" if over == "sample" else "dataset"


def is_stream(metric: object) -> bool:
    """Return True for an object that sees batches."""
    methods = ("update", "compute", "reset")
    return not isinstance(metric, type) and all(callable(getattr(metric, method, None)) for method in methods)


def keys_of(metrics: Mapping[str, Any], metric_keys: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    """Return which entries each metric reads, in the order of its arguments.

    Metrics that ``metric_keys`` leaves out read label and prediction: in the order that the names of their parameters
    tell, else ``("label", "pred")``, torchmetrics' ``("pred", "label")``.

    Raises
    ------
    ConfigError
        If ``metric_keys`` names a metric that does not exist, or gives something other than names.
    """
    given = dict(metric_keys or {})
    mistakes = [
        f"metric_keys names the metric {name!r}, which does not exist{did_you_mean(name, metrics)}"
        for name in given
        if name not in metrics
    ]
    mistakes += [
        f"metric_keys[{name!r}] must be a tuple of names like ('label', 'pred'), got {keys!r}"
        for name, keys in given.items()
        if isinstance(keys, str) or not isinstance(keys, Sequence) or not all(isinstance(key, str) for key in keys)
    ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return {name: _keys_of(metric, given_keys(name, metric, given)) for name, metric in metrics.items()}


def reads_as(metric: object) -> Any:
    """Name of the metric whose entries a metric reads, as a class of a metric per class does; None: it has its own."""
    return getattr(metric, "reads_as", None)


def given_keys(name: str, metric: object, metric_keys: Mapping[str, Sequence[str]]) -> Sequence[str] | None:
    """Return what ``metric_keys`` says of a metric, or of the one whose entries it reads; None if it says nothing."""
    return metric_keys.get(name, metric_keys.get(reads_as(metric) or name))


def _keys_of(metric: object, given: Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return default_keys(metric)
    further = getattr(metric, "further_keys", ())
    # who names target and prediction has named the spacing to the metric itself
    return (*given, *further) if len(given) == len(DEFAULT_KEYS) and isinstance(further, tuple) else tuple(given)


def default_keys(metric: object) -> tuple[str, ...]:
    """Return the entries that a metric reads unless it is told others."""
    target, prediction = DEFAULT_KEYS
    if is_torchmetrics(metric) and takes_one(metric):
        return (prediction,)
    if isinstance(further := getattr(metric, "further_keys", None), tuple) and further:
        return (*DEFAULT_KEYS, *further)
    return ordered(metric, prediction, target, documented_order(metric))


def documented_order(metric: object) -> Order:
    """Return which argument of a metric is the prediction, where names do not tell."""
    return "prediction first" if is_torchmetrics(metric) else "target first"


def predicted_key(metric: object, keys: Sequence[str]) -> str | None:
    """Of the entries that a metric reads, the one that a network predicts."""
    if not keys:
        return None
    is_first = (order_of(metric) or documented_order(metric)) == "prediction first"
    return keys[0 if is_first else min(1, len(keys) - 1)]


def is_torchmetrics(metric: object) -> bool:
    """Return True if a metric is an object, or a class, of the package torchmetrics, or derived from one."""
    cls = metric if isinstance(metric, type) else type(metric)
    return any(parent.__module__.partition(".")[0] == "torchmetrics" for parent in cls.__mro__)


def takes_one(metric: Any) -> bool:
    """Return True if a metric of torchmetrics is updated with predictions alone, as means and sums of numbers are."""
    names = [parameter.name for parameter in needed(inspect.signature(metric.update).parameters)]
    return len([name for name in names if name != "self"]) == 1


def lookup(values: Mapping[str, Any], key: str) -> Any:
    """Find an entry by its name, or by a dotted path: ``"seg.mask"``, ``"outputs.0"``.

    Raises
    ------
    MissingKeyError
        If there is none.
    """
    if key in values:
        return values[key]
    node: Any = values
    for part in key.split("."):
        if isinstance(node, Mapping) and part in node:
            node = node[part]
        elif isinstance(node, (list, tuple)) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            raise MissingKeyError(f"there is no entry {key!r} among {list(values)}")
    return node


def as_number(value: object, name: str, where: str = "") -> float:
    """Read what a metric returned: a number, or an array or device value of shape ``()`` or ``(1,)``.

    Raises
    ------
    DataError
        If it is anything else.
    """
    shape = tuple(getattr(value, "shape", ()))
    number = value.numpy() if hasattr(value, "numpy") and not hasattr(value, "item") else value
    if shape in ((), (1,)) and hasattr(number, "item"):
        number = number.item()
    if isinstance(number, numbers.Real):
        return float(number)
    what = f"an array of shape {shape}" if shape else f"a {type(value).__name__}"
    raise DataError(
        f"metric {name!r} returned {what}{where}, but a metric is one number; average inside the metric, "
        "or give each number its own metric (one number per sample: delira.metrics.per_sample)"
    )


def as_only_number(value: object, name: str) -> float:
    """Read what an object computed, see :func:`as_number`: of values by name the only one, or the one of that name.

    Raises
    ------
    DataError
        If there are several, and none is called as the metric is.
    """
    if not isinstance(value, Mapping):
        return as_number(value, name)
    if name not in value and len(value) != 1:
        raise DataError(
            f"metric {name!r} has the values {list(value)}, but a metric is one number; call it what the one is called "
            "that you mean"
        )
    return as_number(value[name] if name in value else next(iter(value.values())), name)


def feed(metric: Any, arrays: Sequence[Any]) -> None:
    """Update a streaming metric; one of torchmetrics gets tensors on its own device."""
    if is_torchmetrics(metric):
        device = getattr(metric, "device", "cpu")
        arrays = [as_tensor(one, device) if isinstance(one, (np.ndarray, np.generic)) else one for one in arrays]
    metric.update(*arrays)


def stream_state(metric: object) -> dict[str, Any] | None:
    """Return the state of a streaming metric; ``None`` if it cannot be told.

    A metric with ``state_dict`` and ``load_state_dict`` is asked, one of torchmetrics shows its states, and of
    any other the attributes are taken, if all of them are plain numbers, texts and arrays.
    """
    if is_torchmetrics(metric):
        return _state_of_torchmetrics(metric)
    if hasattr(metric, "state_dict") and hasattr(metric, "load_state_dict"):
        return dict(metric.state_dict())
    attributes = getattr(metric, "__dict__", None)
    return None if attributes is None or not is_plain(attributes) else copy.deepcopy(attributes)


def load_stream_state(metric: Any, state: Mapping[str, Any]) -> None:
    """Give a streaming metric the state that :func:`stream_state` told."""
    if is_torchmetrics(metric):
        for name, value in state["states"].items():
            setattr(metric, name, map_leaves(lambda array: as_tensor(array.copy(), metric.device), value))
        metric._update_count, metric._computed = state["updates"], None
    elif hasattr(metric, "state_dict") and hasattr(metric, "load_state_dict"):
        metric.load_state_dict(dict(state))
    else:
        vars(metric).update(copy.deepcopy(dict(state)))


def merge_streams(name: str, metric: Any, other: Any) -> None:
    """Let a streaming metric take in what another one has seen, as if its batches had come after.

    A metric with ``merge`` is asked. Of one of torchmetrics the states are joined that are sums, extremes, or
    everything that was seen.

    Parameters
    ----------
    name
        What it is called.
    metric, other
        Two of the same kind; ``other`` stays as it is.

    Raises
    ------
    ConfigError
        If it does not say how, both are one object, or objects of different classes.
    """
    if metric is other or type(metric) is not type(other):
        what = "the same object" if metric is other else f"a {type(other).__name__}"
        raise ConfigError(
            f"the metric {name!r} cannot be merged with {what}: each part of a pass needs a {type(metric).__name__} of "
            "its own"
        )
    if not is_torchmetrics(metric) and callable(getattr(metric, "merge", None)):
        metric.merge(other)
        return
    if not is_torchmetrics(metric) or _state_of_torchmetrics(metric) is None:
        raise ConfigError(
            f"the metric {name!r}, a {type(metric).__name__}, cannot take in what another one has seen: it has no "
            "method merge(other)"
        )
    joined = {}
    for key, how in metric._reductions.items():
        theirs = map_leaves(lambda tensor: tensor.to(metric.device), getattr(other, key))
        joined[key] = _joined(getattr(how, "__name__", ""), getattr(metric, key), theirs)
        if joined[key] is None:
            raise ConfigError(
                f"the metric {name!r}, a {type(metric).__name__} of torchmetrics, cannot take in what another one has "
                f"seen: it does not say how its state {key!r} is joined"
            )
    vars(metric).update(joined)
    metric._update_count, metric._computed = metric._update_count + other._update_count, None


def _joined(how: str, own: Any, theirs: Any) -> Any:
    """Two states of torchmetrics as one, by the name of the function that reduces them; None if none is known."""
    if isinstance(own, list):
        return [*own, *theirs] if how in ("", "dim_zero_cat") else None
    xp = ops_of(own).xp
    known = {"dim_zero_sum": xp.add, "dim_zero_max": xp.maximum, "dim_zero_min": xp.minimum}
    return known[how](own, theirs) if how in known else None


def is_plain(tree: object) -> bool:
    """Return True if a tree holds only numbers, texts, ``None`` and arrays of numbers."""
    for _, leaf in iterate_leaves(tree):
        if isinstance(leaf, (np.ndarray, np.generic)):
            if leaf.dtype.kind not in "biufc" or leaf.dtype.isbuiltin == 2:
                return False
        elif leaf is not None and not isinstance(leaf, (bool, int, float, str)):
            return False
    return True


def _state_of_torchmetrics(metric: Any) -> dict[str, Any] | None:
    if not hasattr(metric, "metric_state") or any(True for _ in metric.children()):  # wrappers keep it in others
        return None
    states = map_leaves(lambda tensor: tensor.detach().cpu().numpy().copy(), dict(metric.metric_state))
    return {"states": states, "updates": metric._update_count} if is_plain(states) else None
