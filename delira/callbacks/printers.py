"""Where a fit is, and its metrics: bars and lines for trials and experiments, on the standard error stream."""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import plain_values, trainer_of
from delira.callbacks.progress import _bar_class, check_label
from delira.errors import ConfigError
from delira.state import State
from delira.utils.checks import check_flags, check_functions, check_whole

#: seconds between two looks at the metrics: each waits for the device
_PAUSE = 0.1


class _Printer(Callback):
    """What all printers know of the state."""

    def __init__(self, validation_label_letter: str, precision: int, label: str = ""):
        if not isinstance(validation_label_letter, str):
            raise ConfigError(
                f"{type(self).__name__}: validation_label_letter is a text, got {validation_label_letter!r}"
            )
        check_whole(self, at_least=0, precision=precision)
        check_label(self, label)
        self.validation_label_letter, self.precision = validation_label_letter, precision
        self.label = f"{label} · " if label else ""

    def _place(self, state: State) -> str:
        """Epoch, and letter of the pass: ``2/10(t)``."""
        letter = "t"
        if state[keys.DATA] != keys.TRAIN_DATA or state[keys.PHASE] in ("evaluate", "predict"):
            letter = {"evaluate": "e", "predict": "p"}.get(state[keys.PHASE], self.validation_label_letter)
        return f"{self.label}{_epoch_of(state)}({letter})"

    def _values(self, state: State, between: str = ", ") -> str:
        if state[keys.PHASE] == "predict":  # there is nothing to compare with
            return ""
        values = plain_values(state[keys.METRICS])
        return between.join(
            f"{name}={_text(value, self.precision)}" for name, value in values.items() if name != "epoch"
        )

    def _print_epoch(self, state: State) -> None:
        """One line for an epoch, or an evaluation."""
        values = self._values(state, "  ")
        if values or state[keys.PHASE] == "fit":
            name = "evaluation" if state[keys.PHASE] == "evaluate" else f"epoch {_epoch_of(state)}"
            sys.stderr.write(f"{self.label}{name}  {values or 'done'}\n")
            sys.stderr.flush()


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
        if tqdm_module is not None:
            check_functions(self, tqdm_module=tqdm_module)
        self.tqdm_module, self.on_epoch, self.tqdm_args = tqdm_module, on_epoch, tqdm_args
        self._bar: Any = None
        self._draws = False

    def on_start(self, state: State) -> None:
        """Find out what can be drawn; begin the bar over the epochs."""
        self._maker = self.tqdm_module or _bar_class()
        self._draws = self._maker is not None
        if self.on_epoch and state[keys.PHASE] != "predict":
            self._open("", state[keys.MAX_EPOCHS], state[keys.EPOCH])

    def on_start_training(self, state: State) -> None:
        """Begin the bar of a pass."""
        if not self.on_epoch:
            # a fit that is continued inside an epoch has done steps already
            done = trainer_of(state).state.step_in_epoch if state[keys.PHASE] == "fit" else 0
            self._open(self._place(state), state[keys.STEPS], done)

    def on_start_validation(self, state: State) -> None:
        """Begin the bar of a pass."""
        if not self.on_epoch:
            self._open(self._place(state), state[keys.STEPS], 0)

    def _open(self, name: str, total: Any, done: int) -> None:
        if self._draws:
            known = total if isinstance(total, int) and total >= 0 else None
            self._bar = self._maker(total=known, initial=done, desc=name, **self.tqdm_args)

    def on_step_training(self, state: State) -> None:
        """Move the bar on by a step."""
        if self._bar is not None and not self.on_epoch and self._bar.update():
            # the bar was drawn just now: the values are those of the next time
            self._bar.set_postfix_str(self._values(state), refresh=False)

    def on_step_validation(self, state: State) -> None:
        """Move the bar on by a step."""
        self.on_step_training(state)

    def on_end_training(self, state: State) -> None:
        """End the bar of the pass."""
        if not self.on_epoch:
            self._close(self._values(state))

    def on_end_validation(self, state: State) -> None:
        """End the bar of the pass."""
        self.on_end_training(state)

    def on_end_epoch(self, state: State) -> None:
        """Move the bar over the epochs on, or print the epoch's line."""
        if not self._draws:
            self._print_epoch(state)
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

    def on_start_validation(self, state: State) -> None:
        """Begin the line of a pass."""
        self.on_start_training(state)

    def on_step_training(self, state: State) -> None:
        """Rewrite the line, if it is time."""
        if time.monotonic() >= self._next and sys.stderr.isatty():
            total = state[keys.STEPS]
            of_all = f"/{total}" if isinstance(total, int) and total >= 0 else ""
            self._show(f"{self._place(state)}: {state[keys.BATCH] + 1}{of_all}  {self._values(state)}")
            self._next = time.monotonic() + _PAUSE

    def on_step_validation(self, state: State) -> None:
        """Rewrite the line, if it is time."""
        self.on_step_training(state)

    def on_end_training(self, state: State) -> None:
        """Leave the line as it is at the end of the pass."""
        self._show(f"{self._place(state)}: {self._values(state)}")
        sys.stderr.write("\n")
        sys.stderr.flush()
        self._width = 0

    def on_end_validation(self, state: State) -> None:
        """Leave the line as it is at the end of the pass."""
        self.on_end_training(state)

    def on_end(self, state: State) -> None:
        """Leave a line that an error has broken off."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0

    def _show(self, text: str) -> None:
        back = "\r" if sys.stderr.isatty() else ""
        sys.stderr.write(back + text.ljust(self._width))  # what was longer before is overwritten
        sys.stderr.flush()
        self._width = len(text) if back else 0


def _epoch_of(state: State) -> str:
    total = state[keys.MAX_EPOCHS]
    return f"{state[keys.EPOCH] + 1}/{total}"


def _text(value: Any, precision: int) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(one, precision) for one in value) + "]"
    return f"{value:.{precision}g}" if isinstance(value, float) or not math.isfinite(value) else str(value)
