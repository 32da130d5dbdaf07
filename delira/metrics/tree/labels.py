"""From predictions to labels, on the device: argmax over the classes, or a threshold."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError, check_numbers, check_whole, if_given
from delira.metrics.gather import LARGE, MOST_BATCHES, Unlike
from delira.metrics.tree.criteria import describe_criterion, threshold_of
from delira.state import State
from delira.utils.arrays import Array, as_array, ops_of, read_arrays, read_flat, shape_of

#: in the place of a predicted label where the scores are no finite numbers
LOST = int(np.iinfo(np.int32).min)
#: in the place of a number of classes: targets say yes or no, by anything from 0 to 1
YES_OR_NO = -1
#: so many samples are named
MOST_NAMED = 10


class _Kind(NamedTuple):
    """What is asked of the targets of a batch, and whether they were reduced to the answer on their device."""

    n_classes: int
    ignore_index: int | None
    is_large: bool

    def wrong(self, true: np.ndarray) -> np.ndarray:
        """Return which targets are none of the classes."""
        return true > 0 if self.is_large else wrong_labels(true, self.n_classes, self.ignore_index)

    def lost(self, scores: np.ndarray) -> np.ndarray:
        """Return which scores are no finite numbers."""
        return scores > 0 if self.is_large else ~np.isfinite(scores)

    def lost_of(self, true: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return which scores are no finite numbers, among those whose targets count."""
        if self.is_large or self.ignore_index is None or true.shape != scores.shape:
            return self.lost(scores)
        return self.lost(scores) & (true != self.ignore_index)


class Seen:
    """The targets of a pass, and the scores that decided; both are read when it ends, and nothing waits before.

    Parameters
    ----------
    name
        Of the metric, for the message.
    what
        ``"target"``, or ``"prediction"`` for predicted labels.
    """

    def __init__(self, name: str, what: str = "target"):
        self._name, self._what = name, what
        self._pending: list[tuple[int, _Kind, Any, Any]] = []
        self._n_samples = 0
        #: positions in the pass, from 0, of samples whose prediction is not finite
        self.lost: list[int] = []

    def add(self, true: Array, scores: Array, n_classes: int, ignore_index: int | None = None) -> Any:
        """Take in a batch.

        Parameters
        ----------
        true
            Targets of shape ``(B, ...)``.
        scores
            What decided for each of them, e.g. the highest score, shape ``(B, ...)``; None if that cannot be told.
        n_classes
            Targets are whole numbers below it, and not below 0; 0: any whole number; or ``YES_OR_NO``.
        ignore_index
            The target that does not count.

        Returns
        -------
        array or None
            The targets, which nothing changes any more; None of many numbers.
        """
        shape = true.shape
        n_samples = shape[0] if shape else 1
        is_large = (n_samples if len(shape) == 1 else math.prod(shape)) > LARGE
        if is_large:
            true = _reduced(wrong_labels(true, n_classes, ignore_index))
            scores = None if scores is None else _reduced(~ops_of(scores).is_finite(scores))
        else:  # of labels that somebody writes into there is a copy; scores were just computed
            true = ops_of(true).keep(true)
        self._pending.append((self._n_samples, _Kind(n_classes, ignore_index, is_large), true, scores))
        self._n_samples += n_samples
        if len(self._pending) >= MOST_BATCHES:
            self.check()
        return None if is_large else true

    def check(self) -> None:
        """Look at what came.

        Raises
        ------
        DataError
            If a target is none of the classes; it names the first.
        """
        groups: dict[Any, list[tuple[int, Any, Any]]] = {}
        pending, self._pending = self._pending, []
        for start, kind, true, scores in pending:
            groups.setdefault((kind, true.dtype, getattr(scores, "dtype", None)), []).append((start, true, scores))
        for (kind, *_), batches in groups.items():
            targets = [true for _, true, _ in batches]
            if kind.wrong(read_flat(targets)).any():  # all at once: nearly always there is nothing to find
                for (start, *_), true in zip(batches, read_arrays(targets), strict=True):
                    if (is_wrong := kind.wrong(true)).any():
                        name, is_known = self._name, not kind.is_large
                        refuse_label(name, true, is_wrong, kind.n_classes, start, is_known=is_known, what=self._what)
            if batches[0][2] is not None and kind.lost(read_flat([scores for *_, scores in batches])).any():
                arrays = iter(read_arrays([array for _, *pair in batches for array in pair]))
                for start, *_ in batches:
                    is_lost = kind.lost_of(next(arrays), next(arrays))
                    self.lost += (np.flatnonzero(by_sample(is_lost)) + start).tolist()
        self.lost.sort()

    def state_dict(self) -> dict[str, Any]:
        """Return how many samples were seen, and which were lost."""
        self.check()
        return {"n_samples": self._n_samples, "lost": np.array(self.lost, dtype=np.int64)}

    def take_in(self, state: Mapping[str, Any]) -> None:
        """Take in what a state has seen, as if it had come after."""
        self.check()
        self.lost += [self._n_samples + position for position in np.asarray(state["lost"]).tolist()]
        self._n_samples += int(state["n_samples"])


