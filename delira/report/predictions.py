"""Out-of-fold predictions as a classification or a regression: what is true, what was predicted, and what follows.

References
----------
C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017: the expected
calibration error.
T. Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006, section 8.1: vertical averaging.
J. Davis, M. Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006: why precision is not
interpolated linearly.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError
from delira.metrics.scoring import DEFAULT_KEYS, keys_of, lookup
from delira.metrics.tree.criteria import Criterion, log_odds, one_of_each_row
from delira.utils.arrays import iterate_leaves, map_leaves

if TYPE_CHECKING:
    import delira.experiments.result


#: of experiments, which import this package
KFoldResult: TypeAlias = "delira.experiments.result.KFoldResult"
_Pair = tuple[np.ndarray, np.ndarray]
_NOTHING = Criterion("", None)
N_BINS = 15
"""Bins of confidence, as many as Guo et al. took."""
MAX_CLASSES = 1000
"""Integers with more different values are no classes."""


class Classified(NamedTuple):
    """Cases with a true class and a predicted one."""

    true: np.ndarray
    """int64 of shape ``(n,)``."""
    predicted: np.ndarray
    """int64 of shape ``(n,)``."""
    probabilities: np.ndarray | None
    """float64 of shape ``(n, C)``; None where labels were predicted."""
    n_classes: int
    made_by: str = ""
    """What made probabilities of the outputs: ``"softmax"``, ``"sigmoid"``, or nothing."""
    kept: np.ndarray = np.empty(0, bool)
    """Which of the given cases these are, bool; those without a number are left out."""
    score: np.ndarray | None = None
    """Where one score for each case was predicted, that of class 1: as it was given, float64 of shape ``(n,)``."""
    log_odds: np.ndarray | None = None
    """Of logits: in the order of the probabilities, but not equal where these are 1, shape ``(n, C)``."""
    pair: tuple[str, ...] = ()
    """The two entries that were read."""

    @property
    def is_one_score(self) -> bool:
        """Return True if one score for each case was predicted."""
        return self.score is not None

    @property
    def is_binary(self) -> bool:
        """Return True if there are two classes, of which the second is the positive one."""
        return self.n_classes == 2

    @property
    def is_hit(self) -> np.ndarray:
        """Which cases are predicted right, bool of shape ``(n,)``."""
        return np.asarray(self.true == self.predicted)


def classify(result: Any, *, each_once: bool = False) -> Classified | None:
    """Return the tested cases as a classification, each predicted by a network that did not see it.

    Cases that were tested several times are there as often, each time with the prediction of a single network.

    It is one if the two entries of a metric, else the default ones, are integer labels of shape ``(n,)`` and class
    scores ``(n, C)`` or integer labels; or labels 0 and 1 and one score for each.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    each_once
        Take of each case the last prediction only, in the order of the data set.

    Returns
    -------
    Classified or None
        None if it is no classification.
    """
    for pair in entry_pairs(result):
        known = known_of_pair(result, pair)
        found = _tested(result, pair, each_once=True) if len(pair) == 2 else None
        if found is not None and _classified(*found, known=known) is not None:
            cases = _classified(*_tested(result, pair, each_once=each_once) or found, known=known)
            return None if cases is None else cases._replace(pair=pair)
    return None


def classify_folds(result: Any, whole: Classified) -> dict[int, Classified]:
    """Return the same for the cases of each fold, read in the same way; folds without such entries are left out.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    whole
        Its cases of all folds.
    """
    known = known_of_pair(result, whole.pair)
    found = {fold.fold: _entries(fold, whole.pair) for fold in result.folds}
    folds = {number: _classified(*one, whole, known) for number, one in found.items() if one is not None}
    return {number: one for number, one in folds.items() if one is not None}


def class_names(result: Any, n_classes: int) -> list[str]:
    """Return names of the classes; their numbers if ``info`` does not name each."""
    names = result.info.get("class_names") or ()
    return list(map(str, names if len(names) == n_classes else range(n_classes)))


def known_of_pair(result: Any, pair: Any) -> Criterion:
    """Return what was settled of the prediction of a pair; nothing of a result that has kept nothing."""
    settled = getattr(result, "settled_outputs", {})
    return next((settled[key][1] for key in pair if key in settled), Criterion("", None))


def _tested(result: Any, pair: Sequence[str], *, each_once: bool) -> _Pair | None:
    """True values and predictions of the tested cases: of repeats every one of a case, or the last only."""
    if any(fold.kept_as for fold in result.folds):
        return None  # what was kept is not what the network said
    oof = result.oof
    found = _entries(oof, pair) if oof.mask.any() else None
    if found is not None and oof.mask.all() and (each_once or result.rounds.kind == "once"):
        return found  # no copy: it may be large
    if found is None or each_once or result.rounds.kind == "once":
        return None if found is None else (found[0][oof.mask], found[1][oof.mask])
    parts = [each for fold in result.folds if (each := _entries(fold, pair)) is not None]
    return np.concatenate([true for true, _ in parts]), np.concatenate([pred for _, pred in parts])


def _entries(tested: Any, pair: Sequence[str]) -> _Pair | None:
    """True labels and predictions of a fold, or of all, whichever of the two entries comes first."""
    try:
        found = [(key, lookup({**tested.predictions, **tested.targets}, key)) for key in pair]
    except MissingKeyError:
        return None
    if not all(isinstance(array, np.ndarray) and array.ndim for _, array in found):
        return None
    # one value per case, without an axis of length 1 behind it
    columns = [(key not in tested.targets, a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a) for key, a in found]
    # torchmetrics reads (pred, label): the entry with fewer axes, else that of the batch, is the true one
    (_, true), (_, pred) = sorted(columns, key=lambda column: (column[1].ndim, column[0]))
    return (true, pred) if len(true) == len(pred) else None


def _classified(
    true: np.ndarray, pred: np.ndarray, like: Classified | None = None, known: Criterion = _NOTHING
) -> Classified | None:
    if true.ndim == pred.ndim == 2 and true.shape == pred.shape and known.kind not in ("binary", "logits"):
        if not one_of_each_row(true):
            return None
        true = true.argmax(axis=1)  # one-hot labels
    if true.ndim != 1 or not len(true):
        return None
    is_label = true.dtype.kind in "iub"
    if pred.ndim == 2 and pred.shape[1] > 1 and pred.dtype.kind == "f" and is_label:
        return _of_scores(true.astype(np.int64), pred.astype(np.float64), like, known.output)
    if pred.ndim == 1 and pred.dtype.kind == "f" and known.output == "labels" and is_label:
        pred = np.where(np.isfinite(pred), pred, -1).astype(np.int64)
    if pred.ndim == 1 and pred.dtype.kind == "f" and _is_zero_or_one(true, like is not None):
        return _of_one_score(true.astype(np.int64), pred.astype(np.float64), like, known.output)
    if pred.ndim == 1 and pred.dtype.kind in "iub" and is_label:
        true, pred = true.astype(np.int64), pred.astype(np.int64)
        n_classes = max(int(max(true.max(), pred.max())) + 1, like.n_classes if like else 0)
        if min(true.min(), pred.min()) < 0 or not 2 <= n_classes <= MAX_CLASSES:
            return None
        return Classified(true, pred, None, n_classes, kept=np.ones(len(true), bool))
    return None


def _is_zero_or_one(true: np.ndarray, is_known: bool) -> bool:
    """Return True if labels are those of two classes: both occur, unless that is known from other cases."""
    return bool(true.dtype.kind in "iubf" and np.isin(true, (0, 1)).all() and (is_known or len(np.unique(true)) == 2))


def _of_scores(true: np.ndarray, scores: np.ndarray, like: Classified | None, output: str | None) -> Classified | None:
    kept = np.isfinite(scores.max(axis=1))
    true, scores, n_classes = true[kept], scores[kept], scores.shape[1]
    if not len(true) or true.min() < 0 or true.max() >= n_classes:
        return None
    predicted = scores.argmax(axis=1)
    if output == "labels" or (
        output is None and np.isin(scores, (0, 1)).all() and (like is None or like.probabilities is None)
    ):
        return Classified(true, predicted, None, n_classes, kept=kept)  # one-hot: labels, no scores
    is_probability = np.all((scores >= 0) & (scores <= 1 + 1e-6)) and np.allclose(scores.sum(axis=1), 1, atol=1e-3)
    made_by = like.made_by if like else "" if is_probability else "softmax"
    if output in ("logits", "probabilities"):
        made_by = "softmax" if output == "logits" else ""
    if not made_by:
        return Classified(true, predicted, scores, n_classes, kept=kept)
    return Classified(true, predicted, softmax(scores), n_classes, made_by, kept, log_odds=log_odds(scores))


def _of_one_score(
    true: np.ndarray, scores: np.ndarray, like: Classified | None, output: str | None
) -> Classified | None:
    kept = np.isfinite(scores)
    true, scores = true[kept], scores[kept]
    if not len(true):
        return None
    if output is None and np.isin(scores, (0, 1)).all() and (like is None or like.probabilities is None):
        return Classified(true, scores.astype(np.int64), None, 2, kept=kept)
    is_probability = np.all((scores >= 0) & (scores <= 1))
    made_by = like.made_by if like else "" if is_probability else "sigmoid"
    if output is not None:
        made_by = "sigmoid" if output == "logits" else ""
    if output == "numbers" and not is_probability:  # cut where metrics cut them, no probabilities
        return Classified(true, (scores > 0.5).astype(np.int64), None, 2, kept=kept, score=scores)
    # the sigmoid, without overflow
    probability = 0.5 * (1 + np.tanh(0.5 * scores)) if made_by else scores
    both = np.stack([1 - probability, probability], axis=1)
    predicted = scores > 0 if made_by else scores > 0.5
    return Classified(true, predicted.astype(np.int64), both, 2, made_by, kept, scores)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities of logits, float64 of shape ``(n, C)``."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def as_probabilities(who: str, given: object, n_classes: int) -> np.ndarray:
    """Return class probabilities, float64 of shape ``(n, C)``.

    Parameters
    ----------
    who
        Needs them, for errors.
    given
        Shape ``(n, C)``, or, of two classes, those of the second: ``(n,)``.
    n_classes
        How many there are.

    Raises
    ------
    DataError
        If they are none: of another shape, not from 0 to 1, or with a sum that is not 1.
    """
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":
        raise DataError(f"{who} needs probabilities, got {array.dtype}")
    array = array.astype(np.float64)
    both = np.stack([1 - array, array], axis=1) if array.ndim == 1 and n_classes == 2 else array
    if both.ndim != 2 or both.shape[1] != n_classes:
        raise DataError(f"{who} needs probabilities of shape (n, {n_classes}), got an array of shape {array.shape}")
    if not np.all((both >= 0) & (both <= 1 + 1e-6)) or not np.allclose(both.sum(axis=1), 1, atol=1e-3):
        raise DataError(f"{who} needs probabilities, from 0 to 1 and with the sum 1, not logits")
    return both


# ------------------------------------------------------------------ numbers


def confusion_counts(cases: Classified) -> np.ndarray:
    """Cases by true and by predicted class, int64 of shape ``(C, C)``."""
    n = cases.n_classes
    return np.bincount(cases.true * n + cases.predicted, minlength=n * n).reshape(n, n)


def one_against_rest(cases: Classified) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Classes that occur and are not alone, as (class, is it, its probability); of two classes the second only.

    One score for each case is as it was given, and logits are log-odds: a sigmoid and a softmax round large ones to 1,
    and they would be no longer in order.
    """
    scores = cases.probabilities if cases.log_odds is None else cases.log_odds
    if scores is None:
        return
    for number in (1,) if cases.is_binary else range(cases.n_classes):
        is_class = cases.true == number
        if is_class.any() and not is_class.all():
            yield number, is_class, scores[:, number] if cases.score is None else cases.score


