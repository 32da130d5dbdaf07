"""What is shown below the cell of a notebook: HTML that is replaced, which needs no widgets."""

import html
import importlib
from collections.abc import Iterable, Sequence
from typing import Any


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
        place = "" if progress.total is None else f' value="{progress.steps}" max="{progress.total}"'
        self._panel.show(f"<div><progress{place}></progress> {html.escape(text)}</div>", text)


def table_html(head: Iterable[str], rows: Iterable[tuple[Sequence[str], bool]], caption: str) -> str:
    """A table as HTML.

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
