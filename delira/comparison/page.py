"""The pages of a comparison: runs side by side with statistics, and ranks over many data sets."""

from pathlib import Path
from typing import TYPE_CHECKING

from delira.comparison import tables
from delira.errors import check_paths
from delira.report.page import runs_page, sections_page
from delira.report.table import Section, Table
from delira.utils.files import publish_text

if TYPE_CHECKING:
    from delira.comparison.comparison import Comparison
    from delira.comparison.datasets import DatasetsComparison


def sections_of(comparison: "Comparison") -> list[Section]:
    """Return differences and words, then values fold by fold, tests and effect sizes.

    Parameters
    ----------
    comparison
        What is shown.
    """
    differences = comparison.differences
    found = [
        Section(
            "What may be said", {}, [],
            [*(" ".join(comparison.words_of(one)) for one in differences), *comparison.words_about_all],
        ),
    ]  # fmt: skip
    figures = comparison.figures()
    found.append(Section("Differences", figures, [tables.differences_table(differences)], [comparison.conventions]))
    own: list[Table] = []
    if any(one.tests for one in differences):
        own.append(tables.tests_table(differences))
    if any(one.effects for one in differences):
        own.append(tables.effects_table(differences))
    return [*found, Section("Tests and effect sizes", {}, own, [])] if own else found


def comparison_page(comparison: "Comparison", path: str | Path | None) -> str | Path:
    """Return the page of a comparison, or write it.

    Parameters
    ----------
    comparison
        What is shown.
    path
        Where to; None: the page is returned.
    """
    return runs_page(list(comparison.results), path, sections_of(comparison), comparison.names)


def datasets_page(comparison: "DatasetsComparison", path: str | Path | None) -> str | Path:
    """Return the page of a comparison over many data sets, or write it.

    Parameters
    ----------
    comparison
        What is shown.
    path
        Where to; None: the page is returned.
    """
    figures = {"critical difference": comparison.plot()} if len(comparison.methods) > 2 else {}
    shown = [
        Section("What may be said", {}, [], comparison.words),
        Section("Ranks", figures, [comparison.tables["ranks"]], []),
        Section("Scores", {}, [comparison.tables["scores"]], [f"Mean {comparison.metric} over folds."]),
    ]
    if "pairs" in comparison.tables:
        shown.insert(2, Section("Pairs", {}, [comparison.tables["pairs"]], ["Nemenyi's test."]))
    page = sections_page(", ".join(comparison.methods), "Methods over many data sets", shown)
    if path is None:
        return page
    check_paths("DatasetsComparison.to_html", path=path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return publish_text(path, page, durable=False)
