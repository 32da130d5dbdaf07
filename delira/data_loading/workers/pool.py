"""Worker processes and the watch over them, and the batches that they make ahead."""

import contextlib
import dataclasses
import functools
import logging
import math
import multiprocessing
import numbers
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Mapping
from multiprocessing import connection as connections
from multiprocessing import util
from typing import Any

from delira.data_loading._exact import check_count
from delira.data_loading.data_loader import BatchRecipe, BatchTask, EpochBatches, Made
from delira.data_loading.workers.outline import Outline, StepWatch
from delira.data_loading.workers.process import GRACE, Failure, Packed, Unreadable, Worker, pack, receive
from delira.errors import ConfigError, WorkerError, check_known, did_you_mean, expect

_log = logging.getLogger(__name__)
_START_LIMIT = 120.0  # seconds that a worker has to start: it may import a framework
_LOOK = 1.0  # seconds between two looks at the clock


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """How worker processes are started and watched; what the batches are does not depend on it."""

    start_method: str | None = None
    """``"fork"``, ``"forkserver"`` or ``"spawn"``; by default fork on Linux, elsewhere spawn."""

    time_limit: float | None = 300.0
    """Seconds that the training waits for one batch before the worker that makes it counts as stuck;
    ``None``: for ever."""

    prefetch: int = 2
    """Batches that each worker makes ahead."""

    replacements: int = 1
    """Lost workers (killed, crashed or stuck) that are replaced in one epoch; one more is an error."""

    def __post_init__(self) -> None:
        methods = multiprocessing.get_all_start_methods()
        if self.start_method is not None and self.start_method not in methods:
            raise ConfigError(
                f"start_method must be one of {', '.join(map(repr, methods))}, got {self.start_method!r}"
                f"{meant if (meant := did_you_mean(str(self.start_method), methods)).startswith('; did') else ''}"
            )
        limit = self.time_limit
        is_number = isinstance(limit, numbers.Real) and not isinstance(limit, bool)
        is_right = limit is None or (is_number and 0 < limit < math.inf)
        expect(("time_limit", limit, is_right, "a number of seconds above 0, or None for no limit"))
        check_count(self.prefetch, "prefetch", 1)
        check_count(self.replacements, "replacements", 0)

    @property
    def method(self) -> str:
        """The start method in use."""
        return self.start_method or ("fork" if sys.platform == "linux" else "spawn")


def as_worker_settings(settings: WorkerSettings | Mapping[str, Any] | None) -> WorkerSettings:
    """Make settings of a mapping of them, or the defaults of None.

    Raises
    ------
    ConfigError
        If it is something else, or there is no such setting.
    """
    if settings is None:
        return WorkerSettings()
    if isinstance(settings, WorkerSettings):
        return settings
    is_dict = isinstance(settings, Mapping)
    expect(("worker_settings", settings, is_dict, "a WorkerSettings or a dict of its settings"))
    known = [field.name for field in dataclasses.fields(WorkerSettings)]
    check_known(settings, known, "worker_settings has no")
    return WorkerSettings(**settings)


class WorkerTraceback(Exception):
    """The traceback of an exception where it was raised, in a worker process."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0].rstrip()}\n"""'


