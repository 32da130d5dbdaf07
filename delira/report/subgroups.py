"""The numbers of parts of the cases (sites, scanners, sexes), and how far each is from all others."""

import dataclasses
import functools
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, DataError, MissingKeyError, listed
from delira.metrics.metric_set import evaluator
from delira.metrics.of_cases import CaseValues, case_values, is_mean_of_cases, statistic_of
from delira.metrics.scoring import lookup
from delira.report import bootstrap, predictions
from delira.report.bootstrap import Interval, Statistic
from delira.report.predictions import Part
from delira.report.table import Table
from delira.runs.kept import NotKept
from delira.utils.arrays import map_leaves

#: more subgroups than these are no subgroups, but ids or measurements
MOST = 50


class Gap(NamedTuple):
    """How far a metric of a subgroup is from that of all other cases."""

    value: float
    """Subgroup less others."""
    interval: Interval
    """95 % interval: both are of the same draws of cases, or of whole groups."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Subgroups:
    """What a cross-validation says of parts of its cases; each was predicted by a network that did not see it."""

    by: str
    """What they differ in."""
    results: Mapping[str, Any]
    """Subgroup to a ``KFoldResult`` of its tested cases alone, with the folds that tested some."""
    gaps: Mapping[str, Mapping[str, Gap]]
    """Metric to subgroup to its gap; empty where there is but one subgroup."""

    @functools.cached_property
    def n_cases(self) -> dict[str, int]:
        """Tested cases of each subgroup."""
        return {name: int(result.oof.mask.sum()) for name, result in self.results.items()}

    def summary(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return subgroup to what :meth:`KFoldResult.summary` says of its cases."""
        return {name: result.summary() for name, result in self.results.items()}

    def table(self) -> Table:
        """Return a row for each metric and subgroup: its value with its interval, and the gap to all others."""
        rows: list[list[Any]] = []
        for name, result in self.results.items():
            for metric, row in result.summary().items():
                gap = self.gaps.get(metric, {}).get(name, Gap(np.nan, Interval(np.nan, np.nan, 0)))
                value = row["oof"] if not row["pooled"] else row["mean"]
                numbers = [value, row["ci_low"], row["ci_high"], gap.value, gap.interval.low, gap.interval.high]
                rows.append([f"{metric}: {name}", int(row["n"]), *map(float, numbers)])
        header = [self.by, "Cases", "Value", "CI low", "CI high", "Less others", "From", "To"]
        order = {metric: place for place, metric in enumerate(next(iter(self.results.values())).summary())}
        rows.sort(key=lambda row: order[row[0].split(": ", 1)[0]])
        return Table("subgroups", header, rows, by_row=True)

    def words(self) -> list[str]:
        """Return what must be known of the numbers."""
        found = [
            "Value: out-of-fold, or the mean over folds of a metric that is no mean over cases. Less others: the "
            "subgroup less all other cases, with a 95 % interval for each by itself."
        ]
        n_gaps = sum(not np.isnan(gap.interval.low) for gaps in self.gaps.values() for gap in gaps.values())
        if n_gaps > 1:
            found.append(
                f"Of {n_gaps} intervals {0.05 * n_gaps:.2g} miss 0 by chance where there is no difference at all: one "
                "that does is a reason to look again at other data."
            )
        notes: dict[str, list[str]] = {}
        for name, result in self.results.items():
            for metric, row in result.summary().items():
                of_both = [_note("its interval", row["ci_low"], row["note"])]
                if gap := self.gaps.get(metric, {}).get(name):
                    of_both.append(_note("its interval of the gap", gap.interval.low, gap.interval.note))
                for note in dict.fromkeys(filter(None, of_both)):
                    notes.setdefault(f"{metric}: {note}", []).append(name)
        return [*found, *(f"{listed(names, 5)}: {note}." for note, names in notes.items())]

    def __str__(self) -> str:
        return "\n".join([self.table().rendered(), *self.words()])

    def __repr__(self) -> str:
        return f"Subgroups({self.by!r}, {self.n_cases})"


def _note(what: str, low: float, note: str) -> str:
    """Why there is no interval, or how the one that is there was drawn."""
    return note if np.isnan(low) or not note else f"{what} is {note}"


