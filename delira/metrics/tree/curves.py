"""Metrics of the order and the honesty of scores, and the share of variance that is explained."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from delira.errors import DataError, check_flags, check_whole, if_given
from delira.metrics.gather import Gatherer, Pending
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.criteria import Criterion, class_scores, one_of_each_row, one_score, probabilities, read_values
from delira.metrics.tree.hanging import default_for_key
from delira.metrics.tree.labels import LOST, YES_OR_NO, by_sample, refuse_label, same_shape, scores_of, wrong_labels
from delira.state import State
from delira.utils.arrays import Array, ops_of, shape_of, to_plain


class OverDataset(Stateless):
    """A number computed once, from all predictions and targets of a pass.

    They are read from the device in bulk; what exceeds the memory that they may take lies in temporary files.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state.
    """

    #: what is said of the predictions: when a pass begins, since one that goes on may have no batch left
    known = Criterion("", None)

    def _clear(self) -> None:
        super()._clear()
        self._gathered = Gatherer()
        self._pending = Pending(self._take)
        #: of the pass so far
        self.n_samples = 0

    def reset(self, state: State) -> None:
        super().reset(state)
        self.known = self.known_in(state)

    def process(self, *args: Any) -> Any:
        """Keep the predictions and targets of a batch."""
        pair = self.pair(args[0])
        shape = shape_of(pair[0])
        self.n_samples += shape[0] if shape else 1
        self._pending.append([ops_of(array).keep(array) for array in self.prepare(*pair, args[0])])

    def process_final(self, *args: Any) -> Any:
        """Return the number; not a number if there was no sample."""
        super().process_final(*args)
        self._pending.read()
        found = self._gathered.result()
        if not found or not len(found["pred"]):
            return float("nan")
        return to_plain(np.asarray(self.compute(found["true"], found["pred"])))

    def prepare(self, pred: Array, true: Array, state: State) -> tuple[Any, Any]:
        """Return what is to be kept of a batch, on its device."""
        return pred, true

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """Return the number, from what was kept of all batches."""
        raise NotImplementedError

    def is_finite(self, pred: np.ndarray, *, is_each: bool, counts: np.ndarray | None = None) -> bool:
        """Return True if predictions decide something; the samples in which they do not are remembered.

        Parameters
        ----------
        pred
            Scores of shape ``(N, C)``, of which the highest has to be finite; or numbers of any shape, or labels.
        is_each
            Whether all of the numbers have to be finite.
        counts
            Which rows count, bool of shape ``(N,)``; None: all.
        """
        if pred.dtype.kind == "f":
            rows = pred.reshape(len(pred), -1) if is_each else pred.max(axis=1, keepdims=True)
            is_lost = ~np.isfinite(rows).all(axis=1)
        else:
            is_lost = by_sample(pred == LOST)
        if counts is not None:
            is_lost &= counts
        rows_of_each = max(1, len(pred) // max(1, self.n_samples))  # pixels are rows
        self._lost = np.unique(np.flatnonzero(is_lost) // rows_of_each).tolist()
        return not self._lost

    def check_labels(self, true: np.ndarray, allowed: int, counts: np.ndarray | None = None) -> None:
        """Refuse targets that are none of the classes, by name and sample.

        Parameters
        ----------
        true
            Targets, one row or one number each.
        allowed
            As for :func:`~delira.metrics.tree.labels.wrong_labels`.
        counts
            Which rows count, bool of shape ``(N,)``; None: all.
        """
        is_wrong = wrong_labels(true, allowed)
        if counts is not None:
            is_wrong &= counts if true.ndim == 1 else counts[:, None]
        if is_wrong.any():
            rows_of_each = max(1, len(true) // max(1, self.n_samples))
            shape = (len(true) // rows_of_each, -1) if len(true) % rows_of_each == 0 else true.shape
            refuse_label(self.name, true.reshape(shape), is_wrong.reshape(shape), allowed)

    def _take(self, arrays: list[np.ndarray], note: None) -> None:
        self._gathered.append(dict(zip(("pred", "true"), arrays, strict=True)))

    def state_dict(self) -> dict[str, Any]:
        self._pending.read()
        return dict(self._gathered.result())

    def take_in(self, state: Mapping[str, Any]) -> None:
        self._pending.read()
        if state:
            self._gathered.append(dict(state))
            self.n_samples += len(state["pred"])  # of pixels more; then the row is named

    def merge(self, other: Self) -> None:
        n_samples = self.n_samples + other.n_samples
        self.seen.take_in(other.seen.state_dict())
        super().merge(other)
        self.n_samples = n_samples


class _OfScores(OverDataset):
    """A metric of scores and labels, averaged over the classes that occur, each against all others."""

    higher_is_better = True

    def prepare(self, pred: Array, true: Array, state: State) -> tuple[Any, Any]:
        """Scores with the classes on the last axis, or one-dimensional ones."""
        self.known = self.known_in(state)
        return scores_of(self.name, pred, true, self.known.class_axis)

    def scored(self, true: np.ndarray, pred: np.ndarray) -> tuple[np.ndarray, np.ndarray, Criterion] | None:
        """Return targets, scores and what is known of these; None if a prediction is not finite."""
        known = read_values(self.known, pred, true)
        # every column says yes or no for itself, if the criterion has it so
        is_each = self.known.kind in ("binary", "logits")
        if true.ndim == 2 and pred.ndim == 2 and (known.is_exclusive or one_of_each_row(true)) and not is_each:
            self.check_labels(true, YES_OR_NO)
            true = true.argmax(1)
        else:
            self.check_labels(true, pred.shape[1] if pred.ndim == 2 and true.ndim == 1 else YES_OR_NO)
        if not self.is_finite(pred, is_each=true.ndim == pred.ndim):
            return None
        return true, pred, known

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        found = self.scored(true, pred)
        return float("nan") if found is None else self.of_scores(*found)

    def of_scores(self, true: np.ndarray, pred: np.ndarray, known: Criterion) -> float:
        """Return the number, of finite scores."""
        raise NotImplementedError


class Ranking(_OfScores):
    """The mean of a function of scikit-learn over the classes that have others beside them."""

    #: the function
    function: ClassVar[str]

    def of_scores(self, true: np.ndarray, pred: np.ndarray, known: Criterion) -> float:
        """Return the mean, not a number if there is no such class."""
        import sklearn.metrics

        function = getattr(sklearn.metrics, self.function)
        values = [function(is_class, score) for is_class, score in self.columns(true, pred, known)]
        return float(np.mean(values)) if values else float("nan")

    def columns(self, true: np.ndarray, pred: np.ndarray, known: Criterion) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return which samples are of a class, and its scores, for each class that has others beside it."""
        if true.ndim == 1 and pred.ndim == 2 and pred.shape[1] > 2:
            pred, true = class_scores(pred, known.output), true[:, None] == np.arange(pred.shape[1])
        else:
            pred = one_score(pred, known.output) if true.ndim == 1 else pred
            true = (true > 0.5).reshape(len(true), -1)
        columns = zip(true.T, pred.reshape(true.shape).T, strict=True)
        return [(is_class, score) for is_class, score in columns if 0 < is_class.sum() < len(is_class)]


