"""Metrics out of functions of predictions and targets."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from delira.metrics.tree.metric import Keeping, Metric
from delira.metrics.tree.roots import BatchLambda, check_takes_two, check_value
from delira.state import Y_PRED, Y_TRUE
from delira.utils.arrays import as_array, ops_of, read_arrays, to_plain
from delira.utils.binding import ordered
from delira.utils.checks import check_flags, check_texts, check_whole
from delira.utils.lazy_value import Lazy, read_lazy
from delira.utils.trees import iterate_leaves, map_leaves


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
        self._predictions: list[Any] = []
        self._targets: list[Any] = []
        self._n_batches = 0
        self._value: Any = None

    def process(self, *args: Any) -> Any:
        """Keep the predictions and targets of a batch."""
        state = args[0]
        self._predictions.append(map_leaves(_kept, state[Y_PRED]))
        self._targets.append(map_leaves(_kept, state[Y_TRUE]))
        if self.running and self.is_training and self._n_batches % self.step_size == 0:
            seen = list(self._predictions), list(self._targets)
            self._value = Lazy(lambda: self._compute(*seen))
        self._n_batches += 1
        return self._value

    def process_final(self, *args: Any) -> Any:
        """Return the value of the function; ``None`` if there was no batch."""
        return self._compute(self._predictions, self._targets) if self._predictions else None

    def _compute(self, predictions: list[Any], targets: list[Any]) -> Any:
        value = self.function(*ordered(self.function, _joined(predictions), _joined(targets), "prediction first"))
        check_value(self.name, value)
        return to_plain(read_arrays([as_array(value)])[0])

    def state_dict(self) -> dict[str, Any]:
        """Return what was kept, on the host."""
        kept = {"predictions": _joined(self._predictions), "targets": _joined(self._targets)} if self._n_batches else {}
        host = map_leaves(lambda leaf: read_arrays([leaf])[0], kept)
        return read_lazy({"batches": self._n_batches, "value": self._value, **host})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._clear()
        self._n_batches, self._value = int(state["batches"]), state["value"]
        if self._n_batches:
            self._predictions, self._targets = [state["predictions"]], [state["targets"]]

    def merge(self, other: Self) -> None:
        """Take in what another one has kept; what it has reported last is what is reported."""
        self._predictions += other._predictions
        self._targets += other._targets
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
