"""The files of a training: who writes checkpoints, which of them stay, and where the time of a training goes."""

import contextlib
import functools
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from delira.callbacks.history import HistoryWriter
from delira.contract import Backend, tell_marks
from delira.data_loading._content import fingerprint_of
from delira.errors import CheckpointError, ConfigError
from delira.io.checkpoint import CheckpointFolder
from delira.io.shards import Shards
from delira.runs.results import TIMES_FILE, VERSION, GuardLog, read_timings
from delira.runs.weight_hashes import WeightHashes
from delira.settings.parts import SavingConfig
from delira.training import checks
from delira.training.run import Run, TrainingState, Tree
from delira.utils.arrays import map_leaves
from delira.utils.files import publish_text, sealed, writable_folder
from delira.utils.lock import locked
from delira.utils.owned import check_ours

_log = logging.getLogger("delira")


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
    hashes
        Keeps the hashes of weights; None: nobody does.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        config: SavingConfig,
        copy: Callable[[Any, Any], Any],
        inspect: Callable[[Tree], None],
        writes: bool = True,
        hashes: WeightHashes | None = None,
    ):
        self.folder, self.config, self.writes, self.hashes = folder, config, writes, hashes
        self._copy, self._inspect = copy, inspect
        self._snapshot: Any = None
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._written_at = time.monotonic()
        self._stamp: tuple[int, int] | None = None
        #: whether a name may not have reached the disk yet
        self._is_loose = False

    # ------------------------------------------------------------------ when

    @property
    def watches_steps(self) -> bool:
        """Return True if there may be something to do after a step: of checkpoints all processes have a part."""
        config = self.config
        return config.steps is not None or config.minutes is not None or (self.writes and config.background)

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
        if self._is_loose:
            self._is_loose = False
            try:
                self.folder.settle()
            except OSError as error:
                self._failure = self._failure or self._explained(error, ["last"])
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
            check_ours(self.folder.folder)  # another folder may have its name by now
            if self._stamp is not None and not self.folder.folder.is_dir():
                _log.warning("%s was deleted under the training; it is made again", self.folder.folder)
            self._is_loose = True
            if self.hashes is not None:  # first: no checkpoint is continued from without its line
                self.hashes.note(tree)
            self.folder.save(tree, *names)
            self.prune(tree["state"])
            self.folder.sweep_shards()
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


def lock(run: Run, *, alone: bool = False) -> contextlib.AbstractContextManager[Any]:
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
        hashes = None if own is None else WeightHashes(own, functools.partial(hash_of_weights, backend))
        self.saver = Saver(checkpoints, config.saving, backend.arrays.snapshot, inspect, own is not None, hashes)
        self.times = PhaseTimes(own, functools.partial(backend.devices.synchronize, run.devices))
        self.guard_log = GuardLog(own)


def hash_of_weights(backend: Backend, tree: Tree) -> str | None:
    """Return the sha256 (hex) of the weights of a checkpoint tree: names, types, shapes and values.

    Parameters
    ----------
    backend
        Which knows the weights, and turns its arrays into numpy's.
    tree
        Of weights that are spread over processes each part counts for itself.

    Returns
    -------
    str or None
        None of types that numpy does not have.
    """
    weights = backend.checkpoints.weights_in(tree)
    whole = map_leaves(lambda leaf: [*leaf.parts] if isinstance(leaf, Shards) else leaf, weights)
    try:
        return fingerprint_of(backend.arrays.to_numpy(whole))
    except TypeError:
        return None


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


_Item = TypeVar("_Item")

#: what a closure tells apart, by ``delira.contract.mark``
_STEP_PARTS = ("forward", "backward", "update")
_PHASES = ("data", *_STEP_PARTS, "step", "validation", "checkpoint", "test", "other")
#: of the steps that begin a session these are measured, then each 50th: measuring waits for the device
_FIRST_SAMPLES = 32
_BETWEEN_SAMPLES = 50
#: seconds from one writing of the file to the next, while the training runs
_BETWEEN_WRITES = 30.0
#: the pass over the training data, which is divided when it is told
_PASS = "pass"


