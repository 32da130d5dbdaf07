"""What is written for TensorBoard or visdom: the base of callbacks, numbers as scalars and as tables, and the graph."""

import contextlib
import dataclasses
import functools
import html
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from delira import state as keys
from delira.callbacks.abstract_callback import AbstractCallback, Callback, Trainer, trainer_of
from delira.callbacks.monitor import plain_values
from delira.errors import check_flags, check_paths, check_that, check_whole, if_given
from delira.logging.writers import VisdomParams, close_writer, get_writer, open_events, since, write_values
from delira.utils import arrays, files


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

    only_first = True

    def __init__(self, folder: str | Path, **kwargs: Any):
        self.folder, self.kwargs = files.as_path(folder, "folder"), kwargs
        self._writer: Any = None

    def at_training_begin(self, trainer: Trainer, *, num_epochs: int, **facts: Any) -> None:
        """Open the file; a resumed run hides what came after its checkpoint."""
        if trainer.state.epoch < num_epochs:
            place = since(trainer.state.epoch, trainer.state.global_step)
            self._writer = open_events(self.folder, **{**place, **self.kwargs})

    def at_epoch_end(self, trainer: Trainer, *, metrics: Mapping[str, float], curr_epoch: int, **facts: Any) -> None:
        """Write the epoch."""
        if self._writer is not None:
            for name, value in metrics.items():
                write_values(self._writer, name, value, curr_epoch)
            self._writer.flush()

    def at_training_end(self, trainer: Trainer, **facts: Any) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class AbstractTensorBoard(Callback):
    """Base of callbacks that write for TensorBoard, or for visdom.

    Those of one folder share the writers. What belongs to an epoch goes to the folder ``<log_dir>/<network>_<comment>``
    (``…_fold_1`` and so on for the further folds of an experiment), its step is the number of the epoch, from 1. What
    belongs to a batch goes to the folder ``batch`` inside, its step is the number of updates. A fit that is continued
    hides what was written after its checkpoint; evaluations and predictions write nothing.

    Parameters
    ----------
    log_dir
        Where the folders go.
    comment
        Part of their names.
    visdom
        Whether to write to a server of visdom instead, into an environment of the folder's name.
    visdom_params
        Where the server is; None: the defaults of :class:`VisdomParams`.

    Raises
    ------
    ConfigError
        If ``visdom_params`` are none; at the start of a fit, if no server of visdom answers.
    MissingBackendError
        At the start of a fit, if tensorboardX, or visdom, is not installed.

    Examples
    --------
    >>> from delira.state import EPOCH, MODEL
    >>> class CountWeights(AbstractTensorBoard):
    ...     def on_end_epoch(self, state):
    ...         total = sum(weight.numel() for weight in state[MODEL].parameters())
    ...         self.get_writer().add_scalar("weights", total, state[EPOCH] + 1)
    """

    phases: tuple[str, ...] = ("fit",)
    only_first = True

    def __init__(
        self,
        log_dir: str | Path = "./logs",
        comment: str = "delira",
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
    ):
        is_visdom = visdom_params is None or isinstance(visdom_params, VisdomParams)
        check_that(is_visdom, self, "visdom_params are VisdomParams(...)", visdom_params)
        check_paths(self, log_dir=log_dir)
        check_flags(self, visdom=visdom)
        check_that(isinstance(comment, str), self, "comment is a text", comment)
        self.log_dir, self.comment = Path(log_dir).absolute(), comment
        self.visdom, self.visdom_params = visdom, visdom_params
        self._folder = self.log_dir
        self._place: dict[str, dict[str, Any]] = {}
        self._used: set[Path] = set()
        self._replayed = 0

    def on_start(self, state: keys.State) -> None:
        """Find out where the fit is, and open the writer."""
        self._folder, self._replayed = self.folder(state), 0
        if state[keys.PHASE] == "replay":  # everything is written anew
            self._place = {name: {**since(0, 0, ".replay"), "purge_step": 0} for name in ("", "batch")}
        else:  # what came after the place where the fit begins is hidden
            done = trainer_of(state).state
            self._place = {"": since(done.epoch, done.global_step), "batch": since(done.global_step, done.epoch)}
        if state[keys.EPOCH] < state[keys.MAX_EPOCHS]:
            self.get_writer()

    def on_end(self, state: keys.State) -> None:
        """Close the writers that nobody else uses."""
        for folder in self._used:
            close_writer(folder, self, self.visdom)
        self._used.clear()

    def folder(self, state: keys.State) -> Path:
        """Return where a fit writes."""
        model, fold = state[keys.MODEL], getattr(trainer_of(state), "fold", 0)
        name = "_".join(filter(None, [type(model).__name__ if model is not None else "", self.comment]))
        return self.log_dir / (f"{name}_fold_{fold}" if fold else name)

    def get_writer(self, name: str = "") -> Any:
        """Return the writer of the folder.

        Parameters
        ----------
        name
            ``"batch"`` for what belongs to a batch.

        Returns
        -------
        tensorboardX.SummaryWriter or VisdomWriter
            Open until the end of the fit.
        """
        # one environment: its windows have names of their own
        folder = self._folder if self.visdom else self._folder / name
        self._used.add(folder)
        return get_writer(folder, self, self.visdom, self.visdom_params, **self._place.get(name, {}))

    def batch_step(self, state: keys.State) -> int:
        """Number of the update that was just made, from 1; to be asked for at every one.

        Parameters
        ----------
        state
            Of the end of a training step.
        """
        if state[keys.PHASE] != "replay":
            return int(trainer_of(state).state.global_step)
        self._replayed += 1  # no trainer counts
        return self._replayed

    def flush(self) -> None:
        """Let readers see what was written."""
        for folder in self._used:
            get_writer(folder, self, self.visdom).flush()


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
        flags = {"write_batch_metrics": write_batch_metrics, "write_epoch_metrics": write_epoch_metrics}
        check_flags(self, **flags, **if_given(write_graph=write_graph))
        self.write_graph, self.write_batch_metrics = write_graph, write_batch_metrics
        self.batch_step_size, self.write_epoch_metrics = batch_step_size, write_epoch_metrics
        self._needs_graph = False

    def on_start(self, state: keys.State) -> None:
        """Open the writer."""
        super().on_start(state)
        self._needs_graph = state[keys.PHASE] == "fit" and state[keys.EPOCH] == 0 and self.write_graph is not False

    def on_step_training(self, state: keys.State) -> None:
        """Write the graph of the first batch, and the metrics of every so many batches."""
        if self._needs_graph:
            self._needs_graph = False
            write_graph(None if self.visdom else self.get_writer(), state, is_asked_for=self.write_graph is True)
        if self.write_batch_metrics:
            step = self.batch_step(state)
            if state[keys.BATCH] % self.batch_step_size == 0:
                self.write_metrics(self.get_writer("batch"), "batch", values_of(state, of_batch=True), step)

    def on_end_epoch(self, state: keys.State) -> None:
        """Write the metrics of the epoch."""
        if self.write_epoch_metrics:
            self.write_metrics(self.get_writer(), "epoch", values_of(state), state[keys.EPOCH] + 1)
        self.flush()

    def write_metrics(self, writer: Any, of: str, values: Mapping[str, Any], step: int) -> None:
        """Write the values of an epoch or a batch, as ``of`` says."""
        for name, value in values.items():
            write_values(writer, name if of == "epoch" else f"batch/{name}", value, step)


