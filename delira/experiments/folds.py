"""Folds of a cross-validation, or trials of a search: read if finished, run here one by one, or handed out."""

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.callbacks.live_view import FoldTable, NoTable, shown_folds
from delira.errors import (
    CheckpointError,
    DeliraError,
    ExecutorError,
    FoldFailedError,
    TrainingInterrupted,
    WorkerLostError,
)
from delira.experiments.fold_task import FoldTask, Work
from delira.experiments.placement import Placement, tell_of_threads
from delira.experiments.run_request import shared_objects
from delira.runs import results
from delira.runs.folder import RunFolder, said_by
from delira.runs.leases import Holder, Leases
from delira.runs.stored_run import HISTORY
from delira.utils.files import read_json_lines
from delira.utils.signals import StopSignals

if TYPE_CHECKING:
    from delira.execution import Executor, Handle, Resources, Shared

_log = logging.getLogger("delira")

#: seconds between two looks at what was handed out, and at the epochs of folds
_LOOK, _FOLLOW = 0.05, 0.5
#: a fold that was lost so often without a further epoch has failed
_MOST_LOSSES = 3

#: number of a fold, and what became of it
_Outcome = tuple[int, results.FoldResult | Exception]


def run_folds(work: Work, folder: RunFolder, placement: Placement) -> list[Any]:
    """Every fold: read if it is finished, else trained and tested, if it was asked for.

    Here the error of a fold arrives at once. Of folds that were handed out one that fails is told, and the others go
    on; where as many fail as run at once before any has finished, there is nothing to go on for. A fold that another
    session works at, on whatever machine, is waited for; if that ends without it, it is run by this one.

    Parameters
    ----------
    work
        What they have in common.
    folder
        Of the run; numbers of folds that were not asked for, and nobody has run, are added to its ``missing_folds``.
    placement
        Where they run.

    Raises
    ------
    Exception
        What the first fold that failed raised, with its own type.
    """
    splits = work.splits
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(shown_folds(len(splits), work.validation.request.settings, work.what))
        found, waiting = _find_finished(work, folder, table)
        if waiting:
            folder.work_on()
            tell_of_threads(work.threads)
        executor = stack.enter_context(placement.opened(len(waiting), folder.path))
        if executor is None:
            outcomes = _run_here(work, waiting, table, _Elsewhere(work, folder, table))
        else:
            device, n_processes = work.validation.request.settings.get("device"), work.validation.n_processes
            needs = placement.needs(work.threads, device, n_processes, executor)
            outcomes = _HandedOut(work, folder, table, executor, needs).run(waiting)
        failed: dict[int, Exception] = {}
        tell = work.validation.after_fold or (lambda fold: None)
        for fold in found.values():
            tell(fold)
        stack.callback(work.leases.sweep)
        for number, outcome in outcomes:
            if isinstance(outcome, Exception):
                failed[number] = outcome
                if len(failed) < len(waiting):
                    _log.error("%s %d failed: %s", work.what, number, said_by(outcome), exc_info=outcome)
                is_hopeless = not any(map(work.validation.is_success, found.values()))
                is_hopeless = is_hopeless and len(failed) >= min(placement.at_once(len(splits)), len(waiting))
                # of a trial the first fold that fails is told, and those before it count, whoever was faster
                if is_hopeless and not work.validation.is_trial:
                    outcomes.close()
                    break
            else:
                table.end(outcome)
                found[number] = outcome
                tell(outcome)
        for fold in _finished_meanwhile(work, folder):
            table.end(fold, was_read=True)
            found[fold.fold] = fold
            tell(fold)
    if failed:
        _raise(failed, sorted(found), work)
    return [found[number] for number in sorted(found)]


def _find_finished(
    work: Work, folder: RunFolder, table: FoldTable | NoTable
) -> tuple[dict[int, results.FoldResult], list[int]]:
    """Return the folds that earlier sessions finished, by number, and the numbers of those that are to be run."""
    ended = f"{work.what}_finished"
    finished = {entry.get(work.what) for entry in folder.events() if entry["event"] == ended}
    found, waiting = {}, []
    held = {*work.leases.held()}
    for number in work.validation.order or range(len(work.splits)):
        is_finished = number in finished
        # who holds it may be about to say so, and to say it once
        is_held = not is_finished and work.part_of(number) in held
        fold = None if is_held else work.read(number, is_finished=is_finished)
        if fold is not None and (is_finished or work.tell_finished(folder, number, fold)):
            found[number] = fold
            table.end(fold, was_read=True)
        elif work.validation.is_chosen(number):
            waiting.append(number)
        else:
            folder.missing_folds.append(number)
            table.leave_out(number)
    return found, waiting


