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

    _handle: Any = None

    def put(self, content: object, **how: Any) -> None:
        """Replace the content by what IPython displays."""
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(content, display_id=True, **how)
        else:
            self._handle.update(content, **how)

    def replace(self, markup: str, text: str) -> None:
        """Replace the content by HTML, which is a text for front ends that show text only."""
        self.put({"text/html": markup, "text/plain": text}, raw=True)

    def draw_bar(self, done: int, total: int | None, text: str) -> None:
        """Replace the content by a bar, with a text beside it."""
        place = "" if total is None else f' value="{done}" max="{total}"'
        self.replace(f"<div><progress{place}></progress> {html.escape(text)}</div>", text)


class NotebookBar(Panel):
    """The bar of one training."""

    def show(self, progress: Any, *, at_once: bool) -> None:
        """Draw what a :class:`ProgressBar` says by now."""
        self.draw_bar(progress.steps, progress.total, progress.shown_line())


class PassBar(Panel):
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
        """Draw it as it is by now; it needs no other end."""
        self._draw()

    def _draw(self) -> None:
        self._next = perf_counter() + _PAUSE
        of_all = "" if self._total is None else f"/{self._total}"
        parts = (self._desc, f"{self._done}{of_all}", self._text)
        self.draw_bar(self._done, self._total, "  ".join(filter(None, parts)))


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