class WorkerPool:
    """Worker processes that make the batches of one iteration after the other.

    Parameters
    ----------
    recipe
        How batches are made; the workers get it when they start.
    number
        How many workers.
    settings
        How they are started and watched.
    deaths
        For each sample that ended workers, how; added to.
    outline
        Of the recipe, as it was when they were started.

    Attributes
    ----------
    asked_for : set of int
        Numbers of the batches that were submitted in this iteration, and that nobody has taken.
    close
        Ends the workers; does nothing the second time, or in a process that was forked.

    Raises
    ------
    WorkerError
        If the system does not give that many processes.
    """

    def __init__(
        self, recipe: BatchRecipe, number: int, settings: WorkerSettings, deaths: dict[int, list[str]], outline: Outline
    ) -> None:
        self.number, self.settings, self.outline = number, settings, outline
        self._skips_bad = recipe.skips_bad
        packed = pack(recipe, settings.method)
        self._make_worker = functools.partial(Worker, recipe, settings.method, packed)
        self._session = self._losses = 0
        self._deaths = deaths
        self.asked_for: set[int] = set()
        self._ready: dict[int, Made | Failure] = {}
        self._workers: list[Worker] = []
        self._pid = os.getpid()
        # it holds the workers: a socket that the garbage collector found first would complain. At exit it runs
        # before multiprocessing waits for its children, for a stopped one for ever
        self.close = util.Finalize(self, _end, args=(self._workers, packed), exitpriority=100)
        try:
            for index in range(number):
                self._workers.append(self._make_worker(f"delira worker {index}"))
        except BaseException as error:
            started = len(self._workers)
            self.close()
            if not isinstance(error, OSError):
                raise
            raise WorkerError(
                f"only {started} of {number} worker processes could be started: {error}; set n_process_augmentation="
                f"{started * 3 // 4} or less, as batches need files too, or raise the limits of this system "
                "(ulimit -u, ulimit -n, memory)"
            ) from error

    def begin(self) -> None:
        """Begin an iteration: what was asked for before is dropped."""
        self._session += 1
        self._losses = 0
        self.asked_for.clear()
        self._ready.clear()
        for worker in self._workers:
            worker.progress.session = self._session

    def submit(self, task: BatchTask) -> None:
        """Have a batch made by the worker that has least to do."""
        self.asked_for.add(task.number)
        self._submit(task, min(self._workers, key=lambda worker: len(worker.tasks)))

    def result(self, number: int) -> Made | Failure:
        """Wait for a batch that was submitted, or for what loading or transforming it raised in the worker.

        Raises
        ------
        WorkerError
            If more workers were lost than are replaced, or one did not start.
        """
        waited, was_stopped = 0.0, False
        self._collect(0.0)
        while number not in self._ready:
            awaited = (self._session, number)
            [worker] = [each for each in self._workers if awaited in ((job.session, job.number) for job in each.tasks)]
            limit = self.settings.time_limit if worker.is_ready else _START_LIMIT
            left = _LOOK if limit is None else min(_LOOK, limit / 4)
            began = time.monotonic()
            if not self._collect(left, worker):
                # how long this process itself was stopped does not count
                waited += min(time.monotonic() - began, left)
                # at two looks: after Ctrl-Z a process may go on before its workers do
                cause = "was stopped (SIGSTOP)" if was_stopped and worker.is_stopped else ""
                was_stopped = worker.is_stopped
                if limit is not None and waited >= limit:
                    cause = f"did not answer for {limit:g} s (time_limit)"
                if not cause:
                    continue
                self._lost(worker, cause)
            waited, was_stopped = 0.0, False
        self.asked_for.remove(number)
        return self._ready.pop(number)

    def _collect(self, timeout: float, awaited: Worker | None = None) -> bool:
        """Take what comes within ``timeout`` seconds; return True if the awaited worker is heard from."""
        sources: dict[Any, Worker] = {
            end: worker for worker in self._workers for end in (worker.connection, worker.process.sentinel)
        }
        came = connections.wait(list(sources), max(0.0, timeout))
        heard = list(dict.fromkeys(sources[source] for source in came))
        if not came and timeout:  # a process forked at the same moment may keep the sentinel open
            heard = [worker for worker in self._workers if not worker.process.is_alive()]
        for worker in heard:
            is_dead = worker.process.sentinel in came or not came
            while worker.tasks or not worker.is_ready or is_dead:
                if not connections.wait([worker.connection], 0) or not self._take(worker):
                    break
            if is_dead:
                self._lost(worker, _cause_of(worker.process))
        return awaited in heard

    def _take(self, worker: Worker) -> bool:
        """Take one answer; False if there will be none."""
        try:
            result = receive(worker.connection)
        except (EOFError, ConnectionResetError):
            return False
        except Unreadable as unreadable:
            result = Failure.of(unreadable.__cause__ or unreadable)
        if worker.is_ready:
            task = worker.tasks.popleft()
            if task.session == self._session and result is not None:
                self._ready[task.number] = result
        elif isinstance(result, Failure):
            raise WorkerError("a worker process could not start") from WorkerTraceback(result.text)
        worker.is_ready = True
        return True

    def _lost(self, worker: Worker, cause: str) -> None:
        """Replace a worker that is dead or stuck, or give up."""
        what = f"worker process {worker.process.pid} {cause} {worker.at_work_on}"
        stack = worker.stack()
        if (culprit := worker.progress.current_sample) is not None and worker.tasks:
            self._deaths.setdefault(culprit, []).append(f"the worker that read it {cause}")
        left = [task for task in worker.tasks if task.session == self._session]
        position, name = self._workers.index(worker), worker.process.name
        del self._workers[position]
        worker.end(wait=0)
        self._losses += culprit is None or not self._skips_bad  # else it counts against the sample
        if self._losses > self.settings.replacements:
            self.close()
            raise WorkerError(
                f"{what}; {self._losses} workers were lost in this epoch, and replacements={self.settings.replacements}"
                + (f"\nIt was at (most recent call first)\n{stack}" if stack else "")
            )
        at = f"; it was at (most recent call first)\n{stack}" if stack else ""
        _log.warning("%s; a new one makes its batches again%s", what, at)
        try:
            new = self._make_worker(name)
        except OSError as error:
            self.close()
            raise WorkerError(f"{what}, and no new one could be started: {error}") from error
        self._workers.insert(position, new)
        new.progress.session = self._session
        for task in left:
            self._submit(task, new)

    def _submit(self, task: BatchTask, worker: Worker) -> None:
        """Hand over a task without the samples that have ended so many workers that they are left out."""
        deaths = [(index, self._deaths.get(index, [])) for index in task.indices.tolist()] if self._skips_bad else []
        banned = tuple((index, how[-1]) for index, how in deaths if len(how) > self.settings.replacements)
        worker.submit(task._replace(session=self._session, banned=banned))

    @property
    def is_usable(self) -> bool:
        """Return True if there are workers, and not only inherited by a fork."""
        return bool(self._workers) and self._pid == os.getpid()

    @property
    def is_whole(self) -> bool:
        """Return True if all workers are there and alive."""
        return self.is_usable and all(worker.process.is_alive() for worker in self._workers)


