"""Metrics of other libraries: told apart by what is given, and put into a list of metrics."""

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import numpy as np

from delira.errors import ConfigError, DataError, check_functions
from delira.metrics import of_arrays as kinds
from delira.metrics import scoring
from delira.metrics.of_arrays import AurocMetric, SklearnLogLoss, accuracy, dice
from delira.metrics.per_class import told
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.criteria import (
    Criterion,
    difference_of_two,
    one_of_each_row,
    one_score,
    probabilities,
    read_values,
    second_of_two,
)
from delira.metrics.tree.curves import OverDataset
from delira.metrics.tree.labels import YES_OR_NO, class_axis, labels_of, same_shape, scores_of
from delira.metrics.tree.metric import Metric
from delira.state import StateKey
from delira.utils.arrays import Array, map_leaves, ops_of, read_arrays, shape_of
from delira.utils.binding import ordered

Given = Literal[
    "torchmetrics", "key", "name", "metric", "class", "of arrays", "scikit-learn", "other scikit-learn", "stream",
    "function", "nothing",
]  # fmt: skip


def _is_of_arrays(given: object) -> bool:
    is_object = isinstance(given, (kinds.SklearnClassificationMetric, AurocMetric, scoring.PerSample))
    return is_object or (getattr(given, "__module__", "") == kinds.__name__ and not isinstance(given, type))


def _is_other_sklearn(given: object) -> bool:
    name = getattr(kinds.unwrapped(given)[0], "__name__", None)
    return kinds.is_of_sklearn(given) and name is not None and name not in kinds.KNOWN_FUNCTIONS


#: what it may be, and how that is told; what comes first counts
_TABLE: tuple[tuple[Given, Callable[[object], bool]], ...] = (
    ("torchmetrics", scoring.is_torchmetrics),  # an object of it, or a class
    ("key", lambda given: isinstance(given, StateKey)),  # of the state of a trial
    ("name", lambda given: isinstance(given, str)),  # that stands for a metric of a trial
    ("metric", lambda given: isinstance(given, Metric)),  # of a trial
    ("class", lambda given: isinstance(given, type) and issubclass(given, Metric)),
    ("of arrays", _is_of_arrays),  # delira's own, of all targets and predictions
    ("scikit-learn", kinds.is_known),
    ("other scikit-learn", _is_other_sklearn),  # of which nobody knows what it compares
    ("stream", scoring.is_stream),  # sees batches
    ("function", lambda given: callable(given) and not isinstance(given, type)),
)


def what_is(given: object) -> Given:
    """Return what is given as a metric; ``"nothing"`` if it can be none."""
    return next((what for what, fits in _TABLE if fits(given)), "nothing")


