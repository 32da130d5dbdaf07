"""Metrics over whole arrays: in plain numpy, and scikit-learn's with the historic names, scores in, one number out."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from delira.errors import (
    ConfigError,
    DataError,
    DeliraError,
    check_choice,
    check_flags,
    check_functions,
    check_whole,
    did_you_mean,
)
from delira.metrics.scoring import per_sample
from delira.metrics.tree.criteria import class_scores, one_of_each_row, one_score, probabilities
from delira.metrics.tree.labels import check_labels, check_settings, check_types
from delira.utils.arrays import Array

MAX_CLASSES = 1 << 16


def accuracy(y_true: Array, y_pred: Array, class_axis: int = 1) -> float:
    """Share of labels predicted correctly.

    Parameters
    ----------
    y_true
        Labels of shape ``(N, ...)`` or ``(N, 1)``; or one-hot, of the shape of ``y_pred``.
    y_pred
        Class scores of shape ``(N, C, ...)``, whose argmax over axis 1 is taken; or labels.
    class_axis
        Where the classes lie, ``-1`` for scores of shape ``(N, ..., C)``; a trainer's backend says it.

    Returns
    -------
    float
        Not a number if a prediction is not finite: NaN, or of class scores the highest infinite.

    Raises
    ------
    ConfigError
        If ``class_axis`` is no axis.
    DataError
        If the shapes do not fit, scores come where labels are needed, or a label is none of the classes.
    """
    return float(np.mean(hits(y_true, y_pred, class_axis)))


def hits(y_true: Array, y_pred: Array, class_axis: int = 1) -> np.ndarray:
    """Which labels are predicted correctly: 1, 0, or NaN where a prediction is not finite; float64 of their shape.

    Parameters
    ----------
    y_true, y_pred, class_axis
        As for :func:`accuracy`.
    """
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    axis = _axis("accuracy", class_axis, pred)
    check_settings("accuracy", class_axis=axis)
    if _is_one_hot(true, pred, axis):
        true, pred = true.argmax(axis), _chosen(pred, axis)
    true, pred, is_lost = _labels("accuracy", true, pred, axis)
    return np.where(is_lost, np.nan, true == pred)


@per_sample
def dice(y_true: Array, y_pred: Array, class_axis: int = 0) -> float:
    """Sørensen-Dice coefficient of one sample, the mean over its foreground classes.

    For each class but the background 0 that occurs in the label or in the prediction,
    ``2 |A ∩ B| / (|A| + |B|)``, where A and B are the pixels of that class in label and prediction.
    If neither has any foreground, the value is 1.0.

    Parameters
    ----------
    y_true
        Mask of one sample, integers of shape ``(...)`` or ``(1, ...)``.
    y_pred
        Mask of the same shape, or class scores of shape ``(C, ...)``, whose argmax is taken.
    class_axis
        Where the classes of the scores lie, ``-1`` for the shape ``(..., C)``; a trainer's backend says it.

    Returns
    -------
    float
        Not a number if a prediction is not finite.

    Raises
    ------
    ConfigError
        If ``class_axis`` is no axis.
    DataError
        If the shapes do not fit, scores come where labels are needed, or a label is negative.

    References
    ----------
    L. R. Dice, "Measures of the Amount of Ecologic Association Between Species", Ecology 26(3), 1945.
    """
    pred = np.asarray(y_pred)
    axis = _axis("dice", class_axis, pred)
    true, pred, is_lost = _labels("dice", np.asarray(y_true), pred, axis)
    if is_lost.any():
        return float("nan")
    true, pred = _as_index(true), _as_index(pred)
    n_classes = int(max(true.max(initial=0), pred.max(initial=0))) + 1
    sizes = np.bincount(true, minlength=n_classes) + np.bincount(pred, minlength=n_classes)
    overlap = np.bincount(true[true == pred], minlength=n_classes)
    present = np.flatnonzero(sizes[1:]) + 1
    return float(np.mean(2 * overlap[present] / sizes[present])) if len(present) else 1.0


def _axis(name: str, class_axis: Any, pred: np.ndarray) -> int:
    """Return where the classes are, counted from the first axis."""
    check_whole(name, at_least=-1, class_axis=class_axis)
    return int(class_axis) if class_axis != -1 else max(pred.ndim - 1, 1)


def _as_index(mask: np.ndarray) -> np.ndarray:
    if mask.dtype.kind not in "biuf":
        raise DataError(f"dice counts labels that are whole numbers, got labels of the type {mask.dtype}")
    if mask.size and (mask.min() < 0 or mask.max() >= MAX_CLASSES):
        raise DataError(
            f"dice counts labels from 0 to {MAX_CLASSES - 1}, got labels from {mask.min()} to {mask.max()}; "
            "give pixels to be ignored the background label 0 in both masks"
        )
    return mask.ravel().astype(np.intp, copy=False)


def _labels(name: str, true: np.ndarray, pred: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two label arrays of one shape, and where predictions are not finite; class scores lie along ``axis``."""
    n_classes = 0
    check_types(name, pred, true)
    if true.ndim > axis and true.shape[axis] == 1 and pred.shape != true.shape:
        true = true.squeeze(axis)  # the channel of a label that has only one
    if pred.ndim == true.ndim + 1 and pred.ndim > axis:
        # A single score is no class score: it must be a label, which is checked below.
        is_score = pred.shape[axis] > 1
        n_classes = pred.shape[axis] if is_score else 0
        pred = _chosen(pred, axis) if is_score else pred.squeeze(axis)
    if true.shape != pred.shape:
        raise DataError(
            f"{name} got labels of shape {true.shape} and predictions of shape {pred.shape}; predictions are "
            f"labels of the same shape, or class scores with one axis more, the classes on axis {axis}"
        )
    is_lost = ~np.isfinite(pred) if pred.dtype.kind == "f" else np.zeros(pred.shape, bool)
    for what, array, is_known in (("y_true", true, np.ones(true.shape, bool)), ("y_pred", pred, ~is_lost)):
        if (fractions := _fractions(array) & is_known).any():
            raise DataError(
                f"{name} got {what} of shape {array.shape} with values like {array[fractions][0]}, which are "
                "no labels; compare scores with a threshold first, e.g. y_pred > 0.5"
            )
    if n_classes:
        check_labels(name, true, n_classes)
    return true, pred, is_lost


