"""Sets of classes, or intervals of numbers, that hold what is true with a stated frequency: split conformal prediction.

References
----------
V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer 2005: the guarantee.
J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman, "Distribution-Free Predictive Inference for Regression",
Journal of the American Statistical Association 113, 2018: the split, and residuals as scores.
M. Sadinle, J. Lei, L. Wasserman, "Least Ambiguous Set-Valued Classifiers with Bounded Error Levels", Journal of the
American Statistical Association 114, 2019: 1 less the probability of the true class as the score.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.errors import DataError, check_known, expect
from delira.report import predictions
from delira.report.bootstrap import Interval, mean_interval
from delira.report.predictions import as_probabilities


def conformal_quantile(scores: np.ndarray, alpha: float) -> float:
    """Return the score that a new one exceeds with a probability of at most ``alpha``; infinity of too few.

    It is the ``ceil((n + 1)(1 - alpha))``-th smallest.

    Parameters
    ----------
    scores
        How unlike its prediction each calibration case is, float64 of shape ``(n,)``.
    alpha
        From 0 to 1, both excluded.
    """
    # rounded: (49 + 1) * (1 - 0.42) is 29.000000000000004, and the next score would be taken
    place = math.ceil(round((len(scores) + 1) * (1 - alpha), 9))
    return float(np.sort(scores)[place - 1]) if place <= len(scores) else math.inf


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Conformal:
    """Thresholds of the out-of-fold cases, and how often what is true lay within those of the other folds.

    A network and the cases of its own test part have the guarantee: of new cases that are drawn as those were, at least
    ``1 - alpha`` are covered, on average over draws of both. The threshold of all folds has it nearly, and that of a
    mean of networks was not measured. No single case, class or site has a guarantee of its own.
    """

    alpha: float
    n_classes: int
    """0: numbers are predicted, not classes."""
    index: np.ndarray
    """Of each case in the data set, int64 of shape ``(n,)``; of a case that was tested several times the last test."""
    fold: np.ndarray
    """In which each was tested, int64 of shape ``(n,)``."""
    scores: np.ndarray
    """1 less the probability of the true class, or the absolute error, float64 of shape ``(n,)``."""
    is_covered: np.ndarray
    """Whether a case lies within the threshold of the other folds, bool of shape ``(n,)``."""
    sizes: np.ndarray
    """Classes of its set, or width of its interval, by that threshold: float64 of shape ``(n,)``."""
    interval: Interval
    """95 % interval of the share that is covered: cases are drawn, or whole groups."""
    n_left_out: int
    """Tested cases whose predictions are not finite; they take no part, and nothing is promised for such."""
    has_groups: bool
    """Whether cases come in groups: these are not drawn one by one, as the guarantee supposes."""

    @functools.cached_property
    def threshold(self) -> float:
        """Of the cases of all folds."""
        return conformal_quantile(self.scores, self.alpha)

    @functools.cached_property
    def of_folds(self) -> Mapping[int, float]:
        """Threshold of each fold by its own test part: infinity where that is too small, which covers everything."""
        numbers = np.unique(self.fold).tolist()
        return {number: conformal_quantile(self.scores[self.fold == number], self.alpha) for number in numbers}

    @property
    def coverage(self) -> float:
        """Share of the cases that lie within the threshold of the other folds."""
        return float(self.is_covered.mean())

    def sets(self, probabilities: object, fold: int | None = None) -> np.ndarray:
        """Return which classes the set of each new case holds, bool of shape ``(n, C)``; a set may be empty.

        Parameters
        ----------
        probabilities
            Shape ``(n, C)``, or, of two classes, those of the second: ``(n,)``.
        fold
            Whose network predicted them: its own threshold is taken. ``None``: that of all folds.

        Raises
        ------
        DataError
            If they are no such probabilities, or numbers were predicted.
        """
        if not self.n_classes:
            raise DataError("sets are of classes, and this result predicts numbers: take intervals()")
        return np.asarray(1 - as_probabilities("sets", probabilities, self.n_classes) <= self._threshold_of(fold))

    def intervals(self, predicted: object, fold: int | None = None) -> np.ndarray:
        """Return the interval of each new case, float64 of shape ``(n, 2)``.

        Parameters
        ----------
        predicted
            Shape ``(n,)``.
        fold
            As of :meth:`sets`.

        Raises
        ------
        DataError
            If it is no number for each case, or classes were predicted.
        """
        if self.n_classes:
            raise DataError("intervals are of numbers, and this result predicts classes: take sets()")
        given = np.asarray(predicted)
        if given.ndim != 1 or given.dtype.kind not in "iuf":
            raise DataError(f"intervals needs one number for each case, got {given.dtype} of shape {given.shape}")
        reach = self._threshold_of(fold)
        return np.stack([given - reach, given + reach], axis=1).astype(np.float64)

    def _threshold_of(self, fold: int | None) -> float:
        if fold is None:
            return self.threshold
        check_known([str(fold)], [*map(str, self.of_folds)], "there is no fold")
        return self.of_folds[fold]

    def words(self) -> list[str]:
        """Return what may be said of it."""
        share = f"{100 * (1 - self.alpha):g} %"
        what = "true classes were in their sets" if self.n_classes else "true values were in their intervals"
        told = (
            f" (no interval: {self.interval.note})"
            if np.isnan(self.interval.low)
            else f" (95 % interval {100 * self.interval.low:.1f} to {100 * self.interval.high:.1f} %)"
        )
        size = f"{self.sizes.mean():.3g}"
        if self.n_classes:
            empty, single = ((self.sizes == number).mean() * 100 for number in (0, 1))
            hold = f"A set holds {size} classes on average; {single:.1f} % hold one, {empty:.1f} % none"
            hold = f"A class is in a set from a probability of {1 - self.threshold:.3g} on. {hold}."
        else:
            hold = f"An interval is the prediction ± {self.threshold:.4g}; by the other folds they are {size} wide."
        found = [
            f"Made for {share}: by the threshold of the other folds {100 * self.coverage:.1f} % of the {what}{told}. "
            f"{hold}",
            f"That at least {share} of new cases are covered is promised for the network of one fold with its own "
            "threshold (fold=), on average over cases that are drawn as these were; not for each class or site, and "
            "not for a mean of networks.",
        ]
        if self.n_left_out:
            found.append(
                f"{self.n_left_out:,} cases whose predictions are not finite are left out: no promise is for them."
            )
        if self.has_groups:
            found.append(
                "Cases come in groups, which the promise does not know: cases of one group are alike, and there are "
                "fewer independent ones than cases. The interval above draws whole groups."
            )
        return found

    def __str__(self) -> str:
        return "\n".join(self.words())

    def __repr__(self) -> str:
        return f"Conformal({1 - self.alpha:g}, {len(self.index)} cases, covered {self.coverage:.4g})"


def conformal(result: Any, alpha: float = 0.1) -> Conformal:
    """Make sets or intervals of the out-of-fold cases, and measure by the other folds how often they hold what is true.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    alpha
        Share of new cases that may lie outside.

    Raises
    ------
    ConfigError
        If ``alpha`` is no number between 0 and 1.
    DataError
        If it predicts neither classes with probabilities nor one number for each case, or has too few cases or folds.
    """
    is_share = isinstance(alpha, (int, float)) and not isinstance(alpha, bool) and 0 < alpha < 1
    expect(("alpha", alpha, is_share, "a number between 0 and 1, e.g. 0.1 for 90 %"))
    scores, kept, of_classes = _scores(result)
    oof = result.oof
    index = np.flatnonzero(oof.mask)[kept]
    fold = oof.fold[index]
    units = index if result.groups is None else np.asarray(result.groups)[index]
    reach = np.zeros(len(index))
    for number in np.unique(fold):
        own = fold == number
        others = ~own & ~np.isin(units, units[own])
        reach[own] = conformal_quantile(scores[others], alpha)
    if not np.isfinite(reach).all():
        raise DataError(
            f"alpha={alpha} needs at least {math.ceil(round(1 / alpha - 1, 9))} cases in the folds beside each, and "
            "there are fewer: nothing but sets of everything could be made of them"
        )
    is_covered = scores <= reach
    if result.without_intervals:
        interval = Interval(np.nan, np.nan, len(index), note=result.without_intervals)
    else:
        interval = mean_interval(is_covered, None if result.groups is None else units, result.seed or 0)
    return Conformal(
        alpha=float(alpha),
        n_classes=0 if of_classes is None else of_classes.shape[1],
        index=index,
        fold=fold,
        scores=scores,
        is_covered=is_covered,
        sizes=2 * reach if of_classes is None else (1 - of_classes <= reach[:, None]).sum(axis=1).astype(np.float64),
        interval=interval,
        n_left_out=int((~kept).sum()),
        has_groups=result.groups is not None,
    )


def _scores(result: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """How unlike its prediction each case is, which tested cases they are, and probabilities of classes."""
    cases = predictions.classify(result, each_once=True)
    if cases is not None and cases.probabilities is not None:
        return 1 - cases.probabilities[np.arange(len(cases.true)), cases.true], cases.kept, cases.probabilities
    numbers = None if cases is not None else predictions.regressed(result, each_once=True)
    if numbers is None:
        why = next((f": {fold.kept_as}" for fold in result.folds if fold.kept_as), "")
        raise DataError(
            "conformal needs a class of each tested case with its probabilities or logits, or one number for each, "
            f"which this result does not have{why}"
        )
    true, predicted, kept = numbers
    return np.abs(true - predicted), kept, None