def wrong_labels(true: Array, n_classes: int, ignore_index: int | None = None) -> Any:
    """Return which targets are none of the classes, on their device.

    Parameters
    ----------
    true
        Numbers; of truth values and texts none is wrong.
    n_classes
        How many classes there are, from 0; 0: any whole number is one; or ``YES_OR_NO``.
    ignore_index
        The target that does not count.
    """
    ops = ops_of(true)
    is_float = ops.is_float(true)
    if not is_float and "int" not in str(true.dtype):
        return true != true if ops.is_of_framework else np.zeros(shape_of(true), bool)
    # types of frameworks may be too small for the number of classes
    values = true if is_float or not ops.is_of_framework else ops.to_integer(true)
    if n_classes == YES_OR_NO:
        is_right = (values >= 0) & (values <= 1)
    else:
        is_right = values == (ops.xp.floor(values) if is_float else values)
        if n_classes:
            is_right = is_right & (values >= 0) & (values < n_classes)
        elif is_float:
            is_right = is_right & ops.is_finite(values)
    return ~is_right if ignore_index is None else ~is_right & (values != ignore_index)


def check_labels(name: str, true: np.ndarray, n_classes: int, ignore_index: int | None = None, start: int = 0) -> None:
    """Refuse targets that are none of the classes; see :func:`wrong_labels` and :func:`refuse_label`."""
    if (is_wrong := wrong_labels(true, n_classes, ignore_index)).any():
        refuse_label(name, true, is_wrong, n_classes, start)


def refuse_label(
    name: str,
    true: np.ndarray,
    is_wrong: np.ndarray,
    n_classes: int,
    start: int = 0,
    *,
    is_known: bool = True,
    what: str = "target",
) -> None:
    """Refuse targets that no class is, naming the first.

    Parameters
    ----------
    name
        Of the metric.
    true
        Targets of shape ``(n, ...)``.
    is_wrong
        Which are refused.
    n_classes
        How many classes there are; 0: nobody knows; or ``YES_OR_NO``.
    start
        Position of the first of them in the pass.
    is_known
        Whether ``true`` holds the targets, and not only where they are wrong.
    what
        ``"prediction"`` if they are predicted labels.

    Raises
    ------
    DataError
        Always.
    """
    samples = np.flatnonzero(by_sample(is_wrong))
    label = f"the {what} {true[is_wrong][0]}" if is_known else f"a {what}"
    more = f", and {len(samples) - 1} more samples have such ones" if len(samples) > 1 else ""
    classes = f"none of the {n_classes} classes from 0 to {n_classes - 1}" if n_classes else "no whole number"
    if n_classes == YES_OR_NO:
        classes = "neither yes nor no (0 to 1)"
    cure = ", and name a target that does not count by ignore_index=, of the metric or of the loss"
    raise DataError(
        f"the metric {name!r} got {label} in sample {start + samples[0]}, which is {classes}{more}; number the "
        f"classes from 0{cure if what == 'target' else ''}"
    )


