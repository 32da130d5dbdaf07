"""Progress: a bar in a terminal or notebook, one line for each epoch elsewhere."""

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from delira.callbacks.abstract_callback import AbstractCallback
from delira.callbacks.notebook_view import NotebookBar, PassBar
from delira.errors import ConfigError
from delira.utils.checks import check_texts

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


#: a small bar, so that the values beside it have their place within 80 columns
_LAYOUT = "{desc} |{bar:6}| {elapsed}<{remaining}{postfix}"
#: of a bar of one pass, with the number of its steps
_PASS_LAYOUT = "{desc} {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"
#: seconds between two looks at the values of a step: each waits for the device
PAUSE = 0.25
#: seconds that must be left for the line of an epoch to tell them
_WORTH_TELLING = 10


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
        made = importlib.import_module("tqdm").tqdm
        return functools.partial(made, bar_format=_PASS_LAYOUT, dynamic_ncols=True)
    return None


def check_label(owner: object, label: object) -> None:
    """Refuse a label that is no text; it may be empty."""
    if label != "":
        check_texts(owner, label=label)


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

    def __init__(self, label: str = "", display: Display | None = None):
        check_label(self, label)
        if display is not None and not callable(getattr(display, "show", None)):
            raise ConfigError(f"ProgressBar: display has a method show(progress, at_once=...), got {display!r}")
        self.label = f"{label} · " if label else ""
        self._display = display
        self._bar: Any = None
        self._trainer: Any = None
        self.begin(0, 0, None)

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

    # ------------------------------------------------------------------ moments

    def at_training_begin(
        self, trainer: "BaseNetworkTrainer", *, num_epochs: int, num_batches: int | None = None, **facts: Any
    ) -> None:
        """Open the bar."""
        done, step = trainer.state.epoch, trainer.state.step_in_epoch
        if done or step:
            inside = f"step {step} of epoch {done + 1}" if step else f"epoch {done}"
            text = f"continues after {inside}" if done < num_epochs else f"has {done} epochs already, of {num_epochs}"
            where = "" if trainer.save_path is None else f" ({trainer.save_path})"
            _print(f"{self.label}{text}{where}")
        total = None if num_batches is None else num_batches * num_epochs
        self._trainer = trainer
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

    def at_epoch_begin(self, trainer: "BaseNetworkTrainer", *, curr_epoch: int, num_epochs: int, **facts: Any) -> None:
        """Name the epoch."""
        self.epoch, self.num_epochs = curr_epoch, num_epochs
        self._name_epoch()

    def _name_epoch(self) -> None:
        if self._bar is not None:
            self._bar.set_description_str(f"{self.label}epoch {self.epoch}/{self.num_epochs}", refresh=False)

    def at_iter_end(
        self, trainer: "BaseNetworkTrainer", *, losses: Mapping[str, Any], metrics: Mapping[str, Any], **facts: Any
    ) -> None:
        """Move on by one step."""
        self.steps += 1
        if self._bar is not None:
            self._bar.update()
        if (self._bar is not None or self._display is not None) and perf_counter() >= self._next:
            named = {**losses, **metrics}
            read = trainer.backend.arrays.read_scalars([*named.values()]) if named else ()
            self.values |= dict(zip(named, map(float, read), strict=True))
            self._draw(at_once=False)

    def at_epoch_end(
        self,
        trainer: "BaseNetworkTrainer",
        *,
        metrics: Mapping[str, float],
        curr_epoch: int,
        num_epochs: int,
        **facts: Any,
    ) -> None:
        """Show the values of the epoch."""
        self.values = {name: value for name, value in metrics.items() if not name.startswith("lr")}
        if self._bar is None and self._display is None:
            left = self.seconds_left
            further = f"  eta {clock(left)}" if left is not None and left >= _WORTH_TELLING else ""
            text = f"{self.label}epoch {curr_epoch:{len(str(num_epochs))}d}/{num_epochs}"
            _print(f"{text}  {self.shown_values() or 'done'}{further}")
        else:
            self._draw(at_once=False)  # epochs may be faster than a terminal

    def at_training_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
        elif self._display is not None and self._trainer is not None:
            self._display.show(self, at_once=True)
        self._bar = self._trainer = None

    # ------------------------------------------------------------------ what is shown

    def _draw(self, *, at_once: bool) -> None:
        now = perf_counter()
        self._next = now + PAUSE
        if self.steps > self._seen and now > self._seen_at:
            pace = (self.steps - self._seen) / (now - self._seen_at)
            self.rate = pace if self.rate is None else 0.7 * self.rate + 0.3 * pace
            self._seen, self._seen_at = self.steps, now
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self.shown_pace()}, {self.shown_values()}", refresh=False)
        elif self._display is not None:
            self._display.show(self, at_once=at_once)

    @property
    def seconds_left(self) -> float | None:
        """Until the training ends, at the speed so far; None if nobody knows."""
        done = self.steps - self._first
        if not done or self.total is None:
            return None
        return max(self.total - self.steps, 0) * (perf_counter() - self._began_at) / done

    def shown_line(self) -> str:
        """Return everything in one line of text."""
        left = self.seconds_left
        times = clock(perf_counter() - self._began_at) + ("" if left is None else f"<{clock(left)}")
        parts = (times, self.shown_pace(), self.shown_values())
        return f"{self.label}epoch {self.epoch}/{self.num_epochs} · {' · '.join(part for part in parts if part)}"

    def shown_values(self) -> str:
        """Losses and metrics as text."""
        return "  ".join(f"{name} {value:.4g}" for name, value in self.values.items())

    def shown_pace(self) -> str:
        """Steps per second, and memory of the process and of the device, as text."""
        rate = "" if self.rate is None else f"{self.rate:.{0 if self.rate >= 10 else 2}f}/s, "
        return f"{rate}{shown_memory(self._trainer)}"


def _print(line: str) -> None:
    """Write a line to the standard error stream; a reader that is gone ends no training."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Return a duration as ``1:02`` or ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def shown_memory(trainer: "BaseNetworkTrainer") -> str:
    """Memory of this process, and what the framework holds on an accelerator, as text.

    Parameters
    ----------
    trainer
        Whose device it is; None: that of the process only.
    """
    own = _size(_process().memory_info().rss)
    device = None if trainer is None else trainer.backend.devices.memory(trainer.devices)
    return own if device is None else f"{own} + {_size(device)} GPU"


@functools.cache
def _process() -> Any:
    return importlib.import_module("psutil").Process()


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**20:.0f}M" if n_bytes < 2**30 else f"{n_bytes / 2**30:.1f}G"
