"""The decorators that hang something on a metric: ``@mean``, ``@std``, ``@running_mean`` and their like."""

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from delira.metrics.tree.aggregators import Max, Mean, Min, Std, ToDict, Var
from delira.metrics.tree.metric import Metric, MetricTree, as_tree
from delira.metrics.tree.roots import root_of
from delira.metrics.tree.running import RunningMean
from delira.state import StateKey
from delira.utils.arrays import Array

M = TypeVar("M", bound=Metric)
#: what is no class, and on which something hangs: a metric, a state key, or a function of the state or of a batch
Target = Metric | StateKey | Callable[..., Any]
Dim = int | tuple[int, ...] | None


class Hanging(Protocol):
    """A decorator of metrics: of a class it makes a class, of anything else a tree."""

    @overload
    def __call__(self, target: type[M], /) -> type[M]: ...

    @overload
    def __call__(self, target: Target, /) -> MetricTree: ...


@overload
def mean(target: type[M], *, dim: Dim = None) -> type[M]: ...


@overload
def mean(target: Target, *, dim: Dim = None) -> MetricTree: ...


@overload
def mean(target: None = None, *, dim: Dim = None) -> Hanging: ...


def mean(target: Array = None, *, dim: Dim = None) -> Any:
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


@overload
def running_mean(target: type[M], *, batch_size: int = 50, step_size: int = 10, dim: Dim = None) -> type[M]: ...


@overload
def running_mean(target: Target, *, batch_size: int = 50, step_size: int = 10, dim: Dim = None) -> MetricTree: ...


@overload
def running_mean(target: None = None, *, batch_size: int = 50, step_size: int = 10, dim: Dim = None) -> Hanging: ...


def running_mean(target: Array = None, *, batch_size: int = 50, step_size: int = 10, dim: Dim = None) -> Any:
    """Hang a :class:`RunningMean` on a metric; ``batch_size``, ``step_size`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(RunningMean, batch_size=batch_size, step_size=step_size, dim=dim), target)


@overload
def var(target: type[M], *, unbiased: bool = True, dim: Dim = None) -> type[M]: ...


@overload
def var(target: Target, *, unbiased: bool = True, dim: Dim = None) -> MetricTree: ...


@overload
def var(target: None = None, *, unbiased: bool = True, dim: Dim = None) -> Hanging: ...


def var(target: Array = None, *, unbiased: bool = True, dim: Dim = None) -> Any:
    """Hang a :class:`Var` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Var, unbiased=unbiased, dim=dim), target)


@overload
def std(target: type[M], *, unbiased: bool = True, dim: Dim = None) -> type[M]: ...


@overload
def std(target: Target, *, unbiased: bool = True, dim: Dim = None) -> MetricTree: ...


@overload
def std(target: None = None, *, unbiased: bool = True, dim: Dim = None) -> Hanging: ...


def std(target: Array = None, *, unbiased: bool = True, dim: Dim = None) -> Any:
    """Hang a :class:`Std` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Std, unbiased=unbiased, dim=dim), target)


@overload
def max_(target: type[M], *, dim: Dim = None) -> type[M]: ...


@overload
def max_(target: Target, *, dim: Dim = None) -> MetricTree: ...


@overload
def max_(target: None = None, *, dim: Dim = None) -> Hanging: ...


def max_(target: Array = None, *, dim: Dim = None) -> Any:
    """Hang a :class:`Max` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Max, dim=dim), target)


@overload
def min_(target: type[M], *, dim: Dim = None) -> type[M]: ...


@overload
def min_(target: Target, *, dim: Dim = None) -> MetricTree: ...


@overload
def min_(target: None = None, *, dim: Dim = None) -> Hanging: ...


def min_(target: Array = None, *, dim: Dim = None) -> Any:
    """Hang a :class:`Min` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Min, dim=dim), target)


@overload
def to_dict(target: type[M]) -> type[M]: ...


@overload
def to_dict(target: Target) -> MetricTree: ...


@overload
def to_dict(target: None = None) -> Hanging: ...


def to_dict(target: Array = None) -> Any:
    """Hang a :class:`ToDict` on a metric.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(ToDict, target)


def _hang(make: Callable[[str], Metric], target: Array) -> Any:
    if target is None:
        return functools.partial(_hang, make)
    if isinstance(target, type) and issubclass(target, Metric):
        # a subclass under the same name: the class that was given is not changed, and pickle finds this one
        names = {"__module__": target.__module__, "__qualname__": target.__qualname__, "__doc__": target.__doc__}
        return type(target.__name__, (target,), {**names, "aggregates": (*target.aggregates, make)})
    tree = as_tree(root_of(target))
    return MetricTree(tree.root, [*tree.children, make(tree.root.name)])
