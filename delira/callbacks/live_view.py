"""What trainings show while they run: curves in a notebook, and one table of the folds of a cross-validation."""

import contextlib
import dataclasses
import functools
import importlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from time import perf_counter
from typing import Any

from delira.callbacks import abstract_callback, tensorboard
from delira.callbacks.progress import (
    PAUSE,
    Panel,
    ProgressBar,
    Tqdm,
    clock,
    in_notebook,
    in_terminal,
    show_line,
    table_html,
)
from delira.errors import ConfigError, check_flags, check_whole
from delira.state import BATCH, EPOCH, HISTORY, PHASE, State
from delira.utils.pictures import Figure, picture_class

#: places and values
Curve = tuple[list[int], list[float]]
#: between two drawings pass at least so many times the seconds that one takes
_PAUSES = 10
#: entries of a record of the history that are no metrics
_COUNTS = ("epoch", "train_steps", "validation_steps")
_PLOTS_BESIDE = 3


class LiveLossPlot(abstract_callback.Callback):
    """Draw the metrics of epochs, and of batches if asked for, below the cell of a notebook.

    A metric and that of the validation share their axes. The picture is replaced; what else the cell shows stays. It
    takes a tenth of the time at most: epochs that are faster are drawn together. A fit that is continued begins with
    the epochs before. Outside of a notebook nothing is shown; :meth:`figure` gives the picture there.

    Parameters
    ----------
    on_batch
        Whether training steps are drawn, by the number of their update.
    batch_step_size
        Batches from one that is drawn to the next; each waits for the values.
    on_epoch
        Whether epochs are drawn.
    draw_once
        Whether it is drawn at the end of the fit only.
    **kwargs
        Of the package livelossplot, which torchbearer draws with; without effect, and a warning says so.

    Raises
    ------
    ConfigError
        If there is nothing to draw, or ``batch_step_size`` is impossible.

    Examples
    --------
    >>> import numpy, torch, delira
    >>> net, plot, x = torch.nn.Linear(3, 1), LiveLossPlot(draw_once=True), numpy.zeros((8, 3), "f4")
    >>> optimizer = torch.optim.SGD(net.parameters(), 0.1)
    >>> trial = delira.Trial(net, optimizer, torch.nn.MSELoss(), ["loss"], [plot], verbose=0)
    >>> _ = trial.with_train_data(x, x[:, :1], 4).run(2)
    >>> [axes.get_title() for axes in plot.figure().axes]
    ['loss', 'lr']
    """

    phases = ("fit", "replay")
    only_first = True

    def __init__(
        self,
        on_batch: bool = False,
        batch_step_size: int = 10,
        on_epoch: bool = True,
        draw_once: bool = False,
        **kwargs: Any,
    ):
        if kwargs:
            names = ", ".join(sorted(kwargs))
            warnings.warn(f"LiveLossPlot: {names} change nothing: they are of the package livelossplot", stacklevel=2)
        check_flags(self, on_batch=on_batch, on_epoch=on_epoch, draw_once=draw_once)
        if not on_batch and not on_epoch:
            raise ConfigError("LiveLossPlot: there is nothing to draw without on_batch and on_epoch")
        check_whole(self, at_least=1, batch_step_size=batch_step_size)
        self.on_batch, self.on_epoch, self.draw_once = on_batch, on_epoch, draw_once
        self.batch_step_size = batch_step_size
        #: name -> places and values, of epochs (from 1) and of updates (from 1)
        self._epochs: dict[str, Curve] = {}
        self._batches: dict[str, Curve] = {}
        self._updates, self._panel = 0, Panel()
        self._title: str | None = None
        self._next, self._is_drawn = 0.0, False
        if not on_batch:  # or each step of an experiment would be shown to it
            vars(self)["on_step_training"] = None

    def figure(self) -> "Figure":
        """Return the curves so far.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by notebooks; it has axes for each metric.
        """
        groups = _groups(self._epochs, "epoch") + _groups(self._batches, "update")
        rows = max(1, math.ceil(len(groups) / _PLOTS_BESIDE))
        figure = picture_class()(figsize=(4.5 * min(len(groups) or 1, _PLOTS_BESIDE), 3 * rows), layout="constrained")
        if self._title is not None:
            figure.suptitle(self._title)
        for number, (title, unit, curves) in enumerate(groups, 1):
            axes = figure.add_subplot(rows, min(len(groups), _PLOTS_BESIDE), number)
            for label, (places, values) in curves.items():
                axes.plot(places, values, label=label, marker="." if len(places) < 50 else "")
            axes.set_title(title)
            axes.set_xlabel(unit)
            axes.locator_params(axis="x", integer=True)
            if len(curves) > 1:
                axes.legend()
        return figure

    def keep_place(self, title: str) -> "LiveLossPlot":
        """Draw the next fit in the place of the one before, if there was one; returns the callback itself.

        Parameters
        ----------
        title
            Of the picture: which fit it is.
        """
        self._title = title
        return self

    # ------------------------------------------------------------------ events

    def on_start(self, state: State) -> None:
        """Begin with the epochs before."""
        self._epochs, self._batches, self._updates = {}, {}, 0
        self._panel = Panel() if self._title is None else self._panel
        self._next, self._is_drawn = 0.0, False
        if state[PHASE] == "fit":
            self._updates = abstract_callback.trainer_of(state).state.global_step
            for epoch, record in enumerate(state.get(HISTORY, ()) if self.on_epoch else (), 1):
                self._take(self._epochs, _of_epoch(record), epoch)

    def on_step_training(self, state: State) -> None:
        """Take the values of every so many batches."""
        self._updates += 1
        if self.on_batch and state[BATCH] % self.batch_step_size == 0:
            self._take(self._batches, tensorboard.values_of(state, of_batch=True), self._updates)
            self._draw_if_due()

    def on_end_epoch(self, state: State) -> None:
        """Take the values of the epoch."""
        if self.on_epoch:
            self._take(self._epochs, _of_epoch(tensorboard.values_of(state)), state[EPOCH] + 1)
            self._draw_if_due()

    def on_end(self, state: State) -> None:
        """Draw everything."""
        if not self._is_drawn and (self._epochs or self._batches):
            self._draw()

    def _take(self, curves: dict[str, Curve], values: Mapping[str, Any], place: int) -> None:
        for name, value in values.items():
            if isinstance(value, Real) and name not in _COUNTS:
                places, numbers = curves.setdefault(name, ([], []))
                places.append(place)
                numbers.append(float(value))
                self._is_drawn = False

    def _draw_if_due(self) -> None:
        if not self.draw_once and perf_counter() >= self._next:
            begin = perf_counter()
            self._draw()
            end = perf_counter()
            self._next = end + _PAUSES * (end - begin)

    def _draw(self) -> None:
        self._is_drawn = True
        package = sys.modules.get("IPython")
        if getattr(package.get_ipython() if package is not None else None, "kernel", None) is not None:
            self._panel.put(self.figure())


