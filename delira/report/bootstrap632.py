"""The .632+ bootstrap: how good the network of all cases is on new ones, from networks of cases drawn with replacement.

References
----------
B. Efron, R. Tibshirani, "Improvements on Cross-Validation: The .632+ Bootstrap Method", Journal of the American
Statistical Association 92, 1997. The numbers are checked against ipred of R, whose rate of overfitting exceeds 1 where
networks are worse than without information; here it ends there.
"""

import textwrap
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError
from delira.metrics.direction import higher_is_better
from delira.metrics.metric_set import evaluator
from delira.metrics.of_cases import case_values, is_mean_of_cases, of_values
from delira.metrics.scoring import keys_of
from delira.report import bootstrap
from delira.report.predictions import Part, arrays_of, folds_of, part_of
from delira.report.summary import check_result, fold_values, is_partial
from delira.report.table import WIDTH, Section, Table
from delira.utils.arrays import map_leaves
from delira.utils.seeding import derive_int

N_PAIRINGS = 200
"""Ways in which predictions are given to other cases than their own; of so few cases all shifts, which is exact."""


class Estimate(NamedTuple):
    """The estimate of one metric, and what it is made of; a number is NaN where it cannot be had."""

    metric: str
    value: float
    """The .632+ estimate."""
    out_of_bag: float
    """Of cases that the network was not trained on: a mean over cases is that of each case over all folds that did not
    draw it, then over cases; any other metric the mean over the folds in which it is defined."""
    apparent: float
    """Of the network of all cases, on all cases."""
    no_information: float
    """The same if predictions had nothing to do with what is true: each given to every case."""
    overfitting: float
    """The relative overfitting rate, from 0, none, to 1: no better than without information."""
    note: str = ""
    """Why there is no value, or what it depends on."""

    @property
    def weight(self) -> float:
        """Return what ``out_of_bag`` counts, 0.632 without overfitting, up to 1; the rest is that of ``apparent``, as
        long as networks are not worse than without information, which then counts in its place.
        """
        return 0.632 / (1 - 0.368 * self.overfitting)


class Bootstrap632:
    """The .632+ estimates of a bootstrap.

    Parameters
    ----------
    estimates
        One for each metric.
    n_folds
        How many networks were trained on bootstrap samples.
    notes
        What else is to be said.
    """

    def __init__(self, estimates: Sequence[Estimate], n_folds: int, notes: Sequence[str] = ()):
        self.estimates, self.n_folds, self.notes = list(estimates), n_folds, list(notes)

    def __getitem__(self, metric: str) -> Estimate:
        """Return the estimate of a metric.

        Raises
        ------
        ConfigError
            If there is none of that name.
        """
        for each in self.estimates:
            if each.metric == metric:
                return each
        known = ", ".join(each.metric for each in self.estimates)
        raise ConfigError(f"the bootstrap has no metric {metric!r}; it has {known}")

    def table(self) -> Table:
        """Return one row for each metric."""
        header = ["Metric", ".632+", "out-of-bag", "apparent", "no information", "overfitting"]
        rows = [[e.metric, e.value, e.out_of_bag, e.apparent, e.no_information, e.overfitting] for e in self.estimates]
        return Table("bootstrap632", header, rows or [["no metrics were computed", *[None] * 5]], by_row=True)

    def words(self) -> list[str]:
        """Return what the numbers are, and why some are missing."""
        return [
            f".632+ (Efron & Tibshirani 1997): an estimate for the network of all cases, from {self.n_folds} networks "
            "of bootstrap samples, each tested out-of-bag, and from what the network of all cases says of these "
            "themselves (apparent). It has no interval.",
            *self.notes,
            *(f"{each.metric}: {each.note}" for each in self.estimates if each.note),
        ]

    def __str__(self) -> str:
        return "\n\n".join([self.table().rendered(), *(textwrap.fill(text, WIDTH) for text in self.words())])

    def __repr__(self) -> str:
        return f"Bootstrap632({[each.metric for each in self.estimates]}, {self.n_folds} folds)"


def weigh(
    out_of_bag: float, apparent: float, no_information: float, *, is_larger_better: bool = False
) -> tuple[float, float]:
    """Return the .632+ estimate, and the relative overfitting rate.

    Parameters
    ----------
    out_of_bag, apparent, no_information
        Error rates, or values of any metric.
    is_larger_better
        Whether large values are good.

    Examples
    --------
    >>> [round(number, 4) for number in weigh(0.3, 0.1, 0.5)]
    [0.2549, 0.5]
    >>> [round(number, 4) for number in weigh(0.7, 0.9, 0.5, is_larger_better=True)]
    [0.7451, 0.5]
    """
    sign = -1 if is_larger_better else 1
    found, resubstituted, worst = sign * out_of_bag, sign * apparent, sign * no_information
    if not np.isfinite([found, resubstituted, worst]).all():
        return float("nan"), float("nan")
    bounded = min(found, worst)
    is_overfitted = bounded > resubstituted
    rate = (bounded - resubstituted) / (worst - resubstituted) if is_overfitted else 0.0
    plain = 0.368 * resubstituted + 0.632 * found
    correction = (bounded - resubstituted) * 0.368 * 0.632 * rate / (1 - 0.368 * rate)
    return sign * (plain + correction) + 0.0, rate  # no -0.0


