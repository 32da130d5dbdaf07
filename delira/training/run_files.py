"""The files of a training: its checkpoints and its history; none of them if there is no folder."""

import contextlib
import functools
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from delira.callbacks.history import HistoryWriter
from delira.contract.kinds import Tree
from delira.errors import ConfigError
from delira.io.checkpoint import CheckpointFolder
from delira.runs.guard_log import GuardLog
from delira.training import guards
from delira.training.phase_times import PhaseTimes
from delira.training.run import Run
from delira.training.saving import Saver
from delira.utils.files import writable_folder
from delira.utils.lock import locked

#: where no file can be
NOWHERE = Path(os.devnull)


class NoSaver(Saver):
    """Writes nothing."""

    watches_steps = False
    is_late = False

    def begin(self, make_tree: Any) -> None:
        """Nothing is to be prepared."""

    def save(self, tree: Tree, names: Any) -> None:
        """Nothing is to be written."""

    def check_alone(self) -> None:
        """Another process may write here."""


def lock(run: Run, *, alone: bool = False) -> AbstractContextManager[Any]:
    """Scope in which the folder of a run is nobody else's; it is made again if it is gone.

    Raises
    ------
    ConfigError
        If it cannot be a folder any more, or is not writable.
    """
    if run.save_path is None or not run.ranks.is_first:
        return contextlib.nullcontext()
    folder = run.save_path
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
        saver = NoSaver if folder is None or not writes else Saver
        self.saver = saver(
            checkpoints, config.saving, backend.arrays.snapshot, functools.partial(guards.refuse_nonfinite, run)
        )
        own = folder if writes else None
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
