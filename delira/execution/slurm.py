"""Tasks as jobs of SLURM, by submitit."""

import contextlib
import dataclasses
import hashlib
import importlib
import itertools
import logging
import math
import os
import pickle
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, BinaryIO

from delira.data_loading.workers.pool import WorkerTraceback
from delira.data_loading.workers.process import Failure
from delira.errors import (
    ConfigError,
    ExecutorError,
    TrainingInterrupted,
    WorkerError,
    WorkerLostError,
    expect,
    import_optional,
)
from delira.execution.executor import Copies, Executor, Handle, Resources, Shared, T, is_job_count
from delira.execution.worker import (
    THREADS,
    Setup,
    dumps_answer,
    dumps_task,
    loads_task,
    refusing_what_cannot_travel,
    shared_in,
)
from delira.utils.files import publish
from delira.utils.threads import threads_limited

_log = logging.getLogger("delira")

#: seconds between two looks at a job
_LOOK = 0.5
#: seconds between two looks at the queue
_QUEUE = 5.0
#: seconds between two tries to submit a job while others run, and for which it is tried when none does
_AGAIN, _PATIENCE = 30.0, 600.0
#: options that a task decides by its resources -> what these call them
_OF_TASKS = {"cpus_per_task": "cpus", "gpus_per_node": "gpus"}
#: how often a job may run out of its time: each time it goes on from its checkpoint
_MOST_TIMEOUTS = 10_000


