"""What hangs on a metric: its mean, spread and extremes over a pass, its value."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from delira.metrics.tree.metric import Fleeting, Keeping
from delira.metrics.tree.moments import Batch, Moments, check_dim
from delira.utils.arrays import to_plain
from delira.utils.checks import check_flags, check_texts


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


class _Aggregator(Keeping):
    """A number over all values of a pass, computed in float64 on the host; the device is read once in many batches."""

    suffix: ClassVar[str] = ""
    is_weighted: ClassVar[bool] = False

    def __init__(self, name: str, dim: int | tuple[int, ...] | None = None):
        check_texts(self, name=name)
        check_dim(self, dim)
        self.dim = dim
        self.shares_batches = dim is None and type(self).process is _Aggregator.process
        super().__init__(f"{name}{self.suffix}")

    def _clear(self) -> None:
        self._moments = Moments(self.is_weighted)

    def process(self, *args: Any) -> Any:
        """Take in the values of one batch: a number, an array of numbers, or :class:`Weighted` ones."""
        return self.take(Batch(args[0], self.dim))

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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._clear()
        self._moments.load_state_dict(state)

    def merge(self, other: Self) -> None:
        self._moments.merge(other._moments)


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

    suffix = "_var"

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

    suffix = "_std"

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

    suffix = "_max"

    def compute(self, moments: Moments) -> Any:
        return moments.largest if moments.count else np.nan


class Min(_Aggregator):
    """The smallest value of a pass, reported at its end under the name with ``_min``; ``dim`` as for :class:`Max`."""

    suffix = "_min"

    def compute(self, moments: Moments) -> Any:
        return moments.least if moments.count else np.nan
