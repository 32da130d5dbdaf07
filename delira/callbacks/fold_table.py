"""The folds of a cross-validation as a table that is drawn anew while they run, in a terminal or a notebook."""

import contextlib
import dataclasses
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any

from delira.callbacks.abstract_callback import Trainer
from delira.callbacks.live_plot import LiveLossPlot
from delira.callbacks.progress import PAUSE, Panel, ProgressBar, clock, in_notebook, in_terminal, table_html

#: lines of the table that are no folds
_FRAME = 7
#: name -> least width, so that they stay where they are; the last takes what is left
_COLUMNS = {"fold": 4, "epoch": 7, "time": 4, "left": 4, "best": 10, "values": 0}


@dataclasses.dataclass
class _Row:
    """One fold."""

    #: "" (waits), "runs", "done", "read" (of an earlier session), "not run" or "stopped"
    state: str = ""
    epoch: str = ""
    left: float | None = None
    best: str = ""
    values: str = ""
    began_at: float = 0.0
    seconds: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        spent = self.so_far if self.state == "runs" else self.seconds
        time = "" if spent is None or spent != spent else clock(spent)
        left = "" if self.left is None else clock(self.left)
        is_told = self.state in ("read", "not run", "stopped")
        return (self.epoch, time, self.state if is_told else left, self.best, self.values)

    @property
    def so_far(self) -> float:
        return perf_counter() - self.began_at


class FoldTable:
    """The folds of one cross-validation, as they are by now.

    Parameters
    ----------
    n_folds
        How many there are.
    draw
        Called with the table, and whether it is drawn for the last time.
    """

    def __init__(self, n_folds: int, draw: "Draw"):
        self.rows = [_Row() for _ in range(n_folds)]
        self._draw, self._next, self._began_at = draw, 0.0, perf_counter()
        self._pace, self.number = "", -1
        self._signals: Any = None
        self._trainer: Any = None
        self._plot = LiveLossPlot()

    def begin(self, number: int, trainer: Trainer) -> None:
        """A fold begins, and its trainer tells the table in place of a bar; its curves replace those before."""
        self.number, self._signals, self._trainer = number, trainer.stop_signals, trainer
        self.rows[number] = _Row(state="runs", began_at=perf_counter())
        trainer.make_bar = lambda label: ProgressBar(label, self)
        trainer.make_plot = lambda: self._plot.keep_place(f"fold {number}")

    def show(self, progress: ProgressBar, *, at_once: bool) -> None:
        """Take over where the fold that runs is by now."""
        row, trainer = self.rows[self.number], self._trainer
        row.epoch = f"{progress.epoch}/{progress.num_epochs}"
        row.left, row.values = progress.seconds_left, progress.shown_values()
        self._pace = progress.shown_pace()
        if trainer is not None and trainer.state.best_score is not None:
            row.best = _best(trainer.state)
        self._draw_if_due(at_once)

    def end(self, fold: Any, *, was_read: bool = False) -> None:
        """A fold has ended, or was read: its result stays."""
        self._trainer = None
        self.rows[fold.fold] = _Row(
            state="read" if was_read else "done",
            epoch=str(len(fold.history)) if was_read else self.rows[fold.fold].epoch,
            best="" if fold.best_score is None else _best(fold),
            values="  ".join(f"{name} {float(value.mean()):.4g}" for name, value in fold.metrics.items()),
            seconds=fold.seconds,
        )
        self._draw_if_due(at_once=True)

    def leave_out(self, number: int) -> None:
        """Note that a fold was not asked for."""
        self.rows[number].state = "not run"

    def close(self) -> None:
        """Draw it for the last time."""
        for row in self.rows:
            if row.state == "runs":
                row.state, row.seconds = "stopped", row.so_far
        self._draw(self, True)

    def _draw_if_due(self, at_once: bool) -> None:
        if at_once or perf_counter() >= self._next:
            self._draw(self, False)
            self._next = perf_counter() + PAUSE

    @property
    def told(self) -> str:
        """What a signal has written below the table."""
        return "" if self._signals is None else self._signals.told

    @property
    def caption(self) -> str:
        """Return how much of all folds is done."""
        done = [row for row in self.rows if row.state in ("done", "read")]
        parts = [f"{len(done)} of {len(self.rows)} folds", clock(perf_counter() - self._began_at)]
        for row in [row for row in self.rows if row.state == "runs"][:1]:
            own = [row.seconds for row in done if row.state == "done" and row.seconds is not None]
            whole = sum(own) / len(own) if own else None if row.left is None else row.left + row.so_far
            if whole is not None:
                rest = max(whole - row.so_far, 0) if row.left is None else row.left
                parts.append(f"about {clock(rest + whole * sum(not one.state for one in self.rows))} left")
            parts.append(self._pace)
        return " · ".join(filter(None, parts))

    def lines(self, height: int | None = None) -> list[tuple[str, _Row]]:
        """Number and row of each fold, or of those around the one that runs, as many as the height allows."""
        named = [(str(number), row) for number, row in enumerate(self.rows)]
        if height is None or len(named) <= height:
            return named
        height = max(height, 1)
        first = min(max(self.number - height + 2, 0), len(named) - height)
        return named[first : first + height]