@default_for_key("roc_auc")
@default_for_key("roc_auc_score")
class RocAuc(Ranking):
    """The area under the receiver operating characteristic, ``sklearn.metrics.roc_auc_score``.

    Scores of shape ``(B, 2)``, ``(B,)`` or ``(B, 1)`` for two classes. Of more classes each against all others, after
    a softmax unless they are probabilities; the mean over those that occur. Scores of the shape of the target, with
    more columns than one, are the same if the targets are one-hot, unless the criterion compares each column for
    itself; else they are yes or no for each column: the mean over these.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state, e.g. ``RocAuc(pred_key=KEY)``.
    """

    label = function = "roc_auc_score"


class RocAucScore(RocAuc):
    """The same as :class:`RocAuc`, told how the labels are written.

    Parameters
    ----------
    one_hot_labels
        Whether targets are labels; else they are a table, with yes or no for each column of the scores.
    one_hot_offset
        The label of the first column.
    one_hot_classes
        How many columns the scores have to have; by default any number.
    **keys
        ``pred_key`` and ``target_key``, keys of the state.

    Raises
    ------
    DataError
        At the first batch, if targets or scores are not so.
    """

    def __init__(
        self, one_hot_labels: bool = True, one_hot_offset: int = 0, one_hot_classes: int | None = None, **keys: Any
    ):
        super().__init__(**keys)
        check_flags(self, one_hot_labels=one_hot_labels)
        check_whole(self, one_hot_offset=one_hot_offset)
        check_whole(self, at_least=1, **if_given(one_hot_classes=one_hot_classes))
        self.one_hot_labels, self.one_hot_offset, self.one_hot_classes = one_hot_labels, one_hot_offset, one_hot_classes

    def prepare(self, pred: Array, true: Array, state: State) -> tuple[Any, Any]:
        """Labels that begin with 0, or the table."""
        pred, true = super().prepare(pred, true, state)
        n_columns = int(pred.shape[1]) if len(pred.shape) > 1 else 1
        if self.one_hot_classes not in (None, n_columns):
            raise DataError(f"{self.name}: one_hot_classes is {self.one_hot_classes}, but the scores have {n_columns}")
        if self.one_hot_labels == (len(true.shape) > 1):
            given, other = ("labels", "a table") if self.one_hot_labels else ("a table", "labels")
            cure = f"make it with one_hot_labels={not self.one_hot_labels}"
            raise DataError(f"{self.name}: the targets are {other}, not {given}; {cure}")
        if not self.one_hot_labels:
            return pred, true
        ops = ops_of(true)  # fractions stay what they are, so that they are refused
        return pred, (true if ops.is_float(true) else ops.to_integer(true)) - self.one_hot_offset


