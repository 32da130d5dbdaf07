"""Metrics that follow from how often which label was taken for which."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from delira.errors import DataError, check_choice, check_numbers
from delira.metrics.gather import LARGE, Pending
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.hanging import default_for_key
from delira.metrics.tree.labels import LOST, Labels, by_sample, check_labels, check_settings, labels_of
from delira.state import State
from delira.utils.arrays import as_array, ops_of, shape_of, to_plain


class Counting(Stateless):
    """Counts pairs of a true and a predicted label; what follows is computed by scikit-learn, of the pairs as weights.

    Scores with an axis for the classes are argmaxed; scores of the shape of the target say yes or no, above 0.5, or
    above 0 with a criterion of logits. Whole numbers are labels.

    Parameters
    ----------
    threshold
        Instead of 0.5 or 0.
    ignore_index
        Targets that do not count; ``None`` for none.
    pred_key, target_key
        Keys of the state.
    """

    reads_outputs = True

    #: the function of scikit-learn that it is; empty: none
    function: ClassVar[str] = ""
    #: what it is given besides labels and their weights
    setting_names: ClassVar[tuple[str, ...]] = ()
    higher_is_better: bool | None = True

    def __init__(self, *, threshold: float | None = None, ignore_index: int | None = -100, **keys: Any):
        super().__init__(**keys)
        check_settings(self.name, threshold=threshold, ignore_index=ignore_index)
        self.threshold, self.ignore_index = threshold, ignore_index
        #: labels of the whole data set, where somebody knows them: what an average goes over is not for a part to say
        self.classes: tuple[int, ...] = ()

    def _clear(self) -> None:
        super()._clear()
        self._pending = Pending(self._take)
        self._counts: Counter[tuple[int, int]] = Counter()
        self._n_classes = self._n_samples = 0

    def process(self, *args: Any) -> Any:
        """Take in the labels of a batch: many are counted on their device, few are kept as they are."""
        labels = self.labels(args[0])
        for what, array in (("predictions", labels.pred), ("targets", labels.true)):
            if getattr(array.dtype, "kind", "") in ("O", "S", "U", "T"):
                raise DataError(f"the metric {self.name!r} counts labels that are whole numbers, got texts as {what}")
        self.classes = self.known_in(args[0]).classes
        n_classes, shape = labels.n_classes, shape_of(labels.pred)
        self._n_classes = max(self._n_classes, n_classes)
        if n_classes and math.prod(shape) > LARGE and n_classes**2 <= LARGE:
            arrays, allowed = [self._counted(labels)], n_classes
        else:
            given = () if labels.given is None else (labels.given,)
            arrays = list(map(ops_of(labels.pred).keep, (labels.pred, labels.true, *given)))
            allowed = labels.allowed
        self._pending.append(arrays, (self._n_samples, allowed))
        self._n_samples += shape[0] if shape else 1

    def labels(self, state: State) -> Labels:
        """Predicted and true labels of a batch, of one shape."""
        return labels_of(self.name, *self.pair(state), self.known_in(state), self.threshold)

    def _counted(self, labels: Labels) -> Any:
        """Pairs of labels, then those that do not count, that are wrong, and that have no finite score."""
        n_classes, ops = labels.n_classes, ops_of(labels.pred)
        pred, true = ops.to_integer(labels.pred), ops.to_integer(labels.true)
        none, wrong, lost = n_classes**2, n_classes**2 + 1, n_classes**2 + 2
        index = ops.where((true >= 0) & (true < n_classes), true * n_classes + pred, wrong)
        index = ops.where(pred != LOST, index, lost)
        if self.ignore_index is not None:
            index = ops.where(true != self.ignore_index, index, none)
        return ops.bincount(index, n_classes**2 + 3)

    def _take(self, arrays: list[np.ndarray], note: tuple[int, int]) -> None:
        start, n_classes = note
        if len(arrays) > 1:
            self._counts.update(self._pairs(start, n_classes, arrays))
            return
        *counted, _, n_wrong, n_lost = arrays[0].tolist()
        if n_wrong:
            raise DataError(
                f"the metric {self.name!r} got {n_wrong} targets that are none of the {n_classes} classes of the "
                f"prediction, which are 0 and above, in the batch that begins with sample {start}; name the one that "
                "does not count by ignore_index="
            )
        self._lost += [start] if n_lost else []
        self._counts.update({divmod(at, n_classes): number for at, number in enumerate(counted) if number})

    def _pairs(self, start: int, allowed: int, arrays: list[np.ndarray]) -> dict[tuple[int, int], int]:
        """Return the pairs of labels of a batch that was kept, and how often each occurred."""
        pred, true = (array.ravel() for array in arrays[:2])
        given = arrays[-1] if len(arrays) > 2 else None
        if given is not None:
            check_labels(self.name, given, allowed, self.ignore_index, start)
        counts = np.full(true.shape, True)
        if self.ignore_index is not None:
            counts = (true if given is None else given.ravel()) != self.ignore_index
        is_lost = counts & (pred == LOST)
        if is_lost.any():
            of_sample = is_lost.reshape(arrays[0].shape)
            self._lost += (np.flatnonzero(by_sample(of_sample)) + start).tolist()
            counts &= ~is_lost
        pairs, numbers = np.unique(np.stack([true[counts], pred[counts]]), axis=1, return_counts=True)
        return dict(zip(zip(*pairs.astype(np.int64).tolist(), strict=True), numbers.tolist(), strict=True))

    def process_final(self, *args: Any) -> Any:
        """Return the value of the pass; not a number if there was no target, or a prediction that is not finite."""
        self._pending.read()
        if not self._counts or self._lost:
            return float("nan")
        true, pred = (np.array(labels) for labels in zip(*self._counts, strict=True))
        with np.errstate(invalid="ignore", divide="ignore"):  # of one class only, some are not defined
            return to_plain(as_array(self.compute(true, pred, np.array(list(self._counts.values())))))

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the function of scikit-learn, as they were given."""
        return {name: getattr(self, name) for name in self.setting_names}

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        """Return the value: from labels of shape ``(n,)``, and how often each pair of them occurred."""
        import sklearn.metrics

        return getattr(sklearn.metrics, self.function)(true, pred, sample_weight=weight, **self.settings)

    def state_dict(self) -> dict[str, Any]:
        self._pending.read()
        return {
            "pairs": np.array([(*pair, n) for pair, n in self._counts.items()], dtype=np.int64).reshape(-1, 3),
            "classes": self._n_classes,
            "n_samples": self._n_samples,
            "lost": np.array(self._lost, dtype=np.int64),
        }

    def take_in(self, state: Mapping[str, Any]) -> None:
        self._pending.read()
        self._counts.update({(true, pred): number for true, pred, number in np.asarray(state["pairs"]).tolist()})
        self._lost += (self._n_samples + np.asarray(state.get("lost", ())).astype(int)).tolist()
        self._n_samples += int(state.get("n_samples", 0))
        self._n_classes = max(self._n_classes, int(state["classes"]))

    def merge(self, other: Self) -> None:
        super().merge(other)
        self.classes = self.classes or other.classes