def _of_epoch(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without the means of the last batches, where there is one of all."""
    return {
        name: value
        for name, value in values.items()
        if not (name.startswith("running_") and name.removeprefix("running_") in values)
    }


def _groups(curves: Mapping[str, Curve], unit: str) -> list[tuple[str, str, dict[str, Curve]]]:
    """Title, unit of the places, and curves of each axes."""
    found: dict[str, dict[str, Curve]] = {}
    for name, curve in curves.items():
        label = "validation" if name.startswith("val_") else "training"
        found.setdefault(name.removeprefix("val_"), {})[label] = curve
    return [(title, unit, group) for title, group in found.items()]


def live_view(trainer: abstract_callback.Trainer, verbose: int, num_epochs: int) -> list[Any]:
    """The callbacks that show a training.

    Parameters
    ----------
    trainer
        That begins.
    verbose
        0: nothing. 1: a bar, or a line for each epoch where none can be drawn; in a notebook also the curves. 2: a
        bar for each pass over the data.
    num_epochs
        Epochs in all: one gives no curve.
    """
    if verbose <= 0:
        return []
    label = f"fold {trainer.fold}"
    if verbose == 2:
        return [Tqdm(label=label)]
    bar = ProgressBar(label) if trainer.make_bar is None else trainer.make_bar(label)
    has_plot = any(isinstance(callback, LiveLossPlot) for callback in trainer.callbacks)
    is_plotted = in_notebook() and num_epochs > 1 and not has_plot
    make_plot = LiveLossPlot if trainer.make_plot is None else trainer.make_plot
    return [bar, *([make_plot()] if is_plotted else [])]


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
    what
        What its rows are: ``"fold"``, or ``"trial"`` of a search.
    """

    def __init__(self, n_folds: int, draw: "Draw", what: str = "fold"):
        self.what = what
        self.rows = [_Row() for _ in range(n_folds)]
        self._draw, self._next, self._began_at = draw, 0.0, perf_counter()
        self._pace, self.number = "", -1
        self._signals: Any = None
        self._trainer: Any = None
        self._look: Callable[[], None] = lambda: None
        self._plot = LiveLossPlot()

    def begin(self, number: int, trainer: abstract_callback.Trainer) -> None:
        """A fold begins, and its trainer tells the table in place of a bar; its curves replace those before."""
        self.number, self._signals, self._trainer = number, trainer.stop_signals, trainer
        self.rows[number] = _Row(state="runs", began_at=perf_counter())
        trainer.make_bar = lambda label: ProgressBar(label, self)
        trainer.make_plot = lambda: self._plot.keep_place(f"fold {number}")

    def watch(self, look: Callable[[], None]) -> None:
        """Call a function before it is drawn, which tells of folds that others train meanwhile."""
        self._look = look

    def follow(self, number: int, records: Sequence[Mapping[str, Any]], num_epochs: int, left: float | None) -> None:
        """A fold that another process trains has come so far.

        Parameters
        ----------
        number
            Of the fold.
        records
            Its epochs, as its history has them.
        num_epochs, left
            Epochs in all, and seconds until they are done, if that is known.
        """
        row = self.rows[number]
        if row.state != "runs":
            row = self.rows[number] = _Row(state="runs", began_at=perf_counter())
        row.epoch, row.left = f"{len(records)}/{num_epochs}", left
        row.values = _shown(records[-1]) if records else ""
        if self._trainer is None:  # else it is that of the fold that is trained here
            self.number = number
        self._draw_if_due(at_once=False)

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
            values="  ".join(f"{name} {value:.4g}" for name, value in fold.means().items()),
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
            self._next = math.inf  # what it looks at is drawn once
            self._look()
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
        parts = [f"{len(done)} of {len(self.rows)} {self.what}s", clock(perf_counter() - self._began_at)]
        for row in [row for row in self.rows if row.state == "runs"][:1]:
            own = [row.seconds for row in done if row.state == "done" and row.seconds is not None]
            whole = sum(own) / len(own) if own else None if row.left is None else row.left + row.so_far
            if whole is not None:
                rest = max(whole - row.so_far, 0) if row.left is None else row.left
                at_once = sum(one.state == "runs" for one in self.rows)
                parts.append(f"about {clock(rest + whole * sum(not one.state for one in self.rows) / at_once)} left")
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


def _shown(record: Mapping[str, Any]) -> str:
    """Return the values of an epoch as text."""
    named = ((name, value) for name, value in record.items() if name not in _COUNTS and not name.startswith("lr"))
    return "  ".join(f"{name} {value:.4g}" for name, value in named if isinstance(value, Real))


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
    """Where no table can be drawn: each fold has the bar, or the lines, of a training.

    Parameters
    ----------
    is_told
        Whether there is a line for each epoch of a fold that another process trains.
    """

    def __init__(self, is_told: bool = False):
        self._is_told = is_told
        self._n_told: dict[int, int] = {}

    def begin(self, number: int, trainer: abstract_callback.Trainer) -> None:
        """Note that a fold begins."""

    def end(self, fold: object, *, was_read: bool = False) -> None:
        """Note that a fold has ended."""

    def leave_out(self, number: int) -> None:
        """Note that a fold was not asked for."""

    def watch(self, look: Callable[[], None]) -> None:
        """Folds that others train are told of when they are waited for."""

    def follow(self, number: int, records: Sequence[Mapping[str, Any]], num_epochs: int, left: float | None) -> None:
        """Write a line for each epoch that is new; see :meth:`FoldTable.follow`."""
        if self._is_told:
            for record in records[self._n_told.get(number, 0) :]:
                show_line(f"fold {number} · epoch {record.get('epoch', '?')}/{num_epochs}  {_shown(record)}")
        self._n_told[number] = len(records)


@contextlib.contextmanager
def shown_folds(n_folds: int, settings: Mapping[str, Any], what: str = "fold") -> Iterator[Any]:
    """Scope in which the folds are shown as a table, if there is a place for one and ``verbose`` is 1.

    Parameters
    ----------
    n_folds
        How many there are.
    settings
        Of the trainers.
    what
        What they are, if they are trials.
    """
    if settings.get("verbose") not in (None, 1) or not (in_notebook() or in_terminal()):
        yield NoTable(is_told=settings.get("verbose") not in (0, False))
        return
    drawing = _in_notebook() if in_notebook() else _in_terminal()
    with drawing as draw, contextlib.closing(FoldTable(n_folds, draw, what)) as table:
        yield table


@functools.cache
def _restore_in_children() -> None:
    """Let what forked workers print go to the streams themselves, since the table is the parent's."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_streams)


def _restore_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(sys, name, getattr(stream, "rich_proxied_file", stream))
