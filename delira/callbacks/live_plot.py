"""The curves of a fit in a notebook, drawn anew as it goes on."""

import math
import sys
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any

from delira.callbacks.abstract_callback import Callback, Trainer, trainer_of
from delira.callbacks.progress import Panel, ProgressBar, Tqdm, in_notebook
from delira.callbacks.tensorboard import values_of
from delira.errors import ConfigError, check_flags, check_whole
from delira.state import BATCH, EPOCH, HISTORY, PHASE, State
from delira.utils.pictures import Figure, picture_class

#: places and values
Curve = tuple[list[int], list[float]]
#: between two drawings pass at least so many times the seconds that one takes
_PAUSES = 10
#: entries of a record of the history that are no metrics
_COUNTS = ("epoch", "train_steps", "validation_steps")
_COLUMNS = 3


class LiveLossPlot(Callback):
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

    def __init__(
        self, on_batch: bool = False, batch_step_size: int = 10, on_epoch: bool = True, draw_once: bool = False
    ):
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
        rows = max(1, math.ceil(len(groups) / _COLUMNS))
        figure = picture_class()(figsize=(4.5 * min(len(groups) or 1, _COLUMNS), 3 * rows), layout="constrained")
        if self._title is not None:
            figure.suptitle(self._title)
        for number, (title, unit, curves) in enumerate(groups, 1):
            axes = figure.add_subplot(rows, min(len(groups), _COLUMNS), number)
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
            self._updates = trainer_of(state).state.global_step
            for epoch, record in enumerate(state.get(HISTORY, ()) if self.on_epoch else (), 1):
                self._take(self._epochs, _of_epoch(record), epoch)

    def on_step_training(self, state: State) -> None:
        """Take the values of every so many batches."""
        self._updates += 1
        if self.on_batch and state[BATCH] % self.batch_step_size == 0:
            self._take(self._batches, values_of(state, of_batch=True), self._updates)
            self._draw_if_due()

    def on_end_epoch(self, state: State) -> None:
        """Take the values of the epoch."""
        if self.on_epoch:
            self._take(self._epochs, _of_epoch(values_of(state)), state[EPOCH] + 1)
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
        if not self.draw_once and time.monotonic() >= self._next:
            begin = time.monotonic()
            self._draw()
            end = time.monotonic()
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


def live_view(trainer: Trainer, verbose: int, num_epochs: int) -> list[Any]:
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