@default_for_key("confusion_matrix")
class ConfusionMatrix(Counting):
    """How often which label was taken for which: a list for each true label, of the numbers of predicted ones.

    Parameters
    ----------
    num_classes
        By default as many as the scores have, or as labels occur.
    **settings
        ``threshold``, ``ignore_index``, ``pred_key`` and ``target_key`` as for all metrics that count labels:
        above ``threshold`` a score means yes, targets that are ``ignore_index`` do not count, and the keys are those
        of the state.
    """

    label = "confusion_matrix"
    higher_is_better = None

    def __init__(self, num_classes: int | None = None, **settings: Any):
        super().__init__(**settings)
        check_settings(self.name, num_classes=num_classes)
        self.num_classes = num_classes

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        lowest, highest = int(min(true.min(), pred.min())), int(max(true.max(), pred.max()))
        size = self.num_classes or max(self._n_classes, highest + 1, 2)  # that of one label would be a bare number
        if lowest < 0 or highest >= size:
            raise DataError(
                f"the metric {self.name!r} counts labels from 0 to {size - 1}, and got some from {lowest} to {highest};"
                " see num_classes= and ignore_index="
            )
        matrix = np.zeros((size, size), np.int64)
        np.add.at(matrix, (true, pred), weight)
        return matrix