def subgroups(result: Any, by: Any) -> Subgroups:
    """Divide the tested cases by what they are, and compute the numbers of each part, and its gap to all others.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    by
        Name of the entry that cases were grouped by (``groups_key``), or of one that metrics read, which are kept; or
        an array of shape ``(n_samples,)``, one value for each sample of the data set, e.g.
        ``data.dataset.labels("site")``; or ``{name: array}``.

    Raises
    ------
    ConfigError
        If no such entry was kept, or there is no array of that shape.
    DataError
        If it has more than 50 different values, which are no subgroups, or a tested case without one.
    """
    name, labels = _labels(result, by)
    tested = result.oof.mask
    values = sorted({*labels[tested].tolist()})
    if not values:
        raise DataError("no case was tested, so there is nothing to divide")
    if len(values) > MOST:
        raise DataError(
            f"{name} has {len(values):,} different values, and a subgroup is one of at most {MOST}: of numbers make "
            "ranges, e.g. by=np.digitize(ages, [40, 60])"
        )
    if "" in values:
        raise DataError(f"{name} is missing in {int((labels[tested] == '').sum()):,} tested cases")
    results = {value: _only(result, labels == value) for value in values}
    gaps: dict[str, dict[str, Gap]] = {}
    if len(values) > 1:
        for metric in result.summary():
            gaps[metric] = {value: _gap(result, metric, labels == value) for value in values}
    return Subgroups(by=name, results=results, gaps=gaps)


def _labels(result: Any, by: Any) -> tuple[str, np.ndarray]:
    """What cases are divided by, and its value of each sample as a text; empty where there is none."""
    if isinstance(by, str):
        given, name = _kept(result, by), by
    elif isinstance(by, Mapping):
        if len(by) != 1:
            raise ConfigError(f"by must be one name with its array, {{name: array}}, got {len(by)} names: {[*by]}")
        ((name, given),) = by.items()
    else:
        given, name = by, getattr(by, "name", None) or "subgroup"
    labels = np.asarray(given)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (result.n_samples,):
        raise ConfigError(
            f"by must be an array of shape ({result.n_samples},), one value for each sample of the data set, got one "
            f"of shape {labels.shape}"
        )
    missing = np.array([value is None or value != value for value in labels.tolist()], dtype=bool)
    texts = np.array([f"{value:g}" if isinstance(value, float) else str(value) for value in labels.tolist()], object)
    texts[missing] = ""
    return str(name), texts


def _kept(result: Any, key: str) -> Any:
    """Values of an entry of the samples: those that metrics read, or the groups, which are kept without any metric."""
    try:
        return lookup(result.oof.targets, key)
    except MissingKeyError as error:
        if result.groups is not None and result.info.get("groups_key") == key:
            return result.groups
        raise ConfigError(
            f"{key!r} of the samples was not kept: no metric read it, and the cases were not grouped by it. Give its "
            f"values, one for each of the {result.n_samples:,} samples of the data set: "
            f"by={{{key!r}: data.dataset.labels({key!r})}}, where data is what was cross-validated, or an array of "
            "your own in place of the labels"
        ) from error


def _only(result: Any, is_in: np.ndarray) -> Any:
    """Return the result of some samples alone."""
    parts = [_restricted(part, is_in[part.cases]) for part in predictions.folds_of(result)]
    folds = [_fold_of(result, part, is_in) for part in parts if len(part.cases)]
    info = {key: value for key, value in result.info.items() if key != "num_splits"}
    # what outputs are was settled of all cases, and stands in the metrics
    return dataclasses.replace(
        result, folds=folds, unfinished=(), path=None, outputs=None, info=info, draws_within_classes=True
    )


def _fold_of(result: Any, part: Part, is_in: np.ndarray) -> Any:
    fold = part.folds[0]
    places = np.flatnonzero(is_in[fold.test_indices])
    metrics = {
        name: part.per_case[name] if name in part.per_case else np.array([_value(result, name, part)])
        for name in fold.metrics
    }
    trees = {name: _rows(getattr(fold, name), places, len(fold.test_indices)) for name in ("predictions", "targets")}
    return dataclasses.replace(fold, test_indices=fold.test_indices[places], metrics=metrics, path=None, **trees)


def _value(result: Any, name: str, part: Part) -> float:
    """A metric of the cases of a part; not a number where it is not defined, or not known here."""
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return float(evaluator(result.metrics[name], name)(*predictions.arrays_of(result, name, part)))
    except Exception:  # a metric raises what it likes; the note of its row says that there is no value
        return float("nan")


