"""Numbers of epochs and batches, and the network's graph, for TensorBoard or visdom."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.callbacks.monitor import plain_values
from delira.callbacks.tensorboard_base import AbstractTensorBoard
from delira.callbacks.tensorboard_graph import write_graph
from delira.logging.writers import VisdomParams, write_values
from delira.state import State
from delira.utils.checks import check_flags, check_whole


class TensorBoard(AbstractTensorBoard):
    """Write the metrics of every epoch, and of batches if asked for, as scalars; and the network's graph.

    Lists and dictionaries of values become scalars ``name/0`` or ``name/key``. Scalars of batches are called
    ``batch/…``. See :class:`AbstractTensorBoard` for the folders.

    Parameters
    ----------
    log_dir
        Where the folders go.
    write_graph
        Whether to write the network's graph, as the first batch goes through it (PyTorch, TensorFlow). None: where
        there is one; True also says where there is none.
    write_batch_metrics
        Whether training steps are written, with their loss.
    batch_step_size
        Batches from one that is written to the next; each waits for the values.
    write_epoch_metrics
        Whether epochs are written.
    comment
        Part of the folder's name.
    visdom, visdom_params
        As for :class:`AbstractTensorBoard`.

    Raises
    ------
    ConfigError
        If ``batch_step_size`` is impossible.

    Examples
    --------
    >>> import tempfile, numpy, torch, delira
    >>> net = torch.nn.Linear(3, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     board = TensorBoard(folder, write_graph=False)
    ...     trial = delira.Trial(
    ...         net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.MSELoss(), ["loss"], [board], verbose=0
    ...     )
    ...     x = numpy.zeros((8, 3), "f4")
    ...     _ = trial.with_train_data(x, x[:, :1], 4).run(2)
    ...     [path.name for path in board.log_dir.iterdir()]
    ['Linear_delira']
    """

    phases = ("fit", "replay")

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        log_dir: str | Path = "./logs",
        write_graph: bool | None = None,
        write_batch_metrics: bool = False,
        batch_step_size: int = 10,
        write_epoch_metrics: bool = True,
        comment: str = "delira",
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
    ):
        super().__init__(log_dir, comment, visdom, visdom_params)
        check_whole(self, at_least=1, batch_step_size=batch_step_size)
        check_flags(self, write_batch_metrics=write_batch_metrics, write_epoch_metrics=write_epoch_metrics)
        if write_graph is not None:
            check_flags(self, write_graph=write_graph)
        self.write_graph, self.write_batch_metrics = write_graph, write_batch_metrics
        self.batch_step_size, self.write_epoch_metrics = batch_step_size, write_epoch_metrics
        self._needs_graph = False

    def on_start(self, state: State) -> None:
        """Open the writer."""
        super().on_start(state)
        is_new = state[keys.PHASE] == "fit" and state[keys.EPOCH] == 0
        self._needs_graph = is_new and self.write_graph is not False

    def on_step_training(self, state: State) -> None:
        """Write the graph of the first batch, and the metrics of every so many batches."""
        if self._needs_graph:
            self._needs_graph = False
            write_graph(None if self.visdom else self.get_writer(), state, is_asked_for=self.write_graph is True)
        if self.write_batch_metrics:
            step = self.batch_step(state)
            if state[keys.BATCH] % self.batch_step_size == 0:
                self.write_metrics(self.get_writer("batch"), "batch", batch_values(state), step)

    def on_end_epoch(self, state: State) -> None:
        """Write the metrics of the epoch."""
        if self.write_epoch_metrics:
            self.write_metrics(self.get_writer(), "epoch", epoch_values(state), state[keys.EPOCH] + 1)
        self.flush()

    def write_metrics(self, writer: Any, of: str, values: Mapping[str, Any], step: int) -> None:
        """Write the values of an epoch or a batch, as ``of`` says."""
        for name, value in values.items():
            write_values(writer, name if of == "epoch" else f"batch/{name}", value, step)


def batch_values(state: State) -> dict[str, Any]:
    """Metrics of a training step, with its loss; waits for the device."""
    own = {"loss": state[keys.LOSS]} if state[keys.PHASE] == "fit" and state.get(keys.LOSS) is not None else {}
    return plain_values({**own, **_without_epoch(state[keys.METRICS])})


def epoch_values(state: State) -> dict[str, Any]:
    """Metrics of an epoch; waits for the device."""
    return plain_values(_without_epoch(state[keys.METRICS]))


def _without_epoch(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics without the number of the epoch, which is the place of the others."""
    return {name: value for name, value in metrics.items() if name != "epoch"}
