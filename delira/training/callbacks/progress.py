"""Progress: a bar in a terminal or notebook, one line for each epoch elsewhere."""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

from delira.training.callbacks.abstract_callback import AbstractCallback

#: a bar of fixed width, so that the values of the epoch beside it do not squeeze it
_LAYOUT = "{desc} {percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]{postfix}"


def _bar_class() -> Any:
    """The bar that can be drawn here, or ``None``."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ == "ZMQInteractiveShell":
        if importlib.util.find_spec("ipywidgets") is None:
            return None
        return importlib.import_module("tqdm.notebook").tqdm
    if sys.stderr.isatty():
        return functools.partial(importlib.import_module("tqdm").tqdm, bar_format=_LAYOUT, dynamic_ncols=True)
    return None


class ProgressBar(AbstractCallback):
    """Show where the training is.

    A bar over all steps, with the values of the last epoch, where a bar can be drawn; otherwise one
    line for each epoch. Everything goes to the standard error stream.

    Parameters
    ----------
    label
        Shown first, e.g. ``"fold 0"``.
    """

    def __init__(self, label: str = ""):
        self.label = f"{label} · " if label else ""
        self._bar: Any = None

    def at_training_begin(self, trainer: Any, *, num_epochs: int, num_batches: int | None = None, **facts: Any) -> None:
        """Open the bar."""
        done, step = trainer.state.epoch, trainer.state.step_in_epoch
        if done or step:
            inside = f"step {step} of epoch {done + 1}" if step else f"epoch {done}"
            text = f"continues after {inside}" if done < num_epochs else f"has {done} epochs already, of {num_epochs}"
            where = "" if trainer.save_path is None else f" ({trainer.save_path})"
            print(f"{self.label}{text}{where}", file=sys.stderr, flush=True)
        if done < num_epochs and (bar_class := _bar_class()) is not None:
            total = None if num_batches is None else num_batches * num_epochs
            initial = (num_batches or 0) * done + step
            self._bar = bar_class(total=total, initial=initial, unit="step")
            if step:
                self._name_epoch(done + 1, num_epochs)

    def at_epoch_begin(self, trainer: Any, *, curr_epoch: int, num_epochs: int, **facts: Any) -> None:
        """Name the epoch."""
        self._name_epoch(curr_epoch, num_epochs)

    def _name_epoch(self, epoch: int, num_epochs: int) -> None:
        if self._bar is not None:
            self._bar.set_description_str(f"{self.label}epoch {epoch}/{num_epochs}", refresh=False)

    def at_iter_end(self, trainer: Any, **facts: Any) -> None:
        """Move on by one step."""
        if self._bar is not None:
            self._bar.update()

    def at_epoch_end(
        self, trainer: Any, *, metrics: Mapping[str, float], curr_epoch: int, num_epochs: int, **facts: Any
    ) -> None:
        """Show the values of the epoch."""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items() if not name.startswith("lr"))
        if self._bar is not None:
            self._bar.set_postfix_str(shown, refresh=False)
        else:
            width = len(str(num_epochs))
            print(
                f"{self.label}epoch {curr_epoch:{width}d}/{num_epochs}  {shown or 'done'}", file=sys.stderr, flush=True
            )

    def at_training_end(self, trainer: Any, **facts: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
