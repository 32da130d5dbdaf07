"""The metrics of a fit: its loss, epoch and rates, and whatever else stands for a metric, in one list."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from delira.errors import CheckpointError, ConfigError
from delira.metrics.gather import Weighted
from delira.metrics.per_class import PerClass
from delira.metrics.tree.adapters import ArrayMetric, Given, SklearnMetric, TorchMetric, made, what_is
from delira.metrics.tree.aggregators import Mean, ToDict
from delira.metrics.tree.criteria import Weigh, weigh
from delira.metrics.tree.hanging import (
    BatchLambda,
    KeyMetric,
    default_for_key,
    default_metric,
    for_samples,
    mean,
    root_of,
    running_mean,
)
from delira.metrics.tree.metric import Fleeting, Metric, MetricTree, as_tree
from delira.state import CRITERION, EPOCH, LOSS, OPTIMIZER, SELF, Y_TRUE, State
from delira.utils.arrays import as_array, ops_of, read_arrays
from delira.utils.late import read_lazy
from delira.utils.optimizing import rates_of_groups


@default_for_key("loss")
@running_mean
@mean
class Loss(Fleeting):
    """The loss; that of a batch, which is a mean over its samples, counts for all of them.

    Of losses with class weights or targets left out it counts as these do (:func:`delira.metrics.tree.criteria.weigh`).
    """

    is_fresh = True
    higher_is_better = False
    #: whether training steps whose loss is not finite are left out, as the update is
    skips_nonfinite = False

    def __init__(self) -> None:
        super().__init__("loss")
        self._weighed: tuple[Any, Weigh | None] = (None, None)

    def process(self, *args: Any) -> Any:
        """Return the loss of the batch."""
        state = args[0]
        if self._weighed[0] is not state.get(CRITERION):
            self._weighed = (state[CRITERION], weigh(state[CRITERION]))
        loss, count = state[LOSS], self._weighed[1]
        weight = count(state[Y_TRUE]) if count is not None and getattr(loss, "shape", None) == () else None
        weighed = for_samples(loss, state) if weight is None else Weighted(loss, weight)
        if type(weighed) is Weighted and self.skips_nonfinite and self.is_training:
            value, weight = as_array(weighed.value), weighed.weight
            is_finite = value - value == 0  # without waiting for the device
            weight = float(weight) if isinstance(weight, (int, float, np.generic)) else weight
            return Weighted(value, weight * ops_of(value).wide(is_finite))
        return weighed


@default_for_key("epoch")
class Epoch(Fleeting):
    """The number of the epoch as the state has it, from 0.

    The records of a trial have a number of their own under that name, from 1; this one they have of validations only,
    as ``val_epoch``.
    """

    is_fresh = True

    def __init__(self) -> None:
        super().__init__("epoch")

    def process(self, *args: Any) -> Any:
        """Return the number."""
        return args[0][EPOCH]

    process_final = process


@default_for_key("lr")
class LR(Fleeting):
    """The learning rate, in training only; a list for an optimizer with several groups of parameters.

    Asked for is ``learning_rates()`` of what the state has under ``SELF``, which gives a list; without it, what the
    optimizer itself has: ``param_groups`` of PyTorch, ``learning_rate`` of Keras.
    """

    is_fresh = True

    def __init__(self) -> None:
        super().__init__("lr")

    def process(self, *args: Any) -> Any:
        """Return the rate."""
        if not self.is_training:
            return None
        rates = _rates(args[0])
        return rates[0] if len(rates) == 1 else rates

    def process_final(self, *args: Any) -> Any:
        return self.process(*args)


def _rates(state: Any) -> list[float]:
    owner, optimizer = state.get(SELF), state[OPTIMIZER]
    if callable(getattr(owner, "learning_rates", None)):
        rates = [float(rate) for rate in owner.learning_rates()]
        if rates or optimizer is None:
            return rates
    if hasattr(optimizer, "param_groups"):
        return rates_of_groups([optimizer])
    if hasattr(optimizer, "learning_rate"):
        return [float(str(read_arrays([as_array(optimizer.learning_rate)])[0]))]
    raise ConfigError(
        f"the metric 'lr' does not know the learning rate of {type(optimizer).__name__}; "
        "leave it out, or list a function of the state, e.g. to_dict(lambda state: ...); a transformation of optax "
        "tells it if it was made by optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)"
    )


_log = logging.getLogger("delira")


class MetricList:
    """Any number of metrics that see the same batches.

    Parameters
    ----------
    metrics
        Metrics, classes of metrics, strings (:func:`~delira.metrics.default_for_key`), keys of the state, objects of
        torchmetrics, functions of scikit-learn, and lists of these. What hangs on one and the same metric is joined,
        so that it is computed once.

    Raises
    ------
    ConfigError
        If something is none of these, or a string stands for no metric.

    Examples
    --------
    >>> import numpy as np
    >>> from delira.metrics import MetricList
    >>> from delira.state import LOSS, X, State
    >>> metrics = MetricList(["loss"])
    >>> state = State()
    >>> metrics.train()
    >>> metrics.reset(state)
    >>> for loss, batch in ((1.0, np.zeros(3)), (5.0, np.zeros(1))):
    ...     state[LOSS], state[X] = loss, batch
    ...     print(metrics.process(state))
    {'running_loss': 1.0}
    {'running_loss': 1.0}
    >>> metrics.process_final(state)
    {'loss': 2.0}
    """

    def __init__(self, metrics: object = ()):
        self.trees: list[MetricTree] = []
        for tree in map(_resolved, _flat(metrics)):
            same = next((other for other in self.trees if other.root is tree.root), None)
            if same is None:
                self.trees.append(MetricTree(tree.root, tree.children))
            else:  # a root that remembers would see each batch twice
                bare = [ToDict(tree.root.name)]
                same.children = [*(same.children or bare), *(tree.children or bare)]
        self._tell_twins()

    def _tell_twins(self) -> None:
        """Say that one of two values will be lost, since both have one name; those of twins are the same."""
        told: set[str] = set()
        seen: dict[str, MetricTree] = {}
        for tree in self.trees:
            # what hangs on one root reports at different moments
            for name in {one.prefix + one.name for one in tree.children or [tree.root]}:
                other = seen.setdefault(name, tree)
                if other is not tree and name not in told and not _are_twins(tree.root, other.root):
                    told.add(name)
                    _log.warning(
                        "two metrics are called %r, and only the later one is reported; give one of them another name",
                        name,
                    )

    def __iter__(self) -> Iterator[MetricTree]:
        return iter(self.trees)

    def __len__(self) -> int:
        return len(self.trees)

    @property
    def names(self) -> list[str]:
        """Return the names of the metrics, in their order."""
        return [tree.root.name for tree in self.trees]

    def process(self, state: State) -> dict[str, Any]:
        """Take in the batch that the state has.

        Returns
        -------
        dict
            Values of the batch by name; those on a device are lazy (:class:`~delira.utils.late.Lazy`). Of two
            with the same name the later one is there.
        """
        values: dict[str, Any] = {}
        for tree in self.trees:  # at every step: faster than a comprehension
            values.update(tree.process(state))
        return values

    def process_final(self, state: State) -> dict[str, Any]:
        """End the pass.

        Returns
        -------
        dict
            Values of the pass by name: numbers, and lists of numbers.
        """
        return read_lazy({name: value for tree in self.trees for name, value in tree.process_final(state).items()})

    def train(self) -> None:
        """What follows is a pass of training."""
        for tree in self.trees:
            tree.train()

    def eval(self, data_key: object = None) -> None:
        """Begin an evaluation.

        Parameters
        ----------
        data_key
            Of which data, e.g. ``delira.state.TEST_DATA``; by default those to validate on.
        """
        for tree in self.trees:
            tree.eval(data_key)

    def reset(self, state: State) -> None:
        """Begin a pass.

        Parameters
        ----------
        state
            As it is before the first batch.
        """
        for tree in self.trees:
            tree.reset(state)

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches of the pass so far have brought, as a checkpoint tree."""
        return {"names": self.names, "metrics": [tree.state_dict() for tree in self.trees]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen; to be called after :meth:`reset`.

        Parameters
        ----------
        state
            From :meth:`state_dict`.

        Raises
        ------
        CheckpointError
            If it is of other metrics.
        """
        if list(state["names"]) != self.names:
            raise CheckpointError(
                f"the state is of the metrics {list(state['names'])}, but these are {self.names}; "
                "give the same metrics in the same order"
            )
        for tree, kept in zip(self.trees, state["metrics"], strict=True):
            tree.load_state_dict(kept)

    def merge(self, other: Self) -> None:
        """Take in what another list has seen of the same pass, as if its batches had come after the own.

        Parameters
        ----------
        other
            A list of the same metrics in the same order; it stays as it is.

        Raises
        ------
        ConfigError
            If it is of other metrics, or one of them keeps something and cannot.
        """
        if other.names != self.names:
            raise ConfigError(
                f"the metrics {other.names} cannot be merged into {self.names}; give the same metrics in the same order"
            )
        for tree, theirs in zip(self.trees, other.trees, strict=True):
            tree.merge(theirs)

    def __repr__(self) -> str:
        return f"MetricList({self.names})"


def _flat(metrics: object) -> Iterator[Any]:
    if isinstance(metrics, Iterable) and not isinstance(metrics, (str, Mapping)) and not hasattr(metrics, "compute"):
        for metric in metrics:
            yield from _flat(metric)
    else:
        yield metrics


def _resolved(metric: Any) -> MetricTree:
    make = _ROOTS.get(what_is(metric))
    if make is None:
        name = getattr(metric, "__name__", type(metric).__name__)
        if isinstance(metric, PerClass):
            raise ConfigError(
                f"{name} has a value for each class of each case, which experiments compute: "
                f"trial.to_experiment(val_metrics={{'name': {name}(...)}}); a trial takes 'dice', 'iou' and 'hausdorff'"
            )
        raise ConfigError(
            f"{name} is no metric; for a function f(y_pred, y_true) write "
            f"lambda_metric({name!r})({name}), with on_epoch=True if it needs all predictions at once"
        )
    tree = as_tree(make(metric))
    if not tree.children and isinstance(tree.root, (BatchLambda, KeyMetric)):
        return MetricTree(tree.root, [ToDict(tree.root.name), Mean(tree.root.name)])
    return tree


#: what is given -> the metric of the tree that it becomes
_ROOTS: dict[Given, Callable[[Any], Metric]] = {
    "name": lambda key: _resolved(default_metric(key)),
    "class": lambda metric: _resolved(metric()),
    "metric": root_of,
    "key": root_of,
    "torchmetrics": lambda metric: TorchMetric(made(metric)),
    "of arrays": lambda metric: ArrayMetric(metric, getattr(metric, "__name__", type(metric).__name__)),
    "scikit-learn": SklearnMetric,
    "other scikit-learn": SklearnMetric,
}


def _are_twins(one: object, other: object) -> bool:
    """Return True if two metrics are of one class, with the same settings: aliases of one default."""
    try:
        return type(one) is type(other) and bool(vars(one) == vars(other))
    except ValueError:  # arrays among them
        return False
