"""One result against another in one metric: differences, intervals, tests and effect sizes, or why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from delira.comparison.alignment import Aligned
from delira.comparison.auroc import DELONG, delong_areas, delong_test
from delira.comparison.many import holm
from delira.comparison.measured import Measured
from delira.comparison.outcomes import Outcome, refused
from delira.comparison.tests_of_cases import (
    MCNEMAR,
    OfCases,
    mcnemar_test,
    odds_ratio,
    paired_bootstrap,
    scores_bootstrap,
)
from delira.comparison.tests_of_folds import (
    CORRECTED,
    WILCOXON,
    Posterior,
    corrected_interval,
    corrected_t_test,
    has_no_spread,
    posterior_of_difference,
    rank_biserial,
    standardised,
    wilcoxon_test,
)
from delira.report.bootstrap import Interval, Resampling, Stratum, strata_of

ONE_CASE = "folds of one case each (leave-one-out) have no value of their own; the tests over folds are not for them"
REPEATED = (
    "it takes folds for independent, and folds that test the same cases again are not; the corrected t-test is the "
    "test instead"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the numbers of a comparison rest on."""

    alpha: float
    """Level of the tests; intervals are of 1 - alpha."""
    seed: int
    n_resamples: int
    """Draws of the bootstrap."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The second result minus the first, in one metric."""

    metric: str
    first: str
    second: str
    higher_is_better: bool
    values: tuple[float, float]
    """Of the two: the mean over the folds in which both are defined."""
    folds: np.ndarray
    """Differences of these folds, float64 of shape ``(n,)``."""
    interval: Interval
    """Of the difference, for these trained networks on other cases: paired bootstrap over cases, or whole groups."""
    t_interval: tuple[float, float]
    """Of the difference, for networks that are trained anew; NaN where there is none."""
    tests: Mapping[str, Outcome]
    """By name; a test that could not be made says why."""
    posterior: Posterior | None
    effects: Mapping[str, float]
    """Effect sizes by name."""
    cases: np.ndarray | None
    """Differences case by case, the mean over the tests of each, float64 of shape ``(n_cases,)``; NaN where a case has
    no value, None if the metric is no mean over cases."""
    level: float = 0.95
    """Of the intervals."""
    is_identical: bool = False
    """Whether the two have the same value in every fold and for every case: there is nothing to test."""
    notes: tuple[str, ...] = field(default=())
    """Sentences."""

    @property
    def mean(self) -> float:
        """The difference: the mean over folds."""
        return self.values[1] - self.values[0]

    @property
    def label(self) -> str:
        """``"second − first"``."""
        return f"{self.second} − {self.first}"

    @property
    def is_better(self) -> bool:
        """Return True if the second is better, however little."""
        return (self.mean > 0) == self.higher_is_better

    @property
    def p_better(self) -> float:
        """Probability that the second is better by more than the region of practical equivalence; NaN without one."""
        if self.posterior is None:
            return float("nan")
        return self.posterior.above if self.higher_is_better else self.posterior.below

    @property
    def p_worse(self) -> float:
        """Probability that the second is worse by more than that."""
        if self.posterior is None:
            return float("nan")
        return self.posterior.below if self.higher_is_better else self.posterior.above


