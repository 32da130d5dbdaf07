"""What hangs on a metric: its mean, spread and extremes over a pass, its value."""

import functools
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from delira.errors import check_flags, check_texts, check_whole
from delira.metrics.gather import Batch, Moments, check_dim, read_means
from delira.metrics.tree.metric import Fleeting, Keeping
from delira.utils.arrays import to_plain
from delira.utils.late import Lazy, read_lazy


class ToDict(Fleeting):
    """Reports the value of the root under a name, for each batch and at the end of a pass.

    Parameters
    ----------
    name
        Prefixed by ``val_``, ``test_`` or ``train_`` in an evaluation of that data.
    """

    def process(self, *args: Any) -> Any:
        """Report the value."""
        return args[0]

    process_final = process


class _OfNumbers(Keeping):
    """A number over the values of batches, or, with ``dim``, over these axes of them; the other axes are kept."""

    #: what the name becomes that is reported
    form: ClassVar[str] = "{}"

    def __init__(self, name: str, dim: int | tuple[int, ...] | None = None):
        check_texts(self, name=name)
        check_dim(self, dim)
        self.dim = dim
        self.shares_batches = dim is None and type(self).process is _OfNumbers.process
        super().__init__(self.form.format(name))

    def process(self, *args: Any) -> Any:
        """Take in the values of one batch: a number, an array of numbers, or :class:`Weighted` ones."""
        return self.take(Batch(args[0], self.dim))


class _Aggregator(_OfNumbers):
    """A number over all values of a pass, computed in float64 on the host; the device is read once in many batches."""

    is_weighted: ClassVar[bool] = False

    def _clear(self) -> None:
        self._moments = Moments(self.is_weighted)

    def take(self, batch: Batch) -> Any:
        self._moments.append(batch)

    def process_final(self, *args: Any) -> Any:
        """Return the number of the pass; not a number if it needs more values than there were."""
        return to_plain(self.compute(self._moments.read()))

    def compute(self, moments: Moments) -> Any:
        """Return the number."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return self._moments.state_dict()

    def take_in(self, state: Mapping[str, Any]) -> None:
        self._moments.take_in(state)


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
        return moments.mean


class RootMean(_Aggregator):
    """The square root of the mean of all values of a pass; ``dim`` as for :class:`Mean`."""

    is_weighted = True

    def compute(self, moments: Moments) -> Any:
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

    form = "{}_var"

    def __init__(self, name: str, unbiased: bool = True, dim: int | tuple[int, ...] | None = None):
        super().__init__(name, dim)
        check_flags(self, unbiased=unbiased)
        self.unbiased = unbiased

    def compute(self, moments: Moments) -> Any:
        return moments.variance(float(self.unbiased))


class Std(Var):
    """The standard deviation of all values of a pass, reported at its end under the name with ``_std``.

    Parameters
    ----------
    name
        Without ``_std``.
    """

    form = "{}_std"

    def compute(self, moments: Moments) -> Any:
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

    form = "{}_max"

    def compute(self, moments: Moments) -> Any:
        return moments.largest if moments.count else np.nan


class Min(_Aggregator):
    """The smallest value of a pass, reported at its end under the name with ``_min``; ``dim`` as for :class:`Max`."""

    form = "{}_min"

    def compute(self, moments: Moments) -> Any:
        return moments.least if moments.count else np.nan


class RunningMetric(_OfNumbers):
    """What :meth:`compute` makes of the means of the last batches, reported in training only.

    The name it is reported under begins with ``running_``.

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
        If one of the sizes is no whole number of at least 1, or ``dim`` is no axis.
    """

    form = "running_{}"

    def __init__(self, name: str, batch_size: int = 50, step_size: int = 10, dim: int | tuple[int, ...] | None = None):
        check_whole(self, at_least=1, batch_size=batch_size, step_size=step_size)
        self.batch_size, self.step_size = batch_size, step_size
        super().__init__(name, dim)

    def _clear(self) -> None:
        self._window: deque[Batch] = deque(maxlen=self.batch_size)
        self._n_batches = 0
        self._value: Any = np.nan

    def take(self, batch: Batch) -> Any:
        """Take in the values of one batch, and report the number of the last ones, a lazy one."""
        if not self.is_training:
            return None
        self._window.append(batch)
        if self._n_batches % self.step_size == 0:
            self._value = Lazy(functools.partial(self._of, list(self._window)))
        self._n_batches += 1
        return self._value

    def compute(self, means: np.ndarray) -> Any:
        """Return the number.

        Parameters
        ----------
        means
            Of each of the last batches, of shape ``(batches,)``, or with ``dim`` of ``(batches, ...)``; in float64.
        """
        raise NotImplementedError

    def _of(self, batches: list[Batch]) -> Any:
        # of a batch in which nothing counts there is no mean
        means = [mean for mean, counts in read_means(batches) if counts]
        return to_plain(self.compute(np.asarray(means))) if means else np.nan

    def state_dict(self) -> dict[str, Any]:
        found = read_means(self._window)
        kept = {"window": [np.asarray(mean) for mean, _ in found], "counted": [counts for _, counts in found]}
        return read_lazy({**kept, "batches": self._n_batches, "value": self._value})

    def take_in(self, state: Mapping[str, Any]) -> None:
        """Take in the last batches of a state; what it has reported last is what is reported."""
        kept = zip(state["window"], state["counted"], strict=True)
        self._window.extend(Batch.of_mean(np.asarray(mean), int(count)) for mean, count in kept)
        self._n_batches += int(state["batches"])
        self._value = state["value"] if state["batches"] else self._value


class RunningMean(RunningMetric):
    """The mean of the means of the last batches; parameters and name as of :class:`RunningMetric`."""

    def compute(self, means: np.ndarray) -> Any:
        return means.mean(axis=0)
