"""The folds of a cross-validation: read if they are finished, run here one after the other, or handed out."""

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.callbacks.live_view import FoldTable, NoTable, shown_folds
from delira.errors import (
    CheckpointError,
    ConfigError,
    TrainingInterrupted,
    WorkerLostError,
    check_known,
    expect,
)
from delira.experiments.kept_hashes import keep_of_folds
from delira.experiments.result import other_weights
from delira.experiments.run_request import shared_objects
from delira.experiments.splits import Split
from delira.runs import results
from delira.runs.folder import RunFolder, said_by
from delira.training.run import StopSignals
from delira.utils.files import read_json_lines

if TYPE_CHECKING:
    from delira.contract import Backend
    from delira.execution import Executor, Handle, Resources, Shared
    from delira.experiments.cross_validation import CrossValidation

_log = logging.getLogger("delira")

#: seconds between two looks at what was handed out, and at the epochs of folds
_LOOK, _FOLLOW = 0.05, 0.5
#: a fold that was lost so often without a further epoch has failed
_MOST_LOSSES = 3
_NAMES = ("here", "processes")
#: devices that a worker is given one of
_ANY_GPU = ("auto", "cuda", "gpu")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the folds run."""

    executor: "Executor | str | None" = None
    """``"here"``, ``"processes"``, one of the user's own; ``None``: processes if there are to be several."""

    n_jobs: int | None = None
    """How many at the same time."""

    resources: "Resources | Mapping[str, Any] | None" = None
    """What each needs; ``None``: the threads that it computes with, and a GPU if its device is any."""

    def __post_init__(self) -> None:
        from delira.execution import Executor, Resources
        from delira.execution.executor import is_job_count

        given, n_jobs, resources = self.executor, self.n_jobs, self.resources
        is_count = n_jobs is None or is_job_count(n_jobs)
        is_known = given is None or isinstance(given, Executor) or (isinstance(given, str) and given in _NAMES)
        is_needs = resources is None or isinstance(resources, (Resources, Mapping))
        expect(
            ("n_jobs", n_jobs, is_count, "a number of folds from 1, or -1: one for each core"),
            ("executor", given, is_known, "'here', 'processes' or a delira.execution.Executor"),
            ("resources", resources, is_needs, "a delira.execution.Resources or its fields, e.g. {'cpus': 2}"),
        )
        if given == "here" and n_jobs not in (None, 1):
            raise ConfigError(f"executor='here' runs one fold after the other; for n_jobs={n_jobs} say 'processes'")
        if isinstance(given, Executor) and n_jobs is not None:
            raise ConfigError("an executor of your own knows how many it runs at once; leave n_jobs out")
        if isinstance(resources, Mapping):
            check_known(resources, [field.name for field in dataclasses.fields(Resources)], "resources has no")
            Resources(**resources)

    @property
    def is_here(self) -> bool:
        """Return True if folds run in this process, one after the other."""
        return self.executor == "here" or (self.executor is None and self.n_jobs in (None, 1))

    def at_once(self, n_folds: int) -> int:
        """Return how many folds run at the same time, as far as that is known."""
        from delira.execution.executor import usable_cores

        if self.is_here:
            return 1
        own = self.n_jobs if isinstance(self.executor, str) or self.executor is None else self.executor.n_jobs
        if isinstance(self.executor, str) and own is None:
            own = -1
        return min(n_folds, usable_cores() if own == -1 else own or n_folds)

    @contextlib.contextmanager
    def opened(self, n_folds: int) -> "Iterator[Executor | None]":
        """Scope of the executor; one of the user's own is left as it is. ``None``: here."""
        from delira.execution import ProcessExecutor

        if self.is_here or not n_folds:
            yield None
        elif isinstance(self.executor, str) or self.executor is None:
            with contextlib.closing(_Closing(ProcessExecutor(self.at_once(n_folds)))) as own:
                yield own.executor
        else:
            yield self.executor

    def threads(self, stated: int | None, backend: "Backend", n_folds: int) -> int | None:
        """With how many threads each fold computes, wherever it does; ``None``: nobody can say.

        Parameters
        ----------
        stated
            What the user said.
        backend
            Which knows how many it has.
        n_folds
            Of the cross-validation.
        """
        from delira.execution import Resources
        from delira.execution.executor import usable_cores

        have = backend.devices.thread_count()
        if stated is not None or self.is_here:
            return stated or have
        if self.resources is not None:
            return (self.resources if isinstance(self.resources, Resources) else Resources(**self.resources)).cpus
        return max(1, (have or usable_cores()) // self.at_once(n_folds))

    def needs(self, threads: int | None, device: Any) -> "Resources":
        """What a fold needs that computes with so many threads, on a device."""
        from delira.execution import Resources
        from delira.execution.processes import visible_gpus

        if isinstance(self.resources, Resources):
            return self.resources
        gpus = 1 if device in _ANY_GPU and visible_gpus() else 0
        return Resources(**{"cpus": threads or 1, "gpus": gpus, **(self.resources or {})})


@dataclasses.dataclass(frozen=True)
class _Closing:
    executor: "Executor"

    def close(self) -> None:
        self.executor.shutdown()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What all folds have in common."""

    validation: "CrossValidation"
    folder: Path
    """Of the run."""
    splits: Sequence[Split]
    threads: int | None
    allow_changes: bool

    @property
    def first(self) -> Any:
        """What is done before the first fold is trained."""
        return functools.partial(
            keep_of_folds,
            self.folder,
            cases=self.validation.cases,
            splits=self.splits,
            allow_changes=self.allow_changes,
        )

    def settings(self, folder: RunFolder, number: int) -> dict[str, Any]:
        """What a fold computes with here, that the settings do not say: the threads, if they can be had."""
        devices = self.validation.experiment.backend.devices
        stated = self.validation.request.settings.get("num_threads")
        if stated is not None or self.threads in (None, devices.thread_count()):
            return {}
        try:
            with devices.threads(self.threads):
                return {"num_threads": self.threads}
        except ConfigError as error:
            told = f"it does not compute with the {self.threads} threads that the run was made for: {error}"
            folder.log("other_threads", fold=number, text=told, num_threads=devices.thread_count())
            _log.info("fold %d: %s", number, told)
            return {}


@dataclasses.dataclass(frozen=True)
class FoldTask:
    """One fold, to be run wherever it is called.

    It returns nothing: the fold is in its folder. Where that could not be written it is what is returned.
    """

    work: "Shared[Work]"
    number: int
    is_first: bool

    def __call__(self) -> results.FoldResult | None:
        """Train and test it, and write it into its folder."""
        work, number = self.work.value, self.number
        folder = RunFolder(work.folder)
        folder.log("fold_started", fold=number)
        settings = {**work.settings(folder, number), "verbose": 0}
        first = work.first if self.is_first else _nothing
        fold = work.validation.run_fold(folder, number, work.splits[number], NoTable(), first, settings)
        with contextlib.suppress(CheckpointError, OSError):
            if fold.path is not None and results.read_fold(fold.path).outputs is not None:
                return None
        return dataclasses.replace(fold, parameters=None, callbacks=())


def _nothing(trainer: Any) -> None:
    """What is done before a fold that is not the first."""


def run_folds(work: Work, folder: RunFolder, placement: Placement) -> list[results.FoldResult]:
    """Every fold: read if it is finished, else trained and tested, if it was asked for.

    Here the error of a fold arrives at once. Of folds that were handed out one that fails is told, and the others go
    on; where as many fail as run at once before any has finished, there is nothing to go on for.

    Parameters
    ----------
    work
        What they have in common.
    folder
        Of the run; numbers of folds that were not asked for are added to its ``missing_folds``.
    placement
        Where they run.

    Raises
    ------
    Exception
        What the first fold that failed raised, with its own type.
    """
    splits = work.splits
    with contextlib.ExitStack() as stack:
        table = stack.enter_context(shown_folds(len(splits), work.validation.request.settings))
        found, waiting = _find_finished(work, folder, table)
        if waiting:
            _tell_of_threads(work.threads)
        executor = stack.enter_context(placement.opened(len(waiting)))
        if executor is None:
            outcomes = _run_here(work, folder, waiting, table)
        else:
            needs = placement.needs(work.threads, work.validation.request.settings.get("device"))
            outcomes = _HandedOut(work, folder, table, executor, needs).run(waiting)
        failed: dict[int, Exception] = {}
        for number, outcome in outcomes:
            if isinstance(outcome, Exception):
                failed[number] = outcome
                _tell_failed(folder, number, outcome)
                if len(failed) < len(waiting):
                    _log.error("fold %d failed: %s", number, said_by(outcome), exc_info=outcome)
                if not found and len(failed) >= min(placement.at_once(len(splits)), len(waiting)):
                    outcomes.close()
                    break
            else:
                log_finished(folder, outcome)
                table.end(outcome)
                found[number] = outcome
    if failed:
        _raise(failed, sorted(found), len(splits))
    return [found[number] for number in sorted(found)]


def _find_finished(
    work: Work, folder: RunFolder, table: FoldTable | NoTable
) -> tuple[dict[int, results.FoldResult], list[int]]:
    """Return the folds that earlier sessions finished, by number, and the numbers of those that are to be run."""
    finished = {entry.get("fold") for entry in folder.events() if entry["event"] == "fold_finished"}
    found, waiting = {}, []
    for number, split in enumerate(work.splits):
        fold = work.validation.read_fold(folder.fold(number), number, split, is_finished=number in finished)
        if fold is not None:
            found[number] = fold
            if number not in finished:
                log_finished(folder, fold)
            table.end(fold, was_read=True)
        elif work.validation.is_chosen(number):
            waiting.append(number)
        else:
            folder.missing_folds.append(number)
            table.leave_out(number)
    return found, waiting


def _tell_failed(folder: RunFolder, number: int, error: Exception) -> None:
    notes = [*map(str, getattr(error, "__notes__", ()))]
    folder.log("fold_failed", fold=number, error=said_by(error), **({"notes": notes} if notes else {}))


def _raise(failed: Mapping[int, Exception], finished: Sequence[int], n_folds: int) -> None:
    """Raise the error of the first fold that failed, and say what became of the others."""
    first = min(failed)
    if n_folds > 1 and finished:
        others = "" if len(failed) == 1 else f", as did {sorted(failed)[1:]}"
        failed[first].add_note(
            f"Fold {first} failed{others}; finished are {[*finished]}, which are kept: the same call with resume= "
            "runs what is missing"
        )
    raise failed[first]


def log_finished(folder: RunFolder, fold: results.FoldResult) -> None:
    """Tell the ledger of a fold that has ended."""
    told = {**other_weights(vars(fold)), **results.count_guards(fold.guards)}
    folder.log("fold_finished", fold=fold.fold, metrics=fold.means(), seconds=round(fold.seconds, 3), **told)


def _run_here(
    work: Work, folder: RunFolder, waiting: Iterable[int], table: FoldTable | NoTable
) -> Generator[tuple[int, results.FoldResult | Exception], None, None]:
    """Yield each fold, in their order."""
    first = work.first
    for number in waiting:
        folder.log("fold_started", fold=number)
        settings = work.settings(folder, number)
        try:
            fold = work.validation.run_fold(folder, number, work.splits[number], table, first, settings)
        except Exception as error:
            _tell_failed(folder, number, error)
            raise
        first = None
        yield number, fold


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
        self._first = -1

    def run(self, waiting: Sequence[int]) -> Generator[tuple[int, results.FoldResult | Exception], None, None]:
        """Yield what became of each fold, in the order in which they end."""
        from delira.execution import Shared

        _tell_of_callbacks(self._work.validation.request.callbacks)
        shared = Shared(dataclasses.replace(self._work, validation=self._work.validation.alone()))
        self._folder.log("handed_out", folds=[*waiting], executor=type(self._executor).__name__, **vars(self._needs))
        self._first = waiting[0]
        make = functools.partial(self._submit, shared)
        signals, followed_at = StopSignals(), 0.0
        with signals.caught(self._work.validation.request.config.saving.on_signal):
            try:
                for number in waiting:
                    self._handles[number] = make(number)
                while self._handles:
                    if signals.received is not None:
                        self._stop(signals)
                    for number in [number for number, handle in self._handles.items() if handle.done()]:
                        self._follow(number)
                        if (outcome := self._outcome(number, make)) is not None:
                            yield number, outcome
                    if time.monotonic() >= followed_at:
                        self._follow(*self._handles)
                        followed_at = time.monotonic() + _FOLLOW
                    time.sleep(_LOOK)
            finally:
                for handle in self._handles.values():
                    handle.cancel()

    def _submit(self, shared: "Shared[Work]", number: int) -> "Handle[Any]":
        self._followed[number] = _Followed(self._folder.fold(number))
        return self._executor.submit(FoldTask(shared, number, number == self._first), self._needs)

    def _outcome(self, number: int, make: Any) -> results.FoldResult | Exception | None:
        """Return what became of a fold; ``None`` if it is run again."""
        handle = self._handles.pop(number)
        try:
            fold = handle.result()
        except (WorkerLostError, TrainingInterrupted) as error:
            if (failure := self._lost(number, error)) is not None:
                return failure
            self._handles[number] = make(number)
            return None
        except Exception as error:
            return error
        return self._read(number) if fold is None else self._completed(number, fold)

    def _read(self, number: int) -> results.FoldResult | Exception:
        split = self._work.splits[number]
        path = self._folder.fold(number)
        fold = self._work.validation.read_fold(path, number, split, is_finished=True, is_own=True)
        return CheckpointError(f"{path} does not hold the fold that was run there") if fold is None else fold

    def _completed(self, number: int, fold: results.FoldResult) -> results.FoldResult:
        request = self._work.validation.request.for_fold(number)
        return dataclasses.replace(fold, parameters=request.params, callbacks=request.callbacks)

    def _lost(self, number: int, error: BaseException) -> Exception | None:
        """Note that who ran a fold was lost; returns why it is not run again, if it is not."""
        epochs = self._followed[number].n_epochs()
        before, n_losses = self._losses.get(number, (-1, 0))
        n_losses = 1 if epochs > before else n_losses + 1
        self._losses[number] = epochs, n_losses
        self._folder.log("fold_lost", fold=number, error=said_by(error))
        if n_losses < _MOST_LOSSES:
            _log.warning("fold %d goes on from its last checkpoint: %s", number, error)
            return None
        if isinstance(error, Exception):
            error.add_note(f"fold {number} was lost {n_losses} times without a further epoch")
            return error
        return WorkerLostError(f"fold {number} was stopped {n_losses} times without a further epoch: {error}")

    def _stop(self, signals: StopSignals) -> None:
        """Ask all folds to stop, wait for their checkpoints, and end the program as the signal wants it."""
        for handle in self._handles.values():
            handle.cancel()
        numbers = sorted(self._handles)
        for handle in self._handles.values():
            with contextlib.suppress(Exception, TrainingInterrupted):
                handle.result()
        self._handles.clear()
        signals.stop(f"a signal came; folds {numbers} stopped, after a checkpoint if they had begun")

    def _follow(self, *numbers: int) -> None:
        for number in numbers:
            self._followed[number].tell(number, self._work.validation.request.num_epochs, self._table)


class _Followed:
    """Epochs of a fold that is trained somewhere else, as they come into its folder.

    Parameters
    ----------
    folder
        Of the fold.
    """

    def __init__(self, folder: Path):
        self._file, self._size, self._began_at = folder / "history.jsonl", -1, time.perf_counter()
        self._n_before: int | None = None

    def n_epochs(self) -> int:
        """Return how many there are."""
        return len(self._records())

    def _records(self) -> list[dict[str, Any]]:
        with contextlib.suppress(OSError):
            return read_json_lines(self._file)[0]
        return []

    def tell(self, number: int, num_epochs: int, table: Any) -> None:
        """Tell the table what is new."""
        try:
            size = self._file.stat().st_size
        except OSError:
            return
        if size == self._size:
            return
        records = self._records()
        if self._n_before is None:
            self._n_before, self._began_at = len(records), time.perf_counter()
        done, spent = len(records) - self._n_before, time.perf_counter() - self._began_at
        left = spent * (num_epochs - len(records)) / done if done > 0 else None
        self._size = size
        table.follow(number, records, num_epochs, left)


def _tell_of_threads(threads: int | None) -> None:
    """Say that a run was made for more threads than there are cores here: it keeps its bits, and is slow."""
    from delira.execution.executor import usable_cores

    if threads is not None and threads > (cores := usable_cores()):
        _log.warning("each fold computes with the %d threads that the run was made for, on %d cores", threads, cores)


def _tell_of_callbacks(callbacks: Sequence[Any]) -> None:
    """Say what callbacks cannot do that run in other processes."""
    if shared_objects(callbacks):
        names = ", ".join(sorted({type(callback).__name__ for callback in callbacks if shared_objects([callback])}))
        _log.warning(
            "%s: what it shares with this program is copied to each process that runs a fold; changes of the copies "
            "are not seen here", names,
        )  # fmt: skip
