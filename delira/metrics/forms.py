"""The forms in which an experiment computes any metric: functions of arrays, and objects that see batches."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from delira.errors import ConfigError, DataError
from delira.metrics.functions import with_known
from delira.metrics.scoring import Kind, as_number, as_only_number, feed, raw_kind_of
from delira.metrics.sklearn_metrics import OF_LABELS, told
from delira.metrics.tree.adapters import SklearnMetric, made, what_is
from delira.metrics.tree.criteria import describe_criterion, read_values, says_yes_or_no
from delira.metrics.tree.hanging import KeyMetric
from delira.metrics.tree.metric import MetricTree
from delira.metrics.tree.metric_list import LR, Epoch, Loss, MetricList
from delira.state import CRITERION, EPOCH, MODEL, VALIDATION_DATA, Y_PRED, Y_TRUE, State, X
from delira.utils.arrays import Array, ops_of

#: what a trial takes, and an experiment as a :class:`TreeMetric`
_OF_TREE = ("key", "name", "metric", "class")


class SklearnFunction:
    """A function of scikit-learn that is given what it compares, out of whatever the network predicts.

    Parameters
    ----------
    function
        Or a ``functools.partial`` of one.
    criterion
        What :func:`describe_criterion` takes: whether scores are logits, and which targets do not count.
    """

    takes_target_first = True

    def __init__(self, function: Callable[..., Any], criterion: object = None):
        self.function, self.criterion = function, describe_criterion(criterion)

    def __call__(self, *arrays: Any) -> Any:
        """Return the value for labels and predictions; other numbers of arrays, and trees, are handed on as they are.

        Raises
        ------
        DataError
            If shapes do not fit, or labels are no numbers of columns of the scores.
        """
        if len(arrays) != 2 or not all(isinstance(array, np.ndarray) for array in arrays):
            return self.function(*arrays)
        true, pred = arrays
        metric = SklearnMetric(self.function)
        known = self.criterion
        if metric.kind in OF_LABELS:
            known = read_values(known, pred, true)
            if self._are_labels(true, pred):
                is_lost = pred.dtype.kind == "f" and not np.isfinite(pred).all()
                is_table = true.ndim == pred.ndim == 2 and true.shape[1] > 1
                if not (is_table and says_yes_or_no(true) and says_yes_or_no(pred)):  # one label per row
                    true, pred = true.ravel(), pred.ravel()
                with told(self, *arrays):
                    return float("nan") if is_lost else self.function(true, pred)
            refuse_texts(metric.name, true, pred)
        metric.n_samples = len(true)
        pred, true = metric.prepare(pred, true, {CRITERION: known})
        metric.seen.check()
        return metric.compute(true, pred)

    def _are_labels(self, true: np.ndarray, pred: np.ndarray) -> bool:
        """Return True if predictions are labels already; those of a network's criterion never are."""
        if true.size != pred.size:
            return False
        if not ops_of(pred).is_float(pred) or self.criterion.output == "labels":
            return True
        if self.criterion.told_by == "setting" or self.criterion.kind not in (None, "mse", "mae"):
            return False
        finite = pred[np.isfinite(pred)]
        return bool(np.all(finite == np.floor(finite)))

    def __repr__(self) -> str:
        return f"SklearnFunction({self.function!r})"


