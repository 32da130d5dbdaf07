"""Metrics of segmented images and volumes: overlap, distance of surfaces and volume, for each class of each case."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from delira.errors import ConfigError, DataError, check_choice, check_flags, check_numbers
from delira.metrics.per_class import PerClass


class _Overlap(PerClass):
    higher_is_better = True

    def __init__(self, classes: Sequence[str] | int, *, ignore_empty: bool = True, **settings: Any):
        if "spacing" in settings:
            raise ConfigError(f"{self._name}: an overlap does not depend on the spacing; leave spacing= out")
        super().__init__(classes, **settings)
        check_flags(self, ignore_empty=ignore_empty)
        self.ignore_empty = ignore_empty

    def of_case(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, labels: Sequence[int]) -> list[float]:
        both, in_true, in_pred = _counts(true, pred, self.n_labels)
        return [self._value(int(both[label]), int(in_true[label]), int(in_pred[label])) for label in labels]

    def _value(self, both: int, in_true: int, in_pred: int) -> float:
        if not in_true:
            return math.nan if self.ignore_empty else float(not in_pred)
        return self.share(both, in_true + in_pred)

    def share(self, both: int, total: int) -> float:
        """From the size of the intersection, and the sum of both sizes, voxels."""
        raise NotImplementedError


class DicePerClass(_Overlap):
    """The Sørensen-Dice coefficient of each class of each case, ``2 |A ∩ B| / (|A| + |B|)``, between 0 and 1.

    A class that the target does not have has no value, as with ``monai.metrics.DiceMetric``: what is predicted there
    does not count. It does not depend on the spacing.

    Parameters
    ----------
    classes
        As for all metrics per class: names in the order of the labels, the background first, or how many.
    ignore_empty
        False: a class that the target does not have is 1 if it is not predicted either, else 0.
    **settings
        ``include_background``, ``class_axis`` and ``threshold``: see :class:`~delira.metrics.per_class.PerClass`.

    References
    ----------
    L. R. Dice, "Measures of the Amount of Ecologic Association Between Species", Ecology 26(3), 1945.

    Examples
    --------
    >>> dice = DicePerClass(["background", "liver", "tumour"])
    >>> dice.values([[0, 1, 1], [0, 2, 0]], [[0, 1, 0], [0, 2, 0]]).round(3).tolist()
    [0.667, 1.0]
    """

    def share(self, both: int, total: int) -> float:
        """From the size of the intersection, and the sum of both sizes, voxels."""
        return 2 * both / total


class IoUPerClass(_Overlap):
    """The intersection over the union of each class of each case, between 0 and 1.

    A class that the target does not have has no value, as with ``monai.metrics.MeanIoU``.

    Parameters
    ----------
    classes, ignore_empty, **settings
        As for :class:`DicePerClass`.

    References
    ----------
    P. Jaccard, "The distribution of the flora in the alpine zone", New Phytologist 11(2), 1912.
    """

    def share(self, both: int, total: int) -> float:
        """From the size of the intersection, and the sum of both sizes, voxels."""
        return both / (total - both)


class HausdorffPerClass(PerClass):
    """The distance of the surfaces of each class of each case, mm; in voxels without ``spacing``.

    Of the distances from each edge voxel of one mask to the next one of the other a percentile, the larger of both
    ways, as ``monai.metrics.HausdorffDistanceMetric``. An edge voxel has a neighbour outside of the mask, or lies at
    the border of the image. A class that is in neither mask has no value.

    Parameters
    ----------
    classes
        As for :class:`DicePerClass`.
    percentile
        95 by default; 100 is the largest distance, Huttenlocher's.
    spacing
        Size of a voxel, mm: see :class:`~delira.metrics.per_class.PerClass`.
    missing
        The value of a class that is in only one of the masks: infinite, as it has no distance, so that a mean over
        cases is infinite, too. A number of mm counts instead, e.g. the longest diagonal of the images; with NaN these
        cases do not count.
    **settings
        ``include_background``, ``class_axis`` and ``threshold``.

    References
    ----------
    D. P. Huttenlocher, G. A. Klanderman, W. J. Rucklidge, "Comparing Images Using the Hausdorff Distance", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 15(9), 1993.
    """

    higher_is_better = False

    def __init__(
        self,
        classes: Sequence[str] | int,
        percentile: float = 95.0,
        spacing: float | Sequence[float] | str | None = None,
        *,
        missing: float = math.inf,
        **settings: Any,
    ):
        super().__init__(classes, spacing, **settings)
        check_numbers(self, above=0, at_most=100, percentile=percentile)
        if isinstance(missing, bool) or not isinstance(missing, (int, float)) or missing < 0:
            raise ConfigError(f"{self._name}: missing is a distance in mm, inf or nan, got {missing!r}")
        self.percentile, self.missing = float(percentile), float(missing)

    def of_case(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, labels: Sequence[int]) -> list[float]:
        return [self._distance(true == label, pred == label, spacing) for label in labels]

    def _distance(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray) -> float:
        has_true, has_pred = bool(true.any()), bool(pred.any())
        if not (has_true and has_pred):
            return self.missing if has_true or has_pred else math.nan
        return max(float(np.percentile(way, self.percentile)) for way in surface_distances(true, pred, spacing))


class SurfaceDice(PerClass):
    """The share of both surfaces that lies within a tolerance of the other, of each class of each case; from 0 to 1.

    The normalised surface Dice. The size of a surface is its number of edge voxels, as in
    ``monai.metrics.compute_surface_dice``, which counts what :class:`HausdorffPerClass` counts. A class that is in
    neither mask has no value, one that is in only one of them has 0.

    Parameters
    ----------
    classes
        As for :class:`DicePerClass`.
    tolerance
        Distance that is accepted, mm (voxels without ``spacing``); one for all classes, or one for each class that has
        a value.
    spacing
        Size of a voxel, mm: see :class:`~delira.metrics.per_class.PerClass`.
    **settings
        ``include_background``, ``class_axis`` and ``threshold``.

    References
    ----------
    S. Nikolov et al., "Deep learning to achieve clinically applicable segmentation of head and neck anatomy for
    radiotherapy", arXiv:1809.04430, 2018: the definition. S. Seidlitz et al., "Robust deep learning-based semantic
    organ segmentation in hyperspectral images", Medical Image Analysis 80, 2022: with edge voxels.
    """

    higher_is_better = True

    def __init__(
        self,
        classes: Sequence[str] | int,
        tolerance: float | Sequence[float],
        spacing: float | Sequence[float] | str | None = None,
        **settings: Any,
    ):
        super().__init__(classes, spacing, **settings)
        is_one = not isinstance(tolerance, (list, tuple, np.ndarray))
        given: list[Any] = [tolerance] if is_one else np.asarray(tolerance, dtype=object).ravel().tolist()
        for each in given:
            check_numbers(self, at_least=0, tolerance=each)
        if not is_one and len(given) != len(self.labels):
            raise ConfigError(
                f"{self._name}: tolerance is one distance in mm, or one for each of the {len(self.labels)} classes "
                f"{list(self.names)}, got {len(given)}"
            )
        self.tolerance = float(given[0]) if is_one else tuple(map(float, given))

    def of_case(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, labels: Sequence[int]) -> list[float]:
        return [self._share(true == label, pred == label, spacing, self._tolerance(label)) for label in labels]

    def _tolerance(self, label: int) -> float:
        return self.tolerance if isinstance(self.tolerance, float) else self.tolerance[self.labels.index(label)]

    def _share(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, tolerance: float) -> float:
        has_true, has_pred = bool(true.any()), bool(pred.any())
        if not (has_true and has_pred):
            return 0.0 if has_true or has_pred else math.nan
        ways = np.concatenate(surface_distances(true, pred, spacing))
        return float(np.mean(ways <= tolerance))


class VolumeError(PerClass):
    """The difference of the volumes of each class of each case, predicted minus true, relative or in ml.

    Its size by default, and then small values are better; with its sign the mean is the bias, which has no direction.

    Parameters
    ----------
    classes
        As for :class:`DicePerClass`.
    unit
        ``"relative"``: divided by the true volume, 0.1 being 10 %; a class that the target does not have has no value.
        ``"ml"``: of volumes with ``spacing``; every case has a value, 0 where a class is in neither mask.
    signed
        Whether a volume that is too small is negative.
    spacing
        Size of a voxel, mm: see :class:`~delira.metrics.per_class.PerClass`. Relative errors do not depend on it.
    **settings
        ``include_background``, ``class_axis`` and ``threshold``.

    Raises
    ------
    ConfigError
        If ml are asked for without a spacing.
    """

    def __init__(
        self,
        classes: Sequence[str] | int,
        unit: Literal["relative", "ml"] = "relative",
        spacing: float | Sequence[float] | str | None = None,
        *,
        signed: bool = False,
        **settings: Any,
    ):
        super().__init__(classes, spacing, **settings)
        check_choice(self, ("relative", "ml"), unit=unit)
        check_flags(self, signed=signed)
        if unit == "ml" and spacing is None:
            raise ConfigError(
                f"{self._name}: unit='ml' needs the size of a voxel: spacing=(z, y, x) in mm, or the name of the entry "
                "of the batch that has it"
            )
        self.unit, self.signed = unit, signed
        self.higher_is_better = None if signed else False

    def of_case(self, true: np.ndarray, pred: np.ndarray, spacing: np.ndarray, labels: Sequence[int]) -> list[float]:
        if self.unit == "ml" and true.ndim != 3:
            raise DataError(
                f"{self._name}: ml are of volumes, got masks of shape {true.shape}; use unit='relative' for images"
            )
        _, in_true, in_pred = _counts(true, pred, self.n_labels)
        # 1 ml is 1000 mm³
        return [
            self._error(int(in_true[label]), int(in_pred[label]), float(np.prod(spacing)) / 1000) for label in labels
        ]

    def _error(self, in_true: int, in_pred: int, voxel: float) -> float:
        difference = float(in_pred - in_true) if self.signed else float(abs(in_pred - in_true))
        if self.unit == "ml":
            return difference * voxel
        return difference / in_true if in_true else math.nan


def _counts(true: np.ndarray, pred: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Voxels of each class in both masks, in the true and in the predicted one, each of shape ``(n_labels + 1,)``.

    The last are those of no class, in both masks.
    """
    size = n_labels + 1
    table = np.bincount((true * size + pred).ravel(), minlength=size**2).reshape(size, size)
    return np.diagonal(table), table.sum(axis=1), table.sum(axis=0)


def surface_distances(one: np.ndarray, other: np.ndarray, spacing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the edge voxels of each of two masks from the nearest one of the other.

    Parameters
    ----------
    one, other
        Masks of one shape, bool, with at least one voxel each.
    spacing
        Size of a voxel along each axis, mm.

    Returns
    -------
    tuple of ndarray
        float64, of shapes ``(n_edge_of_one,)`` and ``(n_edge_of_other,)``, mm.
    """
    from scipy.ndimage import binary_erosion, distance_transform_edt

    both = one | other
    box = []
    for axis in range(both.ndim):  # distances are those inside of the smallest box around both
        there = np.flatnonzero(both.any(axis=tuple(at for at in range(both.ndim) if at != axis)))
        box.append(slice(there[0], there[-1] + 1))
    edges = [mask & ~binary_erosion(mask) for mask in (one[tuple(box)], other[tuple(box)])]
    first, second = (
        np.asarray(distance_transform_edt(~edge, sampling=spacing.tolist()))[start]
        for edge, start in (edges[::-1], edges)
    )
    return first, second