class SlurmExecutor(Executor):
    """Runs tasks as jobs of SLURM, those that are submitted together as one array; ``pip install delira[slurm]``.

    A job that runs out of its time, or makes place for another one, writes a checkpoint, is queued again, and goes on
    from there. Where this program ends before its jobs they go on, and the next one that works at the run waits for
    them.

    Parameters
    ----------
    folder
        Where scripts, logs and tasks of jobs lie; all machines must see it, and it is made for you alone.
    n_jobs
        Jobs at the same time; ``None`` or -1: as many as the cluster runs.
    timeout_min
        Minutes that a job may take before it is queued again.
    signal_delay_s
        Seconds that it has to write its checkpoint.
    options
        Further ones of ``submitit.SlurmExecutor``: ``{"partition": "gpu", "mem": "16GB"}``. Cores and GPUs are what
        each task needs: ``kfold(…, resources={"cpus": 8, "gpus": 1})``.
    cluster
        ``"slurm"``; ``"local"``: processes of this machine, and ``"debug"``: this process, to try it.

    Raises
    ------
    ConfigError
        If an argument is none, or there is no SLURM here.
    MissingBackendError
        If submitit is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        n_jobs: int | None = None,
        timeout_min: float = 60,
        signal_delay_s: int = 90,
        options: Mapping[str, Any] | None = None,
        cluster: str = "slurm",
    ):
        is_count = n_jobs is None or is_job_count(n_jobs)
        is_time = isinstance(timeout_min, (int, float)) and not isinstance(timeout_min, bool) and timeout_min > 0
        is_delay = isinstance(signal_delay_s, int) and not isinstance(signal_delay_s, bool)
        is_delay = is_delay and is_time and 0 < signal_delay_s < 60 * timeout_min
        is_known = cluster in ("slurm", "local", "debug")
        is_mapping = options is None or isinstance(options, Mapping)
        expect(
            ("folder", folder, isinstance(folder, (str, os.PathLike)) and str(folder) != "", "a path"),
            ("n_jobs", n_jobs, is_count, "a number of jobs from 1, or -1"),
            ("timeout_min", timeout_min, is_time, "a number of minutes above 0"),
            ("signal_delay_s", signal_delay_s, is_delay, "whole seconds, fewer than timeout_min has"),
            ("options", options, is_mapping, "a dict of options of submitit"),
            ("cluster", cluster, is_known, "'slurm', 'local' or 'debug'"),
        )
        _refuse_those_of_tasks(options or {})
        submitit = import_optional("submitit", "executor='slurm'", "delira[slurm]")
        self._errors = importlib.import_module("submitit.core.utils")
        self.folder = Path(folder).absolute()
        self.n_jobs = None if n_jobs in (None, -1) else int(n_jobs)  # type: ignore[arg-type]
        _make_private(self.folder)
        self._tasks = self.folder / f"tasks-{uuid.uuid4().hex[:8]}"
        own: dict[str, Any] = {"timeout_min": timeout_min, "signal_delay_s": signal_delay_s}
        if cluster == "slurm":
            own = {"time": math.ceil(timeout_min), "signal_delay_s": signal_delay_s, "job_name": "delira"}
            own |= {} if self.n_jobs is None else {"array_parallelism": self.n_jobs}
        try:
            make = {"slurm": submitit.SlurmExecutor, "local": submitit.LocalExecutor, "debug": submitit.DebugExecutor}
            limit = {} if cluster == "debug" else {"max_num_timeout": _MOST_TIMEOUTS}
            self._executor = make[cluster](self.folder / "%j", **limit)
            self._executor.update_parameters(**own, **(options or {}))
        except (RuntimeError, ValueError, NameError, TypeError, AssertionError) as error:
            raise ConfigError(f"executor='slurm' cannot be used here: {error}") from error
        self._is_slurm = cluster == "slurm"
        self._has_submitted, self._again_at = False, 0.0
        self._refused_at: float | None = None
        """Since when the scheduler refuses jobs."""
        self._looked_at = 0.0
        self._queued: set[str] = set()
        """What the queue had when it was last looked at."""
        self._known: set[str] = set()
        self._gone: set[str] = set()
        self._shared = Copies[_File](lambda file: Path(file.path).unlink(missing_ok=True))
        self._numbers = itertools.count()
        self._waiting: list[_SlurmHandle[Any]] = []
        self._running: list[_SlurmHandle[Any]] = []
        self._is_open = True

    def submit(self, task: Callable[[], T], resources: Resources) -> Handle[T]:
        """Take a task; see :meth:`Executor.submit`."""
        if not self._is_open:
            raise ExecutorError("this executor was shut down; make a new one")
        resources = resources.settled()
        with refusing_what_cannot_travel(task, "the task"):
            shared = shared_in(task)
            written = tuple(self._shared.of(each, self._written) for each in shared)
            keys = {id(each): number for number, each in enumerate(shared)}
            body = self._written(task, "task", keys)
        job = _Job(Setup.of_this(), resources.cpus, body, written)
        handle = _SlurmHandle[T](self, job, shared, resources)
        self._waiting.append(handle)
        return handle

    def shutdown(self) -> None:
        """Cancel all jobs, and remove what they were given; their logs stay."""
        if not self._is_open:
            return
        self._is_open = False
        for handle in [*self._waiting, *self._running]:
            handle.cancel()
        self._waiting.clear()
        shutil.rmtree(self._tasks, ignore_errors=True)
        for pickled in self.folder.glob("*/*.pkl"):
            with contextlib.suppress(OSError):
                pickled.unlink()

    def n_gpus(self) -> float | None:
        """Return None: nobody here knows what GPUs the machines of SLURM have."""
        return None if self._is_slurm else super().n_gpus()

    def poll(self) -> None:
        """Submit what waits, what needs the same as one array.

        Raises
        ------
        ExecutorError
            If the scheduler does not take it, and no job has been taken yet, or none has run for some time.
        """
        self._running = [handle for handle in self._running if not handle.has_ended()]
        if time.monotonic() < self._again_at:
            return
        place = len(self._waiting)
        if not self._is_slurm and self.n_jobs is not None:
            place = self.n_jobs - len(self._running)
        while self._waiting and place > 0:
            needs = self._waiting[0].resources
            together = [handle for handle in self._waiting if handle.resources == needs][:place]
            self._executor.parameters.pop("gpus_per_node", None)
            gpus = {"gpus_per_node": math.ceil(needs.gpus)} if needs.gpus else {}
            self._executor.update_parameters(cpus_per_task=needs.cpus, **gpus)
            try:
                jobs = self._executor.submit_array([each.job for each in together])
            except (self._errors.FailedJobError, subprocess.SubprocessError, OSError) as error:
                self._put_off(error)
                return
            self._refused_at = None
            self._has_submitted = True
            for handle, job in zip(together, jobs, strict=True):
                handle.submitted = job
                self._waiting.remove(handle)
                self._running.append(handle)
            place -= len(together)

    def _put_off(self, error: Exception) -> None:
        """Try again later while jobs run that a refusal does not concern; they must not be cancelled for it."""
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
        if not self._has_submitted or (not self._running and now > self._refused_at + _PATIENCE):
            raise ExecutorError(
                f"SLURM does not take the job: {error}; see options= of the SlurmExecutor (partition, account, memory, "
                "timeout_min), resources= (cores and GPUs of a task), and what sinfo says of the partition"
            ) from error
        if now == self._refused_at:
            _log.warning("SLURM does not take a job, which is tried again every %g s: %s", _AGAIN, error)
        self._again_at = now + _AGAIN

    def has_ended(self, job: Any) -> bool:
        """Return True if a job has an answer, or is in the queue no more.

        The queue is asked for all jobs at once; submitit would ask the accounting, which not every cluster has.
        """
        if not self._is_slurm:
            return bool(job.done())
        if job.paths.result_pickle.exists():
            return True
        if time.monotonic() > self._looked_at + _QUEUE:
            self._looked_at = time.monotonic()
            command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            except (OSError, subprocess.SubprocessError):  # nobody knows
                return False
            queued = {*done.stdout.split()}
            # twice, as a job that was just submitted may not be there yet, and an answer may be on its way
            self._gone, self._queued = {*self._known} - queued - self._queued, queued
            self._known = {str(handle.submitted.job_id) for handle in self._running}
        return str(job.job_id) in self._gone

    def is_lost(self, job: Any) -> bool:
        """Return True if a job that has ended left no answer."""
        return self._is_slurm and not job.paths.result_pickle.exists()

    def drop(self, handle: "_SlurmHandle[Any]") -> bool:
        """Return True if a task had not been submitted yet; it is not then."""
        if handle not in self._waiting:
            return False
        self._waiting.remove(handle)
        return True

    def _written(self, value: Any, what: str = "shared", keys: Mapping[int, int] | None = None) -> "_File":
        """Write what a job needs where nobody else reads it: it may hold keys of a store."""
        body = dumps_task(keys or {})(value, protocol=pickle.HIGHEST_PROTOCOL)
        self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._tasks / f"{what}-{next(self._numbers)}"

        def write(file: BinaryIO) -> None:
            os.fchmod(file.fileno(), 0o600)  # before there is anything to read
            file.write(body)

        publish(path, write)
        return _File(str(path), hashlib.sha256(body).hexdigest())


class _SlurmHandle(Handle[T]):
    """One task of a :class:`SlurmExecutor`."""

    def __init__(self, executor: SlurmExecutor, job: "_Job", shared: list[Shared[Any]], resources: Resources):
        self.job, self.shared, self.resources = job, shared, resources
        self.submitted: Any = None
        self._executor = executor
        self._is_dropped = False

    def has_ended(self) -> bool:
        """Return True if it has an answer, or SLURM knows it no more."""
        return self._executor.has_ended(self.submitted)

    def done(self) -> bool:
        """Return True if there is a result."""
        if self._is_dropped:
            return True
        self._executor.poll()
        return self.submitted is not None and self.has_ended()

    def result(self) -> T:
        """Wait for the result."""
        while not self.done():
            time.sleep(_LOOK)
        if self._is_dropped:
            raise CancelledError("the task was cancelled before it was submitted")
        errors = self._executor._errors
        if self._executor.is_lost(self.submitted):
            raise WorkerLostError(f"job {self.submitted.job_id} is in the queue no more, and has left no answer")
        try:
            answer = pickle.loads(self.submitted.result())
        except errors.FailedJobError as error:
            raise WorkerError(f"job {self.submitted.job_id} failed before its task began: {error}") from error
        except errors.UncompletedJobError as error:
            raise WorkerLostError(f"job {self.submitted.job_id} ended without an answer: {error}") from error
        if isinstance(answer, Failure):
            failed = answer.unpacked()
            failed.__cause__ = WorkerTraceback(answer.text)
            raise failed
        return answer  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Have it not begin, or ask it to stop."""
        if self._executor.drop(self):
            self._is_dropped = True
        elif self.submitted is not None and not self.has_ended():
            self.submitted.cancel(check=False)


