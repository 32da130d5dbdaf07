"""The table of a cross-validation as plain text, Markdown, LaTeX and HTML."""

import html
import textwrap
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError
from delira.report.bootstrap import N_DRAWS
from delira.report.summary import fold_values
from delira.report.table import DASH, latex_table, number_format
from delira.utils.suggest import did_you_mean

WIDTH = 80
"""Columns of a terminal."""


class MetricColumn(NamedTuple):
    """The numbers of one metric as text, all with the same decimals."""

    name: str
    folds: list[str]
    mean: str
    """``"0.9705 ± 0.0051"``"""
    oof: str
    ci: str
    """``"[0.9627, 0.9783]"``, or a dash."""
    n: str
    n_groups: str
    """Empty where there are no groups."""
    note: str


def metric_columns(result: Any) -> list[MetricColumn]:
    """The numbers of every metric as text."""
    summary, per_fold = result.summary(), fold_values(result)
    columns = []
    for name, row in summary.items():
        text = number_format([*per_fold[name], row["oof"], row["ci_low"], row["ci_high"]])
        std = DASH if len(result.folds) < 2 else text(row["std"])
        missing = np.isnan(row["ci_low"])
        columns.append(
            MetricColumn(
                name=name,
                folds=[text(value) for value in per_fold[name]],
                mean=f"{text(row['mean'])} ± {std}",
                oof=text(row["oof"]) if row["has_oof"] else DASH,
                ci=DASH if missing else f"[{text(row['ci_low'])}, {text(row['ci_high'])}]",
                n=f"{row['n']:,}",
                n_groups=f"{row['n_groups']:,}" if row["n_groups"] else "",
                note=row["note"],
            )
        )
    return columns


def fold_table(result: Any, fmt: str = "plain") -> str:
    """Folds x metrics; mean and standard deviation; out-of-fold value with its 95 % interval.

    Parameters
    ----------
    result
        A ``KFoldResult``, or what offers its ``folds`` and ``summary()``.
    fmt
        ``"plain"`` (80 columns), ``"markdown"``, ``"latex"`` (needs booktabs) or ``"html"``.

    Raises
    ------
    ConfigError
        If ``fmt`` is none of these.
    """
    formats = {"plain": _plain, "markdown": _markdown, "latex": _latex, "html": _html}
    if fmt not in formats:
        raise ConfigError(f"there is no table format {fmt!r}{did_you_mean(fmt, formats)}")
    columns = metric_columns(result)
    folds = [str(fold.fold) for fold in result.folds]
    return formats[fmt](folds, columns) if columns else "no metrics were computed"


def _plain(folds: list[str], columns: list[MetricColumn]) -> str:
    labels = ["fold", *folds]
    width = max(map(len, labels))
    blocks: list[list[list[str]]] = [[]]
    room = WIDTH - width
    for column in columns:
        needed = 3 + max(map(len, [column.name, *column.folds]))
        if needed > room and blocks[-1]:
            blocks.append([])
            room = WIDTH - width
        blocks[-1].append([column.name, *column.folds])
        room -= needed
    text = [_aligned([labels, *block], "<" + ">" * len(block)) for block in blocks]
    rows = [["metric", "mean ± std", "out-of-fold", "95 % interval", "n"]]
    rows += [[c.name, c.mean, c.oof, c.ci, c.n] for c in columns]
    text.append(_aligned([list(column) for column in zip(*rows, strict=True)], "<>>>>"))
    notes = [textwrap.fill(note, WIDTH, break_long_words=False) for note in footnotes(columns)]
    return "\n\n".join([*text, "\n".join(notes)])


def footnotes(columns: list[MetricColumn]) -> list[str]:
    """What the intervals are, and why some are missing."""
    n_groups = columns[0].n_groups if columns else ""
    drawn = f"the {n_groups} groups of out-of-fold cases" if n_groups else "the out-of-fold cases"
    notes = [note for column in columns if (note := missing_note(column))]
    if any(column.ci != DASH for column in columns):
        notes.insert(0, f"Intervals: percentile bootstrap, {N_DRAWS:,} draws of {drawn}.")
    return notes


def missing_note(column: MetricColumn) -> str:
    """Why a metric has no interval, or no out-of-fold value either; empty where it has both."""
    missing = "out-of-fold value and no interval" if column.oof == DASH else "interval"
    return f"{column.name}: no {missing}, {column.note}" if column.note else ""


def _aligned(columns: list[list[str]], sides: str) -> str:
    """Columns of text with a header, three spaces apart."""
    padded = []
    for cells, side in zip(columns, sides, strict=True):
        width = max(map(len, cells))
        padded.append([f"{cell:{side}{width}}" for cell in cells])
    lines = ["   ".join(row).rstrip() for row in zip(*padded, strict=True)]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _rows(folds: list[str], columns: list[MetricColumn]) -> list[list[str]]:
    """Header, folds, and three rows of summary: the table of a paper."""
    rows = [["fold", *(column.name for column in columns)]]
    rows += [[fold, *(column.folds[i] for column in columns)] for i, fold in enumerate(folds)]
    rows.append(["mean ± std", *(column.mean for column in columns)])
    rows.append(["out-of-fold [95 % CI]", *(f"{column.oof} {column.ci}" for column in columns)])
    rows.append(["n", *(column.n for column in columns)])
    if columns[0].n_groups:
        rows.append(["groups", *(column.n_groups for column in columns)])
    return rows


def _markdown(folds: list[str], columns: list[MetricColumn]) -> str:
    rows = [[_escape_markdown(cell) for cell in row] for row in _rows(folds, columns)]
    widths = [max(3, *map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(f"{c:{'<' if i == 0 else '>'}{widths[i]}}" for i, c in enumerate(row)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _escape_markdown(text: str) -> str:
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")


def _latex(folds: list[str], columns: list[MetricColumn]) -> str:
    header, *body = _rows(folds, columns)
    return latex_table(header, [body[: len(folds)], body[len(folds) :]], "l" + "r" * len(columns))


def _html(folds: list[str], columns: list[MetricColumn]) -> str:
    header, *body = [[html.escape(cell) for cell in row] for row in _rows(folds, columns)]
    lines = [
        "<table>",
        "<thead><tr>" + "".join(f"<th>{cell}</th>" for cell in header) + "</tr></thead>",
        "<tbody>",
    ]
    for number, (first, *cells) in enumerate(body):
        rule = ' style="border-top: 1px solid"' if number == len(folds) else ""
        lines.append(f"<tr{rule}><th>{first}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])