def bootstrap632(result: Any) -> Bootstrap632:
    """Estimate how good the network of all cases is on new ones.

    Parameters
    ----------
    result
        A ``KFoldResult`` of ``kfold(…, split_type="bootstrap632+")``.

    Raises
    ------
    DataError
        If it is none, or lacks the fold of all cases.
    """
    check_result("bootstrap632", result, "apparent", "metrics", "seed")
    if result.apparent is None or not result.folds:
        raise DataError(
            "there is no .632+ estimate: it needs folds of bootstrap samples and the one that trains and tests on all "
            "cases, those of kfold(…, split_type='bootstrap632+')"
        )
    estimates = [_estimate(result, name) for name in result.folds[0].metrics]
    return Bootstrap632(estimates, len(result.folds), _notes(result))


def _notes(result: Any) -> list[str]:
    """What the numbers of all metrics depend on."""
    found = []
    if any(fold.val_indices is not None for fold in [*result.folds, result.apparent]):
        found.append(
            "Each network, that of all cases too, holds a part of its cases out to choose its epoch (val_split), and "
            "is trained on fewer: the estimate is of a training that does so. val_split=None trains on all."
        )
    n_tested = int(result.oof.mask.sum())
    if never := len(result.apparent.test_indices) - n_tested:
        found.append(f"{never} cases were in every sample, and never tested out-of-bag: draw more (num_splits).")
    return found


def bootstrap_section(result: Any) -> Section | None:
    """Return the section of the page, or None if it was no bootstrap."""
    if getattr(result, "apparent", None) is None or not result.folds:
        return None
    found = bootstrap632(result)
    return Section(".632+ bootstrap", {}, [found.table()], found.words())


def _estimate(result: Any, name: str) -> Estimate:
    apparent, nan = _mean(result.apparent.metrics[name], is_partial(result, name)), float("nan")
    metric = (result.metrics or {}).get(name)
    if metric is None:
        return Estimate(name, nan, nan, apparent, nan, nan, "the function that computed it is not known here")
    out_of_bag, notes = _out_of_bag(result, name)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            no_information = _no_information(result, name)
    except Exception as error:  # a metric raises what it likes; the others shall still be shown
        no_information = nan
        notes.append(f"there is no value without information ({type(error).__name__}: {error})")
    is_larger_better = higher_is_better(metric, name)
    if is_larger_better is None and np.isfinite(no_information):
        is_larger_better = no_information < apparent
        notes.append("nobody says whether large values are good; taken from what it is without information")
    value, rate = weigh(out_of_bag, apparent, no_information, is_larger_better=bool(is_larger_better))
    return Estimate(name, value, out_of_bag, apparent, no_information, rate, "; ".join(notes))


def _mean(values: np.ndarray, may_lack: bool) -> float:
    return of_values(np.asarray(values, dtype=np.float64), may_lack).mean


def _out_of_bag(result: Any, name: str) -> tuple[float, list[str]]:
    """Of a mean over cases that of each case first, as a case that is drawn rarely is tested often; and notes."""
    parts = folds_of(result)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = [_case_values(result, name, part) for part in parts]
    except MissingKeyError:  # what it reads was not kept, and its values are there
        found = [None]
    if any(each is None for each in found):
        values = fold_values(result)[name]
        defined = values[np.isfinite(values)]
        lacks = f"out-of-bag of the {len(defined)} of {len(values)} folds in which it is defined"
        return float(np.mean(defined)) if len(defined) else float("nan"), [lacks] if len(defined) < len(values) else []
    total, weight = np.zeros(result.n_samples), np.zeros(result.n_samples)
    counts = np.zeros(result.n_samples)
    for part, each in zip(parts, found, strict=True):
        weights = np.ones(len(part.cases)) if each.weights is None else each.weights
        np.add.at(total, part.cases, np.where(weights > 0, weights * each.values, 0.0))
        np.add.at(weight, part.cases, weights)
        np.add.at(counts, part.cases, 1)
    counted = weight > 0
    if not counted.any():
        return float("nan"), ["no case has a value out-of-bag"]
    of_cases, weights = (total[counted] / weight[counted]), weight[counted] / counts[counted]
    return float(np.average(of_cases, weights=weights)), []


def _case_values(result: Any, name: str, part: Part) -> Any:
    if name in part.per_case:
        return of_values(part.per_case[name], is_partial(result, name))
    return case_values(result.metrics[name], arrays_of(result, name, part))


def _no_information(result: Any, name: str) -> float:
    """Mean of a metric over ways to give each prediction of the network of all cases to another case."""
    part = part_of(result, result.apparent)
    arrays, evaluate = arrays_of(result, name, part), evaluator(result.metrics[name], name)
    if (size := bootstrap.n_bytes(arrays)) > bootstrap.RESAMPLING_LIMIT:
        raise DataError(f"its arrays ({size / 2**20:,.0f} MiB) are too large to be given to other cases")
    keys = keys_of(result.metrics, result.metric_keys)[name]
    are_predicted = [key.split(".", 1)[0] not in result.apparent.targets for key in keys]
    n, places = len(part.cases), np.arange(len(part.cases))
    if n <= N_PAIRINGS and (is_mean_of_cases(result.metrics[name]) or result.is_per_case(name)):
        pairings = [np.roll(places, shift) for shift in range(n)]
    else:
        random = np.random.default_rng(derive_int(result.seed or 0, stream="no information"))
        pairings = [random.permutation(n) for _ in range(N_PAIRINGS)]
    return float(np.mean([evaluate(*_given(arrays, are_predicted, order)) for order in pairings]))


def _given(arrays: Sequence[Any], are_predicted: Sequence[bool], order: np.ndarray) -> list[Any]:
    return [
        map_leaves(lambda leaf: leaf[order], array) if is_predicted else array
        for array, is_predicted in zip(arrays, are_predicted, strict=True)
    ]
