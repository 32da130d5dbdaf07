"""Probabilities made honest by one number, the temperature, which each fold has from the cases of the others.

References
----------
C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, section 4.2:
temperature scaling.
G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78, 1950: the score.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.errors import DataError
from delira.report import plots, predictions
from delira.report.bootstrap import Interval, mean_interval
from delira.report.predictions import Classified, Reliability, as_probabilities
from delira.report.table import Table
from delira.utils.pictures import Figure

BOUNDS = (0.05, 20.0)
"""Between these a temperature is looked for: predictions that are right in all cases have no best one."""
#: the least that float32 holds in full; a probability of 0 would make any loss infinite
_LEAST = float(np.finfo(np.float32).tiny)
#: the page fits none of its own where there are more probabilities
MOST_ON_PAGE = 1_000_000


def fit_temperature(log_probabilities: np.ndarray, true: np.ndarray) -> float:
    """Return the temperature by which to divide logits for the least mean log loss, from 0.05 to 20.

    Parameters
    ----------
    log_probabilities
        Or logits, float64 of shape ``(n, C)``.
    true
        Class of each case, int64 of shape ``(n,)``.

    Raises
    ------
    DataError
        If there is no case.
    """
    from scipy.optimize import brentq
    from scipy.special import softmax

    if not len(true):
        raise DataError("a temperature is fitted on cases, and there are none")
    of_true = log_probabilities[np.arange(len(true)), true]

    def slope(log_inverse: float) -> float:
        """Of the loss, which is convex in the inverse of the temperature."""
        expected = (softmax(np.exp(log_inverse) * log_probabilities, axis=1) * log_probabilities).sum(axis=1)
        return float(np.mean(expected - of_true))

    coldest, hottest = np.log(1 / np.asarray(BOUNDS))
    if slope(hottest) >= 0:
        return BOUNDS[1]
    if slope(coldest) <= 0:
        return BOUNDS[0]
    return float(np.exp(-brentq(slope, hottest, coldest, xtol=1e-9)))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """What one temperature makes of the out-of-fold probabilities of a classification.

    The temperature of each fold was fitted on cases that it does not test, so the numbers after it are those of new
    cases. Which class is predicted stays the same, and so does all that depends on it alone.
    """

    temperature: float
    """Fitted on all tested cases, for new ones. It is that of single networks: a mean of several is less sure, and
    would need a lower one."""
    of_folds: Mapping[int, float]
    """That of each fold, fitted on the others without the cases and the groups that it tests."""
    cases: Classified
    """As they were predicted, fold after fold."""
    index: np.ndarray
    """Of each case in the data set, int64 of shape ``(n,)``."""
    before: np.ndarray
    """Logarithms of the probabilities as predicted, float64 of shape ``(n, C)``."""
    after: np.ndarray
    """The same with the temperature of each fold."""
    fall: Interval
    """95 % interval of how much the mean log loss falls by it: cases are drawn, or whole groups."""
    n_left_out: int
    """Tested cases whose scores are not finite; they take no part."""
    n_impossible: int
    """Cases whose true class had the probability 0, which counts as 1.2e-38."""

    @property
    def probabilities(self) -> np.ndarray:
        """With the temperature of each fold, float64 of shape ``(n, C)``, in the order of ``index``."""
        return np.asarray(np.exp(self.after))

    @functools.cached_property
    def reliability(self) -> tuple[Reliability, Reliability]:
        """Confidence against frequency, before and after."""
        calibrated = self.cases._replace(probabilities=self.probabilities)
        return predictions.reliability(self.cases), predictions.reliability(calibrated)

    @functools.cached_property
    def numbers(self) -> Mapping[str, tuple[float, float]]:
        """Log loss, Brier score (of two classes that of the second) and expected calibration error, before and after.

        Each is over all out-of-fold cases.
        """
        true, (drawn_before, drawn_after) = self.cases.true, self.reliability
        return {
            "log loss": (float(_losses(self.before, true).mean()), float(_losses(self.after, true).mean())),
            "Brier score": (_brier(np.exp(self.before), true), _brier(np.exp(self.after), true)),
            "ECE": (drawn_before.error, drawn_after.error),
        }

    def apply(self, probabilities: object) -> np.ndarray:
        """Return probabilities of new cases with the temperature.

        Parameters
        ----------
        probabilities
            Shape ``(n, C)``, or, of two classes, those of the second: ``(n,)``.

        Raises
        ------
        DataError
            If they are none: of another shape, not from 0 to 1, or with a sum that is not 1.
        """
        both = as_probabilities("apply", probabilities, self.cases.n_classes)
        scaled = np.exp(_scaled(_logarithms(both), self.temperature))
        return np.asarray(scaled[:, 1] if np.asarray(probabilities).ndim == 1 else scaled)

    def table(self) -> Table:
        """Return the numbers before and after it."""
        rows = [[name, *both] for name, both in self.numbers.items()]
        return Table("calibration", ["Out-of-fold", "As predicted", "With temperature"], rows, by_row=True)

    def words(self) -> list[str]:
        """Return what may be said of it."""
        low, high = min(self.of_folds.values()), max(self.of_folds.values())
        before, after = self.numbers["log loss"]
        told = f"The mean log loss {'falls' if after <= before else 'rises'} by {abs(before - after):.3g}"
        if np.isnan(self.fall.low):
            told += f" (no interval: {self.fall.note})"
        else:
            told += f" (95 % interval of the fall {self.fall.low:.3g} to {self.fall.high:.3g})"
            told += "" if self.fall.low > 0 else ", which does not show that it helps"
        sure = "too sure" if self.temperature > 1 else "not sure enough"
        found = [
            f"Temperature {self.temperature:.3g}, fitted on all cases: the networks are {sure}. That of each fold, "
            f"fitted on the cases of the others, is {low:.3g} to {high:.3g}. {told}. No predicted class changes. It is "
            "that of single networks, not of a mean of them."
        ]
        if {low, high, self.temperature} & {*BOUNDS}:
            found.append(
                f"A temperature of {BOUNDS[0]:g} or {BOUNDS[1]:g} is as far as it is looked for: none is best, as "
                "where all cases are predicted right, or where confidence says nothing."
            )
        if self.n_left_out:
            found.append(f"{self.n_left_out:,} cases whose scores are not finite are left out.")
        if self.n_impossible:
            found.append(
                f"{self.n_impossible:,} cases had the probability 0 of their true class, which counts as "
                f"{_LEAST:.2g}: they decide the temperature and the log loss. Let the network give logits."
            )
        return found

    def plot(self, path: str | Path | None = None) -> Figure:
        """Confidence against frequency, with the temperature.

        Parameters
        ----------
        path
            Where to save the picture.
        """
        is_one = self.cases.is_one_score
        axis_names = ("probability of class 1", "frequency") if is_one else ("confidence", "share predicted right")
        figure = plots.calibration_panel(self.reliability[1], axis_names, "With temperature")
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200)
        return figure

    def __str__(self) -> str:
        return "\n".join([self.table().rendered(), *self.words()])

    def __repr__(self) -> str:
        return f"Calibration({self.temperature:.4g}, {len(self.index)} cases, {len(self.of_folds)} folds)"


def calibrate(result: Any) -> Calibration:
    """Fit the temperature of each fold on the cases of the others, and apply it to its own.

    Parameters
    ----------
    result
        A ``KFoldResult``.

    Raises
    ------
    DataError
        If it has no class probabilities or logits of its cases, or fewer than two folds.
    """
    cases = predictions.classify(result)
    if cases is None or cases.probabilities is None:
        why = next((f": {fold.kept_as}" for fold in result.folds if fold.kept_as), "")
        raise DataError(
            "a temperature needs one class of each tested case, and its probabilities or logits, which this result "
            f"does not have{why}"
        )
    of_fold = predictions.classify_folds(result, cases)
    if len(of_fold) < 2:
        raise DataError(
            f"the temperature of a fold is fitted on the cases of others, and there is {len(of_fold)}; one fitted on "
            "the cases that it is judged by would look better than it is"
        )
    tested = {fold.fold: fold.test_indices for fold in result.folds}
    index = np.concatenate([tested[number][each.kept] for number, each in of_fold.items()])
    number_of = np.repeat([*of_fold], [len(each.true) for each in of_fold.values()])
    every = _joined([*of_fold.values()])
    units = index if result.groups is None else np.asarray(result.groups)[index]
    before = _log_probabilities(every)
    after, found = before.copy(), {}
    for number in of_fold:
        own = number_of == number
        others = ~own & ~np.isin(units, units[own])
        if not others.any():
            raise DataError(f"fold {number} tests all cases that there are: none is left to fit its temperature on")
        found[number] = fit_temperature(before[others], every.true[others])
        after[own] = _scaled(before[own], found[number])
    falls = _losses(before, every.true) - _losses(after, every.true)
    if result.without_intervals:
        fall = Interval(np.nan, np.nan, len(index), note=result.without_intervals)
    else:
        is_each_once = result.groups is None and len(np.unique(index)) == len(index)
        fall = mean_interval(falls, None if is_each_once else units, result.seed or 0)
    return Calibration(
        temperature=fit_temperature(before, every.true),
        of_folds=found,
        cases=every,
        index=index,
        before=before,
        after=after,
        fall=fall,
        n_left_out=int(sum((~each.kept).sum() for each in of_fold.values())),
        n_impossible=int((np.asarray(every.probabilities)[np.arange(len(index)), every.true] == 0).sum()),
    )


def _joined(folds: list[Classified]) -> Classified:
    """The cases of all folds, one after the other."""
    first = folds[0]
    arrays: dict[str, Any] = {
        name: None if getattr(first, name) is None else np.concatenate([getattr(each, name) for each in folds])
        for name in ("true", "predicted", "probabilities", "kept", "score", "log_odds")
    }
    return first._replace(**arrays)


def _log_probabilities(cases: Classified) -> np.ndarray:
    """Of each class, from logits where they are known: probabilities lose what is next to 0 or 1."""
    if cases.log_odds is not None:
        return np.asarray(-np.logaddexp(0, -cases.log_odds))
    if cases.score is not None and cases.made_by:
        return np.asarray(-np.logaddexp(0, np.stack([cases.score, -cases.score], axis=1)))
    return _logarithms(np.asarray(cases.probabilities))


def _logarithms(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probabilities.astype(np.float64), _LEAST)))


def _scaled(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    from scipy.special import log_softmax

    return np.asarray(log_softmax(log_probabilities / temperature, axis=1))


def _losses(log_probabilities: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Log loss of each case."""
    return np.asarray(-log_probabilities[np.arange(len(true)), true])


def _brier(probabilities: np.ndarray, true: np.ndarray) -> float:
    squares = (probabilities - np.eye(probabilities.shape[1])[true]) ** 2
    return float(squares.sum(axis=1).mean() / (2 if probabilities.shape[1] == 2 else 1))
