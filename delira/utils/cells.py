"""Texts in tables that spreadsheets open."""

import csv
import io
import re
from collections.abc import Iterable

#: what a spreadsheet takes for a formula, which may call programs; signed numbers are none
_FORMULA = re.compile(r"[\t\r\n\v\f]|\s*([=@\uff1d\uff20]|[+\-\uff0b\uff0d](?![\d.]+$))")


def as_text(cell: str) -> str:
    """Return a text as the cell of a CSV file: with an apostrophe before it if a spreadsheet would calculate it.

    Examples
    --------
    >>> as_text("=1+1"), as_text("-0.5"), as_text("dice")
    ("'=1+1", '-0.5', 'dice')
    """
    cell = f"'{cell}" if _FORMULA.match(cell) else cell
    return re.sub("\r\n?", "\n", cell)  # some readers begin a row at a carriage return, and csv does not quote it


def csv_text(rows: Iterable[Iterable[object]], separator: str = ",", line_end: str = "\n") -> str:
    r"""Rows as the text of a CSV file.

    Examples
    --------
    >>> csv_text([["name", "value"], ["a,b", 0.5]])
    'name,value\n"a,b",0.5\n'
    """
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=separator, lineterminator=line_end).writerows(rows)
    return stream.getvalue()