@default_for_key("pr_auc")
class PrAuc(Ranking):
    """The area under the curve of precision and recall, ``sklearn.metrics.average_precision_score``.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state; scores and classes as for :class:`RocAuc`.
    """

    label, function = "pr_auc", "average_precision_score"


@default_for_key("ece")
@default_for_key("calibration_error")
class CalibrationError(_OfScores):
    """The expected calibration error: how far confidence and accuracy are apart, in bins of the confidence.

    The confidence is the highest probability; of one score per sample the probability of yes, which is compared with
    the share of yes. Logits go through a softmax or a sigmoid. Several labels at once are refused.

    Parameters
    ----------
    n_bins
        Bins of equal width from 0 to 1, each without its lower edge.
    pred_key, target_key
        Keys of the state.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, equation 3.
    """

    label = "ece"
    higher_is_better = False

    def __init__(self, n_bins: int = 15, **keys: Any):
        super().__init__(**keys)
        check_whole(self.name, at_least=1, n_bins=n_bins)
        self.n_bins = n_bins

    def of_scores(self, true: np.ndarray, pred: np.ndarray, known: Criterion) -> float:
        if true.ndim == 2:
            raise DataError(
                f"the metric {self.name!r} got {true.shape[1]} labels at once, each with a score of its own; the "
                "calibration is that of one label: compute it for each, e.g. of pred[:, 0] and label[:, 0]"
            )
        pred = probabilities(pred, known.output)
        confidence = pred if pred.ndim == 1 else pred.max(1)
        right = true > 0.5 if pred.ndim == 1 else pred.argmax(1) == true
        bins = np.clip(np.ceil(confidence * self.n_bins).astype(int) - 1, 0, self.n_bins - 1)
        gap = np.bincount(bins, weights=right - confidence, minlength=self.n_bins)
        return float(np.abs(gap).sum() / len(bins))


@default_for_key("r2")
class R2(OverDataset):
    """The share of the variance that is explained, ``sklearn.metrics.r2_score``; the mean over outputs.

    Parameters
    ----------
    pred_key, target_key
        Keys of the state: two arrays of one shape ``(B, ...)``.
    """

    label = "r2"
    higher_is_better = True

    def prepare(self, pred: Array, true: Array, state: State) -> tuple[Any, Any]:
        """Both in one shape, ``(B, outputs)``."""
        pred, true = same_shape(self.name, pred, true)
        ops, (n_samples, *rest) = ops_of(pred), shape_of(pred)
        shape = (n_samples, math.prod(rest))  # -1 would say nothing of an empty batch
        return ops.reshape(pred, shape), ops.reshape(true, shape)

    def compute(self, true: np.ndarray, pred: np.ndarray) -> Any:
        """Return the share; not a number for one sample, or a prediction that is not finite."""
        from sklearn.metrics import r2_score

        if not self.is_finite(pred, is_each=True):
            return np.nan
        return r2_score(true.astype(np.float64), pred.astype(np.float64)) if len(true) > 1 else np.nan