def regressed(result: Any, *, each_once: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """True values, predictions, both float64 of shape ``(n,)``, and which tested cases they are.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    each_once
        Take of a case that was tested several times the last prediction only, in the order of the data set.

    Returns
    -------
    tuple or None
        None if the entries that metrics read are no two numbers for each case.
    """
    for pair in entry_pairs(result):
        named = true_and_predicted(result.oof, pair)
        found = None if named is None else _tested(result, named, each_once=each_once)
        if found is None or any(array.ndim > 1 or array.dtype.kind not in "iuf" for array in found):
            continue
        if found[1].dtype.kind != "f":
            continue
        true, pred = (array.astype(np.float64) for array in found)
        kept = np.isfinite(true) & np.isfinite(pred)
        if kept.any():
            return true[kept], pred[kept], kept
    return None


class Reliability(NamedTuple):
    """Confidence against frequency, in bins of equal width."""

    confidence: np.ndarray
    """Mean of each bin that is not empty, shape ``(B,)``."""
    frequency: np.ndarray
    """Share that came true, shape ``(B,)``."""
    share: np.ndarray
    """Of all cases, shape ``(15,)``, empty bins included."""
    error: float
    """Expected calibration error: the gap of each bin, weighted by its share."""


def reliability(cases: Classified) -> Reliability:
    """Return how often what was predicted with some confidence came true (Guo et al. 2017).

    The confidence is the largest probability, which is right or wrong; of one score for each case it is that score, and
    true is class 1, as of :class:`~delira.metrics.CalibrationError`.
    """
    if cases.probabilities is None:
        confidence, came_true = np.empty(0), np.empty(0, bool)
    elif cases.is_one_score:
        confidence, came_true = cases.probabilities[:, 1], cases.true == 1
    else:
        confidence, came_true = cases.probabilities.max(axis=1), cases.is_hit
    bins = np.clip(np.ceil(confidence * N_BINS).astype(int) - 1, 0, N_BINS - 1)
    counts = np.bincount(bins, minlength=N_BINS)
    full = counts > 0
    means = np.bincount(bins, weights=confidence, minlength=N_BINS)[full] / counts[full]
    shares = np.bincount(bins, weights=came_true, minlength=N_BINS)[full] / counts[full]
    weights = counts / max(1, counts.sum())
    return Reliability(means, shares, weights, float(np.sum(weights[full] * np.abs(means - shares))))


GRID = np.arange(101) / 100
"""Where curves are averaged; to the bit the shares of whole numbers that rates are, as precision leaps there."""
OnGrid = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]
"""Is it the class, and its scores, to the curve at ``GRID`` and its area."""


