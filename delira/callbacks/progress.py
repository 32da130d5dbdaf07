"""Progress: bars in a terminal or notebook, lines elsewhere; of a whole training, or of each pass."""

import contextlib
import functools
import html
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol

from delira.callbacks.abstract_callback import AbstractCallback, EveryPass, Trainer, trainer_of
from delira.callbacks.monitor import plain_values
from delira.errors import check_flags, check_functions, check_texts, check_that, check_whole, if_given
from delira.state import BATCH, DATA, EPOCH, MAX_EPOCHS, METRICS, PHASE, STEPS, TRAIN_DATA, State

#: a small bar, so that the values beside it have their place within 80 columns
_LAYOUT = "{desc} |{bar:6}| {elapsed}<{remaining}{postfix}"
#: of a bar of one pass, with the number of its steps
_PASS_LAYOUT = "{desc} {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
#: seconds between two drawings, and two looks at the values of a step: each waits for the device
PAUSE = 0.25
#: seconds that must be left for the line of an epoch to tell them
_WORTH_TELLING = 10
#: seconds between two looks at the metrics of a line: each waits for the device
_LINE_PAUSE = 0.1


class Display(Protocol):
    """What a :class:`ProgressBar` is shown by in place of a bar of its own."""

    def show(self, progress: "ProgressBar", *, at_once: bool) -> None:
        """Draw what the progress says by now, if it is time, or ``at_once``."""