def values_of(state: keys.State, *, of_batch: bool = False) -> dict[str, Any]:
    """Metrics of an epoch, or of a training step with its loss; waits for the device."""
    has_loss = of_batch and state[keys.PHASE] == "fit" and state.get(keys.LOSS) is not None
    values = {**({"loss": state[keys.LOSS]} if has_loss else {}), **state[keys.METRICS]}
    values.pop("epoch", None)  # the place of the others
    return plain_values(values)


_log = logging.getLogger("delira")


def write_graph(writer: object, state: keys.State, is_asked_for: bool) -> None:
    """Write the graph of the network for the input of the state; where that cannot be, say why in one warning.

    Parameters
    ----------
    writer
        A ``tensorboardX.SummaryWriter``; None where graphs cannot be written.
    state
        Of the end of a training step; it stays as it is, and so do generators of random numbers.
    is_asked_for
        Whether to say so where the framework has no graph.
    """
    trainer = trainer_of(state)
    write = trainer.backend.write_graph
    if writer is None or write is None:
        if is_asked_for:
            why = "visdom shows none" if writer is None else f"the backend {trainer.backend.name!r} has none"
            _log.warning("no graph of the network was written: %s", why)
        return
    if trainer.run.config.shard and trainer.run.ranks.group is not None:
        _log.warning("no graph of the network was written: its weights are spread over processes (shard=True)")
        return
    leaves = [leaf for _, leaf in arrays.iterate_leaves(state[keys.X]) if leaf is not None]
    try:
        with _untouched(trainer, state):
            write(writer, trainer.module, functools.partial(_call, trainer, state), leaves)
    except Exception as error:  # a picture is no reason to end a training
        text = str(error).strip().split("\n", 1)[0]
        _log.warning("no graph of the network was written: %s: %s", type(error).__name__, text)


