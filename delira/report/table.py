"""Tables of texts and numbers, as HTML, CSV and LaTeX, sections of the page that hold them, and the table of folds."""

import html
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.errors import ConfigError, did_you_mean
from delira.report.bootstrap import N_DRAWS
from delira.report.summary import check_result, fold_values, is_of_class, is_partial
from delira.utils.cells import as_text, csv_text
from delira.utils.pictures import Figure

DASH = "–"
FORMATS = ("plain", "markdown", "latex", "html")
"""How tables are written as texts."""
_LATEX = str.maketrans(
    {
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " "},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
        **{character: "\\" + character for character in "&%$#_{}"},
        **{"±": r"$\pm$", "−": "$-$", DASH: "--"},
    }
)


class Share(float):
    """A number that is read as a percentage."""


class Seconds(float):
    """A number that is read as a duration."""


class Right(str):
    """A text that stands on the right of its column, as numbers do."""


class Table(NamedTuple):
    """A header and rows; numbers of a column are written alike."""

    name: str
    """Of its files."""
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Cells are texts, :class:`Right`, integers, floats, :class:`Share`, :class:`Seconds` or None; the first names the
    row."""
    n_last: int = 0
    """Rows at the end that sum up the others."""
    by_row: bool = False
    """Whether each row has a quantity of its own, whose numbers are written alike, and not each column."""

    def texts(self) -> list[list[str]]:
        """Return the rows as they are read, without the header."""
        if self.by_row:
            return [[_writer(row)(cell) for cell in row] for row in self.rows]
        writers = [_writer([row[column] for row in self.rows]) for column in range(len(self.header))]
        return [[write(cell) for write, cell in zip(writers, row, strict=True)] for row in self.rows]

    def rendered(self, fmt: str = "plain") -> str:
        """Write the table as a text.

        Parameters
        ----------
        fmt
            ``"plain"``, ``"markdown"``, ``"latex"`` (needs booktabs) or ``"html"``.

        Raises
        ------
        ConfigError
            If there is no such format.
        """
        if not isinstance(fmt, str) or fmt not in FORMATS:
            raise ConfigError(f"there is no table format {fmt!r}{did_you_mean(str(fmt), FORMATS)}")
        if fmt == "latex":
            return self.latex()
        rows = [list(map(str, self.header)), *self.texts()]
        if fmt == "markdown":
            return markdown_table(rows)
        if fmt == "html":
            return html_table(rows, len(self.rows) - self.n_last)
        sides = "".join(">" if side else "<" for side in self.sides())
        return aligned_columns([list(column) for column in zip(*rows, strict=True)], sides)

    def sides(self) -> list[str]:
        """For each column whether it holds numbers, ``"number"``, or texts, ``""``."""
        return [
            "number" if place and any(isinstance(row[place], (int, float, Right)) for row in self.rows) else ""
            for place in range(len(self.header))
        ]

    def csv(self) -> str:
        """Comma-separated values with all digits; what is missing is empty, and what a spreadsheet would calculate
        has an apostrophe before it.
        """
        return csv_text(map(_csv_cell, row) for row in (self.header, *self.rows))

    def latex(self) -> str:
        """Return a ``tabular`` for the package booktabs."""
        rows = self.texts()
        cut = len(rows) - self.n_last
        blocks = [rows[:cut], rows[cut:]] if self.n_last else [rows]
        return latex_table(self.header, blocks, "".join("r" if side else "l" for side in self.sides()))


class Section(NamedTuple):
    """What stands under one title."""

    title: str
    panels: Mapping[str, "Figure"]
    """Name of the file to the figure."""
    tables: Sequence[Table]
    notes: Sequence[str]
    only_in_files: Mapping[str, "Figure"] = {}
    """What the page shows in another form."""


def latex_table(header: Sequence[str], blocks: Sequence[Sequence[Sequence[str]]], columns: str) -> str:
    """Return a ``tabular`` for the package booktabs, with a rule between its blocks of rows.

    Parameters
    ----------
    header
        Names of the columns.
    blocks
        Blocks of rows of texts, which are escaped.
    columns
        Their sides, e.g. ``"lrr"``.
    """

    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(map(escape_latex, cells)) + r" \\"

    lines = [rf"\begin{{tabular}}{{{columns}}}", r"  \toprule", line(header)]
    for block in blocks:
        lines += [r"  \midrule", *map(line, block)]
    return "\n".join([*lines, r"  \bottomrule", r"\end{tabular}"])


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    escaped = text.translate(_LATEX)
    # after the end of a line, or \midrule, LaTeX takes [ and * for options of these
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped


def number_format(values: Sequence[float]) -> Callable[[float], str]:
    """One way of writing all of these numbers: four significant digits of the largest, or a few more."""
    largest = max([abs(value) for value in values if np.isfinite(value)], default=0.0)
    if largest and (largest < 1e-3 or largest >= 1e6):
        return lambda value: f"{value:.3e}"
    decimals = 4 if largest < 10 else 3 if largest < 100 else 2 if largest < 1000 else 1
    if 0 < largest < 0.1:
        decimals = 5 if largest >= 0.01 else 6
    return lambda value: f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """Write a duration: ``"8.3 s"``, ``"2 min 05 s"``, ``"1 h 07 min"``."""
    if not np.isfinite(seconds):
        return DASH
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _writer(cells: Sequence[Any]) -> Callable[[Any], str]:
    """Return how the cells of one column are written."""
    plain = [cell for cell in cells if isinstance(cell, float) and not isinstance(cell, (Share, Seconds))]
    as_number = number_format(plain)
    is_short = all(cell < 10 for cell in cells if isinstance(cell, Seconds))

    def write(cell: object) -> str:
        if cell is None or (isinstance(cell, float) and np.isnan(cell)):
            return DASH
        if isinstance(cell, Share):
            return f"{float(cell):.1%}"
        if isinstance(cell, Seconds):
            return f"{float(cell):.2f} s" if is_short else duration(cell)
        if isinstance(cell, float):
            return as_number(cell)
        return f"{cell:,}" if isinstance(cell, int) else str(cell)

    return write


def _csv_cell(cell: object) -> Any:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, str):
        return as_text(cell)
    return repr(float(cell)) if isinstance(cell, float) else cell


WIDTH = 80
"""Columns of a terminal."""


class MetricColumn(NamedTuple):
    """The numbers of one metric as text, all with the same decimals."""

    name: str
    folds: list[str]
    mean: str
    """``"0.9705 ± 0.0051"``"""
    oof: str
    """Of repeats with its standard deviation over them."""
    ci: str
    """``"[0.9627, 0.9783]"``, or a dash: that of ``oof``, of a pooled one that of ``mean``."""
    n: str
    n_groups: str
    """Empty where there are no groups."""
    note: str
    """Why a number is missing, or how cases were drawn."""
    is_pooled: bool
    """Whether ``oof`` is pooled over networks, as the metric is no mean over cases."""
    undefined: str
    """Why it is not defined in some folds."""

    @property
    def pooled(self) -> str:
        """The out-of-fold value, with the word that it is pooled."""
        return f"{self.oof} pooled" if self.is_pooled and self.oof not in (DASH, "nan") else self.oof

    @property
    def ci_of(self) -> str:
        """The interval, with the word that it is that of the mean."""
        return f"{self.ci} of the mean" if self.is_pooled and self.ci != DASH else self.ci


def metric_columns(result: Any, each_class: bool = False) -> list[MetricColumn]:
    """Return the numbers of every metric as text; those of single classes, which have their own table, if asked."""
    summary, per_fold = result.summary(), fold_values(result)
    columns = []
    for name, row in summary.items():
        if not each_class and is_of_class(result, name):
            continue
        text = number_format([*per_fold[name], row["oof"], row["ci_low"], row["ci_high"]])
        missing = np.isnan(row["ci_low"])
        oof = f"{text(row['oof'])} ± {text(row['oof_std'])}" if np.isfinite(row["oof_std"]) else text(row["oof"])
        columns.append(
            MetricColumn(
                name=name,
                folds=[DASH if row["undefined"] and np.isnan(value) else text(value) for value in per_fold[name]],
                mean=_mean(result, row, per_fold[name], text),
                oof=oof if row["has_oof"] else DASH,
                ci=DASH if missing else f"[{text(row['ci_low'])}, {text(row['ci_high'])}]",
                n=f"{row['n']:,}",
                n_groups=f"{row['n_groups']:,}" if row["n_groups"] else "",
                note=row["note"],
                is_pooled=row["pooled"],
                undefined=row["undefined"],
            )
        )
    return columns


def _mean(result: Any, row: Mapping[str, Any], values: np.ndarray, text: Callable[[float], str]) -> str:
    """Mean and standard deviation; where they are none, in which folds the value is none."""
    if not row["n_folds"]:
        return DASH
    if np.isfinite(row["mean"]):
        return f"{text(row['mean'])} ± {DASH if np.isnan(row['std']) else text(row['std'])}"
    missing = [str(fold.fold) for fold, value in zip(result.folds, values, strict=True) if not np.isfinite(value)]
    where = f"fold {missing[0]}" if len(missing) == 1 else f"{len(missing)} folds"
    return f"{'NaN' if np.isnan(row['mean']) else 'infinite'} in {where}"


def fold_table(result: object, fmt: str = "plain") -> str:
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
    check_result("fold_table", result, "summary")
    formats = {"plain": _plain, "markdown": _markdown, "latex": _latex, "html": _html}
    if not isinstance(fmt, str) or fmt not in formats:
        raise ConfigError(f"there is no table format {fmt!r}{did_you_mean(str(fmt), formats)}")
    columns = metric_columns(result)
    return formats[fmt](result, columns) if columns else "no metrics were computed"


def _plain(result: Any, columns: list[MetricColumn]) -> str:
    labels = ["fold", *(str(fold.fold) for fold in result.folds)]
    width = left = WIDTH - max(map(len, labels))
    blocks: list[list[list[str]]] = [[]]
    for column in columns:
        needed = 3 + max(map(len, [column.name, *column.folds]))
        if needed > left and blocks[-1]:
            blocks.append([])
            left = width
        blocks[-1].append([column.name, *column.folds])
        left -= needed
    text = [aligned_columns([labels, *block], "<" + ">" * len(block)) for block in blocks]
    for is_pooled, header in ((False, ("out-of-fold", "95 % interval")), (True, ("95 % interval", "pooled"))):
        # the interval stands beside that to which it belongs
        rows = [["metric", "mean ± std", *header, "n"]]
        rows += [
            [c.name, c.mean, *((c.ci, c.oof) if is_pooled else (c.oof, c.ci)), c.n]
            for c in columns
            if c.is_pooled == is_pooled
        ]
        text += [aligned_columns([*map(list, zip(*rows, strict=True))], "<>>>>")] if len(rows) > 1 else []
    notes = [textwrap.fill(note, WIDTH, break_long_words=False) for note in footnotes(result, columns)]
    return "\n\n".join([*text, "\n".join(notes)])


def footnotes(result: Any, columns: list[MetricColumn]) -> list[str]:
    """Return what the intervals are, why some are missing, and in which folds a metric is not defined."""
    rounds, n_groups = result.rounds, columns[0].n_groups if columns else ""
    drawn = f"the {n_groups} groups of out-of-fold cases" if n_groups else "the out-of-fold cases"
    own, of_means = ([c for c in columns if c.ci != DASH and c.is_pooled == pooled] for pooled in (False, True))
    same = "" if rounds.kind == "once" else f", the same in all {rounds.kind}"
    all_of = "folds" if rounds.kind == "once" else rounds.kind
    what = "groups" if n_groups else "cases"
    how = f"{what} within each fold" if rounds.is_once else f"{what}, the same in all {all_of}"
    n_tested = int(result.oof.mask.sum()) if columns else 0
    partial = [c.name for c in columns if is_partial(result, c.name) and c.n != f"{n_tested:,}"]
    one = "repeat" if rounds.kind == "repeats" else "split"
    notes = [
        (own, f"Intervals: percentile bootstrap, {N_DRAWS:,} draws of {drawn}{same}."),
        (of_means, f"Intervals of means: percentile bootstrap, {N_DRAWS:,} draws of {how}."),
        (
            rounds.kind != "once" and columns,
            f"Out-of-fold: one value for each {one}, then mean ± std of the {len(rounds.folds)} {rounds.kind}; no "
            "predictions are averaged.",
        ),
        (
            any(column.is_pooled and column.oof != DASH for column in columns),
            "Pooled: computed once over cases of all folds, whose scores are of different networks.",
        ),
        (
            partial,
            f"n of {', '.join(partial)}: the cases that have a value; others do not count.",
        ),
        *((column.undefined, f"{column.name}: {column.undefined}") for column in columns),
        *((note, note) for note in map(missing_note, columns)),
    ]
    return [note for is_so, note in notes if is_so]


def gap_notes(columns: list[MetricColumn]) -> list[str]:
    """Why pooled values are others than the means of folds, for the page; empty where they are the same."""
    differing = [
        f"{column.name} {column.oof} against {column.mean.split(' ')[0]}"
        for column in columns
        if column.is_pooled and column.oof != DASH and column.oof.split(" ")[0] != column.mean.split(" ")[0]
    ]
    if not differing:
        return []
    return [
        f"Pooled values differ from the means of the folds ({'; '.join(differing)}): each fold has a network of its "
        "own, whose scores lie on a scale of their own, and a metric that ranks or counts over all cases compares "
        "scores of different networks with each other, which no single network is asked to do. What one network "
        "achieves is the mean, and the interval is that of the mean."
    ]


def missing_note(column: MetricColumn) -> str:
    """Why a metric has no interval, or no out-of-fold value either, or how it was drawn; empty of all others."""
    if column.note and column.ci != DASH:
        return f"{column.name}: {column.note}"
    missing = "out-of-fold value and no interval" if column.oof == DASH else "interval"
    return f"{column.name}: no {missing}, {column.note}" if column.note else ""


def notes_of(column: MetricColumn) -> list[str]:
    """Return what is to be said of one metric: where it is not defined, and what is missing."""
    undefined = f"{column.name}: {column.undefined}" if column.undefined else ""
    return [note for note in (undefined, missing_note(column)) if note]


def aligned_columns(columns: list[list[str]], sides: str) -> str:
    """Columns of text, each with its header first, three spaces apart; ``sides`` has ``<`` or ``>`` for each."""
    widths = [max(map(len, cells)) for cells in columns]
    rows = zip(*columns, strict=True)
    padded = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    lines = ["   ".join(row).rstrip() for row in padded]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _rows(result: Any, columns: list[MetricColumn]) -> list[list[str]]:
    """Header, folds, and three rows of summary: the table of a paper."""
    pooled = [column.is_pooled for column in columns]
    own = [DASH if column.is_pooled else f"{column.oof} {column.ci}" for column in columns]
    rows = [
        (True, "fold", [column.name for column in columns]),
        *((True, str(fold.fold), [column.folds[i] for column in columns]) for i, fold in enumerate(result.folds)),
        (True, "mean ± std", [column.mean for column in columns]),
        (any(pooled), "95 % CI of the mean", [column.ci if column.is_pooled else DASH for column in columns]),
        (not all(pooled), "out-of-fold [95 % CI]", own),
        (any(pooled), "pooled", [column.oof if column.is_pooled else DASH for column in columns]),
        (True, "n", [column.n for column in columns]),
        (columns[0].n_groups, "groups", [column.n_groups for column in columns]),
    ]
    return [[name, *cells] for is_shown, name, cells in rows if is_shown]


def _markdown(result: Any, columns: list[MetricColumn]) -> str:
    return markdown_table(_rows(result, columns))


def markdown_table(texts: Sequence[Sequence[str]]) -> str:
    """Rows of texts, which are escaped, with the header first, as a table of Markdown."""
    rows = [[escape_markdown(cell) for cell in row] for row in texts]
    widths = [max(3, *map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(f"{c:{'<' if i == 0 else '>'}{widths[i]}}" for i, c in enumerate(row)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def escape_markdown(text: str) -> str:
    """Return a text in one line that Markdown shows as it is."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text).replace("\n", " ")


def _latex(result: Any, columns: list[MetricColumn]) -> str:
    n_folds = len(result.folds)
    header, *body = _rows(result, columns)
    return latex_table(header, [body[:n_folds], body[n_folds:]], "l" + "r" * len(columns))


def _html(result: Any, columns: list[MetricColumn]) -> str:
    return html_table(_rows(result, columns), len(result.folds))


def html_table(texts: Sequence[Sequence[str]], n_first: int) -> str:
    """Rows of texts, which are escaped, with the header first, as a table of HTML, with a rule after so many rows."""
    header, *body = [[html.escape(cell) for cell in row] for row in texts]
    lines = ["<table>", "<thead><tr>" + "".join(f"<th>{cell}</th>" for cell in header) + "</tr></thead>", "<tbody>"]
    for number, (first, *cells) in enumerate(body):
        rule = ' style="border-top: 1px solid"' if number == n_first else ""
        lines.append(f"<tr{rule}><th>{first}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])