class TreeMetric:
    """A metric of a trial as one of an experiment: it sees batches of arrays of numpy, and is computed at the end.

    Parameters
    ----------
    metric
        What a trial takes as a metric.
    criterion, model
        By which some metrics are chosen.

    Raises
    ------
    ConfigError
        If it reads what only a trial has, or is chosen by a criterion that is not known.
    """

    def __init__(self, metric: object, criterion: object = None, model: object = None):
        self.given = metric
        self.metrics = MetricList([metric])
        root = self.tree.root
        if isinstance(root, (Loss, LR, Epoch, KeyMetric)):
            raise ConfigError(
                f"the metric {root.name!r} reads the state of a trial; an experiment records its losses and learning "
                "rates by itself, and metrics of it compare predictions with targets"
            )
        #: entries that it reads besides target and prediction
        self.further_keys: tuple[str, ...] = tuple(getattr(root, "further_keys", ()))
        self.criterion, self.model = describe_criterion(criterion), model
        self._state = State({CRITERION: self.criterion, MODEL: model, EPOCH: 0})
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.metrics.eval(VALIDATION_DATA)
        self.metrics.reset(self._state)

    def update(self, target: Array, prediction: Array, *further: Any) -> None:
        """Take in a batch."""
        self.metrics.process(self.state_of(target, prediction, *further))

    def state_of(self, target: Array, prediction: Array, *further: Any) -> State:
        """Return the state in which the metric finds a batch."""
        refuse_texts(self.metrics.names[0], target, prediction)
        self._state.update({X: target, Y_TRUE: target, Y_PRED: prediction})
        self._state.update(zip(self.further_keys, further, strict=True))
        return self._state

    def compute(self) -> dict[str, Any]:
        """Return values over all batches, by name."""
        values = self.metrics.process_final(self._state)
        return {name.removeprefix("val_"): value for name, value in values.items()}

    @property
    def tree(self) -> MetricTree:
        """What is computed; of an accuracy that chooses by the criterion, the chosen one."""
        tree = self.metrics.trees[0]
        return tree.root.delegate or tree

    @property
    def way(self) -> str:
        """How predictions were read of which nobody says what they are; empty if it is said, or does not matter."""
        return self.metrics.trees[0].way

    def state_dict(self) -> dict[str, Any]:
        """Return what the batches so far have brought."""
        return self.metrics.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batches that a state has seen."""
        self.metrics.load_state_dict(state)

    def merge(self, other: Self) -> None:
        """Take in what another one has seen."""
        self.metrics.merge(other.metrics)

    def __repr__(self) -> str:
        return f"TreeMetric({self.metrics.trees[0].root!r})"


def in_form(metric: Any, name: str = "metric", criterion: Any = None, model: Any = None) -> Any:
    """Return a metric as a function of arrays, or as an object with ``update``, ``compute`` and ``reset``.

    Parameters
    ----------
    metric
        Anything that :class:`~delira.metrics.MetricSet` takes; what is in form already is returned as it is.
    name
        For the messages.
    criterion, model
        By which some metrics are chosen: how predictions are to be understood.

    Raises
    ------
    ConfigError
        If a string stands for no metric, a class needs arguments, or a metric reads what only a trial has.
    """
    what = what_is(metric)
    if what == "torchmetrics":
        return made(metric)
    if what in _OF_TREE:
        try:
            return TreeMetric(metric, criterion, model)
        except ConfigError as error:
            error.add_note(f"in metric {name!r}")
            raise
    if what == "scikit-learn":
        return SklearnFunction(metric, criterion)
    return with_known(metric, describe_criterion(criterion))


def settled(metric: object, name: str, criterion: object) -> Any:
    """Return a metric in form, with what was settled of its predictions since it was brought into form.

    Parameters
    ----------
    metric
        In form, or as it was given.
    name
        For the messages.
    criterion
        What is known by now.
    """
    if isinstance(metric, SklearnFunction):
        return SklearnFunction(metric.function, criterion)
    if isinstance(metric, TreeMetric):
        return TreeMetric(metric.given, criterion, metric.model)
    return in_form(metric, name, criterion)


def is_in_reach(metric: object) -> bool:
    """Return True if something that is no function and no object with ``update`` can be put in form."""
    return what_is(metric) in ("torchmetrics", *_OF_TREE)


def kind_of(metric: object, name: str = "metric") -> Kind:
    """``"stream"``, ``"sample"`` or ``"dataset"``: how a metric is computed.

    Raises
    ------
    ConfigError
        If it is none of those that :class:`~delira.metrics.MetricSet` takes, or if its attribute ``over`` is text
        other than ``"sample"`` and ``"dataset"``.
    """
    return raw_kind_of(in_form(metric, name), name)


def evaluator(metric: Any, name: str = "metric") -> Callable[..., float]:
    """Make a function of whole arrays out of a metric, to be called as often as needed.

    A metric over samples gives the mean of its values. A streaming one is copied once and reset before
    each call, so that the metric itself keeps its state.
    """
    metric = in_form(metric, name)
    kind = raw_kind_of(metric, name)
    if kind == "dataset":
        return lambda *arrays: as_number(metric(*arrays), name)
    if kind == "sample":
        return lambda *arrays: float(
            np.mean([as_number(metric(*sample), name) for sample in zip(*arrays, strict=True)])
        )
    fresh = copy.deepcopy(metric)

    def evaluate(*arrays: Any) -> float:
        fresh.reset()
        feed(fresh, arrays)
        return as_only_number(fresh.compute(), name)

    return evaluate


def score(metric: object, arrays: Sequence[Any], name: str = "metric") -> float:
    """Evaluate a metric once over whole arrays.

    Parameters
    ----------
    metric
        Of any kind.
    arrays
        What it reads, in the order of its arguments, each of shape ``(n, ...)``.
    name
        For messages.

    Raises
    ------
    ConfigError
        If ``arrays`` is no list of arrays.
    DataError
        If the metric returns something that is not one number.
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise ConfigError(
            f"score: arrays is a list of what the metric reads, e.g. [y_true, y_pred], got {arrays!r:.80}"
        )
    return evaluator(metric, name)(*arrays)


def refuse_texts(name: str, true: Array, pred: Array) -> None:
    """Refuse texts as labels where predictions are scores: nobody knows which column stands for which.

    Raises
    ------
    DataError
        If they are that.
    """
    kinds = [getattr(getattr(array, "dtype", None), "kind", "") for array in (true, pred)]
    if kinds[0] in ("O", "S", "U") and kinds[1] == "f":
        raise DataError(
            f"{name} got texts as labels and class scores as predictions; compare them with predicted labels "
            "(scikit-learn: metric_keys={...: ('label', 'label_pred')}), or number the classes from 0"
        )