class _Pair:
    """Two of the results in one metric, and what is computed of them."""

    def __init__(self, aligned: Aligned, measured: Measured, first: int, second: int, settings: Settings):
        self.aligned, self.measured, self.settings = aligned, measured, settings
        self.first, self.second = first, second
        self.results = aligned.results[first], aligned.results[second]
        values = measured.folds[[first, second]]
        self.defined: list[int] = np.flatnonzero(np.isfinite(values).all(axis=0)).tolist()
        self.values = values[:, self.defined]
        self.differences = self.values[1] - self.values[0]
        self.level = 1 - settings.alpha
        self.lost_groups = next((one.without_intervals for one in self.results if one.without_intervals), "")

    # -------------------------------------------------------------- cases

    def tested(self, position: int) -> OfCases:
        """Values of the cases of the folds that count; each fold counts the same."""
        of_folds = [(self.measured.cases or [])[position][fold] for fold in self.defined]
        weights = [np.ones(len(one.values)) if one.weights is None else one.weights for one in of_folds]
        return OfCases(
            np.concatenate([one.values for one in of_folds]), np.concatenate([each / each.sum() for each in weights])
        )

    @property
    def tests_of_cases(self) -> tuple[np.ndarray, np.ndarray]:
        """The cases that were tested, and which of them each test is about."""
        return np.unique(np.concatenate([self.aligned.cases[fold] for fold in self.defined]), return_inverse=True)

    def case_differences(self) -> np.ndarray | None:
        """Differences of the cases, by their numbers."""
        if self.measured.cases is None:
            return None
        first, second = self.tested(self.first), self.tested(self.second)
        difference = np.where((first.weights > 0) & (second.weights > 0), second.values - first.values, np.nan)
        cases, of_test = self.tests_of_cases
        return np.bincount(of_test, weights=difference) / np.bincount(of_test, minlength=len(cases))

    # -------------------------------------------------------------- intervals

    def interval(self) -> Interval:
        """By the paired bootstrap."""
        cases, of_test = self.tests_of_cases
        groups = None if self.aligned.groups is None else self.aligned.groups[cases]
        draws = Resampling(len(cases), groups, self.settings.seed, self.settings.n_resamples)
        if self.lost_groups:
            return draws.none(self.lost_groups)
        if self.measured.cases is not None:
            first, second = self.tested(self.first), self.tested(self.second)
            return paired_bootstrap(first, second, of_test, groups, draws, self.level)
        if self.measured.statistics is None:
            return draws.none(self.measured.why_not)
        statistics = self.measured.statistics
        of_first, of_second = ([statistics[which][fold] for fold in self.defined] for which in self._both)
        folds = [np.searchsorted(cases, self.aligned.cases[fold]) for fold in self.defined]
        found = scores_bootstrap(of_first, of_second, folds, self._strata(folds, groups), self.level)
        return self._checked(found, draws)

    @property
    def _both(self) -> tuple[int, int]:
        return self.first, self.second

    def _strata(self, folds: list[np.ndarray], groups: np.ndarray | None) -> list[Stratum]:
        """What is drawn by itself: each class of each fold, or of all cases where groups, or cases, are in several."""
        labels = self._labels(folds)
        n = 1 + max(int(places.max()) for places in folds)
        units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
        is_within = sum(len(np.unique(units[places])) for places in folds) == len(np.unique(units))
        found = []
        for number, places in enumerate(folds if is_within else [np.arange(n)]):
            own = None if groups is None else groups[places]
            for part, stratum in enumerate(strata_of(places, None if labels is None else labels[places], own)):
                # a stream of its own for each, by the number of the fold
                counter = 2 * self.aligned.numbers[self.defined[number]] + part if is_within else part
                of_groups = None if groups is None else groups[stratum]
                how = (self.settings.seed, self.settings.n_resamples, counter)
                found.append(Stratum(Resampling(len(stratum), of_groups, *how), stratum))
        return found

    def _labels(self, folds: list[np.ndarray]) -> np.ndarray | None:
        """Labels 0 and 1 of all cases, of the area under a ROC curve; None of other metrics."""
        if self.measured.scores is None:
            return None
        labels = np.zeros(1 + max(int(places.max()) for places in folds), np.int64)
        for places, fold in zip(folds, self.defined, strict=True):
            labels[places] = self.measured.scores[self.first][fold][0]
        return labels

    def _checked(self, found: Interval, draws: Resampling) -> Interval:
        """The interval, if the difference is in it, as draws hold fewer different cases than the data."""
        if found.note or found.low - 1e-9 <= self.differences.mean() <= found.high + 1e-9:
            return found
        return draws.none("draws are biased, as each holds fewer different cases than the data")

    # -------------------------------------------------------------- tests

    def of_folds(self) -> dict[str, Outcome]:
        """The tests over folds."""
        if len(self.differences) < 2:
            note = f"it is defined in {len(self.differences)} of {len(self.aligned.numbers)} folds"
            return {name: refused(name, note) for name in (CORRECTED, WILCOXON)}
        if self.is_of_one_case:
            return {name: refused(name, ONE_CASE) for name in (CORRECTED, WILCOXON)}
        corrected = corrected_t_test(self.differences, self.share)
        if not self.aligned.is_once:
            return {CORRECTED: corrected, WILCOXON: refused(WILCOXON, REPEATED)}
        return {CORRECTED: corrected, WILCOXON: wilcoxon_test(self.differences)}

    @property
    def is_of_one_case(self) -> bool:
        """Return True for leave-one-out."""
        return max(map(len, self.aligned.cases)) == 1

    @property
    def share(self) -> float:
        """Cases tested over cases learned from, of the two results the larger, which is the more careful one."""
        return max(self.aligned.share(which) for which in self._both)

    def of_cases(self) -> dict[str, Outcome]:
        """The tests over cases: each where it is one for the metric."""
        found = {}
        instead = "; the paired bootstrap, which draws whole groups, is the test instead"
        if self.measured.cases is not None and self._are_right_or_wrong():
            found[MCNEMAR] = self._without_copies(MCNEMAR, instead) or self._mcnemar()
        if self.measured.is_auroc:
            found[DELONG] = self._without_copies(DELONG, instead) or self._delong()
        return found

    def _without_copies(self, name: str, instead: str) -> Outcome | None:
        """Why cases are not independent; None if they may be."""
        if self.aligned.groups is not None or self.lost_groups:
            return refused(name, f"it takes cases for independent, and those of one group are not{instead}")
        if not self.aligned.is_once:
            return refused(name, f"cases are tested several times{instead.replace(', which draws whole groups,', '')}")
        return None

    def _are_right_or_wrong(self) -> bool:
        """Return True if each case is 0 or 1 in both, and counts the same."""
        every = [one for which in self._both for one in (self.measured.cases or [])[which]]
        is_whole = all(one.weights is None or (one.weights == 1).all() for one in every)
        return is_whole and all(np.isin(one.values, (0, 1)).all() for one in every)

    def _mcnemar(self) -> Outcome:
        return mcnemar_test(self.tested(self.first).values, self.tested(self.second).values)

    def _delong(self) -> Outcome:
        if self.measured.scores is None:
            return refused(DELONG, "it is for two classes; the paired bootstrap is the test instead")
        areas = []
        for fold in self.defined:
            (labels, first), (_, second) = (self.measured.scores[which][fold] for which in self._both)
            areas.append(delong_areas(labels, first, second))
        if not np.allclose([one[:2] for one in areas], self.values.T, rtol=0, atol=1e-6):
            return refused(DELONG, "the metric is another one than the area under the curve of the scores")
        return delong_test(areas)

    # -------------------------------------------------------------- effects

    def effects(self, cases: np.ndarray | None) -> dict[str, float]:
        """Effect sizes: over folds, and over cases where there are values of cases."""
        found = {}
        if len(self.differences) > 1 and not self.is_of_one_case:
            found = {"d over folds": standardised(self.differences), "rank-biserial": rank_biserial(self.differences)}
        if cases is None:
            return found
        values = cases[np.isfinite(cases)]
        if not len(values):
            return found
        is_better = values > 0 if self.measured.higher_is_better else values < 0
        found |= {
            "share of cases better": float(np.mean(is_better)),
            "share of cases worse": float(np.mean((values != 0) & ~is_better)),
        }
        if len(values) > 1:
            found["d over cases"] = standardised(values)
        if self.aligned.is_once and self._are_right_or_wrong():
            found["odds ratio"] = odds_ratio(self.tested(self.first).values, self.tested(self.second).values)
        return found

    def notes(self) -> list[str]:
        """Sentences about folds that do not count."""
        n_left = len(self.aligned.numbers) - len(self.defined)
        found = []
        if n_left:
            left = [number for place, number in enumerate(self.aligned.numbers) if place not in self.defined]
            found.append(f"not defined in fold {', '.join(map(str, left))}, which count in no number here")
        if self.measured.cases is not None and self.defined:
            first, second = self.tested(self.first), self.tested(self.second)
            if n_apart := int(np.sum((first.weights > 0) != (second.weights > 0))):
                found.append(
                    f"defined for {n_apart:,} cases in one of the two alone, which count in its mean all the same"
                )
        return found