def in_notebook() -> bool:
    """Return True if this is a kernel whose front end shows more than text."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def in_terminal() -> bool:
    """Return True if the standard error stream is a terminal on which lines can be drawn anew."""
    # without a console, as in a service of Windows, there is no stream at all
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def _bar_class() -> Any:
    """Return the bar that can be drawn here, or ``None``."""
    if in_notebook():
        if importlib.util.find_spec("ipywidgets") is None:
            return PassBar
        return importlib.import_module("tqdm.notebook").tqdm
    if in_terminal():
        return functools.partial(importlib.import_module("tqdm").tqdm, bar_format=_PASS_LAYOUT, dynamic_ncols=True)
    return None


def label_of(owner: object, label: str) -> str:
    """Return what a label, which may be empty, puts before a line."""
    if label != "":
        check_texts(owner, label=label)
    return f"{label} · " if label else ""


class ProgressBar(AbstractCallback):
    """Show where the training is: epoch, steps per second, time that is left, memory, losses and metrics.

    A bar over all steps where a bar can be drawn, with the values of the step at hand, which are read a few times a
    second, and those of the last validation; otherwise one line for each epoch. Everything goes to the standard error
    stream, but in a notebook.

    Parameters
    ----------
    label
        Shown first, e.g. ``"fold 0"``.
    display
        Draws in place of a bar.
    """

    only_first = True
    _bar: Any = None
    _trainer: Any = None

    def __init__(self, label: str = "", display: Display | None = None):
        self.label = label_of(self, label)
        is_display = display is None or callable(getattr(display, "show", None))
        check_that(is_display, "ProgressBar", "display has a method show(progress, at_once=...)", display)
        self._display = display
        self.begin(0, 0, None)

    @property
    def display(self) -> Display | None:
        """Where it is drawn, if that was said."""
        return self._display

    def begin(self, num_epochs: int, done: int, total: int | None) -> None:
        """Begin to count.

        Parameters
        ----------
        num_epochs
            Epochs in all.
        done, total
            Steps that are done, and in all, if that is known.
        """
        self.epoch, self.num_epochs = 0, num_epochs
        self.steps, self.total = done, total
        self.values: dict[str, float] = {}
        self._first, self._began_at = done, perf_counter()
        self._seen, self._seen_at, self._next = done, self._began_at, 0.0
        self.rate: float | None = None

    # ------------------------------------------------------------------ events

    def at_training_begin(
        self, trainer: Trainer, *, num_epochs: int, num_batches: int | None = None, **facts: Any
    ) -> None:
        """Open the bar."""
        done, step = trainer.state.epoch, trainer.state.step_in_epoch
        if done or step:
            inside = f"step {step} of epoch {done + 1}" if step else f"epoch {done}"
            text = f"continues after {inside}" if done < num_epochs else f"has {done} epochs already, of {num_epochs}"
            where = "" if trainer.save_path is None else f" ({trainer.save_path})"
            show_line(f"{self.label}{text}{where}")
        self._trainer, total = trainer, None if num_batches is None else num_batches * num_epochs
        self.begin(num_epochs, (num_batches or 0) * done + step, total)
        self.epoch = done + 1 if step else done
        if done >= num_epochs:
            return
        if self._display is None and in_notebook():
            self._display = NotebookBar()
        if self._display is not None:
            self._display.show(self, at_once=True)
        elif (bar_class := _bar_class()) is not None:
            self._bar = bar_class(total=total, initial=self.steps, bar_format=_LAYOUT, mininterval=PAUSE)
            if step:
                self._name_epoch()

    def at_epoch_begin(self, trainer: Trainer, *, curr_epoch: int, num_epochs: int, **facts: Any) -> None:
        """Name the epoch."""
        self.epoch, self.num_epochs = curr_epoch, num_epochs
        self._name_epoch()

    def _name_epoch(self) -> None:
        if self._bar is not None:
            self._bar.set_description_str(f"{self.label}epoch {self.epoch}/{self.num_epochs}", refresh=False)

    def at_iter_end(
        self, trainer: Trainer, *, losses: Mapping[str, Any], metrics: Mapping[str, Any], **facts: Any
    ) -> None:
        """Move on by one step."""
        self.steps += 1
        if self._bar is not None:
            self._bar.update()
        if (self._bar is not None or self._display is not None) and perf_counter() >= self._next:
            named = {**losses, **metrics}
            read = trainer.backend.arrays.read_scalars([*named.values()]) if named else ()
            self.values |= dict(zip(named, map(float, read), strict=True))
            self._draw()

    def at_epoch_end(
        self, trainer: Trainer, *, metrics: Mapping[str, float], curr_epoch: int, num_epochs: int, **facts: Any
    ) -> None:
        """Show the values of the epoch."""
        self.values = {name: value for name, value in metrics.items() if not name.startswith("lr")}
        if self._bar is not None or self._display is not None:
            self._draw()  # epochs may be faster than a terminal
            return
        left = self.seconds_left
        further = f"  eta {clock(left)}" if left is not None and left >= _WORTH_TELLING else ""
        text = f"{self.label}epoch {curr_epoch:{len(str(num_epochs))}d}/{num_epochs}"
        show_line(f"{text}  {self.shown_values() or 'done'}{further}")

    def at_training_end(self, trainer: Trainer, **facts: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
        elif self._display is not None and self._trainer is not None:
            self._display.show(self, at_once=True)
        self._bar = self._trainer = None

    # ------------------------------------------------------------------ what is shown

    def _draw(self) -> None:
        now = perf_counter()
        self._next = now + PAUSE
        if self.steps > self._seen and now > self._seen_at:
            pace = (self.steps - self._seen) / (now - self._seen_at)
            self.rate = pace if self.rate is None else 0.7 * self.rate + 0.3 * pace
            self._seen, self._seen_at = self.steps, now
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self.shown_pace()}, {self.shown_values()}", refresh=False)
        elif self._display is not None:
            self._display.show(self, at_once=False)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the training ends, at the speed so far; None if that is not known."""
        done = self.steps - self._first
        if not done or self.total is None:
            return None
        return max(self.total - self.steps, 0) * (perf_counter() - self._began_at) / done

    def shown_line(self) -> str:
        """Return everything in one line of text."""
        left = self.seconds_left
        times = clock(perf_counter() - self._began_at) + ("" if left is None else f"<{clock(left)}")
        parts = filter(None, (times, self.shown_pace(), self.shown_values()))
        return f"{self.label}epoch {self.epoch}/{self.num_epochs} · {' · '.join(parts)}"

    def shown_values(self) -> str:
        """Losses and metrics as text."""
        return "  ".join(f"{name} {value:.4g}" for name, value in self.values.items())

    def shown_pace(self) -> str:
        """Steps per second, and memory of the process and of the device, as text."""
        rate = "" if self.rate is None else f"{self.rate:.{0 if self.rate >= 10 else 2}f}/s, "
        memory, trainer = _size(importlib.import_module("psutil").Process().memory_info().rss), self._trainer
        device = None if trainer is None else trainer.backend.devices.memory(trainer.devices)
        return f"{rate}{memory}" if device is None else f"{rate}{memory} + {_size(device)} GPU"