def _chosen(scores: np.ndarray, axis: int) -> np.ndarray:
    """Return the labels with the highest score, not a number where that is not finite."""
    found, top = scores.argmax(axis), scores.max(axis)
    is_lost = ~np.isfinite(top) if scores.dtype.kind == "f" else np.zeros(top.shape, bool)
    return np.where(is_lost, np.nan, found) if is_lost.any() else found


def _fractions(array: np.ndarray) -> np.ndarray:
    """Return where values are not whole numbers, NaN included."""
    return array != np.floor(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)


def _is_one_hot(true: np.ndarray, pred: np.ndarray, axis: int) -> bool:
    """Return True if both are one-hot or scores along an axis, not label maps that happen to be 0 and 1."""
    if true.shape != pred.shape or not one_of_each_row(true, axis):
        return False
    return bool(_fractions(pred).any()) if true.ndim > 2 else pred.dtype.kind == "f" or one_of_each_row(pred, axis)


#: functions of scikit-learn that compare labels: scores are argmaxed, or compared with a threshold
OF_LABELS = {
    "accuracy_score", "adjusted_mutual_info_score", "adjusted_rand_score", "balanced_accuracy_score",
    "class_likelihood_ratios", "cohen_kappa_score", "completeness_score", "confusion_matrix", "f1_score", "fbeta_score",
    "fowlkes_mallows_score", "hamming_loss", "homogeneity_completeness_v_measure", "homogeneity_score",
    "jaccard_score", "matthews_corrcoef", "multilabel_confusion_matrix", "mutual_info_score",
    "normalized_mutual_info_score", "pair_confusion_matrix",
    "precision_recall_fscore_support", "precision_score", "rand_score", "recall_score",
    "v_measure_score", "zero_one_loss",
}  # fmt: skip
#: that compare labels with probabilities: other scores go through a softmax or a sigmoid
OF_PROBABILITIES = {"brier_score_loss", "d2_brier_score", "d2_log_loss_score", "log_loss"}
#: that rank samples, of more than two classes by probabilities
OF_RANKS = {"average_precision_score", "roc_auc_score"}
#: that rank the labels of a sample: of one true label it is known which of them are true
OF_RANKED_LABELS = {
    "coverage_error", "dcg_score", "label_ranking_average_precision_score", "label_ranking_loss", "ndcg_score",
}  # fmt: skip
#: that look where the highest score is, or how far it lies from 0
OF_DECISIONS = {"hinge_loss", "top_k_accuracy_score"}
#: that compare labels with any scores
OF_SCORES = OF_RANKS | OF_RANKED_LABELS | OF_DECISIONS
#: that compare numbers
OF_NUMBERS = {
    "d2_absolute_error_score", "d2_pinball_score", "d2_tweedie_score", "explained_variance_score", "max_error",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_pinball_loss",
    "mean_poisson_deviance", "mean_squared_error", "mean_squared_log_error", "mean_tweedie_deviance",
    "median_absolute_error", "r2_score", "root_mean_squared_error", "root_mean_squared_log_error",
}  # fmt: skip
#: every function of scikit-learn that is understood
KNOWN_FUNCTIONS = OF_LABELS | OF_PROBABILITIES | OF_SCORES | OF_NUMBERS