def _restricted(part: Part, is_in: np.ndarray) -> Part:
    places = np.flatnonzero(is_in)
    return part._replace(
        cases=part.cases[places],
        values=_rows(part.values, places, len(part.cases)),
        per_case={name: values[places] for name, values in part.per_case.items()},
    )


def _rows(tree: Any, places: np.ndarray, n_cases: int) -> Any:
    """Rows of all arrays with one for each case."""
    if isinstance(tree, NotKept):
        return tree
    return map_leaves(lambda leaf: leaf[places] if np.shape(leaf)[:1] == (n_cases,) else leaf, tree)


def _gap(result: Any, name: str, is_in: np.ndarray) -> Gap:
    """The metric of some cases less that of all others, both of the same draws."""
    n_cases = int(result.oof.mask.sum())
    try:
        is_mean = result.is_per_case(name) or is_mean_of_cases(result.metrics[name])
        parts = predictions.rounds_of(result) if is_mean else predictions.folds_of(result)
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = [_difference(result, name, part, is_in[part.cases], is_mean) for part in parts]
            every = [np.ones((1, len(part.cases)), dtype=np.int64) for part in parts]
            value = float(np.mean([each(counts) for each, counts in zip(found, every, strict=True)]))
    except Exception as error:  # a metric raises what it likes, and of the others there are gaps
        return Gap(np.nan, Interval(np.nan, np.nan, n_cases, note=f"it has no gap ({type(error).__name__}: {error})"))
    if np.isnan(value):
        note = "it has no gap, as a fold lacks cases of the subgroup, of the others, or of a class among them"
        return Gap(value, Interval(np.nan, np.nan, n_cases, note=note))
    within = not is_mean and result.rounds.is_once
    draws = bootstrap.Draws(parts, result.groups, result.seed or 0, within=within)
    if note := result.without_intervals or draws.note:
        return Gap(value, Interval(np.nan, np.nan, n_cases, note=note))
    labels = None if is_mean else _labels_of_parts(result, name, parts, is_in)
    return Gap(value, draws.interval(found, "lacks a class or a subgroup", labels))


def _labels_of_parts(result: Any, name: str, parts: list[Part], is_in: np.ndarray) -> list[np.ndarray] | None:
    """Of the cases of each part their class, and whether they are inside, as one number; None if nobody knows."""
    found = []
    for part in parts:
        labels = bootstrap.classes_of(
            predictions.target_of(result, name, part), predictions.arrays_of(result, name, part)
        )
        if labels is None:
            return None
        found.append(labels)
    codes = np.unique(np.concatenate(found), return_inverse=True)[1].ravel()
    inside = np.concatenate([is_in[part.cases] for part in parts])
    return np.split(2 * codes + inside, np.cumsum([len(each) for each in found])[:-1])


def _difference(result: Any, name: str, part: Part, is_in: np.ndarray, is_mean: bool) -> Statistic:
    """The metric of some cases of a part less that of the others, as a function of how often each was drawn."""
    inside, outside = (_statistic(result, name, _restricted(part, where), is_mean) for where in (is_in, ~is_in))
    return lambda counts: inside(counts[:, is_in]) - outside(counts[:, ~is_in])


def _statistic(result: Any, name: str, part: Part, is_mean: bool) -> Statistic:
    if not len(part.cases):
        return lambda counts: np.full(len(counts), np.nan)
    if name in part.per_case:
        values = part.per_case[name]
        has_value = ~np.isnan(values)
        return bootstrap.of_case_values(CaseValues(np.where(has_value, values, 0.0), has_value.astype(np.float64)))
    arrays = predictions.arrays_of(result, name, part)
    if is_mean and (found := case_values(result.metrics[name], arrays)) is not None:
        return bootstrap.of_case_values(found)
    if (size := bootstrap.n_bytes(arrays)) > bootstrap.RESAMPLING_LIMIT:
        raise DataError(f"its arrays ({size / 2**20:,.0f} MiB) are too large to be drawn 2,000 times")
    evaluate = evaluator(result.metrics[name], name)
    classes = bootstrap.classes_of(predictions.target_of(result, name, part), arrays)
    fast = statistic_of(result.metrics[name], arrays, evaluate)
    return fast or bootstrap.evaluated(lambda: None, evaluate, arrays, None if is_mean else classes)