def difference_of(
    aligned: Aligned, measured: Measured, pair: tuple[int, int], rope: float, settings: Settings
) -> Difference:
    """Compare two results in one metric.

    Parameters
    ----------
    aligned
        All results.
    measured
        The metric.
    pair
        Numbers of the two; differences are those of the second minus the first.
    rope
        Half the width of the region of practical equivalence.
    settings
        Level, seed and draws.
    """
    own = _Pair(aligned, measured, *pair, settings)
    cases = own.case_differences() if len(own.defined) else None
    is_identical = bool(len(own.defined)) and not own.differences.any() and _are_equal(own, cases)
    nothing = Difference(
        metric=measured.name, first=aligned.names[pair[0]], second=aligned.names[pair[1]],
        higher_is_better=measured.higher_is_better, values=(np.nan, np.nan), folds=own.differences,
        interval=Interval(np.nan, np.nan, aligned.n_cases), t_interval=(np.nan, np.nan), tests={}, posterior=None,
        effects={}, cases=cases, level=own.level, is_identical=is_identical, notes=tuple(own.notes()),
    )  # fmt: skip
    if not own.defined:
        return nothing
    values = (float(own.values[0].mean()), float(own.values[1].mean()))
    if is_identical:
        return replace(nothing, values=values)
    # without a spread the posterior would be sure of what nobody knows
    has_folds = len(own.differences) > 1 and not own.is_of_one_case and not has_no_spread(own.differences)
    return replace(
        nothing,
        values=values,
        interval=own.interval(),
        t_interval=corrected_interval(own.differences, own.share, own.level) if has_folds else (np.nan, np.nan),
        tests={**own.of_folds(), **own.of_cases()},
        posterior=posterior_of_difference(own.differences, own.share, rope) if has_folds else None,
        effects=own.effects(cases),
    )


def _are_equal(own: _Pair, cases: np.ndarray | None) -> bool:
    """Return True if nothing tells two results with equal folds apart: neither values of cases nor scores."""
    if cases is not None:
        return not np.nan_to_num(cases).any()
    scores = own.measured.scores
    if scores is None:
        return True
    return all(np.array_equal(one[1], two[1]) for one, two in zip(scores[own.first], scores[own.second], strict=True))


def with_holm(differences: list[Difference]) -> list[Difference]:
    """Return differences of several pairs in one metric with p-values adjusted by Holm's correction, test by test.

    Parameters
    ----------
    differences
        Of one metric; those of a single pair stay as they are.
    """
    if len(differences) < 2:
        return differences
    names = dict.fromkeys(name for one in differences for name in one.tests)
    adjusted: list[dict[str, Outcome]] = [{} for _ in differences]
    for name in names:
        having = [place for place, one in enumerate(differences) if name in one.tests]
        found = holm([differences[place].tests[name].p_value for place in having])
        for place, value in zip(having, found.tolist(), strict=True):
            adjusted[place][name] = differences[place].tests[name]._replace(adjusted=value)
    return [replace(one, tests=tests) for one, tests in zip(differences, adjusted, strict=True)]
