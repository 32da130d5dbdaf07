"""Numbers of epochs and batches, and the network's graph, for TensorBoard or visdom."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.errors import ConfigError
from delira.state import State
from delira.training.callbacks.tensorboard_base import AbstractTensorBoard, batch_step
from delira.training.callbacks.tensorboard_graph import write_graph
from delira.training.callbacks.tensorboard_writers import VisdomParams, write_values
from delira.utils.arrays import read_arrays, to_plain
from delira.utils.lazy_value import Lazy
from delira.utils.trees import iterate_leaves, map_leaves


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
        self.batch_step_size = check_step_size(self, batch_step_size)
        self.write_graph, self.write_batch_metrics = write_graph, write_batch_metrics
        self.write_epoch_metrics = write_epoch_metrics
        self._needs_graph, self._replayed = False, 0

    def on_start(self, state: State) -> None:
        """Open the writer."""
        super().on_start(state)
        is_new = state[keys.PHASE] == "fit" and state[keys.EPOCH] == 0
        self._needs_graph, self._replayed = is_new and self.write_graph is not False, 0

    def on_step_training(self, state: State) -> None:
        """Write the graph of the first batch, and the metrics of every so many batches."""
        self._replayed += 1
        if self._needs_graph:
            self._needs_graph = False
            write_graph(None if self.visdom else self.get_writer(), state, is_asked_for=self.write_graph is True)
        if self.write_batch_metrics and state[keys.BATCH] % self.batch_step_size == 0:
            writer, step = self.get_writer("batch"), batch_step(state, self._replayed)
            for name, value in batch_values(state).items():
                write_values(writer, f"batch/{name}", value, step)

    def on_end_epoch(self, state: State) -> None:
        """Write the metrics of the epoch."""
        if self.write_epoch_metrics:
            for name, value in plain_values(state[keys.METRICS]).items():
                write_values(self.get_writer(), name, value, state[keys.EPOCH] + 1)
        self.flush()


def check_step_size(owner: Any, step_size: int) -> int:
    """Batches from one to the next.

    Raises
    ------
    ConfigError
        If it is no whole number of at least 1.
    """
    if isinstance(step_size, bool) or not isinstance(step_size, int) or step_size < 1:
        raise ConfigError(f"{type(owner).__name__}: batch_step_size is a whole number of at least 1, got {step_size!r}")
    return step_size


def batch_values(state: State) -> dict[str, Any]:
    """Metrics of a training step, with its loss; waits for the device."""
    own = {"loss": state[keys.LOSS]} if state[keys.PHASE] == "fit" and state.get(keys.LOSS) is not None else {}
    return plain_values({**own, **state[keys.METRICS]})


def plain_values(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as numbers of Python, lists and dictionaries; waits for the device, once."""
    metrics = {name: value for name, value in metrics.items() if name != "epoch"}
    arrays = iter(read_arrays([leaf for _, leaf in iterate_leaves(metrics) if hasattr(leaf, "dtype")]))

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, Lazy):
            return leaf.item()
        return to_plain(next(arrays)) if hasattr(leaf, "dtype") else leaf

    values: dict[str, Any] = map_leaves(plain, metrics)
    return values
