"""The files of a training: its checkpoints and its history; none of them if there is no folder."""

import contextlib
import functools
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from delira.errors import ConfigError
from delira.io.checkpoint import CheckpointFolder
from delira.runs.guard_log import GuardLog
from delira.training import guards
from delira.training.callbacks.history import HistoryWriter
from delira.training.phase_times import PhaseTimes
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


def lock(folder: Path | None, *, alone: bool = False) -> AbstractContextManager[Any]:
    """Scope in which a folder of a training is nobody else's."""
    return contextlib.nullcontext() if folder is None else locked(writable_folder(folder), alone=alone)


def open_files(trainer: Any) -> None:
    """Give a trainer its checkpoints, and callbacks that write its history and logs.

    Raises
    ------
    ConfigError
        If there is no folder, and a setting needs one.
    """
    from delira.training.callbacks.run_log import RunLog, StepLog  # the handlers: nobody needs them before

    config, backend, folder = trainer.config, trainer.backend, trainer.save_path
    if folder is None:
        _refuse_what_needs_files(config)
    else:
        trainer.callbacks.append(HistoryWriter(folder))
    trainer.run_log = RunLog(trainer)
    if folder is not None or config.logging.type is not None:
        trainer.callbacks.append(trainer.run_log)
    if config.logging.frequencies is not None:
        trainer.callbacks.append(StepLog(trainer.run_log))
    trainer.checkpoints = CheckpointFolder(
        NOWHERE if folder is None else folder / "checkpoints",
        backend.checkpoint_suffix,
        backend.write_checkpoint,
        backend.read_checkpoint,
        backend.further_files(trainer.module),
    )
    refuse = functools.partial(guards.refuse_nonfinite, trainer)
    saver = NoSaver if folder is None else Saver
    trainer.times = PhaseTimes(folder, functools.partial(backend.synchronize, trainer.devices))
    trainer.guard_log = GuardLog(folder)
    trainer.saver = saver(trainer.checkpoints, config.saving, backend.snapshot, refuse)


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