def _finished_meanwhile(work: Work, folder: RunFolder) -> list[Any]:
    """Return folds that were not asked for and that other sessions finished since this one began: none is missing."""
    told = [number for number in folder.missing_folds if work.since(folder, "finished", number)]
    found = {number: fold for number in told if (fold := work.read(number, is_finished=True)) is not None}
    folder.missing_folds = [number for number in folder.missing_folds if number not in found]
    return [*found.values()]


def _raise(failed: Mapping[int, Exception], finished: Sequence[int], work: Work) -> None:
    """Raise the error of the first fold that failed, and say what became of the others."""
    first = min(failed)
    if len(work.splits) > 1 and finished:
        others = "" if len(failed) == 1 else f", as did {sorted(failed)[1:]}"
        failed[first].add_note(
            f"{work.what.capitalize()} {first} failed{others}; finished are {[*finished]}, which are kept: the same "
            "call with resume= runs what is missing"
        )
    raise failed[first]


def _run_here(
    work: Work, waiting: Sequence[int], table: FoldTable | NoTable, elsewhere: "_Elsewhere"
) -> Generator[_Outcome, None, None]:
    """Yield each fold, in their order but for those that others are at work on."""
    first = work.first
    left: list[tuple[int, Holder | None]] = [(number, None) for number in waiting]
    table.watch(lambda: elsewhere.show(number for number, _ in left))
    while left or elsewhere:
        for number, outcome in elsewhere.look():
            if isinstance(outcome, Holder):
                left.append((number, outcome))
            else:
                yield number, outcome
        if not left:
            time.sleep(_LOOK)
            continue
        number, over = left.pop(0)
        fold = work.run(number, table, first, over)
        if fold is None:
            elsewhere.add(number)
        else:
            first = None
            yield number, fold


class _Elsewhere:
    """Folds that processes of other sessions are at work on.

    Parameters
    ----------
    work, folder, table
        What all folds have in common, where they are written, and what shows how far they are.
    """

    def __init__(self, work: Work, folder: RunFolder, table: Any):
        self._work, self._folder, self._table = work, folder, table
        self._leases: Leases = work.leases
        self._followed: dict[int, _Followed] = {}
        self._shown: dict[int, _Followed] = {}
        self._looked_at = self._shown_at = 0.0

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, number: int) -> None:
        """Wait for a fold."""
        self._followed[number] = self._follow(number)

    def show(self, numbers: Iterable[int]) -> None:
        """Tell the table of folds that others train: those that are waited for, and further ones that are held."""
        if time.monotonic() < self._shown_at + _FOLLOW:
            return
        held = {*self._leases.held()}
        others = [number for number in numbers if self._work.part_of(number) in held]
        self._shown = {number: self._shown.get(number) or self._follow(number) for number in others}
        for number, followed in (self._followed | self._shown).items():
            followed.tell(number, self._work.validation.request.num_epochs, self._table)
        self._shown_at = time.monotonic()

    def _follow(self, number: int) -> "_Followed":
        return _Followed(self._work.folder_of(number), self._work.validation.histories)

    def look(self) -> Iterator[tuple[int, results.FoldResult | Exception | Holder]]:
        """Yield what became of folds: an error, a result, or whose lease nobody holds any more."""
        if time.monotonic() < self._looked_at + _FOLLOW:
            return
        for number, followed in [*self._followed.items()]:
            followed.tell(number, self._work.validation.request.num_epochs, self._table)
            # in this order: who works at it says what came of it before letting it go
            over = self._leases.is_free(self._work.part_of(number))
            outcome = self._told(number)
            if over is None and not isinstance(outcome, results.FoldResult):
                continue
            del self._followed[number]
            yield number, outcome or over or Holder(0)
        self._looked_at = time.monotonic()

    def _told(self, number: int) -> results.FoldResult | Exception | None:
        """Return what became of a fold, as the ledger says; ``None``: nothing, or it is to be tested again."""
        if self._work.since(self._folder, "finished", number):
            return self._work.read(number, is_finished=True)
        if not (told := self._work.since(self._folder, "failed", number)):
            return None
        last = told[-1]
        by = last.get("worker", "another process")
        error = FoldFailedError(f"{self._work.what} {number} failed in {by}: {last.get('error')}")
        error.add_note(str(last.get("traceback", "")))
        return error


