"""What is shown below the cell of a notebook: HTML that is replaced, which needs no widgets."""

import html
import importlib
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

#: seconds between two drawings of a bar
_PAUSE = 0.25


class Panel:
    """One output of a cell, whose content is replaced; a stored notebook has the last."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, markup: str, text: str) -> None:
        """Replace the content.

        Parameters
        ----------
        markup
            HTML.
        text
            The same for front ends that show text only.
        """
        content = {"text/html": markup, "text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class NotebookBar:
    """The bar of one training."""

    def __init__(self) -> None:
        self._panel = Panel()

    def show(self, progress: Any, *, at_once: bool) -> None:
        """Draw what a :class:`ProgressBar` says by now."""
        text = progress.shown_line()
        self._panel.show(_with_bar(progress.steps, progress.total, text), text)


class PassBar:
    """The bar of one pass, with the methods of a ``tqdm`` that are used here; for notebooks without ipywidgets.

    Parameters
    ----------
    total
        Steps in all, if that is known.
    initial
        Those that are done.
    desc
        Shown first.
    **others
        What a ``tqdm`` may be told besides.
    """

    def __init__(self, total: int | None = None, initial: int = 0, desc: str = "", **others: Any):
        self._total, self._done, self._desc, self._text = total, initial, desc, ""
        self._panel, self._next = Panel(), 0.0
        self._draw()

    def update(self) -> bool:
        """Move on by one step; whether it was drawn."""
        self._done += 1
        is_due = perf_counter() >= self._next
        if is_due:
            self._draw()
        return is_due

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """Show a text after the numbers, at once or the next time."""
        self._text = text
        if refresh:
            self._draw()

    def close(self) -> None:
        """Draw it for the last time."""
        self._draw()

    def _draw(self) -> None:
        self._next = perf_counter() + _PAUSE
        of_all = "" if self._total is None else f"/{self._total}"
        text = "  ".join(part for part in (self._desc, f"{self._done}{of_all}", self._text) if part)
        self._panel.show(_with_bar(self._done, self._total, text), text)


def _with_bar(done: int, total: int | None, text: str) -> str:
    place = "" if total is None else f' value="{done}" max="{total}"'
    return f"<div><progress{place}></progress> {html.escape(text)}</div>"


def table_html(head: Iterable[str], rows: Iterable[tuple[Sequence[str], bool]], caption: str) -> str:
    """Return a table as HTML.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        The cells of each row, and whether it stands out.
    caption
        What is said below.
    """

    def line(cells: Iterable[str], tag: str, style: str = "") -> str:
        return f"<tr{style}>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = [line(cells, "td", ' style="font-weight:bold"' if stands_out else "") for cells, stands_out in rows]
    table = f"<table><thead>{line(head, 'th')}</thead><tbody>{''.join(body)}</tbody></table>"
    return f"{table}<div>{html.escape(caption)}</div>"