class SklearnMetric(OverDataset):
    """A function of scikit-learn, ``f(y_true, y_pred)``, of all predictions and targets of a pass.

    Functions of labels get labels: scores are argmaxed, or compared with the threshold of the criterion. Those of
    probabilities get probabilities: of other scores the softmax, or the sigmoid. Of two columns the second counts,
    for rankings by its lead over the first. Targets that the criterion does not count are left out.

    Parameters
    ----------
    function
        Or a ``functools.partial`` of one.
    name
        What it is reported under; by default the function's own.
    pred_key, target_key
        Keys of the state.

    Raises
    ------
    ConfigError
        If it is not known what the function compares.
    DataError
        At the end of a pass, if targets are no numbers of columns of the scores, which would be argmaxed.
    """

    def __init__(self, function: Callable[..., Any], name: str | None = None, **keys: Any):
        check_functions(self, function=function)
        self.function = function
        function, _, self.settings = kinds.unwrapped(function)
        self.kind = getattr(function, "__name__", type(function).__name__)
        if self.kind not in kinds.KNOWN_FUNCTIONS:  # by name: what records a call stands in for the function
            raise ConfigError(
                f"it is not known what {self.kind} of scikit-learn compares, or it gives no numbers; use "
                f"lambda_metric({self.kind!r}, on_epoch=True)(lambda y_pred, y_true: ...)"
            )
        self.label = self.kind if name is None else name
        super().__init__(**keys)
        self._accepted = frozenset(inspect.signature(function).parameters)
        #: whether predictions become labels by what they are said to be
        self.reads_outputs = self.kind in kinds.OF_LABELS
        #: columns of the scores that were argmaxed; 0: predictions are labels
        self.n_classes = 0
        self._allowed = 0

    @property
    def ignore_index(self) -> int | None:
        """The target that the criterion does not count; numbers all count."""
        return None if self.kind in kinds.OF_NUMBERS else self.known.ignore_index

    def prepare(self, pred: Array, true: Array, state: Mapping[Any, Any]) -> tuple[Any, Any]:
        """Labels for a function of labels; scores with the classes on the last axis, or one-dimensional ones."""
        self.known = known = self.known_in(state)
        if self.kind in kinds.OF_NUMBERS:
            pred, true = same_shape(self.name, pred, true)
            if len(pred.shape) > 2:  # scikit-learn takes at most two axes
                ops = ops_of(pred)
                pred, true = ops.reshape(pred, (-1,)), ops.reshape(true, (-1,))
            return pred, true
        if self.kind not in kinds.OF_LABELS:
            if known.is_exclusive and len(pred.shape) > 1 and tuple(pred.shape) == tuple(true.shape):
                true = ops_of(true).argmax(true, class_axis(self.name, pred, true, known.class_axis))
            return scores_of(self.name, pred, true, known.class_axis)
        found = labels_of(self.name, pred, true, known)
        labels, self.n_classes, self._allowed = found.pred, found.n_classes, found.allowed
        is_multilabel = self.n_classes == 2 and len(labels.shape) == 2 and tuple(labels.shape) == tuple(pred.shape)
        ops, shape = ops_of(labels), tuple(labels.shape) if is_multilabel and labels.shape[1] > 1 else (-1,)
        given = true if found.given is not None and self._allowed != YES_OR_NO else found.true
        if self._allowed == YES_OR_NO:
            self.seen.add(found.given, None, YES_OR_NO, self.ignore_index)
        return ops.reshape(labels, shape), ops.reshape(given, shape)

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """Return the value of the function; not a number if a prediction is not finite."""
        has_ignored = self.ignore_index is not None and true.ndim == 1 and true.dtype.kind in "iuf"
        counts = true != self.ignore_index if has_ignored else None
        if self.kind in kinds.OF_LABELS and self.n_classes and self._allowed != YES_OR_NO:
            if true.dtype.kind not in "biuf":
                raise DataError(
                    f"{self.name} got scores of {self.n_classes} classes and texts as targets; number the classes from "
                    "0, or compare labels with labels"
                )
            self.check_labels(true, self.n_classes, counts)
        is_scores = pred.ndim == 2 and true.ndim == 1
        if not self.is_finite(pred, is_each=not is_scores, counts=counts):
            return float("nan")
        if counts is not None:
            true, pred = true[counts], pred[counts]
        if pred.dtype.kind == "f" and pred.dtype.itemsize < 4:
            pred = pred.astype(np.float64)  # scikit-learn sums in the type that it is given
        further: dict[str, Any] = {}
        if self.kind not in kinds.OF_LABELS | kinds.OF_NUMBERS:
            true, pred, further = self._scored(true, pred)
        if self.kind == "average_precision_score" and _lacks_positives(true, self.settings.get("pos_label", 1)):
            return float("nan")  # scikit-learn gives 0, which says that everything is ranked wrongly
        with kinds.told(self, true, pred):
            return numbers(self.function(true, pred, **{**further, **self.settings}), self.name)

    def _scored(self, true: np.ndarray, pred: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Targets, scores and keywords for a function of scores, or of probabilities."""
        known = read_values(self.known, pred, true)
        further: dict[str, Any] = {}
        if true.ndim == pred.ndim == 2 and known.kind not in ("binary", "logits") and one_of_each_row(true):
            true = true.argmax(1)
        if (pred.ndim, true.ndim) == (2, 1):
            n_classes = pred.shape[1]
            if true.dtype.kind in "biuf" and len(np.unique(true)) != n_classes:
                self.check_labels(true, n_classes)
            self.check_labels(true, 0)  # as many other whole numbers as columns may stand for these
            # numbers of columns, from 0: a class may not occur in the targets then
            are_numbers = true.dtype.kind in "biu" and (not true.size or 0 <= true.min() <= true.max() < n_classes)
            if self.kind in kinds.OF_RANKED_LABELS:
                classes = np.arange(n_classes) if are_numbers else np.unique(true)
                if len(classes) != n_classes:
                    raise DataError(f"{self.name} got {n_classes} columns of scores and the labels {classes.tolist()}")
                return true[:, None] == classes, pred, {}
            if are_numbers and "labels" in self._accepted and self.kind in kinds.OF_PROBABILITIES | kinds.OF_DECISIONS:
                further = {"labels": np.arange(n_classes)}
            elif self.kind == "roc_auc_score" and n_classes > 2:
                further = {"multi_class": "ovr"}
            pred = self._of_columns(pred, known)
        elif pred.ndim == 2 and self.kind in kinds.OF_PROBABILITIES:
            raise DataError(
                f"{self.name} compares one label of each sample with its probability, but got {pred.shape[1]} labels "
                "at once; compute it for each of them"
            )
        # of decisions, this one cuts single scores at 0.5: of logits it needs probabilities
        elif pred.ndim == 1 and (
            self.kind in kinds.OF_PROBABILITIES or (self.kind == "top_k_accuracy_score" and known.output == "logits")
        ):
            pred = probabilities(pred, known.output)
        return true, pred, further

    def _of_columns(self, pred: np.ndarray, known: Criterion) -> np.ndarray:
        """Return what the function takes instead of scores of shape ``(N, C)``: shape ``(N,)`` for two classes."""
        if self.kind == "hinge_loss":
            return difference_of_two(pred)
        if self.kind in kinds.OF_RANKS and pred.shape[1] == 2:
            return one_score(pred, known.output)
        # average_precision_score, top_k_accuracy_score: only the order counts, within a column or within a row
        needs_probabilities = self.kind in kinds.OF_PROBABILITIES or self.kind == "roc_auc_score" or pred.shape[1] == 2
        return second_of_two(probabilities(pred, known.output)) if needs_probabilities else pred


def _lacks_positives(true: np.ndarray, positive: object) -> bool:
    """Return True if there is nothing to be found: no positive target, or none in a column."""
    return bool(true.dtype.kind in "biuf" and true.size and not np.all(np.any(true == positive, axis=0)))


class ArrayMetric(OverDataset):
    """A metric of delira's experiments, ``f(y_true, y_pred)``, of all predictions and targets of a pass.

    Parameters
    ----------
    function
        One over samples gives the mean of its values.
    name
        What it is reported under.
    """

    def __init__(self, function: Callable[..., Any], name: str):
        self.function, self.label = function, name
        super().__init__()

    def prepare(self, pred: Array, true: Array, state: Mapping[Any, Any]) -> tuple[Any, Any]:
        """Both as they are; what is known of the prediction is kept for the end."""
        known, ops = self.known_in(state), ops_of(pred)
        if known.class_axis is None and ops.is_of_framework:
            known = known._replace(class_axis=ops.class_axis)
        self.known = known
        return pred, true

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """Return the value of the function, or the mean of its values."""
        function = with_known(self.function, self.known)
        arrays = ordered(function, pred, true, "target first")
        if getattr(function, "over", None) == "sample":
            return np.mean([function(*sample) for sample in zip(*arrays, strict=True)])
        return function(*arrays)

    def state_dict(self) -> dict[str, Any]:
        # arrays of the host do not tell where their classes lie
        return {**super().state_dict(), "class_axis": self.known.class_axis}

    def take_in(self, state: Mapping[str, Any]) -> None:
        super().take_in({name: array for name, array in state.items() if name != "class_axis"})
        if self.known.class_axis is None and state.get("class_axis") is not None:
            self.known = self.known._replace(class_axis=int(state["class_axis"]))


def with_known(metric: object, known: Criterion) -> Any:
    """A metric of delira that is told whether scores are logits, and where their classes lie; any other as it is."""
    if isinstance(metric, (SklearnLogLoss, AurocMetric)) and metric.output is None and known.output is not None:
        metric = copy.copy(metric)
        metric.output = known.output
    if known.class_axis == -1 and metric in (accuracy, dice):
        return AlongAxis(metric)
    return told(metric, known.class_axis, known.ignore_index)


class AlongAxis:
    """A function of delira whose class scores have their classes on the last axis, or on the first where only it fits.

    Parameters
    ----------
    function
        With a ``class_axis``, of all samples, or of one (:class:`~delira.metrics.PerSample`).
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        functools.update_wrapper(self, function)
        #: ``"sample"`` or ``"dataset"``, as the function has it
        self.over = getattr(function, "over", "dataset")

    def __call__(self, y_true: Array, y_pred: Array) -> Any:
        """Return the value for labels and predictions."""
        true, pred = np.asarray(y_true), np.asarray(y_pred)
        first = 0 if self.over == "sample" else 1
        if pred.ndim < first + 2 or pred.dtype.kind != "f" or pred.ndim < true.ndim:
            return self.function(y_true, y_pred)
        fits = [-1]
        if pred.ndim == true.ndim + 1:  # where the other axes are those of the target
            fits = [at for at in (-1, first) if tuple(np.delete(pred.shape, at)) == true.shape] or fits
        return self.function(y_true, y_pred, class_axis=fits[0])

    def __repr__(self) -> str:
        return f"AlongAxis({self.function!r}, -1)"


class Streamed(Stateless):
    """An object of a library that is updated for each batch and computed at the end; those derive from it."""

    def compute(self) -> Any:
        """Return what the object computes."""
        raise NotImplementedError

    def process_final(self, *args: Any) -> Any:
        """Return what it computes: a number, or numbers by name."""
        value = self.compute()
        if isinstance(value, Mapping):
            return {f"{self.prefix}{name}": numbers(each, name) for name, each in value.items()}
        return numbers(value, self.name)


class TorchMetric(Streamed):
    """An object of torchmetrics, updated for each batch with prediction and target, and computed at the end.

    Parameters
    ----------
    metric
        The object; with arrays of other frameworks it is given tensors on its own device. One that takes nothing else
        is updated with predictions alone.

    Raises
    ------
    ConfigError
        If it is no such object.
    """

    def __init__(self, metric: Any):
        if not scoring.is_stream(metric):
            raise ConfigError(f"TorchMetric: metric is an object of torchmetrics, got {metric!r}")
        self.metric, self.label = metric, str(getattr(metric, "_get_name", lambda: type(metric).__name__)())
        super().__init__()
        self._n_arrays = 1 if scoring.takes_one(metric) else 2

    def reset(self, state: Any) -> None:
        self.metric.reset()

    def process(self, *args: Any) -> Any:
        """Update the metric with a batch."""
        pair = self.pair(args[0])[: self._n_arrays]
        if 0 in shape_of(pair[0]):  # torchmetrics takes no empty batches
            return
        if self._n_arrays == 2:
            pair = ordered(self.metric, pair[0], pair[1], "prediction first")
        if hasattr(pair[0], "requires_grad"):  # tensors of PyTorch
            if getattr(self.metric, "device", None) != pair[0].device:  # a collection has none
                self.metric.to(pair[0].device)
            self.metric.update(*pair)
        else:
            scoring.feed(self.metric, read_arrays(pair))

    def compute(self) -> Any:
        return self.metric.compute()

    def state_dict(self) -> dict[str, Any]:
        """Its states.

        Raises
        ------
        ConfigError
            If it is a wrapper, which does not show them.
        """
        state = scoring.stream_state(self.metric)
        if state is None:
            raise ConfigError(
                f"the metric {self.name} of torchmetrics does not show its state, so that a checkpoint within an "
                "epoch cannot keep it; write checkpoints at the end of epochs"
            )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        scoring.load_stream_state(self.metric, state)

    def merge(self, other: Self) -> None:
        """Join the states.

        Raises
        ------
        ConfigError
            If it does not say how.
        """
        scoring.merge_streams(self.name, self.metric, other.metric)


def made(metric: object) -> Any:
    """Return an object of a class of torchmetrics; an object as it is.

    Raises
    ------
    ConfigError
        If the class needs arguments.
    """
    if not isinstance(metric, type):
        return metric
    try:
        return metric()
    except (TypeError, ValueError) as error:
        name = metric.__name__
        raise ConfigError(f"{name} is a class that needs arguments: pass an object, {name}(...) ({error})") from error


def numbers(value: object, name: str) -> Any:
    """Return what a metric returned, as numbers.

    Raises
    ------
    DataError
        If it is something else.
    """
    leaf = value if isinstance(value, (int, float)) else map_leaves(lambda array: read_arrays([array])[0], value)
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise DataError(f"the metric {name!r} returned {type(value).__name__} {value!r:.60}, which is no number")
    return array