def by_sample(flags: np.ndarray) -> np.ndarray:
    """Return whether any flag of a sample is up, bool of shape ``(n,)``."""
    return np.asarray(flags.reshape(len(flags), -1).any(axis=1)) if flags.ndim else flags.reshape(1)


def named_samples(positions: Array) -> str:
    """Positions as a text, the first of them if there are many."""
    numbers = [int(position) for position in positions]
    more = f" and {len(numbers) - MOST_NAMED:,} more" if len(numbers) > MOST_NAMED else ""
    return ", ".join(map(str, numbers[:MOST_NAMED])) + more


def _reduced(flags: Array) -> Any:
    """Of each sample whether any flag is up, on the device, shape ``(B,)``; many numbers are not brought over."""
    ops = ops_of(flags)
    return ops.largest(ops.to_integer(ops.reshape(flags, (shape_of(flags)[0], -1))), 1)


def check_settings(owner: str, *, class_axis: object = None, **given: Any) -> None:
    """Refuse settings of metrics that are none; None is left out, it stands for what a metric finds itself.

    Parameters
    ----------
    owner
        The metric, for the message.
    class_axis
        A whole number, and not the axis of the samples.
    **given
        ``threshold``, a number; ``ignore_index``, a whole number; ``num_classes`` and others, whole numbers from 1.

    Raises
    ------
    ConfigError
        Naming the setting and its value.
    """
    for name, value in if_given(**given).items():
        if name == "threshold":
            check_numbers(owner, threshold=value)
        else:
            check_whole(owner, at_least=-math.inf if name == "ignore_index" else 1, **{name: value})
    check_whole(owner, **if_given(class_axis=class_axis))
    if class_axis == 0:
        raise ConfigError(f"{owner}: class_axis=0 is the axis of the samples; give that of the classes, 1 or -1")


def pair_of(metric: str, state: State, pred_key: object, target_key: object) -> tuple[Any, Any]:
    """Prediction and target of a metric, as arrays of the framework of the prediction.

    Raises
    ------
    DataError
        If one of them is a list, a tuple or a dictionary.
    """
    pair = state[pred_key], state[target_key]
    for what, key, value in (("prediction", pred_key, pair[0]), ("target", target_key, pair[1])):
        if type(value).__name__ == "MixedTargets":
            raise DataError(f"the metric {metric!r} compares two arrays, but samples are mixed; use 'mixup_acc'")
        if isinstance(value, (list, tuple, dict)):
            raise DataError(
                f"the metric {metric!r} compares two arrays, but the {what} {str(key)!r} is a {type(value).__name__}; "
                "let a callback set the one it is about under a key of its own (delira.state_key), and make the "
                "metric with pred_key= and target_key="
            )
    pred = as_array(pair[0])
    check_types(metric, pred, pair[1])
    return pred, as_array(pair[1], pred)


def check_types(metric: str, pred: Array, true: Array) -> None:
    """Refuse predictions and targets of types that cannot be compared: both are numbers, or both are labels as texts.

    Raises
    ------
    DataError
        If they are not.
    """
    kinds = _kind_of_type(getattr(pred, "dtype", None)), _kind_of_type(getattr(true, "dtype", None))
    if kinds == ("numbers", "texts") and ops_of(pred).is_float(pred) and true is not None:
        raise DataError(
            f"{metric} got texts as labels and class scores as predictions; compare them with predicted labels "
            f"(scikit-learn: metric_keys={{{metric!r}: ('label', 'label_pred')}}), or number the classes from 0"
        )
    if true is None or "other" in kinds or kinds[0] != kinds[1]:
        types = [str(getattr(array, "dtype", type(array).__name__)) for array in (pred, true)]
        raise DataError(
            f"the metric {metric!r} got predictions of the type {types[0]} and targets of the type {types[1]}; it "
            "compares numbers with numbers, or texts as labels with predicted labels"
        )


@functools.cache
def _kind_of_type(dtype: object) -> str:
    """``"numbers"`` (also of Python's own, which have no type here), ``"texts"`` or ``"other"``."""
    if dtype is None or getattr(dtype, "kind", "") in ("b", "i", "u", "f"):
        return "numbers"
    if getattr(dtype, "kind", "") in ("O", "S", "U", "T"):
        return "texts"
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]  # of numpy's own kinds bfloat16 is none
    return "numbers" if name.startswith(("bool", "int", "uint", "float", "bfloat")) else "other"


