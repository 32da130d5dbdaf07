"""Checkpoints by callbacks: the newest, the best, or one in every so many epochs, under names of the user's choice."""

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delira.callbacks.abstract_callback import Callback, Trainer, is_first, trainer_of
from delira.callbacks.monitor import check_watched, path_of, refuse_unknown, sign_of, watched_value
from delira.errors import check_flags, check_numbers, check_paths, check_whole, import_optional
from delira.state import SELF, State
from delira.utils.files import publish

#: works without validation; the ending of the framework's checkpoints is added
DEFAULT_PATH = "model.{epoch:02d}"


class _Checkpointer(Callback):
    """What all checkpointers do: name a file, write it, delete one that they wrote before.

    A file that this process did not write is never deleted: the fit may have been continued from it.
    """

    phases = ("fit",)

    def __init__(self, filepath: str | Path = DEFAULT_PATH, save_model_params_only: bool = False):
        check_paths(self, filepath=filepath)
        check_flags(self, save_model_params_only=save_model_params_only)
        self.filepath, self.save_model_params_only = str(filepath), save_model_params_only
        #: the newest file
        self.newest: Path | None = None

    def _write(self, state: State) -> Path:
        path, trainer = path_of(self.filepath, state, type(self).__name__), trainer_of(state)
        if not path.suffix[1:].isalpha():  # a number with a point in it is no ending
            backend, alone = trainer.backend, self.save_model_params_only
            is_plain = not alone or backend.checkpoints.writes_plain_weights
            path = path.with_name(path.name + (backend.checkpoint_suffix if is_plain else ".safetensors"))
        if self.save_model_params_only:
            return _write_weights(trainer, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(trainer.save_state(path))

    def _replace(self, state: State) -> None:
        """Write a file, and delete the one before."""
        before, self.newest = self.newest, self._write(state)
        if before is not None and before != self.newest and is_first(state):
            trainer = trainer_of(state)
            stem = before.name.removesuffix(trainer.backend.checkpoint_suffix)
            for name in (before.name, *(stem + ending for ending in trainer.checkpoints.beside)):
                before.with_name(name).unlink(missing_ok=True)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Count on; what was written before stays."""
        super().load_state_dict(state)
        self.newest = None


def _write_weights(trainer: Trainer, path: Path) -> Path:
    """Return the weights alone, as other programs read them; those that are validated, if weights are averaged."""
    backend = trainer.backend
    if not trainer.run.ranks.is_first:
        return path
    with trainer.averages.in_use():
        if backend.checkpoints.writes_plain_weights:
            weights = backend.checkpoints.state_tree(trainer.module, {})["model"]
            return publish(path, functools.partial(backend.checkpoints.write, tree=weights))
        safetensors = import_optional("safetensors.numpy", "save_model_params_only", "delira[export]")
        content = safetensors.save(backend.weights.named(trainer.module))
    return publish(path, lambda file: file.write(content))


class MostRecent(_Checkpointer):
    """After each epoch write a checkpoint, and delete the one before.

    A trial continues from the file by :meth:`delira.Trial.load`, a trainer by ``resume_from=``.

    Parameters
    ----------
    filepath
        Name of the files: a format over the entries of the state and the metrics of the epoch, e.g.
        ``"model.{epoch:02d}-{val_loss:.2f}"``; ``{epoch}`` counts from 0. The ending of the framework's checkpoints
        is added if it has none, and ``_fold_1`` and so on for the further folds of an experiment if there is no
        ``{fold}``.
    save_model_params_only
        Write only the weights, for programs without delira: of PyTorch by ``torch.save``, else as ``.safetensors``.

    Raises
    ------
    ConfigError
        When the first file is written, if its name has a field that is not there.
    """

    def on_checkpoint(self, state: State) -> None:
        """Write the checkpoint."""
        self._replace(state)


class Best(_Checkpointer):
    """Keep a checkpoint of the best epoch so far.

    Parameters
    ----------
    filepath, save_model_params_only
        As for :class:`MostRecent`.
    monitor
        Value of the epoch that is watched; ``val_`` may be left out.
    mode
        ``"min"``, ``"max"``, or ``"auto"``: as for :class:`EarlyStopping`.
    period
        Epochs that pass at least from one file to the next.
    min_delta
        An improvement is a change by more than this.

    Raises
    ------
    ConfigError
        If an argument is impossible; when the first file is written, if its name has a field that is not there.
    MissingKeyError
        When the first epoch ends without the watched value.
    """

    _kept = ("best", "epochs_since")

    def __init__(
        self,
        filepath: str | Path = DEFAULT_PATH,
        save_model_params_only: bool = False,
        monitor: str = "val_loss",
        mode: str = "auto",
        period: int = 1,
        min_delta: float = 0.0,
    ):
        super().__init__(filepath, save_model_params_only)
        check_numbers(self, at_least=0, min_delta=min_delta)
        check_whole(self, at_least=1, period=period)
        check_watched(mode, monitor, type(self).__name__)
        self.monitor, self.mode, self.period, self.min_delta = monitor, mode, period, min_delta
        self.best: float | None = None
        self.epochs_since = 0

    def on_start(self, state: State) -> None:
        """Refuse a metric of which nobody knows which values are good."""
        refuse_unknown(state, self.mode, self.monitor, type(self).__name__)

    def on_checkpoint(self, state: State) -> None:
        """Write, if the epoch is the best."""
        self.epochs_since += 1
        value = watched_value(state, self.monitor, type(self).__name__)
        if value is not None and self.epochs_since >= self.period:
            sign = sign_of(self.mode, self.monitor, type(self).__name__, state[SELF])
            best = math.inf if self.best is None else sign * self.best
            if sign * value < best - self.min_delta:
                self.best, self.epochs_since = value, 0  # first: the file has them inside
                self._replace(state)


class Interval(_Checkpointer):
    """Write a checkpoint every ``period`` epochs, or batches, and keep them all.

    Parameters
    ----------
    filepath, save_model_params_only
        As for :class:`MostRecent`; with ``on_batch`` ``{t}`` is the number of the batch.
    period
        Epochs, or batches, from one file to the next.
    on_batch
        Whether batches are counted.

    Raises
    ------
    ConfigError
        If ``period`` is impossible; when the first file is written, if its name has a field that is not there.
    """

    _kept = ("count",)

    def __init__(
        self,
        filepath: str | Path = DEFAULT_PATH,
        save_model_params_only: bool = False,
        period: int = 1,
        on_batch: bool = False,
    ):
        super().__init__(filepath, save_model_params_only)
        check_whole(self, at_least=1, period=period)
        check_flags(self, on_batch=on_batch)
        self.period, self.on_batch = period, on_batch
        self.count = 0

    def on_checkpoint(self, state: State) -> None:
        """Count an epoch."""
        if not self.on_batch:
            self._count(state)

    def on_step_training(self, state: State) -> None:
        """Count a batch."""
        if self.on_batch:
            self._count(state)

    def _count(self, state: State) -> None:
        self.count += 1
        if self.count % self.period == 0:
            self.newest = self._write(state)


def ModelCheckpoint(
    filepath: str | Path = DEFAULT_PATH,
    save_model_params_only: bool = False,
    monitor: str = "val_loss",
    save_best_only: bool = False,
    mode: str = "auto",
    period: int = 1,
    min_delta: float = 0.0,
) -> Best | Interval:
    """Return a :class:`Best` if only the best is kept, else an :class:`Interval`.

    Parameters
    ----------
    filepath, save_model_params_only, monitor, mode, period, min_delta
        As there.
    save_best_only
        Which of the two.
    """
    check_flags("ModelCheckpoint", save_best_only=save_best_only)
    best = Best(filepath, save_model_params_only, monitor, mode, period, min_delta)
    return best if save_best_only else Interval(filepath, save_model_params_only, period)
