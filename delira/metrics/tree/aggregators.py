"""What hangs on a metric: its mean, spread and extremes over a pass, its running mean, its value."""

import functools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from delira.errors import ConfigError
from delira.metrics.tree.metric import Metric, MetricTree, as_tree
from delira.metrics.tree.moments import Batch, Moments, Waiting, read_rows
from delira.metrics.tree.roots import root_of
from delira.utils.arrays import to_plain
from delira.utils.lazy_value import Lazy


class ToDict(Metric):
    """Reports the value of the root under a name, for each batch and at the end of a pass.

    Parameters
    ----------
    name
        Prefixed by ``val_``, ``test_`` or ``train_`` in an evaluation of that data.
    """

    def process(self, *args: Any) -> Any:
        """Report the value."""
        return args[0]

    def process_final(self, *args: Any) -> Any:
        """Report the value."""
        return args[0]

    def state_dict(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}


class _Aggregator(Metric):
    """A number over all values of a pass, computed in float64 on the host; the device is read once in many batches."""

    suffix: ClassVar[str] = ""
    is_weighted: ClassVar[bool] = False

    def __init__(self, name: str, dim: int | tuple[int, ...] | None = None):
        super().__init__(f"{name}{self.suffix}")
        self.dim = dim
        self.shares_batches = dim is None and type(self).process is _Aggregator.process
        self._clear()

    def _clear(self) -> None:
        self._moments = Moments()
        self._waiting = Waiting(self.is_weighted)

    def reset(self, state: Any) -> None:
        """Begin a pass."""
        self._clear()

    def process(self, *args: Any) -> Any:
        """Take in the values of one batch: a number, an array of numbers, or :class:`Weighted` ones."""
        return self.take(Batch(args[0], self.dim))

    def take(self, batch: Batch) -> Any:
        """Take in the values of one batch, which others share."""
        if self._waiting.append(batch):
            self._read()

    def process_final(self, *args: Any) -> Any:
        """The number of the pass; not a number if it needs more values than there were."""
        self._read()
        return to_plain(self.compute(self._moments))

    def compute(self, moments: Moments) -> Any:
        """The number."""
        raise NotImplementedError

    def _read(self) -> None:
        with np.errstate(invalid="ignore"):  # infinite values have no spread
            for row in self._waiting.read():
                self._moments.merge(row)

    def state_dict(self) -> dict[str, Any]:
        """What the batches so far have brought, as a checkpoint tree."""
        self._read()
        return self._moments.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen."""
        self._clear()
        self._moments.load_state_dict(state)


class Mean(_Aggregator):
    """The mean of all values of a pass, reported at its end.

    Parameters
    ----------
    name
        Reported as it is.
    dim
        Axis or axes of the values to average over; the others are kept, and lists reported. By default all.
    """

    is_weighted = True

    def compute(self, moments: Moments) -> Any:
        """The mean."""
        return moments.mean


class RootMean(_Aggregator):
    """The square root of the mean of all values of a pass; ``dim`` as for :class:`Mean`."""

    is_weighted = True

    def compute(self, moments: Moments) -> Any:
        """The root of the mean."""
        return np.sqrt(moments.mean)


class Var(_Aggregator):
    """The variance of all values of a pass, reported at its end under the name with ``_var``.

    Parameters
    ----------
    name
        Without ``_var``.
    unbiased
        Whether to divide by the number of values less one.
    dim
        Axis or axes of the values to go over; the others are kept, and lists reported. By default all.
    """

    suffix = "_var"

    def __init__(self, name: str, unbiased: bool = True, dim: int | tuple[int, ...] | None = None):
        super().__init__(name, dim)
        self.unbiased = unbiased

    def compute(self, moments: Moments) -> Any:
        """The variance."""
        return moments.variance(float(self.unbiased))


class Std(Var):
    """The standard deviation of all values of a pass, reported at its end under the name with ``_std``.

    Parameters
    ----------
    name
        Without ``_std``.
    """

    suffix = "_std"

    def compute(self, moments: Moments) -> Any:
        """The standard deviation."""
        return np.sqrt(super().compute(moments))


class Max(_Aggregator):
    """The largest value of a pass, reported at its end under the name with ``_max``.

    Parameters
    ----------
    name
        Without ``_max``.
    dim
        Axis or axes of the values to go over; the others are kept, and lists reported. By default all.
    """

    suffix = "_max"

    def compute(self, moments: Moments) -> Any:
        """The largest value."""
        return moments.largest if moments.count else np.nan


class Min(_Aggregator):
    """The smallest value of a pass, reported at its end under the name with ``_min``; ``dim`` as for :class:`Max`."""

    suffix = "_min"

    def compute(self, moments: Moments) -> Any:
        """The smallest value."""
        return moments.least if moments.count else np.nan


class RunningMean(Metric):
    """The mean of the means of the last batches, reported in training only, under ``running_`` and the name.

    Parameters
    ----------
    name
        Without ``running_``.
    batch_size
        How many batches it looks back on; those of an earlier pass do not count.
    step_size
        It is computed anew for every ``step_size``-th batch, beginning with the first.
    dim
        Axis or axes of the values to average over; the others are kept, and lists reported. By default all.

    Raises
    ------
    ConfigError
        If one of the sizes is below 1.
    """

    def __init__(self, name: str, batch_size: int = 50, step_size: int = 10, dim: int | tuple[int, ...] | None = None):
        super().__init__(f"running_{name}")
        if batch_size < 1 or step_size < 1:
            raise ConfigError(
                f"a running mean needs batch_size and step_size of at least 1, got {batch_size} and {step_size}"
            )
        self.batch_size, self.step_size, self.dim = batch_size, step_size, dim
        self.shares_batches = dim is None and type(self).process is RunningMean.process
        self._clear()

    def _clear(self) -> None:
        self._window: deque[Batch] = deque(maxlen=self.batch_size)
        self._n_batches = 0
        self._value: Any = np.nan

    def reset(self, state: Any) -> None:
        """Begin a pass."""
        self._clear()

    def process(self, *args: Any) -> Any:
        """Take in the values of one batch, and report the mean of the last ones, a lazy number."""
        return self.take(Batch(args[0], self.dim))

    def take(self, batch: Batch) -> Any:
        """The same with a batch that others share."""
        if not self.is_training:
            return None
        self._window.append(batch)
        if self._n_batches % self.step_size == 0:
            self._value = Lazy(functools.partial(_mean_of, list(self._window)))
        self._n_batches += 1
        return self._value

    def state_dict(self) -> dict[str, Any]:
        """The window, as a checkpoint tree."""
        means = [np.asarray(row[1]) for row in read_rows(self._window)]
        value = self._value.item() if isinstance(self._value, Lazy) else self._value
        return {"window": means, "batches": self._n_batches, "value": value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the window of a state."""
        self._clear()
        self._window.extend(Batch.of_mean(np.asarray(mean)) for mean in state["window"])
        self._n_batches, self._value = int(state["batches"]), state["value"]