def class_axis(metric: str, pred: Array, true: Array, axis: int | None = None) -> int:
    """On which axis of scores the classes lie, so that the other axes are those of the target.

    Parameters
    ----------
    metric
        For the message.
    pred
        Scores.
    true
        Labels of the shape of the scores without the axis of the classes, or one value per class.
    axis
        Where they lie, as the criterion or the backend says. By default 1 for PyTorch, the last one for TensorFlow and
        JAX; of arrays of numpy, about which nobody says anything, whichever fits. The other of the two if only that
        fits the target.

    Raises
    ------
    DataError
        If the shapes do not fit, or fit in two ways and nobody says which is meant.
    """
    ops = ops_of(pred)
    usual = ops.class_axis if axis is None else axis
    tried = (usual, 1 if usual == -1 else -1) if axis in (None, 1, -1) else (axis,)
    shapes = tuple(pred.shape), tuple(true.shape)
    if (position := _fitting(*shapes, tried)) is None:
        raise DataError(
            f"the metric {metric!r} got predictions of shape {shapes[0]} and targets of shape {shapes[1]}; it needs "
            "scores with one axis for at least two classes, and labels of the shape of the others. For yes or no there "
            "is 'binary_acc', for numbers 'mse'"
            + (f"; class_axis={axis} says where the classes are" if axis is not None else "")
        )
    if axis is None and not ops.is_of_framework and _fitting(*shapes, tried[::-1]) != position:
        raise DataError(
            f"the metric {metric!r} got predictions of shape {shapes[0]} and targets of shape {shapes[1]}, whose "
            "classes may lie on the axis 1 or on the last one; say which by class_axis=1 or class_axis=-1 of a metric "
            "such as 'cat_acc', or let the trainer compute it, whose backend says it"
        )
    return position


@functools.lru_cache(maxsize=64)
def _fitting(pred: tuple[int, ...], true: tuple[int, ...], tried: tuple[int, ...]) -> int | None:
    """Return the first axis of scores without which they have the shape of the target."""
    for candidate in tried if len(pred) > 1 else ():
        if not -len(pred) <= candidate < len(pred):
            continue
        position = candidate % len(pred)
        if true in (pred[:position] + pred[position + 1 :], pred) and pred[position] > 1:
            return position
    return None


def binary_labels(metric: str, pred: Array, true: Array, threshold: float) -> tuple[Any, Any]:
    """Yes or no, predicted and true, for every value of the prediction; targets above 0.5 mean yes."""
    pred, true = same_shape(metric, pred, true)
    is_label = not ops_of(pred).is_float(pred)
    said = as_integer(pred) > 0 if is_label else pred > threshold
    return said, true > 0.5 if ops_of(true).is_float(true) else as_integer(true) > 0


def without_last(pred: Array, true: Array) -> Any:
    """Targets of shape ``(B, 1)`` as ``(B,)``, where the scores are ``(B, C)``."""
    if len(true.shape) == len(pred.shape) and true.shape[-1] == 1 != pred.shape[-1]:
        return ops_of(true).reshape(true, tuple(true.shape)[:-1])
    return true


def true_labels(metric: str, pred: Array, true: Array, axis: int | None) -> tuple[Any, int, bool]:
    """Targets as labels beside scores, the axis of the classes (see :func:`class_axis`), and whether it had them."""
    true = without_last(pred, true)
    axis = class_axis(metric, pred, true, axis)
    is_one_hot = tuple(true.shape) == tuple(pred.shape)
    return ops_of(true).argmax(true, axis) if is_one_hot else true, axis, is_one_hot


def counted(true: Array, ignore_index: int | None, kept: object = None) -> Any:
    """Return which targets count; ``None`` if all do: a type without negative numbers has no -100.

    With ``kept``, the same targets, which nothing changes any more, they are compared when they are read.
    """
    if ignore_index is None or (ignore_index < 0 and _is_without_sign(true.dtype)):
        return None
    return true != ignore_index if kept is None else Unlike(kept, ignore_index)


