"""Metrics of the order and the honesty of scores, and the share of variance that is explained."""

import math
from typing import Any, ClassVar

import numpy as np

from delira.errors import DataError
from delira.metrics.tree.criteria import Criterion, one_of_each_row, read_values
from delira.metrics.tree.dataset import OverDataset
from delira.metrics.tree.labels import same_shape, scores_of
from delira.metrics.tree.registry import default_for_key
from delira.metrics.tree.scores import class_scores, one_score, probabilities
from delira.metrics.tree.seen import YES_OR_NO
from delira.state import State
from delira.utils.arrays import Array, ops_of, shape_of
from delira.utils.checks import check_flags, check_whole


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

    function = "roc_auc_score"

    def __init__(self, **keys: Any):
        super().__init__("roc_auc_score", **keys)


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
        if one_hot_classes is not None:
            check_whole(self, at_least=1, one_hot_classes=one_hot_classes)
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

    function = "average_precision_score"

    def __init__(self, **keys: Any):
        super().__init__("pr_auc", **keys)


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

    higher_is_better = False

    def __init__(self, n_bins: int = 15, **keys: Any):
        super().__init__("ece", **keys)
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

    higher_is_better = True

    def __init__(self, **keys: Any):
        super().__init__("r2", **keys)

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
