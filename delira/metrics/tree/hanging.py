"""The decorators that hang something on a metric: ``@mean``, ``@std``, ``@running_mean`` and their like."""

import copy
import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from delira.errors import ConfigError
from delira.metrics.tree.aggregators import Max, Mean, Min, RunningMean, Std, ToDict, Var
from delira.metrics.tree.metric import Metric, MetricTree, as_tree
from delira.metrics.tree.roots import root_of
from delira.state import StateKey
from delira.utils.checks import check_texts, did_you_mean

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
