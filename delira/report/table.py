"""Tables of texts and numbers, as HTML, CSV and LaTeX, and sections of the page, which hold them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from delira.utils.cells import as_text, csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DASH = "–"
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


class Share(float):
    """A number that is read as a percentage."""


class Seconds(float):
    """A number that is read as a duration."""


class Table(NamedTuple):
    """A header and rows; numbers of a column are written alike."""

    name: str
    """Of its files."""
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Cells are texts, integers, floats, :class:`Share`, :class:`Seconds` or None; the first names the row."""
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

    def sides(self) -> list[str]:
        """For each column whether it holds numbers, ``"number"``, or texts, ``""``."""
        columns = [[row[place] for row in self.rows] for place in range(len(self.header))]
        return [
            "number" if any(isinstance(cell, (int, float)) for cell in cells) and place else ""
            for place, cells in enumerate(columns)
        ]

    def csv(self) -> str:
        """Comma-separated values with all digits; what is missing is empty, and what a spreadsheet would calculate
        has an apostrophe before it.
        """
        return csv_text(map(_plain, row) for row in (self.header, *self.rows))

    def latex(self) -> str:
        """Return a ``tabular`` for the package booktabs."""
        rows = self.texts()
        cut = len(rows) - self.n_last
        columns = "".join("r" if side else "l" for side in self.sides())
        return latex_table(self.header, [rows[:cut], rows[cut:]] if self.n_last else [rows], columns)


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
    escaped = "".join(_LATEX.get(character, character) for character in text)
    escaped = escaped.replace("±", r"$\pm$").replace("−", "$-$").replace(DASH, "--").replace("\n", " ")
    # after the end of a line, or \midrule, LaTeX takes [ and * for options of these
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped


def number_format(values: Sequence[float]) -> Callable[[float], str]:
    """One way of writing all of these numbers: four significant digits of the largest, or a few more."""
    finite = [abs(value) for value in values if np.isfinite(value)]
    largest = max(finite, default=0.0)
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


def _plain(cell: object) -> Any:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, str):
        return as_text(cell)
    return repr(float(cell)) if isinstance(cell, float) else cell