def _mean_of(batches: list[Batch]) -> Any:
    return to_plain(np.mean([row[1] for row in read_rows(batches)], axis=0))


# ------------------------------------------------------------------ decorators


def mean(target: Any = None, *, dim: int | tuple[int, ...] | None = None) -> Any:
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


def running_mean(
    target: Any = None,
    *,
    batch_size: int = 50,
    step_size: int = 10,
    dim: int | tuple[int, ...] | None = None,
) -> Any:
    """Hang a :class:`RunningMean` on a metric; ``batch_size``, ``step_size`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(RunningMean, batch_size=batch_size, step_size=step_size, dim=dim), target)


def var(target: Any = None, *, unbiased: bool = True, dim: int | tuple[int, ...] | None = None) -> Any:
    """Hang a :class:`Var` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Var, unbiased=unbiased, dim=dim), target)


def std(target: Any = None, *, unbiased: bool = True, dim: int | tuple[int, ...] | None = None) -> Any:
    """Hang a :class:`Std` on a metric; ``unbiased`` and ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Std, unbiased=unbiased, dim=dim), target)


def max_(target: Any = None, *, dim: int | tuple[int, ...] | None = None) -> Any:
    """Hang a :class:`Max` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Max, dim=dim), target)


def min_(target: Any = None, *, dim: int | tuple[int, ...] | None = None) -> Any:
    """Hang a :class:`Min` on a metric; ``dim`` as there.

    Parameters
    ----------
    target
        As for :func:`mean`.
    """
    return _hang(functools.partial(Min, dim=dim), target)


def to_dict(target: Any = None) -> Any:
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
