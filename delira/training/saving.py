"""The files of a training: when checkpoints are written, by whom, which of them stay, and what a failure means."""

import contextlib
import functools
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from delira.callbacks.history import HistoryWriter
from delira.errors import CheckpointError, ConfigError
from delira.io.checkpoint import CheckpointFolder
from delira.runs.results import GuardLog
from delira.settings.parts import SavingConfig
from delira.training import checks
from delira.training.phase_times import PhaseTimes
from delira.training.run import Run, TrainingState
from delira.utils.files import refuse_moved, writable_folder
from delira.utils.lock import locked

_log = logging.getLogger("delira")

Tree = Mapping[str, Any]


class Saver:
    """Writes the checkpoints of one run, here or in a thread.

    In the background a checkpoint is written from a copy, never two at once: the next one waits for the one
    before. What goes wrong there is raised by the next call of :meth:`check`, :meth:`save` or :meth:`finish`.

    Parameters
    ----------
    folder
        Where the checkpoints go.
    config
        When, which and how.
    copy
        The backend's ``snapshot(tree, previous)``.
    inspect
        Refuses, by an error, a tree that must not be written.
    writes
        Whether anything is written at all: not without a folder, nor where another process does it.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        config: SavingConfig,
        copy: Callable[[Any, Any], Any],
        inspect: Callable[[Tree], None],
        writes: bool = True,
    ):
        self.folder, self.config, self.writes = folder, config, writes
        self._copy, self._inspect = copy, inspect
        self._snapshot: Any = None
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._written_at = time.monotonic()
        self._stamp: tuple[int, int] | None = None

    # ------------------------------------------------------------------ when

    @property
    def watches_steps(self) -> bool:
        """Return True if there may be something to do after a step."""
        config = self.config
        return self.writes and (config.background or config.steps is not None or config.minutes is not None)

    @property
    def is_late(self) -> bool:
        """Return True if the last checkpoint is older than ``save_freq_minutes``."""
        minutes = self.config.minutes if self.writes else None
        return minutes is not None and time.monotonic() - self._written_at >= 60 * minutes

    def begin(self, make_tree: Callable[[], Tree]) -> None:
        """Start the clock of ``save_freq_minutes``; take the memory of the copies now, not in the midst of things."""
        self._written_at = time.monotonic()
        if self.writes and self.config.background and self._snapshot is None:
            with contextlib.suppress(CheckpointError):  # weights that get their shape with the first batch
                self._snapshot = self._copy(make_tree(), None)

    def due(self, state: TrainingState) -> list[str]:
        """Names that the state inside an epoch is to be saved under; none if it is not the time."""
        steps = self.config.steps
        if steps is not None and state.global_step % steps == 0:
            return [f"epoch_{state.epoch}_step_{state.step_in_epoch}", "last"]
        return ["last"] if self.is_late else []

    # ------------------------------------------------------------------ writing

    def save(self, tree: Tree, names: Sequence[str]) -> None:
        """Write a checkpoint under some names, the most important last.

        Raises
        ------
        CheckpointError
            If this one, or the one before in the background, cannot be written and ``on_save_error="raise"``.
        NonFiniteLossError
            If the weights are not finite.
        """
        if not self.writes:
            return
        self._written_at = time.monotonic()
        if not self.config.background:
            self._write(tree, names)
            self.check()
            return
        self._join()
        self.check()
        self._snapshot = self._copy(tree, self._snapshot)
        self._thread = threading.Thread(
            target=self._write, args=(self._snapshot, names), name="delira checkpoint", daemon=False
        )
        self._thread.start()

    def check(self) -> None:
        """Raise, or warn of, what went wrong since the last call."""
        if self._failure is None:
            return
        failure, self._failure = self._failure, None
        if self.config.on_error == "warn" and isinstance(failure.__cause__, OSError):
            _log.warning("%s", failure)
            warnings.warn(f"{failure} The training goes on.", RuntimeWarning, stacklevel=2)
            return
        raise failure

    def finish(self, *, quietly: bool = False) -> None:
        """Wait until everything is on disk; ``quietly`` only logs failures, since another error is on its way."""
        self._join()
        if quietly and self._failure is not None:
            _log.warning("%s", self._failure)
            self._failure = None
        self.check()

    def forget(self) -> None:
        """Give the memory of the copies back."""
        self._snapshot = None

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, tree: Tree, names: Sequence[str]) -> None:
        try:
            self._inspect(tree)
            refuse_moved(self.folder.folder)  # another folder may have its name by now
            if self._stamp is not None and not self.folder.folder.is_dir():
                _log.warning("%s was deleted under the training; it is made again", self.folder.folder)
            self.folder.save(tree, *names)
            self.prune(tree["state"])
        except OSError as error:
            self._failure = self._explained(error, names)
        except Exception as error:
            self._failure = error
        finally:  # also if it failed later: the file may be there
            self._stamp = self._stamp_of_last()

    def _explained(self, error: OSError, names: Sequence[str]) -> CheckpointError:
        further = (
            "" if self.config.on_error == "warn" else ", and continue (on_save_error='warn' trains on without them)"
        )
        failure = CheckpointError(
            f"{self.folder.path(names[0])} could not be written: {error}. Checkpoints written before are intact; make "
            f"room, or the folder writable{further}."
        )
        failure.__cause__ = error
        return failure

    # ------------------------------------------------------------------ which stay

    def clean(self, state: Tree) -> None:
        """Delete what a crash left of numbered checkpoints that are not to be kept."""
        try:
            self.prune(state)
        except OSError as error:
            _log.warning("old checkpoints could not be deleted: %s", error)

    def prune(self, state: Tree) -> None:
        """Delete the numbered checkpoints that are not to be kept."""
        config = self.config
        ranks = config.keep_best is not None and state["score_key"] is not None
        if config.keep_last is None and not ranks:
            return
        numbered = self.folder.numbered()
        keep = {path for _, path in numbered[: config.keep_last or 0]}
        if ranks:
            paths = {epoch: path for (epoch, step), path in numbered if step == 0}
            best = [paths[epoch] for epoch in _best_epochs(state) if epoch in paths]
            keep |= set(best[: config.keep_best])
        self.folder.prune(keep)

    # ------------------------------------------------------------------ who else writes here

    def note_last(self) -> None:
        """Remember which checkpoint was the last when this trainer looked."""
        self._stamp = self._stamp_of_last()

    def check_alone(self) -> None:
        """Refuse to go on if somebody else has written checkpoints here in the meantime.

        Raises
        ------
        CheckpointError
            Naming the file.
        """
        path = self.folder.path("last")
        if self.writes and path.exists() and self._stamp_of_last() != self._stamp:
            raise CheckpointError(
                f"{path} was written by another training since this trainer looked; build a new trainer, which "
                "continues from there, or use another save_path"
            )

    def _stamp_of_last(self) -> tuple[int, int] | None:
        try:
            found = self.folder.path("last").stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def _best_epochs(state: Tree) -> list[int]:
    """Epochs that have a validation score, the best first and the earlier of equals before the later."""
    key, sign = state["score_key"], -1 if state["score_mode"] == "highest" else 1
    scored = [record for record in state["history"] if key in record and record[key] == record[key]]
    return [int(record["epoch"]) for record in sorted(scored, key=lambda record: (sign * record[key], record["epoch"]))]


#: where no file can be
NOWHERE = Path(os.devnull)


def lock(run: Run, *, alone: bool = False) -> AbstractContextManager[Any]:
    """Scope in which the folder of a run is nobody else's; it is made again if it is gone.

    Raises
    ------
    ConfigError
        If it cannot be a folder any more, or is not writable.
    """
    folder = run.save_path
    if folder is None or not run.ranks.is_first:
        return contextlib.nullcontext()
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):  # cheaper than a file for a trial
        writable_folder(folder)
    return locked(folder, alone=alone)


class RunFiles:
    """The files of a run, and callbacks that write its history and logs; without a folder there are none.

    Only the first of several processes that train one network writes.

    Parameters
    ----------
    run
        The run, whose callbacks get those that write.
    given_settings
        Settings as they were given, which trackers are told.

    Raises
    ------
    ConfigError
        If there is no folder, and a setting needs one.
    """

    def __init__(self, run: Run, given_settings: Mapping[str, Any]):
        from delira.callbacks.run_log import RunLog  # the handlers: nobody needs them before

        config, backend, folder = run.config, run.backend, run.save_path
        writes = run.ranks.is_first
        if folder is None:
            _refuse_what_needs_files(config)
        elif writes:
            run.callbacks.append(HistoryWriter(folder))
        self.run_log = RunLog(run, given_settings)
        if writes and (folder is not None or config.logging.type is not None):
            run.callbacks.append(self.run_log)
        checkpoints = CheckpointFolder(
            NOWHERE if folder is None else folder / "checkpoints",
            backend.checkpoint_suffix,
            backend.checkpoints.write,
            backend.checkpoints.read,
            backend.checkpoints.further_files(run.network),
        )
        own = folder if writes else None
        inspect = functools.partial(checks.refuse_nonfinite, run)
        self.saver = Saver(checkpoints, config.saving, backend.arrays.snapshot, inspect, writes=own is not None)
        self.times = PhaseTimes(own, functools.partial(backend.devices.synchronize, run.devices))
        self.guard_log = GuardLog(own)


def check_score(folder: Path | None, key: str | None) -> None:
    """Refuse a score where no checkpoint of the best epoch is kept.

    Raises
    ------
    ConfigError
        Saying what to do.
    """
    if folder is None and key is not None:
        raise ConfigError(f"val_score_key={key!r} needs checkpoints, and save_path=None keeps none; give a save_path")


def _refuse_what_needs_files(config: Any) -> None:
    check_score(None, config.val_score_key)
    saving = config.saving
    needs = {
        "save_freq_steps": saving.steps,
        "save_freq_minutes": saving.minutes,
        "save_in_background": saving.background,
        "nonfinite='rollback'": config.guards.nonfinite == "rollback",
    }
    if wanted := [name for name, value in needs.items() if value]:
        raise ConfigError(f"{wanted[0]} needs checkpoints, and save_path=None keeps none; give a save_path")