class Band(NamedTuple):
    """Curves of folds over one axis."""

    x: np.ndarray
    """Shape ``(P,)``."""
    folds: dict[int, np.ndarray]
    """Fold to its curve, shape ``(P,)``."""
    areas: dict[int, float]
    """Fold to the area under its curve, as scikit-learn computes it, not on the grid."""

    @property
    def mean(self) -> np.ndarray:
        """Over folds, shape ``(P,)``."""
        return np.asarray(np.mean([*self.folds.values()], axis=0))

    @property
    def std(self) -> np.ndarray:
        """Over folds (ddof 1; 0 for one fold), shape ``(P,)``."""
        curves = np.array([*self.folds.values()])
        return np.asarray(np.std(curves, axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(self.x)))

    @property
    def area(self) -> tuple[float, float]:
        """Mean and standard deviation of the folds' areas; NaN where there are too few."""
        areas = [*self.areas.values()]
        std = float(np.std(areas, ddof=1)) if len(areas) > 1 else np.nan
        return float(np.mean(areas)) if areas else np.nan, std


def roc_bands(folds: Mapping[int, Classified]) -> tuple[Band, dict[int, Band]]:
    """True-positive rate over false-positive rate: of the mean over classes, and of each class against the rest.

    Parameters
    ----------
    folds
        Fold to its cases; a fold in which no class has others beside it has no curve.

    Returns
    -------
    tuple
        The band of the macro average (of two classes that of the second), and bands by class.
    """
    from sklearn.metrics import auc, roc_curve

    def on_grid(is_class: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
        false_rate, true_rate, _ = roc_curve(is_class, score)
        curve = np.interp(GRID, false_rate, true_rate)
        curve[0] = 0.0
        return curve, float(auc(false_rate, true_rate))

    return _bands(folds, on_grid)


def precision_recall_bands(folds: Mapping[int, Classified]) -> tuple[Band, dict[int, Band]]:
    """Precision over recall, with average precision as the area; otherwise as :func:`roc_bands`."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    def on_grid(is_class: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
        precision, recall, _ = precision_recall_curve(is_class, score)
        # recall falls; the precision at a recall is that of the threshold which reaches it
        at = np.searchsorted(recall[::-1], GRID, side="left")
        return precision[::-1][np.minimum(at, len(recall) - 1)], float(average_precision_score(is_class, score))

    return _bands(folds, on_grid)


def _bands(folds: Mapping[int, Classified], on_grid: OnGrid) -> tuple[Band, dict[int, Band]]:
    macro, classes = Band(GRID, {}, {}), dict[int, Band]()
    for fold, cases in folds.items():
        found = {number: on_grid(is_class, score) for number, is_class, score in one_against_rest(cases)}
        for number, (curve, area) in found.items():
            band = classes.setdefault(number, Band(GRID, {}, {}))
            band.folds[fold], band.areas[fold] = curve, area
        if found:
            curves, areas = zip(*found.values(), strict=True)
            macro.folds[fold], macro.areas[fold] = np.mean(curves, axis=0), float(np.mean(areas))
    return macro, dict(sorted(classes.items()))


def curve_band(epochs: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Epochs that every fold has, and mean and standard deviation (ddof 1) over the folds there."""
    common = np.array(sorted(set.intersection(*(set(each.tolist()) for each in epochs))))
    rows = [dict(zip(at.tolist(), each.tolist(), strict=True)) for at, each in zip(epochs, values, strict=True)]
    table = np.array([[row[epoch] for epoch in common.tolist()] for row in rows]).reshape(len(rows), len(common))
    std = table.std(axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(common))
    return common, table.mean(axis=0), std


class Part(NamedTuple):
    """Cases that were tested together, each once."""

    folds: list[Any]
    """The folds that tested them."""
    cases: np.ndarray
    """Indices in the data set, int64 of shape ``(n,)``."""
    values: Mapping[str, Any]
    """Predictions and entries of the batches, trees of arrays of shape ``(n, ...)``."""
    per_case: Mapping[str, np.ndarray]
    """Values of the metrics over samples, float64 of shape ``(n,)``."""

    @property
    def name(self) -> str:
        """The fold, or how many folds they are."""
        return f"fold {self.folds[0].fold}" if len(self.folds) == 1 else f"{len(self.folds)} folds"


def folds_of(result: KFoldResult) -> list[Part]:
    """Each fold by itself.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    return [part_of(result, fold) for fold in result.folds]


def part_of(result: Any, fold: Any) -> Part:
    """Return the cases that a fold tested.

    Parameters
    ----------
    result, fold
        A ``KFoldResult``, and one of its folds.
    """
    return Part(
        [fold],
        fold.test_indices,
        {**fold.predictions, **fold.targets},  # as in a MetricSet's update: the batch wins
        {name: values for name, values in fold.metrics.items() if result.is_per_case(name)},
    )


def learned_from(fold: Any) -> np.ndarray:
    """Cases that a network was made with, those included that chose its epoch; int64, ascending.

    Parameters
    ----------
    fold
        A finished one.
    """
    parts = [fold.train_indices, *([] if fold.val_indices is None else [fold.val_indices])]
    return np.unique(np.concatenate(parts))


def rounds_of(result: KFoldResult) -> list[Part]:
    """Rounds of folds in which no case is tested twice, with their cases in the order of the data set."""
    rounds = result.rounds
    if rounds.kind == "splits":
        return folds_of(result)
    parts = []
    for folds in rounds.folds:
        oof = result.oof if len(folds) == len(result.folds) else result.aligned(folds)
        mask, values = oof.mask, {**oof.predictions, **oof.targets}
        if not mask.all():
            values = map_leaves(lambda leaf: None if leaf is None else leaf[mask], values)  # noqa: B023
        per_case = {name: found[mask] for name, found in oof.per_case.items()}
        parts.append(Part(folds, np.flatnonzero(mask), values, per_case))
    return parts


def arrays_of(result: Any, name: str, part: Part) -> Sequence[Any]:
    """Return what a metric reads of the cases of a part, in the order of its arguments.

    Raises
    ------
    MissingKeyError
        If an entry was not kept, or does not have one row per case.
    """
    arrays = []
    changed = [fold for fold in part.folds if fold.kept_as]
    for key in keys_of(result.metrics, result.metric_keys)[name]:
        if changed and key.split(".", 1)[0] not in changed[0].targets:
            raise MissingKeyError(f"{key!r} as the network said it was not kept: {changed[0].kept_as}")
        array = lookup(part.values, key)
        if any(leaf is None or np.shape(leaf)[:1] != part.cases.shape for _, leaf in iterate_leaves(array)):
            raise MissingKeyError(f"the entry {key!r} does not have one row per case")
        arrays.append(map_leaves(np.asarray, array))
    return arrays


def target_of(result: Any, name: str, part: Part) -> Any:
    """Return the entry of the batch among what a metric reads; None if there is none."""
    for key in keys_of(result.metrics, result.metric_keys)[name]:
        if key.split(".", 1)[0] in part.folds[0].targets:
            return lookup(part.values, key)
    return None


def entry_pairs(result: KFoldResult) -> list[tuple[str, ...]]:
    """Entries that metrics read, each once: those that are known here, those that the run names, the usual ones.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    try:
        keys = keys_of(result.metrics or {}, result.metric_keys)
    except ConfigError:  # metrics of a stored run that are not known here
        keys = {}
    named = [tuple(pair) for pair in (result.metric_keys or {}).values()]
    return list(dict.fromkeys([*keys.values(), *named, DEFAULT_KEYS]))


def true_and_predicted(oof: Any, pair: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the entry of the batch and the one of the predictions; None if a pair is not one of each.

    Parameters
    ----------
    oof
        An ``OutOfFold``.
    pair
        Entries, in any order.
    """
    targets = [key for key in pair if key.split(".", 1)[0] in oof.targets]
    outputs = [key for key in pair if key not in targets]
    return (targets[0], outputs[0]) if len(targets) == len(outputs) == 1 else None


def tests_of(result: Any) -> str:
    """What is counted on a page: cases, or, where cases are tested several times, the predictions of single networks.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    rounds = result.rounds
    return "cases" if rounds.kind == "once" else f"predictions, of {len(rounds.folds)} {rounds.kind}"