def _call(trainer: Trainer, state: keys.State, leaves: Sequence[Any]) -> list[Any]:
    """Outputs of the network for arrays in the place of those of the input."""
    given = iter(leaves)
    x = arrays.map_leaves(lambda leaf: leaf if leaf is None else next(given), state[keys.X])
    outputs = [leaf for _, leaf in arrays.iterate_leaves(dict(trainer.forward(trainer.objective.batch_of(x))))]
    return [leaf for leaf in outputs if hasattr(leaf, "shape")]


@contextlib.contextmanager
def _untouched(trainer: Trainer, state: keys.State) -> Iterator[None]:
    """Scope in which the network predicts; the state and the generators of random numbers are as before after it."""
    before, generators, run = dict(state), trainer.backend.generators.state(), trainer.run
    ranks, run.ranks = run.ranks, dataclasses.replace(run.ranks, group=None)  # other processes take no part in it
    try:
        with trainer.backend.calls.evaluating(trainer.module):
            yield
    finally:
        run.ranks = ranks
        state.clear()
        state.update(before)
        trainer.backend.generators.set_state(generators)


_SUMMARY = (keys.MODEL, keys.OPTIMIZER, keys.CRITERION, keys.METRIC_LIST, keys.CALLBACK_LIST)


class TensorBoardText(TensorBoard):
    """Write the metrics of epochs, and of batches if asked for, as tables, and once what the fit consists of.

    Parameters
    ----------
    log_dir
        Where the folders go, see :class:`AbstractTensorBoard`.
    write_epoch_metrics
        Whether epochs are written, as ``epoch``.
    write_batch_metrics
        Whether training steps are written, as ``batch``.
    log_trial_summary
        Whether network, optimizer, criterion, metrics and callbacks are written, as ``trial``, where a fit begins.
    batch_step_size
        Batches from one that is written to the next; each waits for the values.
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
    >>> TensorBoardText("logs", write_batch_metrics=True, batch_step_size=50).batch_step_size
    50
    """

    def __init__(  # noqa: PLR0913 - the historic signature
        self,
        log_dir: str | Path = "./logs",
        write_epoch_metrics: bool = True,
        write_batch_metrics: bool = False,
        log_trial_summary: bool = True,
        batch_step_size: int = 100,
        comment: str = "delira",
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
    ):
        super().__init__(
            log_dir, False, write_batch_metrics, batch_step_size, write_epoch_metrics, comment, visdom, visdom_params
        )
        check_flags(self, log_trial_summary=log_trial_summary)
        self.log_trial_summary = log_trial_summary

    def on_start(self, state: keys.State) -> None:
        """Open the writer, and write the summary."""
        super().on_start(state)
        if self.log_trial_summary and state[keys.EPOCH] == 0 < state[keys.MAX_EPOCHS]:
            there = {str(key): _text(state[key]) for key in _SUMMARY if key in state}
            self.get_writer().add_text("trial", table(there), 0)

    def write_metrics(self, writer: Any, of: str, values: Mapping[str, Any], step: int) -> None:
        """Write a table of the values of an epoch or a batch, as ``of`` says."""
        writer.add_text(of, table(values), step)


def table(values: Mapping[str, Any]) -> str:
    """Return a table of HTML: a row for each value.

    Parameters
    ----------
    values
        By name; numbers, or texts, which may have several lines.
    """
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in values.items())
    return f"<table>{rows}</table>"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    # a reader of Markdown takes an empty line for the end of the table, and leading spaces for code
    lines = [html.escape(line).replace("  ", "&nbsp;&nbsp;") for line in str(value).splitlines() if line.strip()]
    return "<br/>".join(lines)


def _text(value: object) -> str:
    """Return a line for each of several, such as callbacks."""
    return "\n".join(map(str, value)) if hasattr(value, "__iter__") and not callable(value) else str(value)