class PhaseTimes:
    """Adds up the seconds of one fold, over all sessions that worked on it.

    The clock runs inside of :meth:`phase` only, and no second counts twice. The waiting for data is measured at every
    step. Forward, backward and update are measured at a few steps, since that waits for the device, and stand for the
    others; a closure that does not tell them apart, as a compiled one, is one ``step``.

    Parameters
    ----------
    folder
        Folder of the fold, whose ``timings.json`` is continued; None: nothing is written.
    wait
        Returns when the device has done what it was given.
    """

    def __init__(self, folder: Path | None, wait: Callable[[], Any]):
        self._path, self._wait = None if folder is None else folder / TIMES_FILE, wait
        self._before = (None if folder is None else read_timings(folder)) or {"steps": 0, "seconds": {}}
        #: whether the step at hand is one that is measured
        self.is_sampling = False
        self._seconds = dict.fromkeys((_PASS, *_PHASES), 0.0)
        self._stack: list[str] = []
        self._since = self._marked = 0.0
        self._steps, self._next_sample, self._samples = 0, 0, 0
        self._parts: dict[str, float] = {}
        self._written_at = perf_counter()

    # ------------------------------------------------------------------ measuring

    @contextlib.contextmanager
    def phase(self, name: str, since: float | None = None) -> Iterator[None]:
        """Scope whose seconds count as ``name``, but for those of phases inside of it.

        Parameters
        ----------
        name
            ``"validation"``, ``"checkpoint"``, ``"test"`` or ``"other"``.
        since
            When it began by ``time.perf_counter``, if that was before now and outside of all phases.
        """
        if self.is_sampling:
            self.mark("other")
        self._count()
        if since is not None and not self._stack:
            self._since = since
        self._stack.append(name)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()
            self._marked = perf_counter()

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Scope of a pass over the training data."""
        try:
            with self.phase(_PASS):
                yield
        finally:  # an error leaves the batches where they are
            self._forget_listener()

    def steps(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """The batches; from one that is handed out to the question for the next is a step, the rest waits for data."""
        waited, begin = 0.0, perf_counter()
        try:
            for batch in batches:
                waited += perf_counter() - begin
                if self._steps == self._next_sample:
                    self._begin_sample()
                yield batch
                if self.is_sampling:
                    self.mark("other")
                    self._samples += 1
                    self._forget_listener()
                    if self._steps and not self._can_divide:
                        self._next_sample = -1  # nobody tells the parts, so there is nothing to wait for
                self._steps += 1
                begin = perf_counter()
            waited += perf_counter() - begin
        finally:
            self._forget_listener()
            self._seconds["data"] += waited
            self._seconds[_PASS] -= waited

    def _begin_sample(self) -> None:
        """Measure a step; the first, with all that happens once, only counts if there is no other."""
        number = self._steps
        self._next_sample = number + _BETWEEN_SAMPLES if number >= _FIRST_SAMPLES else 2 * number or 1
        if number == 1:
            self._parts, self._samples = {}, 0
        self._wait()
        self._marked = perf_counter()
        self.is_sampling = True
        tell_marks(self.mark)

    def _forget_listener(self) -> None:
        if self.is_sampling:
            self.is_sampling = False
            tell_marks(None)

    @property
    def _can_divide(self) -> bool:
        return any(part in self._parts for part in _STEP_PARTS)

    def mark(self, part: str) -> None:
        """Count the time since the last mark of the step as ``part``."""
        self._wait()
        now = perf_counter()
        part = part if part in _STEP_PARTS else "other"
        self._parts[part] = self._parts.get(part, 0.0) + now - self._marked
        self._marked = now

    def _count(self) -> None:
        now = perf_counter()
        if self._stack:
            self._seconds[self._stack[-1]] += now - self._since
        self._since = now

    # ------------------------------------------------------------------ telling

    def to_dict(self) -> dict[str, Any]:
        """Everything so far, as ``timings.json`` has it.

        Returns
        -------
        dict
            ``version``; ``steps``, those of the training; ``seconds`` by phase, whose sum is the time in which the
            fold was worked on; ``note``, what is to be known about them.
        """
        self._count()
        seconds = dict(self._seconds)
        whole, measured = max(seconds.pop(_PASS), 0.0), sum(self._parts.values())
        is_told = self._can_divide and measured
        shares = {part: taken / measured for part, taken in self._parts.items()} if is_told else {"step": 1.0}
        for part, share in shares.items():
            seconds[part] += share * whole
        earlier: Mapping[str, float] = self._before["seconds"]
        total = {name: round(seconds.get(name, 0.0) + earlier.get(name, 0.0), 6) for name in {**seconds, **earlier}}
        if total["step"]:
            note = "step is forward, backward and update together: a compiled step, or a closure that marks no parts"
            shown = {name: value for name, value in total.items() if name not in _STEP_PARTS or value}
        else:
            note = f"forward, backward and update are estimated from {self._samples} steps" if self._samples else ""
            shown = {name: value for name, value in total.items() if name != "step"}
        return {"version": VERSION, "steps": self._before["steps"] + self._steps, "seconds": shown, "note": note}

    def write(self, *, at_once: bool = True) -> None:
        """Write the file, or, if that is not to be at once, when it is time again."""
        if self._path is None or not (at_once or perf_counter() - self._written_at > _BETWEEN_WRITES):
            return
        self._written_at = perf_counter()
        try:
            publish_text(self._path, json.dumps(sealed(self.to_dict()), indent=1), durable=False)
        except OSError as error:
            _log.warning("the times of the phases could not be written: %s", error)
