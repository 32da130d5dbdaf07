"""Metrics of masks: overlap, on the device; distance of the edges, on the host."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.errors import ConfigError, DataError, check_flags, check_numbers, if_given
from delira.metrics.gather import Pending, Weighted
from delira.metrics.tree.accuracies import Stateless
from delira.metrics.tree.hanging import default_for_key, mean, running_mean
from delira.metrics.tree.labels import LOST, Seen, check_settings, labels_of
from delira.state import State
from delira.utils.arrays import Array, as_array, ops_of, shape_of


class OfMasks(Stateless):
    """A metric of masks of shape ``(B, ...)``.

    Scores with an axis for the classes are argmaxed; scores of the shape of the target say yes or no, above 0.5, or
    above 0 with a criterion of logits. Class 0 is the background, unless there is only yes and no.

    Parameters
    ----------
    num_classes
        Needed if predictions are labels.
    threshold
        Instead of 0.5 or 0.
    pred_key, target_key
        Keys of the state.
    """

    reads_outputs = True

    def __init__(self, num_classes: int | None = None, threshold: float | None = None, **keys: Any):
        super().__init__(**keys)
        check_settings(self.name, num_classes=num_classes, threshold=threshold)
        self.num_classes, self.threshold = num_classes, threshold

    def _clear(self) -> None:
        super()._clear()
        self._seen = {"seen": Seen(self.name), "seen_labels": Seen(self.name, "prediction")}

    def masks(self, state: State, ignore_index: int | None = None) -> tuple[Any, Any, int]:
        """Predicted and true labels of shape ``(B, n)``, and the number of classes."""
        pred, true = self.pair(state)
        shape = shape_of(true)
        labels = labels_of(self.name, pred, true, self.known_in(state), self.threshold)
        if len(shape) < 2:
            raise DataError(f"the metric {self.name!r} compares masks of shape (B, ...), got targets of shape {shape}")
        pred, true, n_classes = labels.pred, labels.true, labels.n_classes or self.num_classes
        if not n_classes:
            raise DataError(
                f"the metric {self.name!r} got labels as predictions, of shape {shape}, and does not know how many "
                "there are; make it with num_classes="
            )
        ops = ops_of(pred)
        is_decided = ops.where(pred != LOST, ops.as_float(pred), np.nan)
        given = true if labels.given is None else labels.given
        self.seen.add(given, is_decided, labels.allowed or n_classes, ignore_index)
        if not labels.n_classes:
            self._seen["seen_labels"].add(pred, None, n_classes)
        return pred, true, n_classes


class _Overlap(OfMasks):
    higher_is_better = True

    def __init__(
        self,
        num_classes: int | None = None,
        ignore_empty: bool = True,
        include_background: bool = False,
        **settings: Any,
    ):
        super().__init__(num_classes, **settings)
        check_flags(self.name, ignore_empty=ignore_empty, include_background=include_background)
        self.ignore_empty, self.include_background = ignore_empty, include_background

    def process(self, *args: Any) -> Any:
        """Return the value of each sample, shape ``(B,)``, and which of them count."""
        ignored = self.known_in(args[0]).ignore_index
        pred, true, n_classes = self.masks(args[0], ignored)
        ops, n_samples = ops_of(pred), int(pred.shape[0])
        shape = (n_samples, math.prod(shape_of(pred)[1:]))  # -1 would say nothing of an empty batch
        pred, true = (ops.reshape(ops.to_integer(labels), shape) for labels in (pred, true))
        wrong = n_samples * n_classes  # the bin of what is no class
        first = ops.reshape(ops.to_integer(ops.arange(n_samples, pred)), (n_samples, 1)) * n_classes
        is_class = (true >= 0) & (true < n_classes) & (pred >= 0) & (pred < n_classes)  # LOST is neither
        at_pred, at_true = ops.where(is_class, first + pred, wrong), ops.where(is_class, first + true, wrong)
        at_both = ops.where(ops.equal(pred, true), at_pred, wrong)
        begin = 0 if self.include_background else 1
        in_pred, in_true, in_both = (
            ops.reshape(ops.bincount(index, wrong + 1)[:-1], (n_samples, n_classes))[:, begin:]
            for index in (at_pred, at_true, at_both)
        )
        present = in_pred + in_true > 0
        counts = in_true > 0 if self.ignore_empty else in_true >= 0
        sizes = ops.where(present, ops.as_float(in_pred + in_true), 1.0)
        values = ops.where(present, self.value(ops.as_float(in_both), sizes), 1.0)
        n_counted = ops.as_float(ops.sum(ops.to_integer(counts), 1))
        some = ops.sum(ops.where(counts, values, 0.0), 1) / ops.where(n_counted > 0, n_counted, 1.0)
        is_known = is_class if ignored is None else is_class | (true == ignored)
        is_right = ops.sum(ops.to_integer(is_known), 1) == shape_of(pred)[1]
        return Weighted(ops.where(is_right, some, np.nan), (n_counted > 0) | ~is_right)

    def value(self, both: Array, sizes: object) -> Any:
        """From the size of the intersection, and the sum of both sizes."""
        raise NotImplementedError


@default_for_key("dice")
@running_mean
@mean
class Dice(_Overlap):
    """The Sørensen-Dice coefficient: for each sample the mean over its foreground classes, and the mean of these.

    ``2 |A ∩ B| / (|A| + |B|)`` for each class that occurs in the target. Samples whose target has none of them do not
    count; not a number if that is all, or for a prediction that is not finite. Pixels whose target is the
    ``ignore_index`` of the loss do not count. As ``monai.metrics.DiceMetric``, but for the background.
    (:func:`delira.metrics.dice` gives every sample a number: it counts classes of the prediction, too.)

    Parameters
    ----------
    num_classes
        Needed if predictions are labels.
    ignore_empty
        False: classes that do not occur in the target count, too: 1 if they are not predicted either, else 0.
    include_background
        Whether class 0 counts.
    **settings
        ``threshold``, above which a score means yes, and the keys of the state, ``pred_key`` and ``target_key``.

    Raises
    ------
    DataError
        At the end of a pass, if a target or a predicted label is none of the classes; it names the sample.

    References
    ----------
    L. R. Dice, "Measures of the Amount of Ecologic Association Between Species", Ecology 26(3), 1945.
    """

    label = "dice"

    def value(self, both: Array, sizes: object) -> Any:
        return 2 * both / sizes


@default_for_key("iou")
@running_mean
@mean
class IoU(_Overlap):
    """The intersection over the union, ``|A ∩ B| / (|A| + |B| - |A ∩ B|)``, averaged as :class:`Dice`.

    As ``monai.metrics.MeanIoU``, but for the background.

    Parameters
    ----------
    num_classes, ignore_empty, include_background, **settings
        As for :class:`Dice`.

    References
    ----------
    P. Jaccard, "The distribution of the flora in the alpine zone", New Phytologist 11(2), 1912.
    """

    label = "iou"

    def value(self, both: Array, sizes: object) -> Any:
        return both / (sizes - both)


@default_for_key("hausdorff")
class Hausdorff(OfMasks):
    """The Hausdorff distance of the edges of masks: for each sample the mean over its foreground classes.

    The largest, or a percentile, of the distances from the edge of one mask to the other's, the larger of both ways;
    infinite for a class that is in only one of the masks. Samples without any foreground in both do not count. By
    the distance transform of scipy, on the host: scikit-learn needs scipy anyway, MONAI would bring PyTorch along.

    Parameters
    ----------
    percentile
        Instead of the largest distance, e.g. 95; named ``hausdorff_95`` then.
    spacing
        Size of a pixel along each axis, or along all of them. A text names the entry of the batch that has it for each
        sample, shape ``(B,)`` or ``(B, axes)``; in a trial the key of the state.
    num_classes, **settings
        As for :class:`Dice`.

    Raises
    ------
    ConfigError
        If the spacing is neither a name nor positive numbers, or the percentile is not above 0 and up to 100.
    DataError
        If that of a sample is no positive number for all axes or for each; at the end of a pass, if a target or a
        predicted label is none of the classes.

    References
    ----------
    D. P. Huttenlocher, G. A. Klanderman, W. J. Rucklidge, "Comparing Images Using the Hausdorff Distance", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 15(9), 1993.
    """

    higher_is_better = False

    def __init__(
        self,
        percentile: float | None = None,
        spacing: float | tuple[float, ...] | str = 1.0,
        num_classes: int | None = None,
        **settings: Any,
    ):
        check_numbers(self, above=0, at_most=100, **if_given(percentile=percentile))
        self.label = "hausdorff" if percentile is None else f"hausdorff_{percentile:g}"
        super().__init__(num_classes, **settings)
        if not isinstance(spacing, str) and not _is_spacing(spacing):
            raise ConfigError(
                f"{self.name}: spacing must be positive numbers, of all axes or of each, or the name of an entry of "
                f"the batch, got {spacing!r}"
            )
        self.percentile, self.spacing = percentile, spacing
        #: entries of the batch that it reads besides target and prediction
        self.further_keys = (spacing,) if isinstance(spacing, str) else ()

    def _clear(self) -> None:
        super()._clear()
        self._pending = Pending(self._take)
        #: the distance of each sample, and whether it counts: one without any foreground does not
        self._found: list[tuple[float, bool]] = []

    def process(self, *args: Any) -> Any:
        """Keep the masks of a batch."""
        pred, true, n_classes = self.masks(args[0])
        ops = ops_of(pred)
        further = [ops_of(found := as_array(args[0][key])).keep(found) for key in self.further_keys]
        self._pending.append([ops.keep(pred), ops.keep(true), *further], n_classes)

    def _take(self, arrays: list[np.ndarray], n_classes: int) -> None:
        pred, true, *further = arrays
        for one, other, spacing in zip(pred, true, self._spacings(len(pred), *further), strict=True):
            value, counts = np.nan, True
            if not (one == LOST).any():
                distances = [self._distance(one == label, other == label, spacing) for label in range(1, n_classes)]
                present = [distance for distance in distances if distance is not None]
                value, counts = (float(np.mean(present)), True) if present else (0.0, False)
            self._found.append((value, counts))

    def _spacings(self, n_samples: int, found: np.ndarray | None = None) -> list[Any]:
        """Return the spacing of each sample of a batch."""
        if found is None:
            return [self.spacing] * n_samples
        rows = np.atleast_1d(found)
        for position, row in enumerate(rows):
            if len(rows) != n_samples or not _is_spacing(row):
                raise DataError(
                    f"the metric {self.name!r} needs positive numbers of shape ({n_samples},) or ({n_samples}, axes) "
                    f"as {self.spacing!r}, got shape {rows.shape} and for sample {position} {row!r}"
                )
        return [row.item() if row.size == 1 else tuple(row.tolist()) for row in rows.astype(np.float64)]

    def _distance(self, one: np.ndarray, other: np.ndarray, spacing: object) -> float | None:
        if not one.any() or not other.any():
            return None if one.any() == other.any() else np.inf
        from scipy.ndimage import binary_erosion, distance_transform_edt

        one, other = one.squeeze(), other.squeeze()
        if isinstance(spacing, tuple) and len(spacing) != one.ndim:
            raise DataError(f"the metric {self.name!r} got the spacing {spacing} of a mask of shape {one.shape}")
        edges = [mask & ~binary_erosion(mask) for mask in (one, other)]
        ways = [distance_transform_edt(~edge, sampling=spacing)[start] for edge, start in (edges, edges[::-1])]
        return max(float(way.max() if self.percentile is None else np.percentile(way, self.percentile)) for way in ways)

    @property
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The distance of each sample so far, float64 of shape ``(n,)``, and whether it counts, bool."""
        self._pending.read()
        values, counts = [value for value, _ in self._found], [counts for _, counts in self._found]
        return np.array(values, dtype=np.float64), np.array(counts, dtype=bool)

    def process_final(self, *args: Any) -> Any:
        """Return the mean over samples; not a number if none has a foreground, or a prediction is not finite."""
        super().process_final(*args)
        values, counts = self.values
        return float(np.mean(values[counts])) if counts.any() else float("nan")

    def state_dict(self) -> dict[str, Any]:
        values, counts = self.values
        return {**super().state_dict(), "values": values, "counts": counts}

    def take_in(self, state: Mapping[str, Any]) -> None:
        super().take_in(state)
        self._pending.read()
        # those of older versions have only the distances that count
        counts = state.get("counts", np.full(len(state["values"]), True))
        self._found += zip(np.asarray(state["values"]).tolist(), np.asarray(counts).tolist(), strict=True)


def _is_spacing(value: object) -> bool:
    """Return True if something is positive numbers, one or as many as axes."""
    if isinstance(value, (bool, bytes, Mapping)):
        return False
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return numbers.ndim < 2 and numbers.size > 0 and bool(np.all(np.isfinite(numbers) & (numbers > 0)))
