"""The table of the classes: of each metric per class the mean over out-of-fold cases, its interval, and their count."""

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.errors import ConfigError, did_you_mean
from delira.metrics.per_class import OfClass
from delira.report.bootstrap import N_DRAWS
from delira.report.summary import check_result, is_of_class
from delira.report.table import (
    DASH,
    WIDTH,
    Right,
    Section,
    Table,
    aligned_columns,
    html_table,
    latex_table,
    markdown_table,
    number_format,
)

FILE = "per_class"
"""Name of its files."""
MEAN = "all classes"
"""The row of the mean over classes of each case."""
NONE = "there are no metrics per class (delira.metrics.DicePerClass and its like)"


def has_classes(result: Any) -> bool:
    """Return True if a result has metrics per class."""
    return any(is_of_class(result, name) for name in result.summary())


def rows_of_classes(result: Any) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Rows of the summary by metric, and by name of the class, that of the mean over classes last.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    summary = result.summary()
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, row in summary.items():
        metric = (result.metrics or {}).get(name)
        if isinstance(metric, OfClass) and metric.reads_as in summary:
            found.setdefault(metric.reads_as, {})[metric.class_name] = row
    return {name: {**rows, MEAN: summary[name]} for name, rows in found.items()}


def class_table(result: object, fmt: str = "plain") -> str:
    """Classes x metrics per class: the mean over out-of-fold cases with its 95 % interval, and how many have a value.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    fmt
        ``"plain"`` (80 columns), ``"markdown"``, ``"latex"`` (needs booktabs) or ``"html"``.

    Raises
    ------
    ConfigError
        If ``fmt`` is none of these.
    """
    check_result("class_table", result, "summary")
    formats = {"plain": _plain, "markdown": _markdown, "latex": _latex, "html": _html}
    if not isinstance(fmt, str) or fmt not in formats:
        raise ConfigError(f"there is no table format {fmt!r}{did_you_mean(str(fmt), formats)}")
    found = rows_of_classes(result)
    return formats[fmt](found) if found else NONE


def _columns(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> tuple[list[str], dict[str, list[list[str]]]]:
    """Names of the rows, and of each metric its columns of texts: mean, interval and number of cases."""
    names = [name for name in dict.fromkeys(name for rows in found.values() for name in rows) if name != MEAN]
    names = [*names, MEAN]
    columns = {}
    for metric, rows in found.items():
        given = [rows.get(name) for name in names]
        text = number_format([row[key] for row in given if row for key in ("oof", "ci_low", "ci_high")])
        columns[metric] = [
            [DASH if row is None or np.isnan(row["oof"]) else text(row["oof"]) for row in given],
            [
                DASH if row is None or np.isnan(row["ci_low"]) else f"[{text(row['ci_low'])}, {text(row['ci_high'])}]"
                for row in given
            ],
            [DASH if row is None else f"{row['n']:,}" for row in given],
        ]
    return names, columns


def notes_of_classes(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Sentences under the table.

    Parameters
    ----------
    found
        What :func:`rows_of_classes` gives.
    """
    rows = [(f"{metric} of {name}", row) for metric, rows in found.items() for name, row in rows.items()]
    groups = any(row["n_groups"] for _, row in rows)
    notes = [
        "Means over the n out-of-fold cases that have a value, with 95 % intervals (percentile bootstrap, "
        f"{N_DRAWS:,} draws of {'their groups' if groups else 'them'}); a class that is not there may have none."
    ]
    lacking: dict[str, list[str]] = {}
    for name, row in rows:
        if row["note"] and np.isnan(row["ci_low"]):
            lacking.setdefault(row["note"], []).append(name)
    return [*notes, *(f"No interval of {', '.join(names)}: {note}." for note, names in lacking.items())]


def _plain(found: Mapping[str, Any]) -> str:
    names, columns = _columns(found)
    label = ["class", *names]
    left = width = WIDTH - max(map(len, label))
    blocks: list[list[list[str]]] = [[]]
    for metric, (mean, interval, n) in columns.items():
        block = [[metric, *mean], ["95 % interval", *interval], ["n", *n]]
        needed = sum(3 + max(map(len, column)) for column in block)
        if needed > left and blocks[-1]:
            blocks.append([])
            left = width
        blocks[-1] += block
        left -= needed
    texts = [aligned_columns([label, *block], "<" + ">" * len(block)) for block in blocks]
    notes = [textwrap.fill(note, WIDTH, break_long_words=False) for note in notes_of_classes(found)]
    return "\n\n".join([*texts, "\n".join(notes)])


def _rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Header and rows of the table of a paper."""
    names, columns = _columns(found)
    header = ["class", *(cell for metric in columns for cell in (f"{metric} [95 % CI]", "n"))]
    rows = [header]
    for position, name in enumerate(names):
        row = [name]
        for mean, interval, n in columns.values():
            shown = mean[position] if interval[position] == DASH else f"{mean[position]} {interval[position]}"
            row += [shown, n[position]]
        rows.append(row)
    return rows


def _markdown(found: Mapping[str, Any]) -> str:
    return markdown_table(_rows(found))


def _latex(found: Mapping[str, Any]) -> str:
    header, *rows = _rows(found)
    return latex_table(header, [rows[:-1], rows[-1:]], "l" + "r" * (len(header) - 1))


def _html(found: Mapping[str, Any]) -> str:
    rows = _rows(found)
    return html_table(rows, len(rows) - 2)


def class_section(result: Any) -> Section | None:
    """Return the section of the page and the files of an export; None without metrics per class.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    found = rows_of_classes(result)
    if not found:
        return None
    names, columns = _columns(found)
    header = ["Class", *(cell for metric in columns for cell in (metric, "95 % interval", "n"))]
    rows = [[name, *(Right(column[at]) for of in columns.values() for column in of)] for at, name in enumerate(names)]
    return Section("Each class", {}, [Table(FILE, header, rows, n_last=1)], notes_of_classes(found))


def numbers_of_classes(result: Any) -> Table:
    """Return the numbers behind the table, one row for each metric and class.

    Parameters
    ----------
    result
        A ``KFoldResult``.
    """
    header = ["Metric", "Class", "Mean", "CI low", "CI high", "n", "Groups"]
    fields = ("oof", "ci_low", "ci_high", "n", "n_groups")
    found = rows_of_classes(result)
    rows = [[metric, name, *(row[f] for f in fields)] for metric, rows in found.items() for name, row in rows.items()]
    return Table(FILE, header, rows, by_row=True)