class _HandedOut:
    """Folds that an executor runs.

    Parameters
    ----------
    work, folder, table
        What is run, where it is written, and what shows how far it is.
    executor, needs
        Who runs it, and what each fold needs.
    """

    def __init__(self, work: Work, folder: RunFolder, table: Any, executor: "Executor", needs: "Resources"):
        self._work, self._folder, self._table, self._executor, self._needs = work, folder, table, executor, needs
        self._handles: dict[int, Handle[Any]] = {}
        self._losses: dict[int, tuple[int, int]] = {}
        """By fold: its epochs when it was last lost, and how often it was since."""
        self._followed: dict[int, _Followed] = {}
        self._elsewhere = _Elsewhere(work, folder, table)
        self._first = -1

    def run(self, waiting: Sequence[int]) -> Generator[_Outcome, None, None]:
        """Yield what became of each fold, in the order in which they end."""
        from delira.execution import Shared

        if not self._work.validation.is_trial:  # a search tells it once
            tell_of_callbacks(self._work.validation.request.callbacks)
        shared = Shared(dataclasses.replace(self._work, validation=self._work.validation.alone()))
        told = {f"{self._work.what}s": [*waiting], "executor": type(self._executor).__name__}
        self._folder.log("handed_out", **told, **vars(self._needs))
        self._first = waiting[0]
        make = functools.partial(self._submit, shared)
        signals, followed_at = StopSignals(), 0.0
        with signals.caught(self._work.validation.request.config.saving.on_signal):
            try:
                for number in waiting:
                    self._handles[number] = make(number)
                while self._handles or self._elsewhere:
                    if signals.received is not None:
                        self._stop(signals)
                    for number in [number for number, handle in self._handles.items() if handle.done()]:
                        self._follow(number)
                        if (outcome := self._outcome(number, make)) is not None:
                            yield number, outcome
                    for number, found in self._elsewhere.look():
                        outcome = self._again(number, make, found) if isinstance(found, Holder) else found
                        if outcome is not None:
                            yield number, outcome
                    if time.monotonic() >= followed_at:
                        self._follow(*self._handles)
                        followed_at = time.monotonic() + _FOLLOW
                    time.sleep(_LOOK)
            finally:
                self._cancel()

    def _submit(self, shared: "Shared[Work]", number: int, over: Holder | None = None) -> "Handle[Any]":
        self._followed[number] = _Followed(self._work.folder_of(number), self._work.validation.histories)
        try:
            return self._executor.submit(FoldTask(shared, number, number == self._first, over), self._needs)
        except DeliraError:
            raise
        except Exception as error:  # of an executor of the user's own: that is no fault of a fold
            what = f"{type(self._executor).__name__} did not take {self._work.what} {number}"
            raise ExecutorError(f"{what}: {said_by(error)}") from error

    def _outcome(self, number: int, make: Any) -> results.FoldResult | Exception | None:
        """Return what became of a fold; ``None`` if it is run again, or by somebody else."""
        handle = self._handles.pop(number)
        try:
            fold = handle.result()
        except (WorkerLostError, TrainingInterrupted) as error:
            if (failure := self._lost(number, error)) is None:
                return self._again(number, make)
            self._work.tell_failed(self._folder, number, failure)
            return failure
        except Exception as error:
            if not self._work.since(self._folder, "failed", number):  # nobody got so far as to tell it
                self._work.tell_failed(self._folder, number, error)
            return error
        if fold is False:
            self._elsewhere.add(number)
            return None
        return self._read(number) if fold is True else self._work.validation.completed(number, fold)

    def _again(self, number: int, make: Any, *over: Holder) -> Exception | None:
        """Hand a fold out that somebody lost; returns why that cannot be, which is no reason to stop the others."""
        try:
            self._handles[number] = make(number, *over)
        except ExecutorError as error:
            self._work.tell_failed(self._folder, number, error)
            return error
        return None

    def _cancel(self) -> list[int]:
        """Cancel all that is left, whatever one of them raises: the error that led to here is the one to be told.

        Those that cannot be cancelled are returned.
        """
        left = []
        for number, handle in self._handles.items():
            try:
                handle.cancel()
            except Exception as error:
                _log.warning("%s %d may go on, as it cannot be cancelled: %s", self._work.what, number, said_by(error))
                left.append(number)
        return left

    def _read(self, number: int) -> results.FoldResult | Exception:
        fold, path = self._work.read(number, is_finished=True, is_own=True), self._work.folder_of(number)
        missing = f"{path} does not hold the {self._work.what} that was run there"
        return CheckpointError(missing) if fold is None else fold

    def _lost(self, number: int, error: BaseException) -> Exception | None:
        """Note that who ran a fold was lost; returns why it is not run again, if it is not."""
        epochs = self._followed[number].n_epochs()
        before, n_losses = self._losses.get(number, (-1, 0))
        n_losses = 1 if epochs > before else n_losses + 1
        self._losses[number] = epochs, n_losses
        what = self._work.what
        self._folder.log(f"{what}_lost", **{what: number, "error": said_by(error)})
        if n_losses < _MOST_LOSSES:
            _log.warning("%s %d goes on from its last checkpoint: %s", what, number, error)
            return None
        if isinstance(error, Exception):
            error.add_note(f"{what} {number} was lost {n_losses} times without a further epoch")
            return error
        return WorkerLostError(f"{what} {number} was stopped {n_losses} times without a further epoch: {error}")

    def _stop(self, signals: StopSignals) -> None:
        """Ask all folds to stop, wait for their checkpoints, and end the program as the signal wants it."""
        left = self._cancel()
        numbers = sorted(self._handles)
        for handle in (handle for number, handle in self._handles.items() if number not in left):
            with contextlib.suppress(Exception, TrainingInterrupted):
                handle.result()
        self._handles.clear()
        signals.stop(f"a signal came; {self._work.what}s {numbers} stopped, after a checkpoint if they had begun")

    def _follow(self, *numbers: int) -> None:
        for number in numbers:
            self._followed[number].tell(number, self._work.validation.request.num_epochs, self._table)