@default_for_key("balanced_acc")
@default_for_key("balanced_accuracy")
class BalancedAccuracy(Counting):
    """The mean of the recalls of the classes that occur in the targets, ``sklearn.metrics.balanced_accuracy_score``.

    Parameters
    ----------
    **settings
        As for :class:`ConfusionMatrix`.
    """

    label, function = "balanced_acc", "balanced_accuracy_score"

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        from sklearn.metrics import recall_score

        # balanced_accuracy_score itself warns of labels that were only predicted
        return recall_score(true, pred, labels=np.unique(true), average="macro", sample_weight=weight)


class _Averaged(Counting):
    """A number of each class, of which ``average`` says how it becomes one; 0 where there is nothing to divide by."""

    setting_names: ClassVar[tuple[str, ...]] = ("average",)

    def __init__(self, average: str | None = None, **settings: Any):
        super().__init__(**settings)
        check_choice(self.name, (None, "binary", "macro", "micro", "weighted"), average=average)
        self.average = average

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        import sklearn.metrics

        labels = {*true.tolist(), *pred.tolist(), *self.classes}
        is_binary = self._n_classes <= 2 and (labels <= {0, 1} or labels <= {-1, 1})
        if self.average == "binary" and not is_binary:
            raise DataError(
                f"the metric {self.name!r} got the labels {sorted(labels)}, but average='binary' is for 0 and 1; "
                "use average='macro', 'micro' or 'weighted'"
            )
        settings = {**self.settings, "average": self.average or ("binary" if is_binary else "macro")}
        return getattr(sklearn.metrics, self.function)(true, pred, sample_weight=weight, zero_division=0.0, **settings)


@default_for_key("precision")
class Precision(_Averaged):
    """The share of predictions of a class that are right, ``sklearn.metrics.precision_score``; 0 if there are none.

    Parameters
    ----------
    average
        As in scikit-learn; by default ``"binary"`` for two classes, 1 being the positive one, else ``"macro"``.
    **settings
        As for :class:`ConfusionMatrix`.
    """

    label, function = "precision", "precision_score"


@default_for_key("recall")
class Recall(_Averaged):
    """The share of targets of a class that are found, ``sklearn.metrics.recall_score``; 0 if there are none.

    Parameters
    ----------
    average, **settings
        As for :class:`Precision`.
    """

    label, function = "recall", "recall_score"


@default_for_key("f1")
class FBeta(_Averaged):
    """The weighted harmonic mean of precision and recall, ``sklearn.metrics.fbeta_score``.

    Parameters
    ----------
    beta
        How much more the recall counts; named ``f1`` for 1, ``f2`` for 2, ``f0.5`` for 0.5.
    average, **settings
        As for :class:`Precision`.
    """

    function = "fbeta_score"
    setting_names = ("average", "beta")

    def __init__(self, beta: float = 1.0, average: str | None = None, **settings: Any):
        check_numbers(self, above=0, beta=beta)
        self.beta, self.label = beta, f"f{beta:g}"
        super().__init__(average, **settings)


@default_for_key("cohen_kappa")
class CohenKappa(Counting):
    """The agreement beyond that of chance, ``sklearn.metrics.cohen_kappa_score``; not a number for one class.

    Parameters
    ----------
    weights
        ``None``, ``"linear"`` or ``"quadratic"``: how much a prediction far away costs.
    **settings
        As for :class:`ConfusionMatrix`.
    """

    label, function = "cohen_kappa", "cohen_kappa_score"
    setting_names = ("weights",)

    def __init__(self, weights: str | None = None, **settings: Any):
        super().__init__(**settings)
        check_choice(self.name, (None, "linear", "quadratic"), weights=weights)
        self.weights = weights

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        return super().compute(true, pred, weight) if len({*true.tolist(), *pred.tolist()}) > 1 else np.nan


@default_for_key("mcc")
class MatthewsCorrCoef(Counting):
    """The correlation of targets and predictions, ``sklearn.metrics.matthews_corrcoef``; 0 for one class.

    Parameters
    ----------
    **settings
        As for :class:`ConfusionMatrix`.
    """

    label, function = "mcc", "matthews_corrcoef"

    def compute(self, true: np.ndarray, pred: np.ndarray, weight: np.ndarray) -> Any:
        return super().compute(true, pred, weight) if len({*true.tolist(), *pred.tolist()}) > 1 else 0.0
