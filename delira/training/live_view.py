"""What a training shows while it runs, unless it is told to be quiet."""

from typing import TYPE_CHECKING, Any

from delira.callbacks.live_plot import LiveLossPlot
from delira.callbacks.progress import ProgressBar, Tqdm, in_notebook

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


def live_view(trainer: "BaseNetworkTrainer", verbose: int, num_epochs: int) -> list[Any]:
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