@functools.cache
def _is_without_sign(dtype: object) -> bool:
    return str(dtype).rpartition(".")[2].startswith(("uint", "bool"))


def as_integer(array: Array) -> Any:
    """Truth values as numbers, which can be compared with numbers; anything else as it is."""
    return ops_of(array).to_integer(array) if "bool" in str(array.dtype) else array


def same_shape(metric: str, pred: Array, true: Array) -> tuple[Any, Any]:
    """Both, the target in the shape of the prediction; refused where that is more than axes of length 1.

    Raises
    ------
    DataError
        If the shapes do not fit.
    """
    if tuple(pred.shape) == tuple(true.shape):
        return pred, true
    if without_ones(pred) != without_ones(true):
        raise DataError(
            f"the metric {metric!r} got predictions of shape {tuple(pred.shape)} and targets of shape "
            f"{tuple(true.shape)}; it compares arrays of one shape"
        )
    return pred, ops_of(true).reshape(true, pred.shape)


class Labels(NamedTuple):
    """What a metric of labels compares."""

    pred: Any
    """Predicted labels, ``LOST`` where the scores are not finite."""
    true: Any
    """True labels, of the same shape."""
    n_classes: int
    """How many there are; 0: predictions are labels, and nobody knows."""
    given: Any
    """The targets as they came, where they were labels: what can be none of the classes; None of one-hot ones."""
    allowed: int
    """What they may be: ``n_classes``, or ``YES_OR_NO``."""


def labels_of(metric: str, pred: Array, true: Array, criterion: object, threshold: float | None = None) -> Labels:
    """Predicted and true labels of one shape, and the number of classes.

    Scores with an axis more than the target are argmaxed over it. Those of the shape of the target say yes or no by
    their threshold, each, or, with a criterion for classes, are argmaxed as the target is.
    """
    known = describe_criterion(criterion)
    ops = ops_of(pred)
    if not ops.is_float(pred) or without_ones(pred) == without_ones(true):
        given = same_shape(metric, pred, true)[1]
        if not ops.is_float(pred):
            return Labels(as_integer(pred), as_integer(given), 0, given, 0)
        if known.output == "labels":  # whole numbers, written as others
            labels = ops.to_integer(ops.where(ops.is_finite(pred), pred, 0.0))
            return Labels(ops.where(ops.is_finite(pred), labels, LOST), as_integer(given), 0, given, 0)
        if len(pred.shape) < 2 or not known.is_exclusive:
            said, meant = binary_labels(metric, pred, given, threshold_of(known) if threshold is None else threshold)
            return Labels(
                ops.where(ops.is_finite(pred), as_integer(said), LOST), as_integer(meant), 2, given, YES_OR_NO
            )
    true, axis, is_one_hot = true_labels(metric, pred, true, known.class_axis)
    n_classes = int(pred.shape[axis])
    top, found = ops.best(pred, axis)
    labels = ops.where(ops.is_finite(top), found, LOST)
    return Labels(labels, as_integer(true), n_classes, None if is_one_hot else true, n_classes)


def without_ones(array: Array) -> list[int]:
    """Return the shape of an array without its axes of length 1."""
    return [size for size in array.shape if size != 1]


def scores_of(metric: str, pred: Array, true: Array, axis: int | None = None) -> tuple[Any, Any]:
    """Scores of shape ``(N, C)`` with labels ``(N,)``; both of shape ``(N,)``; or both ``(N, L)``, L yes or no's."""
    ops = ops_of(pred)
    if without_ones(pred) == without_ones(true):
        shape = tuple(pred.shape) if len(pred.shape) == 2 and pred.shape[1] > 1 else (-1,)
        return ops.reshape(pred, shape), ops.reshape(true, shape)
    true = without_last(pred, true)
    axis = class_axis(metric, pred, true, axis)
    scores = ops.moveaxis(pred, axis) if axis != len(pred.shape) - 1 else pred
    return ops.reshape(scores, (-1, int(pred.shape[axis]))), ops.reshape(true, (-1,))