class _Followed:
    """Epochs of a fold that is trained somewhere else, as they come into its folder.

    Parameters
    ----------
    folder
        Of the fold.
    histories
        Gives the files that its epochs come into.
    """

    def __init__(self, folder: Path, histories: Callable[[Path], Sequence[Path]]):
        self._folder, self._histories = folder, histories
        self._size, self._began_at = 0, time.perf_counter()
        self._n_before: int | None = None

    def n_epochs(self) -> int:
        """Return how many there are, with those of the trials of a search inside of the fold: they go on, too."""
        n_epochs = 0
        for file in self._folder.rglob(HISTORY):
            with contextlib.suppress(OSError):
                n_epochs += len(read_json_lines(file)[0])
        return n_epochs

    def _records(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for file in self._histories(self._folder):
            with contextlib.suppress(OSError):
                found += read_json_lines(file)[0]
        return found

    def tell(self, number: int, num_epochs: int, table: Any) -> None:
        """Tell the table what is new."""
        size = 0
        for file in self._histories(self._folder):
            with contextlib.suppress(OSError):
                size += file.stat().st_size
        if size == self._size:
            return
        records = self._records()
        if self._n_before is None:
            self._n_before, self._began_at = len(records), time.perf_counter()
        done, spent = len(records) - self._n_before, time.perf_counter() - self._began_at
        left = spent * (num_epochs - len(records)) / done if done > 0 else None
        self._size = size
        table.follow(number, records, num_epochs, left)


def tell_of_callbacks(callbacks: Sequence[Any]) -> None:
    """Say what callbacks cannot do that run in other processes.

    Parameters
    ----------
    callbacks
        Of the trainings.
    """
    if shared_objects(callbacks):
        names = ", ".join(sorted({type(callback).__name__ for callback in callbacks if shared_objects([callback])}))
        _log.warning(
            "%s: what it shares with this program is copied to each process that runs a fold; changes of the copies "
            "are not seen here", names,
        )  # fmt: skip
