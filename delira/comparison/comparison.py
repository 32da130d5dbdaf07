"""Two or more cross-validations compared: ``delira.compare``, and what it gives back."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.comparison import plots, tables
from delira.comparison.alignment import Aligned, Given, align, read_results
from delira.comparison.functions import check_functions
from delira.comparison.measured import Measured, measure, names_of
from delira.comparison.pairs import Difference, Settings, difference_of, with_holm
from delira.comparison.words import Setting, about_all, sentences_of
from delira.errors import (
    ConfigError,
    DataError,
    check_known,
    check_numbers,
    check_whole,
    did_you_mean,
    import_optional,
)
from delira.experiments.result import KFoldResult
from delira.report import CaseTable
from delira.report.table import Section, html_table
from delira.utils import files
from delira.utils.pictures import Figure
from delira.utils.seeding import check_seed

if TYPE_CHECKING:
    import pandas

ROPE = 0.01
"""Half the width of the region of practical equivalence, if nobody says another one: one point of an accuracy."""
MOST_FOLDS = 12
"""Folds that are printed one by one."""


def compare(  # noqa: PLR0913 - see MANY_ARGUMENTS in tests/test_architecture.py
    results: Sequence[Given] | Mapping[str, Given],
    *,
    metric: str | Sequence[str] | None = None,
    baseline: str | None = None,
    direction: str | Mapping[str, str] | None = None,
    rope: float | Mapping[str, float] = ROPE,
    alpha: float = 0.05,
    seed: int = 0,
    n_resamples: int = 2000,
) -> "Comparison":
    """Compare cross-validations over the same folds of the same cases, whatever backends they are of.

    Parameters
    ----------
    results
        At least two results, or folders of runs. They are called as their experiments, with something added where two
        are called alike; a mapping gives them names.
    metric
        Which metric, or metrics; all that the results have in common if None, single classes aside.
    baseline
        Name of the result that all others are compared with; all pairs if None.
    direction
        ``"highest"`` or ``"lowest"``: which values are good, for all metrics or by name. Only for those of which
        delira does not know it.
    rope
        Half the width of the region of practical equivalence, in units of the metric; for all metrics or by name.
    alpha
        Level of the tests; intervals are of 1 - alpha.
    seed
        Of the draws of the bootstrap.
    n_resamples
        How many draws.

    Returns
    -------
    Comparison
        Prints as tables and sentences.

    Raises
    ------
    ConfigError
        If an argument is impossible, or nobody computed the metric.
    DataError
        If the results are over other folds or cases, a metric is another function in one of them, or all are
        identical.

    Examples
    --------
    >>> found = delira.compare([forest, network], metric="accuracy")  # doctest: +SKIP
    >>> print(found)  # doctest: +SKIP
    """
    read, names = read_results("compare", results)
    check_seed(seed)
    check_whole("compare", at_least=100, n_resamples=n_resamples)
    check_numbers("compare", alpha=alpha)
    if not 0 < alpha < 1:
        raise ConfigError(f"compare: alpha is a level between 0 and 1, got {alpha!r}")
    if baseline is not None:
        check_known([baseline], names, "there is no result")
    aligned = align(read, names)
    metrics = names_of(aligned, metric)
    unknown = check_functions(read, names, metrics)
    aligned = dataclasses.replace(aligned, caveats=(*aligned.caveats, *unknown))
    ropes = _ropes(rope, metrics)
    if isinstance(direction, Mapping):
        check_known(map(str, direction), metrics, "direction: no compared metric is called")
    settings = Settings(alpha=float(alpha), seed=int(seed), n_resamples=int(n_resamples))
    measured = {name: measure(aligned, name, direction) for name in metrics}
    pairs = _pairs(names, baseline)
    differences: list[Difference] = []
    for name in metrics:
        own = [difference_of(aligned, measured[name], pair, ropes[name], settings) for pair in pairs]
        differences += with_holm(own)
    if all(one.is_identical for one in differences):
        by_case = " and for every case" if any(one.cases is not None for one in differences) else ""
        raise DataError(
            f"{' and '.join(names)} are identical: they have the same {', '.join(metrics)} in every fold{by_case}, so "
            "there is nothing to test. Is it the same run twice?"
        )
    return Comparison(aligned, measured, pairs, differences, settings, ropes)


def _pairs(names: Sequence[str], baseline: str | None) -> list[tuple[int, int]]:
    """Numbers of the first and the second of each difference."""
    if baseline is None:
        return list(itertools.combinations(range(len(names)), 2))
    first = list(names).index(baseline)
    return [(first, second) for second in range(len(names)) if second != first]


def _ropes(rope: float | Mapping[str, float], metrics: Sequence[str]) -> dict[str, float]:
    """Half the width of the region for each metric."""
    if isinstance(rope, Mapping):
        check_known(map(str, rope), metrics, "rope: no compared metric is called")
    found = {name: rope.get(name, ROPE) if isinstance(rope, Mapping) else rope for name in metrics}
    for name, width in found.items():
        is_number = isinstance(width, (int, float, np.number)) and not isinstance(width, bool)
        if not is_number or not 0 <= width < np.inf:
            raise ConfigError(f"rope is a number of at least 0, in units of {name}, got {width!r}")
    return {name: float(width) for name, width in found.items()}


@dataclass(eq=False, repr=False)
class Comparison:
    """Differences of two or more cross-validations, with tests, intervals, effect sizes and words.

    ``str()`` prints it, a notebook shows it, :meth:`to_html` writes a page.
    """

    aligned: Aligned
    """The results, with folds and cases in one order."""
    measured: Mapping[str, Measured]
    """Values by metric."""
    pairs: Sequence[tuple[int, int]]
    """Numbers of the results that are compared: differences are those of the second minus the first."""
    differences: Sequence[Difference]
    """Of all pairs in all metrics, metric by metric."""
    settings: Settings
    ropes: Mapping[str, float]
    """Half the width of the region of practical equivalence by metric."""

    @property
    def results(self) -> tuple[KFoldResult, ...]:
        """What is compared."""
        return self.aligned.results

    @property
    def names(self) -> tuple[str, ...]:
        """Of the results."""
        return self.aligned.names

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics."""
        return list(self.measured)

    @property
    def title(self) -> str:
        """What is compared, in one line."""
        n_groups = "" if self.aligned.groups is None else f", {self._n_groups:,} groups"
        repeats = "" if self.aligned.is_once else ", cases tested several times"
        sizes = f"{len(self.aligned.numbers)} folds, {self.aligned.n_cases:,} cases{n_groups}{repeats}"
        return f"{', '.join(self.names[:-1])} and {self.names[-1]}: {sizes}"

    @property
    def _n_groups(self) -> int:
        groups = self.aligned.groups
        return 0 if groups is None else len(np.unique(groups[np.unique(np.concatenate(self.aligned.cases))]))

    def of(self, metric: str) -> list[Difference]:
        """Return the differences in one metric.

        Parameters
        ----------
        metric
            Its name.

        Raises
        ------
        ConfigError
            If it was not compared.
        """
        if metric not in self.measured:
            raise ConfigError(f"the metric {metric!r} was not compared{did_you_mean(str(metric), self.measured)}")
        return [one for one in self.differences if one.metric == metric]

    # -------------------------------------------------------------- words

    @cached_property
    def caveats(self) -> list[str]:
        """Sentences about the results and their folds that a reader of the numbers must know."""
        sizes = [len(cases) for cases in self.aligned.cases]
        found = list(self.aligned.caveats)
        if max(sizes) > 2 * min(sizes):
            found.append(
                f"the folds test {min(sizes):,} to {max(sizes):,} cases: tests over folds take them for equally large"
            )
        return found

    @property
    def words(self) -> list[str]:
        """What may be said and what not, in sentences: of each difference, then of all."""
        return [*itertools.chain.from_iterable(self.words_of(one) for one in self.differences), *self.words_about_all]

    def words_of(self, difference: Difference) -> list[str]:
        """Return the sentences about one difference.

        Parameters
        ----------
        difference
            One of :attr:`differences`.
        """
        return sentences_of(difference, self._setting)

    @property
    def words_about_all(self) -> list[str]:
        """The sentences that are about no single difference."""
        return about_all(self.differences, self._setting, self.caveats)

    @property
    def _setting(self) -> Setting:
        return Setting(len(self.aligned.numbers), len(self.pairs), self.settings.alpha)

    @property
    def conventions(self) -> str:
        """What the numbers rest on, in one sentence."""
        named = [f"±{width:g} in {name}" for name, width in self.ropes.items()]
        ropes = f"±{next(iter(self.ropes.values())):g}" if len({*self.ropes.values()}) == 1 else ", ".join(named)
        shares = [self.aligned.share(place) for place in range(len(self.names))]
        share = f"{max(shares):.3g}"
        return (
            f"Differences are those of the first named minus the second named. Intervals: paired bootstrap, "
            f"{self.settings.n_resamples:,} draws, seed {self.settings.seed}. p: corrected t-test, two-sided, with "
            f"n_test / n_train = {share} (validation counts as training). Practically equal: {ropes}."
        )

    # -------------------------------------------------------------- tables

    def table(self, fmt: str = "plain") -> str:
        """Return one row for each difference: mean, interval, p of the corrected t-test, and three probabilities.

        Parameters
        ----------
        fmt
            ``"plain"``, ``"markdown"``, ``"latex"`` (needs booktabs) or ``"html"``.
        """
        return tables.differences_table(self.differences).rendered(fmt)

    def tests(self, fmt: str = "plain") -> str:
        """Return one row for each test of each difference, with the p-value after Holm's correction of several.

        Parameters
        ----------
        fmt
            As for :meth:`table`.
        """
        return tables.tests_table(self.differences).rendered(fmt)

    def folds(self, metric: str, fmt: str = "plain") -> str:
        """Return one row for each fold: the values of the results, and their differences.

        Parameters
        ----------
        metric
            Its name.
        fmt
            As for :meth:`table`.
        """
        self.of(metric)
        return self._folds_table(metric).rendered(fmt)

    def _folds_table(self, metric: str) -> Any:
        values = self.measured[metric].folds
        return tables.folds_table(metric, self.names, self.aligned.numbers, values, self.pairs)

    def cases(self, metric: str) -> CaseTable:
        """Return the values of a metric case by case: one row for each test of a case, with a column for each result.

        Parameters
        ----------
        metric
            Its name.

        Returns
        -------
        CaseTable
            ``index``, ``name`` and ``group`` where there are some, ``fold``, the results by name, and differences.

        Raises
        ------
        ConfigError
            If the metric has no value for each case.
        """
        self.of(metric)
        measured, aligned = self.measured[metric], self.aligned
        if measured.cases is None:
            raise ConfigError(f"{metric} is no mean over cases, so there are no differences case by case")
        index = np.concatenate(aligned.cases)
        names = next((one.case_names for one in self.results if one.case_names is not None), None)
        columns: dict[str, np.ndarray] = {"index": index}
        columns |= {} if names is None else {"name": np.asarray(names)[index]}
        columns["fold"] = np.repeat(aligned.numbers, [len(cases) for cases in aligned.cases])
        columns |= {} if aligned.groups is None else {"group": aligned.groups[index]}
        values = [
            np.concatenate(
                [np.where(one.weights > 0, one.values, np.nan) for one in of_folds if one.weights is not None]
            )
            for of_folds in measured.cases
        ]
        columns |= dict(zip(self.names, values, strict=True))
        columns |= {f"{self.names[two]} − {self.names[one]}": values[two] - values[one] for one, two in self.pairs}
        return CaseTable(columns)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each difference, with all numbers.

        Raises
        ------
        MissingBackendError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "Comparison.to_dataframe", "pandas")
        return pandas.DataFrame(self.to_rows())

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary of numbers and texts for each difference; NaN where there is no number."""
        return [_row(one) for one in self.differences]

    # -------------------------------------------------------------- pictures and pages

    def figures(self) -> dict[str, Figure]:
        """Return all plots by name: for each metric the values fold by fold, and the differences (forest plot)."""
        found = {}
        for metric, measured in self.measured.items():
            found[f"{metric} fold by fold"] = plots.paired_plot(f"{metric}, fold by fold", self.names, measured.folds)
            found[f"{metric} differences"] = self.plot(metric)
        return found

    def plot(self, metric: str | None = None, path: str | Path | None = None) -> Figure:
        """Return the forest plot of a metric: differences with their intervals over cases and over folds.

        Parameters
        ----------
        metric
            Its name; the first if None.
        path
            Where to save the picture, e.g. ``"differences.png"``.
        """
        name = self.metrics[0] if metric is None else metric
        bars = [
            plots.Bar(one.label, one.mean, (one.interval.low, one.interval.high), one.t_interval)
            for one in self.of(name)
        ]
        better = "to the right" if self.measured[name].higher_is_better else "to the left"
        axis_name = f"difference in {name}; {better} the first named is better"
        level = 1 - self.settings.alpha
        figure = plots.forest_plot(f"Differences in {name}", bars, self.ropes[name], axis_name, level)
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200)
        return figure

    def sections(self) -> list[Section]:
        """Return the parts of the page."""
        from delira.comparison.page import sections_of

        return sections_of(self)

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """A page that stands on its own: the runs side by side, with differences, tests, plots and words.

        Parameters
        ----------
        path
            Where to write it; returned as a text if None.

        Returns
        -------
        str or Path
            The page, or the file it was written to.
        """
        from delira.comparison.page import comparison_page

        return comparison_page(self, path)

    # -------------------------------------------------------------- shown

    def __str__(self) -> str:
        parts = [self.title]
        if len(self.aligned.numbers) <= MOST_FOLDS:
            parts += [self.folds(metric) for metric in self.metrics]
        parts.append(tables.differences_table(self.differences, is_short=True).rendered())
        if any(one.tests for one in self.differences):
            parts.append(self.tests())
        parts += [tables.filled(" ".join(self.words_of(one))) for one in self.differences]
        parts += [tables.filled(sentence) for sentence in (*self.words_about_all, self.conventions)]
        return files.harmless("\n\n".join(parts))

    def __repr__(self) -> str:
        return f"Comparison({list(self.names)}, metrics={self.metrics})"

    def _repr_html_(self) -> str:
        from html import escape

        table = tables.differences_table(self.differences)
        words = "".join(f"\n<p>{escape(sentence)}</p>" for sentence in self.words)
        shown = html_table([list(table.header), *table.texts()], len(table.rows))
        return f"<p><strong>{escape(self.title)}</strong></p>\n{shown}{words}"


def _row(one: Difference) -> dict[str, Any]:
    """All numbers of a difference."""
    row: dict[str, Any] = {
        "metric": one.metric,
        "first": one.first,
        "second": one.second,
        "value_first": one.values[0],
        "value_second": one.values[1],
        "difference": one.mean,
        "higher_is_better": one.higher_is_better,
        "identical": one.is_identical,
        "ci_low": one.interval.low,
        "ci_high": one.interval.high,
        "ci_note": one.interval.note,
        "t_low": one.t_interval[0],
        "t_high": one.t_interval[1],
        "p_worse": one.p_worse,
        "p_equal": float("nan") if one.posterior is None else one.posterior.inside,
        "p_better": one.p_better,
        "rope": float("nan") if one.posterior is None else one.posterior.rope,
    }
    for name, test in one.tests.items():
        key = name.lower().replace(" ", "_")
        row |= {f"{key}_statistic": test.statistic, f"{key}_p": test.p_value, f"{key}_p_holm": test.adjusted}
        row |= {f"{key}_note": test.note}
    return row | {name.replace(" ", "_").replace("-", "_"): value for name, value in one.effects.items()}