def unwrapped(function: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return what partials call in the end, and the arguments and keywords that they give it."""
    args: tuple[Any, ...] = ()
    settings: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        args, settings, function = (*function.args, *args), {**function.keywords, **settings}, function.func
    return function, args, settings


def sklearn_function(name: object) -> Callable[..., Any] | None:
    """Return the function of ``sklearn.metrics``, if that has been imported and has one of the name."""
    return getattr(sys.modules.get("sklearn.metrics"), name, None) if isinstance(name, str) else None


def is_known(metric: object) -> bool:
    """Return True for a function of scikit-learn, or a partial of one, of which it is known what it compares."""
    function = unwrapped(metric)[0]
    name = getattr(function, "__name__", None)
    # by identity: what wraps a function of scikit-learn has its name, too
    return name in KNOWN_FUNCTIONS and sklearn_function(name) is function


def is_of_sklearn(function: object) -> bool:
    """Return True if a function, or what a partial calls, is one of scikit-learn."""
    return str(getattr(unwrapped(function)[0], "__module__", "")).partition(".")[0] == "sklearn"


#: what gives one number; some need as many labels as predictions
AVERAGES = ("binary", "macro", "micro", "weighted", "samples")


class SklearnClassificationMetric:
    """A function of scikit-learn that compares labels, fed with labels or class scores.

    Parameters
    ----------
    score_fn
        Called as ``score_fn(y_true=..., y_pred=..., **kwargs)``.
    gt_logits
        Whether ``y_true`` is one-hot or scores; its argmax over the last axis is taken.
    pred_logits
        Whether ``y_pred`` are class scores of shape ``(..., C)``; their argmax over the last axis is taken.
    **kwargs
        For ``score_fn``, e.g. ``average="macro"``; arguments of a call win.

    Raises
    ------
    ConfigError
        If ``score_fn`` is no function, or a flag is none.
    """

    def __init__(self, score_fn: Callable[..., Any], gt_logits: bool = False, pred_logits: bool = True, **kwargs: Any):
        check_functions(self, score_fn=score_fn)
        check_flags(self, gt_logits=gt_logits, pred_logits=pred_logits)
        self.score_fn = score_fn
        #: whether errors are scikit-learn's about what it was given, and not of a user's function
        self._is_of_sklearn = is_of_sklearn(score_fn)
        self.gt_logits, self.pred_logits = gt_logits, pred_logits
        self.kwargs = kwargs

    def __call__(self, y_true: Array, y_pred: Array, **kwargs: Any) -> float:
        """Evaluate on arrays of shape ``(N, ...)`` or, where their flag is set, ``(N, ..., C)``.

        Raises
        ------
        DataError
            If an argmax is asked for where there is no class axis, or both cannot be compared.
        """
        true = self._true(y_true)
        if _is_lost(y_pred, is_scores=self.pred_logits):
            return float("nan")
        pred = _flat(_argmax("y_pred", "pred_logits", y_pred) if self.pred_logits else np.asarray(y_pred))
        if self.pred_logits:
            check_labels(type(self).__name__, true, np.shape(y_pred)[-1])
        with told(self, y_true, y_pred) if self._is_of_sklearn else contextlib.nullcontext():
            return float(self.score_fn(y_true=true, y_pred=pred, **{**self.kwargs, **kwargs}))

    def _true(self, y_true: Array) -> np.ndarray:
        """Return the labels."""
        if not self.gt_logits:
            return _flat(np.asarray(y_true))
        if _is_lost(y_true, is_scores=True):
            raise DataError(f"{self!r} got y_true with values that are not finite, of which no label can be read")
        return _flat(_argmax("y_true", "gt_logits", y_true))

    def __repr__(self) -> str:
        settings = {"gt_logits": self.gt_logits, "pred_logits": self.pred_logits, **self.kwargs}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"


class _Named(SklearnClassificationMetric):
    """A metric whose function is fixed; scikit-learn is imported when it is first called."""

    function: ClassVar[str]
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, gt_logits: bool = False, pred_logits: bool = True, **kwargs: Any):
        super().__init__(self._call_sklearn, gt_logits, pred_logits, **{**self.defaults, **kwargs})
        self._is_of_sklearn = True
        check_keywords(self, self.function, kwargs)

    def _call_sklearn(self, **kwargs: Any) -> Any:
        import sklearn.metrics

        return getattr(sklearn.metrics, self.function)(**kwargs)


class SklearnAccuracyScore(_Named):
    """``sklearn.metrics.accuracy_score``."""

    function = "accuracy_score"


class SklearnBalancedAccuracyScore(_Named):
    """``sklearn.metrics.balanced_accuracy_score``."""

    function = "balanced_accuracy_score"


class SklearnF1Score(_Named):
    """``sklearn.metrics.f1_score``; more than two classes need ``average=``, e.g. ``"macro"``."""

    function = "f1_score"


class SklearnFBetaScore(_Named):
    """``sklearn.metrics.fbeta_score``; ``beta`` defaults to 1, more than two classes need ``average=``."""

    function = "fbeta_score"
    defaults: ClassVar[dict[str, Any]] = {"beta": 1.0}


class SklearnHammingLoss(_Named):
    """``sklearn.metrics.hamming_loss``."""

    function = "hamming_loss"


class SklearnJaccardSimilarityScore(_Named):
    """``sklearn.metrics.jaccard_score``; more than two classes need ``average=``.

    The historic name is that of a function which scikit-learn removed in 0.23; for labels of one class
    per sample that function was the accuracy, which ``SklearnAccuracyScore`` still gives.
    """

    function = "jaccard_score"


class SklearnLogLoss(_Named):
    """``sklearn.metrics.log_loss``, which needs probabilities: nothing is argmaxed in ``y_pred``.

    With ``pred_logits=True``, scores ``(..., C)`` whose rows are all probabilities (not negative, summing to
    1 within 1e-3) are taken as they are; other scores go through a softmax. With ``pred_logits=False`` they
    are handed on unchanged. Unless ``labels`` is given, the classes are 0 to C-1, occurring or not.
    """

    function = "log_loss"
    #: what the loss of the predictions, or a setting, says that they are; None: what their values say
    output: str | None = None

    def __call__(self, y_true: Array, y_pred: Array, **kwargs: Any) -> float:
        """Evaluate on labels of shape ``(N, ...)`` and scores ``(N, ..., C)`` or (binary) ``(N,)``."""
        import sklearn.metrics

        true, pred = self._true(y_true), np.asarray(y_pred)
        _check_numbers("y_pred", pred)
        is_scores = pred.ndim > 1 and pred.shape[-1] > 1
        if _is_lost(pred, is_scores=is_scores):
            return float("nan")
        settings = {**self.kwargs, **kwargs}
        if true.dtype.kind not in "biuf" and "labels" not in settings:
            raise DataError(
                f"{self!r} got y_true of the type {true.dtype}, and scores; number the classes from 0, or say which "
                "labels the columns stand for by labels="
            )
        pred = pred.reshape(-1, pred.shape[-1]) if is_scores else pred.ravel().astype(np.float64)
        if is_scores and true.ndim == 1 and true.dtype.kind in "biuf" and "labels" not in settings:
            check_labels(type(self).__name__, true, pred.shape[-1])
            settings["labels"] = np.arange(pred.shape[-1])
        if is_scores and self.pred_logits:
            pred = probabilities(pred, self.output)
        with told(self, y_true, y_pred):
            return float(sklearn.metrics.log_loss(true, pred, **settings))  # its second name differs by version


class SklearnMatthewsCorrCoeff(_Named):
    """``sklearn.metrics.matthews_corrcoef``."""

    function = "matthews_corrcoef"


class SklearnPrecisionScore(_Named):
    """``sklearn.metrics.precision_score``; more than two classes need ``average=``."""

    function = "precision_score"


class SklearnRecallScore(_Named):
    """``sklearn.metrics.recall_score``; more than two classes need ``average=``."""

    function = "recall_score"


class SklearnZeroOneLoss(_Named):
    """``sklearn.metrics.zero_one_loss``."""

    function = "zero_one_loss"


class AurocMetric:
    """Area under the receiver operating characteristic, ``sklearn.metrics.roc_auc_score``.

    Parameters
    ----------
    classes
        The labels, in the order of the score columns; of two, the second is the positive one. More than
        two are binarised, each against all others.
    **kwargs
        For ``roc_auc_score``, e.g. ``average="weighted"``; arguments of a call win.

    Raises
    ------
    ConfigError
        If there are fewer than two different classes, or ``roc_auc_score`` takes no such settings.
    """

    higher_is_better = True
    #: what the loss of the predictions, or a setting, says that they are; None: nobody says it
    output: str | None = None

    def __init__(self, classes: Sequence[Any] = (0, 1), **kwargs: Any):
        is_list = isinstance(classes, (Collection, np.ndarray)) and not isinstance(classes, (str, bytes, Mapping))
        if not is_list or len(set(classes)) != len(classes) or len(classes) < 2:
            raise ConfigError(f"AurocMetric needs a list of at least two different classes, got classes={classes!r}")
        check_keywords(self, "roc_auc_score", kwargs)
        self.classes, self.kwargs = tuple(classes), kwargs

    def __call__(self, y_true: Array, y_pred: Array, **kwargs: Any) -> float:
        """Evaluate.

        Parameters
        ----------
        y_true
            Labels of shape ``(N,)`` or ``(N, 1)``.
        y_pred
            Scores of shape ``(N, C)``, ranked as they are unless a trainer knows them for logits; for two classes also
            ``(N,)`` or ``(N, 1)``: of the second class.

        Raises
        ------
        DataError
            If the number of score columns is not that of the classes, or a label is none of the classes.
        """
        from sklearn.metrics import roc_auc_score
        from sklearn.preprocessing import label_binarize

        true, scores = np.asarray(y_true).ravel(), np.asarray(y_pred)
        n_classes = len(self.classes)
        _check_numbers("y_pred", scores)
        if _is_lost(scores, is_scores=scores.ndim == 2 and scores.shape[1] > 1):
            return float("nan")
        if unknown := sorted(set(np.unique(true).tolist()) - set(self.classes)):
            raise DataError(f"AurocMetric(classes={self.classes}) got the labels {unknown}; name all classes")
        if scores.ndim == 2 and scores.shape[1] == n_classes:
            if self.output == "logits":
                scores = one_score(scores, "logits") if n_classes == 2 else class_scores(scores, "logits")
            elif n_classes == 2:
                scores = scores[:, 1]
        elif n_classes == 2 and (scores.ndim == 1 or scores.shape[1:] == (1,)):
            scores = scores.ravel()
        else:
            raise DataError(
                f"AurocMetric(classes={self.classes}) needs scores of shape (N, {n_classes}), "
                f"got {scores.shape}; name all classes in the order of the columns"
            )
        with told(self, y_true, y_pred):
            binary = true == self.classes[1] if n_classes == 2 else label_binarize(true, classes=self.classes)
            return float(roc_auc_score(binary, scores, **{**self.kwargs, **kwargs}))

    def __repr__(self) -> str:
        return f"AurocMetric(classes={self.classes!r})"


@contextlib.contextmanager
def told(metric: object, y_true: Array, y_pred: Array) -> Iterator[None]:
    """Let scikit-learn's refusals be those of a metric, which say what it was given.

    Raises
    ------
    ConfigError
        If it is a setting that scikit-learn does not take.
    DataError
        If it cannot compare both.
    """
    try:
        yield
    except DeliraError:
        raise
    except (TypeError, ValueError) as error:
        if type(error).__name__ == "InvalidParameterError" or "keyword argument" in str(error):
            raise ConfigError(f"{metric!r}: {error}") from error
        given = [f"{np.shape(array)} and type {np.asarray(array).dtype}" for array in (y_true, y_pred)]
        raise DataError(
            f"{metric!r} cannot compare y_true of shape {given[0]} with y_pred of shape {given[1]}: {error}"
        ) from error


def check_keywords(metric: object, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that a function of scikit-learn does not take, and averages that are no single number.

    Raises
    ------
    ConfigError
        Naming the setting.
    """
    if not settings:
        return
    import sklearn.metrics

    known = inspect.signature(getattr(sklearn.metrics, name)).parameters
    for setting in settings:
        if setting not in known:
            raise ConfigError(
                f"{type(metric).__name__}: {name} of scikit-learn takes no {setting!r}{did_you_mean(setting, known)}"
            )
    if "average" in settings:
        check_choice(metric, AVERAGES, average=settings["average"])


def _check_numbers(what: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be numbers, got an array of shape {array.shape} and type {array.dtype}")


def _argmax(what: str, flag: str, scores: Array) -> np.ndarray:
    scores = np.asarray(scores)
    _check_numbers(what, scores)
    if scores.ndim < 2:
        raise DataError(
            f"{flag}=True takes the argmax over the last axis of {what}, which has shape {scores.shape} "
            f"and no class axis; use {flag}=False for labels"
        )
    # Further axes (pixels) become samples: scikit-learn compares one label per row.
    return scores.argmax(-1).ravel()


def _flat(labels: np.ndarray) -> np.ndarray:
    """Labels with one row per sample; (N, L) is kept, it may be a multi-label indicator."""
    return labels if labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] > 1) else labels.ravel()


def _is_lost(pred: Array, *, is_scores: bool) -> bool:
    """Return True if a prediction is no finite number; of scores on the last axis the highest has to be one."""
    pred = np.asarray(pred)
    if pred.dtype.kind != "f" or not pred.size:
        return False
    return not bool(np.isfinite(pred.max(axis=-1) if is_scores and pred.ndim > 1 else pred).all())
