"""TensorBoard event files, written by tensorboardX."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.training.callbacks.abstract_callback import AbstractCallback


class TensorBoardWriter(AbstractCallback):
    """Write the values of every epoch as scalars, flushed at the epoch's end.

    Parameters
    ----------
    folder
        Where the event files go.
    **kwargs
        Handed to ``tensorboardX.SummaryWriter``.

    Raises
    ------
    ModuleNotFoundError
        At the start of the training, if tensorboardX is not installed.
    """

    def __init__(self, folder: str | Path, **kwargs: Any):
        self.folder, self.kwargs = Path(folder), kwargs
        self._writer: Any = None

    def at_training_begin(self, trainer: Any, *, num_epochs: int, **facts: Any) -> None:
        """Open the file; a resumed run hides what came after its checkpoint."""
        if trainer.state.epoch >= num_epochs:
            return
        from tensorboardX import SummaryWriter

        epoch = trainer.state.epoch
        purge = {"purge_step": epoch + 1} if epoch else {}
        # files are named by the second: a restart within it would write over the file before
        suffix = {"filename_suffix": f".{epoch:06d}"}
        self._writer = SummaryWriter(str(self.folder), **{**purge, **suffix, **self.kwargs})

    def at_epoch_end(self, trainer: Any, *, metrics: Mapping[str, float], curr_epoch: int, **facts: Any) -> None:
        """Write the epoch."""
        if self._writer is not None:
            for name, value in metrics.items():
                if not math.isfinite(value):  # tensorboardX complains of it without a name; the history has it
                    continue
                self._writer.add_scalar(name, value, curr_epoch)
            self._writer.flush()

    def at_training_end(self, trainer: Any, **facts: Any) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
