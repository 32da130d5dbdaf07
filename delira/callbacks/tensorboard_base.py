"""What all callbacks do that write for TensorBoard or visdom: their folder, the writers, and the place in the fit."""

from pathlib import Path
from typing import Any

from delira import state as keys
from delira.callbacks.hooks import Callback
from delira.callbacks.monitor import trainer_of
from delira.errors import ConfigError
from delira.logging.writers import VisdomParams, close_writer, get_writer, since
from delira.state import State
from delira.utils.checks import check_flags, check_paths


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

    def __init__(
        self,
        log_dir: str | Path = "./logs",
        comment: str = "delira",
        visdom: bool = False,
        visdom_params: VisdomParams | None = None,
    ):
        if visdom_params is not None and not isinstance(visdom_params, VisdomParams):
            raise ConfigError(f"{type(self).__name__}: visdom_params are VisdomParams(...), got {visdom_params!r}")
        check_paths(self, log_dir=log_dir)
        check_flags(self, visdom=visdom)
        if not isinstance(comment, str):
            raise ConfigError(f"{type(self).__name__}: comment is a text, got {comment!r}")
        self.log_dir, self.comment = Path(log_dir).absolute(), comment
        self.visdom, self.visdom_params = visdom, visdom_params
        self._folder = self.log_dir
        self._place: dict[str, dict[str, Any]] = {}
        self._used: set[Path] = set()
        self._replayed = 0

    def on_start(self, state: State) -> None:
        """Find out where the fit is, and open the writer."""
        self._folder, self._replayed = self.folder(state), 0
        if state[keys.PHASE] == "replay":  # everything is written anew
            self._place = {name: {**since(0, 0, ".replay"), "purge_step": 0} for name in ("", "batch")}
        else:  # what came after the place where the fit begins is hidden
            done = trainer_of(state).state
            epoch, step = done.epoch, done.global_step
            self._place = {"": since(epoch, step), "batch": since(step, epoch)}
        if state[keys.EPOCH] < state[keys.MAX_EPOCHS]:
            self.get_writer()

    def on_end(self, state: State) -> None:
        """Close the writers that nobody else uses."""
        for folder in self._used:
            close_writer(folder, self, self.visdom)
        self._used.clear()

    def folder(self, state: State) -> Path:
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

    def batch_step(self, state: State) -> int:
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