def _best(found: Any) -> str:
    return f"{found.best_score:.4g} @{found.best_epoch}"


# ------------------------------------------------------------------ where it is drawn

#: gets the table, and whether it is drawn for the last time
Draw = Callable[[FoldTable, bool], None]


@contextlib.contextmanager
def _in_terminal() -> Iterator[Draw]:
    """Scope in which rich draws on the standard error stream; what others print stays above."""
    rich_console, live = importlib.import_module("rich.console"), importlib.import_module("rich.live")
    # the stream as it is: the table would else be redirected to itself
    console = rich_console.Console(file=sys.stderr, highlight=False)
    # without a thread: workers are forked beside none
    screen = live.Live(console=console, auto_refresh=False, redirect_stdout=sys.stdout.isatty(), redirect_stderr=True)
    told = ""

    def draw(table: FoldTable, is_last: bool) -> None:
        nonlocal told
        with contextlib.suppress(OSError):  # a terminal that is gone ends no training
            height = None if is_last else console.height - _FRAME
            if table.told and table.told != told:
                told = table.told
                # a handler cannot wait for the table, so it wrote below: back to its last line, and the text goes above
                console.file.write(f"\x1b[{1 - -len(told) // console.width}A\r\x1b[J")
                screen.console.print(told)
            screen.update(rich_table(table, height), refresh=True)

    _restore_in_children()
    screen.start()
    try:
        yield draw
    finally:
        with contextlib.suppress(OSError):
            screen.stop()


def rich_table(table: FoldTable, height: int | None) -> Any:
    """Return the table for rich."""
    tables, box = importlib.import_module("rich.table"), importlib.import_module("rich.box")
    text = importlib.import_module("rich.text").Text
    made = tables.Table(
        box=box.SIMPLE_HEAD, pad_edge=False, caption=text(table.caption), caption_justify="left", expand=True
    )
    for name, width in _COLUMNS.items():
        if width:
            made.add_column(name, justify="right", no_wrap=True, overflow="fold", min_width=width)
        else:
            made.add_column(name, no_wrap=True, ratio=1)
    for number, row in table.lines(height):
        style = {"runs": "bold", "": "dim", "stopped": "red"}.get(row.state, "")
        made.add_row(*map(text, (number, *row.cells)), style=style)
    return made


@contextlib.contextmanager
def _in_notebook() -> Iterator[Draw]:
    """Scope in which it is drawn as HTML below the cell."""
    panel = Panel()

    def draw(table: FoldTable, is_last: bool) -> None:
        rows = [((number, *row.cells), row.state == "runs") for number, row in table.lines()]
        text = "\n".join("  ".join(cells) for cells, _ in [(tuple(_COLUMNS), False), *rows])
        panel.replace(table_html(_COLUMNS, rows, table.caption), f"{text}\n{table.caption}")

    yield draw


class NoTable:
    """Where no table can be drawn: each fold has the bar, or the lines, of a training."""

    def begin(self, number: int, trainer: Trainer) -> None:
        """Note that a fold begins."""

    def end(self, fold: object, *, was_read: bool = False) -> None:
        """Note that a fold has ended."""

    def leave_out(self, number: int) -> None:
        """Note that a fold was not asked for."""


@contextlib.contextmanager
def shown_folds(n_folds: int, settings: Mapping[str, Any]) -> Iterator[Any]:
    """Scope in which the folds are shown as a table, if there is a place for one and ``verbose`` is 1.

    Parameters
    ----------
    n_folds
        How many there are.
    settings
        Of the trainers.
    """
    if settings.get("verbose") not in (None, 1) or not (in_notebook() or in_terminal()):
        yield NoTable()
        return
    with _in_notebook() if in_notebook() else _in_terminal() as draw:
        table = FoldTable(n_folds, draw)
        try:
            yield table
        finally:
            table.close()


@functools.cache
def _restore_in_children() -> None:
    """Let what forked workers print go to the streams themselves, since the table is the parent's."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_streams)


def _restore_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(sys, name, getattr(stream, "rich_proxied_file", stream))
