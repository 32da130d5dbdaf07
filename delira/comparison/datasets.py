"""Several methods over many data sets: ``delira.compare_datasets``, ranks, Friedman's and Nemenyi's tests, the diagram.

References
----------
J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning Research 7,
2006.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from delira.comparison import plots, tables
from delira.comparison.alignment import Given, align, read_results
from delira.comparison.functions import check_functions
from delira.comparison.many import cliques, critical_difference, friedman_test, kendalls_w, nemenyi, ranks_of
from delira.comparison.measured import direction_of, names_of
from delira.comparison.outcomes import Outcome
from delira.comparison.tests_of_folds import wilcoxon_test
from delira.comparison.words import Ranking, p_text, sentences_of_ranks
from delira.errors import ConfigError, DataError, check_numbers, import_optional
from delira.experiments.result import KFoldResult
from delira.report.summary import fold_values
from delira.report.table import Right, Table, html_table
from delira.utils import files
from delira.utils.pictures import Figure

if TYPE_CHECKING:
    import pandas


def compare_datasets(
    datasets: Mapping[str, Sequence[Given] | Mapping[str, Given]],
    *,
    metric: str | None = None,
    direction: str | None = None,
    alpha: float = 0.05,
) -> "DatasetsComparison":
    """Compare methods by their mean scores over many data sets, by ranks.

    On each data set the methods are cross-validated over the same folds. Between data sets only the order of the
    methods counts, so that data sets may be of any size and difficulty.

    Parameters
    ----------
    datasets
        Name of each data set to the results of the methods on it: a mapping from the name of a method to its result,
        or a list of results, which are called as their experiments. The methods are the same on all data sets.
    metric
        Which metric; may be left out if the results have one in common.
    direction
        ``"highest"`` or ``"lowest"``, if delira does not know which values are good.
    alpha
        Level of the tests.

    Returns
    -------
    DatasetsComparison
        Prints as tables and sentences.

    Raises
    ------
    ConfigError
        If an argument is impossible, or methods are lacking on a data set.
    DataError
        If results of a data set are over other folds or cases, the metric is another function in one of them, or a
        score is no number.
    """
    if not isinstance(datasets, Mapping) or len(datasets) < 2:
        raise ConfigError(f"compare_datasets: a mapping of at least two data sets to results, got {datasets!r:.200}")
    check_numbers("compare_datasets", alpha=alpha)
    if not 0 < alpha < 1:
        raise ConfigError(f"compare_datasets: alpha is a level between 0 and 1, got {alpha!r}")
    read = {str(name): _results_of(str(name), given) for name, given in datasets.items()}
    methods = list(next(iter(read.values())))
    for name, own in read.items():
        if own.keys() != set(methods):
            raise ConfigError(
                f"the methods must be the same on all data sets: {next(iter(read))} has {', '.join(methods)}, {name} "
                f"has {', '.join(own)}; a mapping gives them names"
            )
    chosen, is_high = _metric_of(read, methods, metric, direction)
    unknown = _unknown_functions(read, chosen)
    scores = np.array([[_score(own[method], chosen) for method in methods] for own in read.values()])
    for place, method in np.argwhere(~np.isfinite(scores)):
        raise DataError(f"{methods[method]} has no {chosen} on {list(read)[place]}, so it has no rank there")
    return DatasetsComparison(chosen, list(read), methods, scores, is_high, float(alpha), unknown)


def _results_of(name: str, given: Any) -> dict[str, KFoldResult]:
    """Results of a data set by method, over the same folds."""
    results, names = read_results(f"compare_datasets, {name}", given)
    if not isinstance(given, Mapping):  # the folder of a run tells methods of one data set apart, and no two data sets
        own = [result.name for result in results]
        names = own if len({*own}) == len(own) else names
    align(results, names)
    return dict(zip(names, results, strict=True))


def _metric_of(
    read: Mapping[str, Mapping[str, KFoldResult]], methods: Sequence[str], metric: str | None, direction: str | None
) -> tuple[str, bool]:
    """The metric that is compared, and whether large values are good."""
    found = [names_of(align(list(own.values()), list(own)), metric) for own in read.values()]
    common = [name for name in found[0] if all(name in each for each in found)]
    if len(common) != 1:
        what = f"one of {', '.join(common)}" if common else "one that all data sets have"
        raise ConfigError(f"compare_datasets compares one metric; say metric=, {what}")
    every = [(own[method].metrics or {}).get(common[0]) for own in read.values() for method in methods]
    return common[0], direction_of(every, common[0], direction)


def _unknown_functions(read: Mapping[str, Mapping[str, KFoldResult]], metric: str) -> list[str]:
    """Sentences about methods of which nobody knows whether the metric is one function, each once, with the data sets.

    Raises
    ------
    DataError
        If it is known that it is another function in one of them.
    """
    found: dict[str, list[str]] = {}
    for name, own in read.items():
        check_functions([*own.values()], [f"{method} on {name}" for method in own], [metric])  # its error says where
        for sentence in check_functions([*own.values()], [*own], [metric]):
            found.setdefault(sentence, []).append(name)
    every = f"all {len(read)} data sets"
    return [f"On {every if len(names) == len(read) else ' and '.join(names)}, {told}." for told, names in found.items()]


def _score(result: KFoldResult, metric: str) -> float:
    return float(np.mean(fold_values(result)[metric]))


@dataclass(eq=False, repr=False)
class DatasetsComparison:
    """Methods over many data sets: scores, ranks, tests, the critical-difference diagram and words."""

    metric: str
    datasets: Sequence[str]
    methods: Sequence[str]
    scores: np.ndarray
    """Mean over folds, float64 of shape ``(n_datasets, n_methods)``."""
    higher_is_better: bool
    alpha: float
    caveats: Sequence[str] = ()
    """Sentences about what of the metric is not known, which are part of :attr:`words`."""

    @cached_property
    def ranks(self) -> np.ndarray:
        """On each data set, 1 for the best, shape ``(n_datasets, n_methods)``."""
        return ranks_of(self.scores, self.higher_is_better)

    @property
    def mean_ranks(self) -> np.ndarray:
        """Of each method, shape ``(n_methods,)``."""
        return np.asarray(self.ranks.mean(axis=0))

    @cached_property
    def tests(self) -> dict[str, Outcome]:
        """Whether the methods differ at all: Friedman's test by chi-squared and by F; of two methods Wilcoxon's."""
        if len(self.methods) == 2:
            found = wilcoxon_test(self.scores[:, 1] - self.scores[:, 0])
            return {found.name: found}
        return {test.name: test for test in friedman_test(self.scores)}

    @cached_property
    def p_values(self) -> np.ndarray:
        """Of Nemenyi's test, float64 of shape ``(n_methods, n_methods)``."""
        return nemenyi(self.mean_ranks, len(self.datasets))

    @property
    def critical_difference(self) -> float:
        """How far apart mean ranks must be to differ by Nemenyi's test."""
        return critical_difference(len(self.methods), len(self.datasets), self.alpha)

    @property
    def agreement(self) -> float:
        """Kendall's W, the effect size: how far the data sets agree on the order, from 0 to 1; NaN of two methods."""
        return kendalls_w(self.scores) if len(self.methods) > 2 else float("nan")

    @property
    def words(self) -> list[str]:
        """What may be said and what not, in sentences."""
        found = Ranking(self.methods, self.mean_ranks, self.p_values, self.tests, len(self.datasets), self.alpha)
        told = sentences_of_ranks(found, self.metric)
        if len(self.methods) > 2:
            told.append(
                f"Critical difference of mean ranks {self.critical_difference:.2f} at the level of {self.alpha:g}; "
                f"Kendall's W, how far the data sets agree, {self.agreement:.2f}."
            )
        if len(self.datasets) < 10:
            told.append(f"{len(self.datasets)} data sets are few: only large differences of ranks can be shown.")
        return [*told, *self.caveats]

    @cached_property
    def tables(self) -> dict[str, Table]:
        """``"scores"``, ``"ranks"``, and of more than two methods ``"pairs"``."""
        score_rows: list[list[Any]] = [
            [name, *row] for name, row in zip(self.datasets, self.scores.tolist(), strict=True)
        ]
        rank_rows = [
            [name, *(Right(f"{rank:g}") for rank in row)]
            for name, row in zip(self.datasets, self.ranks.tolist(), strict=True)
        ]
        rank_rows.append(["mean", *(Right(f"{rank:.2f}") for rank in self.mean_ranks)])
        found = {
            "scores": Table("scores", [self.metric, *self.methods], score_rows),
            "ranks": Table("ranks", ["rank", *self.methods], rank_rows, n_last=1),
        }
        if len(self.methods) > 2:
            rows = [
                [name, *(Right("" if one == other else p_text(self.p_values[one, other])) for other in _range(self))]
                for one, name in enumerate(self.methods)
            ]
            found["pairs"] = Table("pairs", ["p (Nemenyi)", *self.methods], rows)
        return found

    def table(self, fmt: str = "plain") -> str:
        """Return the mean score of each method on each data set, with the mean ranks below.

        Parameters
        ----------
        fmt
            ``"plain"``, ``"markdown"``, ``"latex"`` (needs booktabs) or ``"html"``.
        """
        scores = self.tables["scores"]
        rows = [[name, *map(Right, cells)] for name, *cells in scores.texts()]
        rows.append(["mean rank", *(Right(f"{rank:.2f}") for rank in self.mean_ranks)])
        return Table("scores", scores.header, rows, n_last=1).rendered(fmt)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return the critical-difference diagram.

        Parameters
        ----------
        path
            Where to save the picture, e.g. ``"ranks.pdf"``.
        """
        reach = self.critical_difference
        joined = cliques(self.mean_ranks, reach)
        figure = plots.critical_difference_diagram(self.methods, self.mean_ranks, reach, joined)
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=200)
        return figure

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return the scores with one row for each data set and one column for each method.

        Raises
        ------
        MissingBackendError
            If pandas is not installed.
        """
        pandas = import_optional("pandas", "DatasetsComparison.to_dataframe", "pandas")
        return pandas.DataFrame(self.scores, index=pandas.Index(self.datasets, name="dataset"), columns=self.methods)

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """A page that stands on its own: words, the diagram, ranks, pairs and scores.

        Parameters
        ----------
        path
            Where to write it; returned as a text if None.

        Returns
        -------
        str or Path
            The page, or the file it was written to.
        """
        from delira.comparison.page import datasets_page

        return datasets_page(self, path)

    def __str__(self) -> str:
        title = f"{len(self.methods)} methods over {len(self.datasets)} data sets, mean {self.metric} over folds"
        pairs = [self.tables["pairs"].rendered()] if "pairs" in self.tables else []
        return files.harmless("\n\n".join([title, self.table(), *pairs, *map(tables.filled, self.words)]))

    def __repr__(self) -> str:
        return f"DatasetsComparison({len(self.datasets)} data sets, {list(self.methods)}, metric={self.metric!r})"

    def _repr_html_(self) -> str:
        from html import escape

        scores = self.tables["scores"]
        shown = html_table([list(scores.header), *scores.texts()], len(scores.rows))
        return shown + "".join(f"\n<p>{escape(sentence)}</p>" for sentence in self.words)


def _range(comparison: DatasetsComparison) -> range:
    return range(len(comparison.methods))
