"""TensorBoard event files of an experiment, written by tensorboardX."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.callbacks.abstract_callback import AbstractCallback
from delira.logging.writers import EventFiles, since, write_values
from delira.utils.files import as_path

if TYPE_CHECKING:
    from delira.training.trainer import BaseNetworkTrainer


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
    ConfigError
        If ``folder`` is no path; at the start of the training, if the writer takes no such argument.
    MissingBackendError
        At the start of the training, if tensorboardX is not installed.
    """

    def __init__(self, folder: str | Path, **kwargs: Any):
        self.folder, self.kwargs = as_path(folder, "folder"), kwargs
        self._files: EventFiles | None = None

    def at_training_begin(self, trainer: "BaseNetworkTrainer", *, num_epochs: int, **facts: Any) -> None:
        """Open the file; a resumed run hides what came after its checkpoint."""
        if trainer.state.epoch >= num_epochs:
            return
        self._files = EventFiles(self.folder, **self.kwargs)
        self._files.continue_at({"": since(trainer.state.epoch, trainer.state.global_step)})
        self._files.writer()  # says what is missing

    def at_epoch_end(
        self, trainer: "BaseNetworkTrainer", *, metrics: Mapping[str, float], curr_epoch: int, **facts: Any
    ) -> None:
        """Write the epoch."""
        if self._files is not None:
            for name, value in metrics.items():
                write_values(self._files.writer(), name, value, curr_epoch)
            self._files.flush()

    def at_training_end(self, trainer: "BaseNetworkTrainer", **facts: Any) -> None:
        """Close the file."""
        if self._files is not None:
            self._files.close()
            self._files = None