def show_line(line: str) -> None:
    """Write a line to the standard error stream; a reader that is gone ends no training."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a duration as ``1:02`` or ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**20:.0f}M" if n_bytes < 2**30 else f"{n_bytes / 2**30:.1f}G"


class _Printer(EveryPass):
    """What all printers know of the state."""

    only_first = True

    def __init__(self, validation_label_letter: str, precision: int, label: str = ""):
        is_text = isinstance(validation_label_letter, str)
        check_that(is_text, self, "validation_label_letter is a text", validation_label_letter)
        check_whole(self, at_least=0, precision=precision)
        self.validation_label_letter, self.precision = validation_label_letter, precision
        self.label = label_of(self, label)

    def _place(self, state: State) -> str:
        """Epoch, and letter of the pass: ``2/10(t)``."""
        of_fit = "t" if state[DATA] == TRAIN_DATA else self.validation_label_letter
        letter = {"evaluate": "e", "predict": "p"}.get(state[PHASE], of_fit)
        return f"{self.label}{_epoch_of(state)}({letter})"

    def _values(self, state: State, between: str = ", ") -> str:
        if state[PHASE] == "predict":  # there is nothing to compare with
            return ""
        values = plain_values(state[METRICS])
        return between.join(
            f"{name}={_shown(value, self.precision)}" for name, value in values.items() if name != "epoch"
        )


class Tqdm(_Printer):
    """A bar for each pass over the data, with its metrics; or one over all epochs.

    Where no bar can be drawn (the standard error stream is no terminal), there is one line for each epoch instead.
    The metrics are read when the bar is drawn, a few times a second, not at every step.

    Parameters
    ----------
    tqdm_module
        What makes bars, e.g. ``tqdm.tqdm``; None: that of a notebook or a terminal, as it is.
    validation_label_letter
        Stands for the validation beside the epoch; ``t`` is the training, ``e`` an evaluation, ``p`` a prediction.
    precision
        Digits of the metrics.
    on_epoch
        Whether there is one bar over all epochs.
    label
        Shown first, e.g. ``"fold 0"``.
    **tqdm_args
        Further arguments of the bars.
    """

    _maker: Any = None
    _bar: Any = None

    def __init__(
        self,
        tqdm_module: Callable[..., Any] | None = None,
        validation_label_letter: str = "v",
        precision: int = 4,
        on_epoch: bool = False,
        label: str = "",
        **tqdm_args: Any,
    ):
        super().__init__(validation_label_letter, precision, label)
        check_flags(self, on_epoch=on_epoch)
        check_functions(self, **if_given(tqdm_module=tqdm_module))
        self.tqdm_module, self.on_epoch, self.tqdm_args = tqdm_module, on_epoch, tqdm_args

    def on_start(self, state: State) -> None:
        """Find out what can be drawn; begin the bar over the epochs."""
        self._maker = self.tqdm_module or _bar_class()
        if self.on_epoch and state[PHASE] != "predict":
            self._open("", state[MAX_EPOCHS], state[EPOCH])

    def on_start_training(self, state: State) -> None:
        """Begin the bar of a pass."""
        if not self.on_epoch:
            # a fit that is continued inside an epoch has done steps already
            is_of_fit = state[PHASE] == "fit" and state[DATA] == TRAIN_DATA
            done = trainer_of(state).state.step_in_epoch if is_of_fit else 0
            self._open(self._place(state), state[STEPS], done)

    def _open(self, name: str, total: Any, done: int) -> None:
        if self._maker is not None:
            known = total if isinstance(total, int) and total >= 0 else None
            self._bar = self._maker(total=known, initial=done, desc=name, **self.tqdm_args)

    def on_step_training(self, state: State) -> None:
        """Move the bar on by a step."""
        if self._bar is not None and not self.on_epoch and self._bar.update():
            # the bar was drawn just now: the values are those of the next time
            self._bar.set_postfix_str(self._values(state), refresh=False)

    def on_end_training(self, state: State) -> None:
        """End the bar of the pass."""
        if not self.on_epoch:
            self._close(self._values(state))

    on_start_validation = on_start_training

    def on_end_epoch(self, state: State) -> None:
        """Move the bar over the epochs on, or print the line of the epoch, or of an evaluation."""
        if self._maker is None:
            values = self._values(state, "  ")
            if values or state[PHASE] == "fit":
                name = "evaluation" if state[PHASE] == "evaluate" else f"epoch {_epoch_of(state)}"
                sys.stderr.write(f"{self.label}{name}  {values or 'done'}\n")
                sys.stderr.flush()
        elif self.on_epoch and self._bar is not None:
            self._bar.update()
            self._bar.set_postfix_str(self._values(state))

    def on_end(self, state: State) -> None:
        """End the bar, whatever ended the fit."""
        self._close()

    def _close(self, values: str = "") -> None:
        if self._bar is not None:
            if values:
                self._bar.set_postfix_str(values)
            self._bar.close()
            self._bar = None


class ConsolePrinter(_Printer):
    """One line for each pass, rewritten while it runs where the standard error stream is a terminal.

    Parameters
    ----------
    validation_label_letter
        Stands for the validation beside the epoch; ``t`` is the training, ``e`` an evaluation, ``p`` a prediction.
    precision
        Digits of the metrics.
    """

    def __init__(self, validation_label_letter: str = "v", precision: int = 4):
        super().__init__(validation_label_letter, precision)
        self._next, self._width = 0.0, 0

    def on_start_training(self, state: State) -> None:
        """Begin the line of a pass."""
        self._next, self._width = 0.0, 0

    def on_step_training(self, state: State) -> None:
        """Rewrite the line, if it is time."""
        if perf_counter() >= self._next and sys.stderr.isatty():
            total = state[STEPS]
            of_all = f"/{total}" if isinstance(total, int) and total >= 0 else ""
            self._show(f"{self._place(state)}: {state[BATCH] + 1}{of_all}  {self._values(state)}")
            self._next = perf_counter() + _LINE_PAUSE

    def on_end_training(self, state: State) -> None:
        """Leave the line as it is at the end of the pass."""
        self._show(f"{self._place(state)}: {self._values(state)}", end="\n")

    def on_start_validation(self, state: State) -> None:
        """Begin the line of a pass."""
        self.on_start_training(state)

    def on_end(self, state: State) -> None:
        """Leave a line that an error has broken off."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0

    def _show(self, text: str, end: str = "") -> None:
        back = "\r" if sys.stderr.isatty() else ""
        sys.stderr.write(back + text.ljust(self._width) + end)  # what was longer before is overwritten
        sys.stderr.flush()
        self._width = len(text) if back and not end else 0


def _epoch_of(state: State) -> str:
    return f"{state[EPOCH] + 1}/{state[MAX_EPOCHS]}"


def _shown(value: Any, precision: int) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(one, precision) for one in value) + "]"
    return f"{value:.{precision}g}" if isinstance(value, float) or not math.isfinite(value) else str(value)


class Panel:
    """One output of a cell, whose content is replaced; a stored notebook has the last."""

    _handle: Any = None

    def put(self, content: object, **how: Any) -> None:
        """Replace the content by what IPython displays."""
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(content, display_id=True, **how)
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
        """Move on by one step; return True if the bar is drawn."""
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
        self._next = perf_counter() + PAUSE
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
