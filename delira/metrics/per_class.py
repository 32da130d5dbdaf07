"""Metrics of masks with a value for each class of each case: what they read, and the metrics that one stands for."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError, check_flags, check_numbers, check_whole, if_given
from delira.metrics.tree.criteria import one_of_each_row
from delira.utils.arrays import Array


class PerClass:
    """A metric of the masks of one case that has a value for each class; base of those for volumes.

    One of them stands for several metrics over samples: under its own name the mean over the classes of each case, and
    for each class one under ``name.class``, e.g. ``dice`` and ``dice.liver``. The values of a batch are computed once.

    A class that is not there may have no value, which is NaN: means and intervals are over the cases that have one, and
    say how many these are. A case whose scores are not finite has the worst value, ``-inf`` or ``inf``, which no mean
    hides.

    Parameters
    ----------
    classes
        Names of the classes, the background included, in the order of their labels from 0; or how many there are.
    spacing
        Size of a voxel, mm: one number for each axis, or one for all; a text names the entry of the batch that has it,
        shape ``(B, axes)`` or ``(B,)``. None: 1, so that distances are in voxels.
    include_background
        Whether class 0 has a value and counts in the mean.
    class_axis
        Where the classes of scores and of one-hot targets lie, 1 for ``(B, C, ...)``, -1 for ``(B, ..., C)``; of
        an experiment its backend says it.
    threshold
        For two classes: predictions are single scores of the shape of the target, and class 1 is above it.
    ignore_index
        Label of voxels that are of no class, in the target and in whatever is predicted there; of an experiment its
        losses say it.

    Raises
    ------
    ConfigError
        If a setting is none of these.
    """

    over = "sample"
    takes_target_first = True
    may_lack_values = True
    higher_is_better: bool | None = None

    def __init__(
        self,
        classes: Sequence[str] | int,
        spacing: float | Sequence[float] | str | None = None,
        *,
        include_background: bool = False,
        class_axis: int | None = None,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ):
        check_flags(self, include_background=include_background)
        check_numbers(self, **if_given(threshold=threshold))
        check_whole(self, **if_given(ignore_index=ignore_index))
        if not (class_axis is None or (type(class_axis) is int and abs(class_axis) == 1)):
            raise ConfigError(f"{self._name}: class_axis is 1 or -1, got {class_axis!r}")
        self.classes = self._checked_classes(classes)
        self.spacing = self._checked_spacing(spacing)
        self.include_background, self.class_axis, self.threshold = include_background, class_axis, threshold
        self.ignore_index = ignore_index
        if threshold is not None and self.n_labels != 2:
            raise ConfigError(f"{self._name}: threshold decides between two classes, got {self.n_labels} classes")

    # -------------------------------------------------------------- settings

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _checked_classes(self, classes: Any) -> tuple[str, ...] | int:
        if isinstance(classes, (int, np.integer)) and not isinstance(classes, bool) and classes >= 2:
            return int(classes)
        is_list = isinstance(classes, Sequence) and not isinstance(classes, (str, bytes))
        names = tuple(classes) if is_list else ()
        are_names = all(isinstance(name, str) and name.strip() and name.isprintable() for name in names)
        if len(names) < 2 or not are_names or len(set(names)) < len(names):
            raise ConfigError(
                f"{self._name}: classes are the different names of at least two classes, the background first, as "
                f"['background', 'liver'], or how many there are, got {classes!r:.200}"
            )
        return names

    def _checked_spacing(self, spacing: Any) -> tuple[float, ...] | float | str | None:
        if spacing is None or (isinstance(spacing, str) and spacing):
            return spacing
        numbers = sizes_of(spacing)
        if numbers is None:
            raise ConfigError(
                f"{self._name}: spacing is a positive number of mm for each axis, or one for all, or the name of the "
                f"entry of the batch that has it, got {spacing!r:.200}"
            )
        return float(numbers[0]) if np.ndim(spacing) == 0 else tuple(numbers.tolist())

    @property
    def settings(self) -> dict[str, Any]:
        """What all metrics per class are told by keyword."""
        names = ("include_background", "class_axis", "threshold", "ignore_index")
        return {name: getattr(self, name) for name in names}

    @property
    def n_labels(self) -> int:
        """Number of classes, the background included."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def labels(self) -> range:
        """Labels of the classes that have a value."""
        return range(0 if self.include_background else 1, self.n_labels)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes that have a value; the label as a text where they have none."""
        return tuple(str(label) if isinstance(self.classes, int) else self.classes[label] for label in self.labels)

    @property
    def further_keys(self) -> tuple[str, ...]:
        """Entries of the batch that it reads besides target and prediction."""
        return (self.spacing,) if isinstance(self.spacing, str) else ()

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for metrics that compute the same of the same arrays."""
        return (type(self), *sorted(vars(self).items()))

    def told(self, class_axis: int | None, ignore_index: int | None) -> "PerClass":
        """Return the metric with what backend and losses say of masks, unless it was told."""
        class_axis = class_axis if self.class_axis is None and class_axis in (1, -1) else self.class_axis
        ignore_index = ignore_index if self.ignore_index is None else self.ignore_index
        if (class_axis, ignore_index) == (self.class_axis, self.ignore_index):
            return self
        told = copy.copy(self)
        told.class_axis, told.ignore_index = class_axis, ignore_index
        return told

    # -------------------------------------------------------------- values

    def __call__(self, y_true: Array, y_pred: Array, *spacing: Array) -> float:
        """Return the mean over the classes of a case; see :meth:`values`."""
        return mean_of_values(self.values(y_true, y_pred, *spacing), may_lack=True)

    def values(self, y_true: Array, y_pred: Array, *spacing: Array, labels: Sequence[int] | None = None) -> np.ndarray:
        """Return the value of each class of one case.

        Parameters
        ----------
        y_true
            Labels of shape ``(*spatial)`` or ``(1, *spatial)``, or one-hot, ``(C, *spatial)``.
        y_pred
            Class scores of shape ``(C, *spatial)``, of which the highest counts, or labels like the target's.
        *spacing
            That of the case where it is an entry of the batch: shape ``(axes,)`` or ``()``, mm.
        labels
            Classes of which the value is needed; all that have one if None.

        Returns
        -------
        ndarray
            float64 of shape ``(len(labels),)``; NaN for a class without a value.

        Raises
        ------
        DataError
            If shapes do not fit, a label is none of the classes, or a spacing is no positive number for each axis.
        """
        labels = self.labels if labels is None else labels
        sizes = self._sizes(*spacing)
        maps = self._maps(np.asarray(y_true), np.asarray(y_pred), None if sizes is None else len(sizes))
        if maps.is_lost:
            return np.full(len(labels), -math.inf if self.higher_is_better else math.inf)
        return np.array(self.of_case(maps.true, maps.pred, self._of_axes(sizes, maps.true.ndim), labels), np.float64)

    def of_case(
        self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, labels: Sequence[int]
    ) -> Sequence[float]:
        """Return the value of each of some classes.

        Parameters
        ----------
        true, pred
            Label maps of shape ``(*spatial)``, integers; ``n_labels`` where a voxel is of no class.
        spacing
            Size of a voxel along each axis, float64 of shape ``(axes,)``.
        labels
            The classes.
        """
        raise NotImplementedError

    # -------------------------------------------------------------- what is read

    def _sizes(self, *given: Array) -> np.ndarray | None:
        """Size of a voxel along each axis, or one for all, float64; None if nothing says how many axes there are."""
        if not isinstance(self.spacing, str):
            return sizes_of(self.spacing) if isinstance(self.spacing, tuple) else None
        sizes = sizes_of(given[0]) if len(given) == 1 else None
        if sizes is None:
            found = f"{np.asarray(given[0])!r:.80}" if given else "nothing"
            raise DataError(
                f"{self._name} needs positive numbers of shape (B,) or (B, axes) as {self.spacing!r}, in mm, got "
                f"{found} for a case"
            )
        return sizes

    def _of_axes(self, sizes: np.ndarray | None, n_axes: int) -> np.ndarray:
        if sizes is None:
            return np.full(n_axes, 1.0 if self.spacing is None else self.spacing, np.float64)
        if len(sizes) == 1:
            return np.repeat(sizes, n_axes)
        if len(sizes) != n_axes:
            raise DataError(
                f"{self._name} got the spacing {tuple(sizes.tolist())} for masks with {n_axes} axes; it needs one "
                "number for each axis"
            )
        return sizes

    def _maps(self, true: np.ndarray, pred: np.ndarray, n_axes: int | None) -> "_Maps":
        """Read target and prediction of a case as label maps."""
        for what, array in (("y_true", true), ("y_pred", pred)):
            if array.dtype.kind not in "biuf":
                raise DataError(f"{self._name} got {what} of the type {array.dtype}, which are no labels")
        of_true, of_pred = self._forms(true, pred, n_axes)
        if self._lost(pred, of_pred):
            return _Maps(true, pred, True)
        is_single = self.threshold is not None and of_pred.kind != "scores"
        pred_labels = (pred > self.threshold).astype(np.intp) if is_single else self._labels("y_pred", pred, of_pred)
        if is_single and of_pred.kind == "channel":
            pred_labels = pred_labels.squeeze(of_pred.axis)
        if self.ignore_index is None or of_true.kind == "scores" or not (ignored := true == self.ignore_index).any():
            return _Maps(self._labels("y_true", true, of_true), pred_labels, False)
        true_labels = self._labels("y_true", np.where(ignored, 0, true), of_true)
        no_class = ignored if of_true.axis is None else ignored.squeeze(of_true.axis)
        true_labels, pred_labels = (np.where(no_class, self.n_labels, each) for each in (true_labels, pred_labels))
        return _Maps(true_labels, pred_labels, False)

    def _forms(self, true: np.ndarray, pred: np.ndarray, n_axes: int | None) -> tuple["_Form", "_Form"]:
        """Return how target and prediction are to be read.

        Raises
        ------
        DataError
            If they do not fit, or fit in two ways.
        """
        axes = (0, -1) if self.class_axis in (None, 1) else (-1, 0)
        pairs = [
            (of_true, of_pred)
            for of_true in self._possible(true, axes)
            for of_pred in self._possible(pred, axes)
            if of_true.shape == of_pred.shape and self._is_meant(of_true, of_pred, true)
        ]
        if n_axes is not None and n_axes > 1:
            pairs = [pair for pair in pairs if len(pair[0].shape) == n_axes] or pairs
        if not pairs:
            last = self.class_axis == -1
            raise DataError(
                f"{self._name} got a target of shape {true.shape} and a prediction of shape {pred.shape} for a case; "
                f"predictions are scores of {self.n_labels} classes, {self._shape(last)}, or labels of the shape of "
                "the target"
            )
        best = min(pairs, key=lambda pair: _PREFERRED.index((pair[0].kind, pair[1].kind)))
        axes_of = {pair[1].axis for pair in pairs if (pair[0].kind, pair[1].kind) == (best[0].kind, best[1].kind)}
        if self.class_axis is None and best[1].kind == "scores" and len(axes_of) > 1:
            raise DataError(
                f"{self._name}: the classes of predictions of shape {pred.shape} may lie on the first or the last "
                "axis; make it with class_axis=1 or class_axis=-1"
            )
        return best

    def _shape(self, last: bool) -> str:
        return f"(*spatial, {self.n_labels})" if last else f"({self.n_labels}, *spatial)"

    def _possible(self, array: np.ndarray, axes: Sequence[int]) -> list["_Form"]:
        """Every way in which an array of a case can be read by its shape."""
        found = [_Form("labels", None, array.shape)]
        for axis in axes if array.ndim > 1 else ():
            rest = tuple(np.delete(array.shape, axis).tolist())
            found += [_Form("scores", axis, rest)] if array.shape[axis] == self.n_labels else []
            found += [_Form("channel", axis, rest)] if array.shape[axis] == 1 else []
        return found

    def _is_meant(self, of_true: "_Form", of_pred: "_Form", true: np.ndarray) -> bool:
        """Return False of what fits by chance: masks may be as large as there are classes."""
        axes = {of_true.axis, of_pred.axis} - {None}
        if (of_true.kind, of_pred.kind) not in _PREFERRED or len(axes) > 1:
            return False
        # of a volume with as many slices as classes the values tell
        return of_true.kind != "scores" or one_of_each_row(true, -1 if of_true.axis is None else of_true.axis)

    def _lost(self, pred: np.ndarray, form: "_Form") -> bool:
        """Return True if a voxel has no finite score, so that nobody knows its class."""
        if pred.dtype.kind != "f" or not pred.size:
            return False
        top = pred.max(form.axis) if form.kind == "scores" and form.axis is not None else pred
        return not bool(np.isfinite(top).all())

    def _labels(self, what: str, array: np.ndarray, form: "_Form") -> np.ndarray:
        """Return labels as integers of shape ``(*spatial)``."""
        if form.kind == "scores" and form.axis is not None:
            return np.asarray(array.argmax(form.axis))
        labels = array if form.axis is None else array.squeeze(form.axis)
        if labels.dtype.kind == "f" and (wrong := ~np.isfinite(labels) | (labels != np.floor(labels))).any():
            cure = "; of single scores say threshold=" if what == "y_pred" else ""
            raise DataError(
                f"{self._name} got {what} of shape {array.shape} with values like {labels[wrong][0]}, which are no "
                f"labels{cure}"
            )
        if labels.size and (labels.min() < 0 or labels.max() >= self.n_labels):
            raise DataError(
                f"{self._name} has the labels 0 to {self.n_labels - 1}, but {what} has labels from {labels.min()} to "
                f"{labels.max()}; ignore_index= is the label of voxels that do not count"
            )
        return labels.astype(np.intp, copy=False)

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if value is not None and value is not False}
        shown = ", ".join(f"{name}={value!r}" for name, value in told.items() if name != "higher_is_better")
        return f"{self._name}({shown})"