def _make_private(folder: Path) -> None:
    """Make the folder of tasks and answers, which are pickles: nobody else may put one there, or read them.

    Raises
    ------
    ConfigError
        If it cannot be made, or others may write into it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not folder.is_dir() or folder.stat().st_mode & 0o022:
            raise ConfigError(
                f"folder={str(folder)!r} is a file, or others may write into it, and what lies there is unpickled; "
                f"name one that is yours alone, or call chmod 700 {str(folder)!r}"
            ) from None
    except OSError as error:
        raise ConfigError(f"folder={str(folder)!r} cannot be made: {error}") from error


# ------------------------------------------------------------------ in a job


@dataclasses.dataclass(frozen=True)
class _File:
    """A task, or what tasks share, on disk."""

    path: str
    sha256: str

    def read(self, loads: Callable[[bytes], Any] = pickle.loads) -> Any:
        """Return it, if it is what was written: it is a pickle, of the program that waits for the answer."""
        body = Path(self.path).read_bytes()
        if hashlib.sha256(body).hexdigest() != self.sha256:
            raise WorkerError(f"{self.path} is not what was written for this job")
        return loads(body)


def _refuse_those_of_tasks(options: Mapping[str, Any]) -> None:
    if asked := [name for name in _OF_TASKS if name in options]:
        instead = ", ".join(f"'{_OF_TASKS[name]}': {options[name]!r}" for name in asked)
        raise ConfigError(
            f"options has {' and '.join(asked)}, which each task says by itself; leave them out, and say "
            f"resources={{{instead}}} where the executor is used, e.g. in kfold"
        )


@dataclasses.dataclass(frozen=True)
class _Job:
    """What a job of SLURM does; one that is queued again does the same, from its checkpoint."""

    setup: Setup
    cpus: int
    task: _File
    shared: tuple[_File, ...]

    def __call__(self) -> bytes:
        """Do the task, and return its answer."""
        self.setup.take_over()
        os.environ.update(dict.fromkeys(THREADS, str(self.cpus)))
        answer: Any
        try:
            with threads_limited(self.cpus):  # numpy was loaded before the environment was that
                shared = {number: Shared(file.read()) for number, file in enumerate(self.shared)}
                answer = self.task.read(loads_task(shared))()
        except TrainingInterrupted as error:
            answer = Failure.of(error, dumps_answer)
        except SystemExit:  # it was queued again
            raise
        except BaseException as error:
            answer = Failure.of(error, dumps_answer)
        try:
            return dumps_answer(answer)
        except Exception as error:
            error.add_note("while the answer of a task was sent")
            return dumps_answer(Failure.of(error, dumps_answer))

    def checkpoint(self) -> Any:
        """What submitit queues again."""
        return importlib.import_module("submitit.helpers").DelayedSubmission(self)