def _cause_of(process: Any) -> str:
    process.join(1)  # the exit code is known a moment after the sentinel
    code = process.exitcode
    if code is None:
        return "ended, and another part of this program was told why"
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
        hint = " (what the system does when memory runs out)" if name == "SIGKILL" else ""
        return f"was ended by {name}{hint}"
    return f"was ended by signal {-code}"


def _end(workers: list[Worker], packed: Packed | None) -> None:
    """End all workers at once, and empty the list."""
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.connection.shutdown(socket.SHUT_RDWR)
    deadline = time.monotonic() + GRACE
    while workers:
        workers.pop().end(max(0.001, deadline - time.monotonic()))
    if packed is not None:
        packed.close()


_MOST_CHANGES = 2  # in one epoch; then starting workers takes longer than they save
_WATCHED = (40, 10)  # places of the transform and of the dataset that are looked at in every step


class PoolKeeper:
    """Keeps the workers of one data manager between two iterations.

    Workers hold a copy of the dataset and the transforms. If one of them was changed since, by whatever
    code, new workers are started; what goes unseen says :class:`Outline`.
    """

    def __init__(self) -> None:
        self._idle: WorkerPool | None = None
        self._deaths: dict[int, list[str]] = {}  # sample -> how it ended workers
        self._warned_of: set[str] = set()

    def borrow(self, recipe: BatchRecipe, number: int, settings: WorkerSettings) -> WorkerPool:
        """Return workers, the idle ones if they fit."""
        outline = Outline(vars(recipe.loader), type(recipe.loader), vars(recipe))
        idle, self._idle = self._idle, None
        if idle is not None:
            if idle.is_whole and (idle.number, idle.settings, idle.outline) == (number, settings, outline):
                return idle
            idle.close()
        return WorkerPool(recipe, number, settings, self._deaths, outline)

    def give_back(self, pool: WorkerPool) -> None:
        """Keep workers for the next iteration; those of one other iteration are kept at most."""
        if self._idle is None:
            self._idle = pool
        else:
            pool.close()

    def warn_of_generators(self, names: tuple[str, ...]) -> None:
        """Say once that what makes batches draws from random generators of its own."""
        if new := sorted({*names} - self._warned_of):
            self._warned_of.update(new)
            warnings.warn(
                f"random numbers of batches come from a generator that is kept between them ({', '.join(new)}). Each "
                "worker process has a copy of it: several batches get the same noise, and others than without workers. "
                "Take a parameter rng, or draw from the global generators of numpy, torch or Python: these are "
                "seeded for each batch",
                UserWarning,
                stacklevel=4,
            )

    def close(self) -> None:
        """End the idle workers."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.close()


@dataclasses.dataclass(eq=False, kw_only=True)
class WorkersAhead(EpochBatches):
    """The batches of one epoch, the next ones made by workers while the last one is being used."""

    keeper: PoolKeeper
    """Where the workers come from and go back to."""
    number: int
    """How many workers; no more are started than there are batches."""
    settings: WorkerSettings
    """How they are started and watched."""
    ahead: int | None = None
    """How many batches are made at most beside the one that is asked for; by default what the settings say."""

    _pool: WorkerPool | None = None
    _watches: tuple[StepWatch, ...] = ()
    _n_changes: int = 0

    def get(self, number: int) -> Made:
        """Return batch ``number`` and have those behind it made.

        If the transforms or the dataset were changed since the last one, batches that were made ahead are made again.

        Raises
        ------
        WorkerError
            If more workers were lost than are replaced, or one did not start.
        Exception
            What loading or transforming raised in a worker, with its traceback as the cause.
        """
        if self._pool is not None and any(watch.has_changed() for watch in self._watches):
            self._pool.close()  # its copies of the transforms or the dataset are no longer what these are
            self._pool = None
            self._n_changes += 1
            if self._n_changes > _MOST_CHANGES:
                _log.warning(
                    "the transforms or the dataset are changed again and again within an epoch, and workers have "
                    "copies of them: the other batches of this epoch are made in this process, the same ones as "
                    "without workers. Change them between epochs, or set n_process_augmentation=0"
                )
        if self._n_changes > _MOST_CHANGES:
            return super().get(number)
        if self._pool is None or not self._pool.is_usable:  # a forked process inherits what it cannot use
            # before the workers are started: what changes meanwhile is a change
            watched = zip((self.recipe.transform, self.recipe.loader.dataset), _WATCHED, strict=True)
            self._watches = tuple(StepWatch(value, most) for value, most in watched)
            self._pool = self.keeper.borrow(self.recipe, min(self.number, self.n_batches), self.settings)
            self._pool.begin()
        pool = self._pool
        ahead = self.number * self.settings.prefetch - 1 if self.ahead is None else self.ahead
        wanted = range(number, min(number + 1 + ahead, self.n_batches))
        try:
            if pool.asked_for and number != min(pool.asked_for):  # somebody went to another batch
                pool.begin()
            for each in sorted({*wanted} - pool.asked_for):
                pool.submit(self.task(each))
            made = pool.result(number)
        except BaseException as error:  # of whatever kind: which answer is due next may be unknown now
            self.close(error)
            raise
        if isinstance(made, Failure):
            pool.begin()  # what it says of later batches may have been mended until they are asked for
            raise made.unpacked() from WorkerTraceback(made.text)
        if made.drew:
            self.keeper.warn_of_generators(made.drew)
        return made

    def close(self, error: BaseException | None = None) -> None:
        """Give the workers back, or end them after an interrupt."""
        pool, self._pool = self._pool, None
        if pool is not None and error is None and pool.is_usable:
            self.keeper.give_back(pool)
        elif pool is not None:
            pool.close()