class _Maps(NamedTuple):
    true: np.ndarray
    pred: np.ndarray
    is_lost: bool


class _Form(NamedTuple):
    """How an array of one case is read."""

    kind: str
    """``"scores"`` (one-hot ones, too), ``"channel"``, an axis of size 1, or ``"labels"``."""
    axis: int | None
    shape: tuple[int, ...]
    """Of the mask."""


#: forms of target and prediction, by what is meant where several fit
_PREFERRED = (
    ("labels", "scores"), ("channel", "scores"), ("scores", "scores"), ("scores", "channel"), ("scores", "labels"),
    ("channel", "channel"), ("labels", "channel"), ("channel", "labels"), ("labels", "labels"),
)  # fmt: skip


def sizes_of(spacing: object) -> np.ndarray | None:
    """Positive finite numbers as float64 of shape ``(n,)``; None if something else was given."""
    if isinstance(spacing, (bool, str, bytes, Mapping)):
        return None
    try:
        numbers = np.asarray(spacing, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    is_right = numbers.ndim < 2 and numbers.size > 0 and bool(np.all(np.isfinite(numbers) & (numbers > 0)))
    return numbers.reshape(-1) if is_right else None


class OfClass:
    """One class of a metric per class, as a metric over samples.

    Parameters
    ----------
    metric
        The metric per class.
    label
        The label of the class.
    reads_as
        Name of the metric, whose entries this one reads.
    """

    over = "sample"
    takes_target_first = True
    may_lack_values = True

    def __init__(self, metric: PerClass, label: int, reads_as: str):
        self.metric, self.label, self.reads_as = metric, label, reads_as

    @property
    def higher_is_better(self) -> bool | None:
        """Which way it is better."""
        return self.metric.higher_is_better

    @property
    def further_keys(self) -> tuple[str, ...]:
        """Entries of the batch that it reads besides target and prediction."""
        return self.metric.further_keys

    @property
    def class_name(self) -> str:
        """Of its class."""
        return self.metric.names[self.metric.labels.index(self.label)]

    def __call__(self, y_true: Array, y_pred: Array, *spacing: Array) -> float:
        """Return the value of the class of one case; see :meth:`PerClass.values`."""
        return float(self.metric.values(y_true, y_pred, *spacing, labels=[self.label])[0])

    def __repr__(self) -> str:
        return f"OfClass({self.metric!r}, {self.class_name!r})"


def expanded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics by name, each that has a value per class with one for each class behind it; others as they are.

    Raises
    ------
    ConfigError
        If the name of such a metric is taken.
    """
    found: dict[str, Any] = {}
    for name, metric in metrics.items():
        found.setdefault(name, metric)
        if not isinstance(metric, PerClass):
            continue
        for label, class_name in zip(metric.labels, metric.names, strict=True):
            of_class = f"{name}.{class_name}"
            given = metrics.get(of_class)
            if given is not None and not (isinstance(given, OfClass) and given.label == label):
                raise ConfigError(
                    f"the metric {name!r} has a value for each class, one of which is called {of_class!r} like another "
                    "metric; call that one otherwise"
                )
            found[of_class] = OfClass(metric, label, name) if given is None else given
    return found


def told(metric: object, class_axis: int | None, ignore_index: int | None) -> Any:
    """Return a metric per class, or one class of it, with what is known of masks; any other as it is."""
    if isinstance(metric, OfClass):
        whole = metric.metric.told(class_axis, ignore_index)
        return metric if whole is metric.metric else OfClass(whole, metric.label, metric.reads_as)
    return metric.told(class_axis, ignore_index) if isinstance(metric, PerClass) else metric


def may_lack_values(metric: object) -> bool:
    """Return True if a case may have no value of a metric, NaN, which then does not count in its mean."""
    return getattr(metric, "may_lack_values", False) is True


def lacking(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of metrics of which a case may have no value."""
    return tuple(name for name, metric in metrics.items() if may_lack_values(metric))


def mean_of_values(values: Array, may_lack: bool = False) -> float:
    """Mean of the values of a metric, float64 of shape ``(n,)``.

    Parameters
    ----------
    values
        One for each case, or a single one.
    may_lack
        Whether a case may have none, NaN, which does not count; NaN if no case has one.
    """
    found = np.asarray(values)
    if may_lack:
        found = found[~np.isnan(found)]
        if not found.size:
            return math.nan
    return float(np.mean(found))


def means_of(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a fold, each as one number.

    Parameters
    ----------
    fields
        ``metrics`` by name, and ``partial`` if cases of some may have no value: their names.
    """
    partial = fields.get("partial", ())
    return {str(name): mean_of_values(value, name in partial) for name, value in fields["metrics"].items()}
