"""Tasks in processes of this machine, which see large arrays in shared memory and end with who started them."""

import contextlib
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from multiprocessing import connection as connections
from multiprocessing import util
from typing import Any

from delira.data_loading.workers.pool import WorkerTraceback
from delira.data_loading.workers.process import Failure, Packed, Unreadable, receive
from delira.errors import ConfigError, ExecutorError, WorkerLostError, expect
from delira.execution.executor import (
    VISIBLE_GPUS,
    Copies,
    Executor,
    Handle,
    Resources,
    Shared,
    T,
    is_job_count,
    usable_cores,
    visible_gpus,
)
from delira.execution.worker import (
    FORGET,
    RECORD,
    SHARED,
    STOP,
    TASK,
    THREADS,
    UNREADABLE,
    WARNING,
    Setup,
    dumps_task,
    refusing_what_cannot_travel,
    shared_in,
)

_log = logging.getLogger("delira")

#: seconds between two looks at processes that say nothing
_LOOK = 0.5
#: seconds that an idle process has to end by itself
_GRACE = 2.0


class ProcessExecutor(Executor):
    """Runs tasks in processes of this machine, each started afresh: what the script did is not done again.

    Parameters
    ----------
    n_jobs
        Processes at the same time; one for each core if ``None`` or -1.
    gpus
        What ``CUDA_VISIBLE_DEVICES`` calls the GPUs that are dealt out, e.g. ``[0, 1]``; those of this machine if
        ``None``.

    Raises
    ------
    ConfigError
        If ``n_jobs`` is no number of processes, ``gpus`` no list of names, or the system has no sockets that hand over
        files (Windows).
    """

    def __init__(self, n_jobs: int | None = None, *, gpus: Sequence[int | str] | None = None):
        is_count = n_jobs is None or is_job_count(n_jobs)
        expect(
            ("n_jobs", n_jobs, is_count, "a number of processes from 1, or -1: one for each core"),
            ("gpus", gpus, gpus is None or _are_gpus(gpus), "names of different GPUs, e.g. [0, 1]"),
        )
        if not hasattr(socket, "send_fds"):
            raise ConfigError("executor='processes' needs a Unix system; leave executor and n_jobs out")
        self.n_jobs: int = usable_cores() if n_jobs is None or n_jobs == -1 else int(n_jobs)
        self._gpus = {str(gpu): 1.0 for gpu in (visible_gpus() if gpus is None else gpus)}
        """What is left of each GPU."""
        self._waiting: list[_ProcessHandle[Any]] = []
        self._workers: list[_Process] = []
        self._shared = Copies[tuple[int, Packed]](lambda copy: copy[1].close())
        """A key, and what is shared as it is sent."""
        self._keys = itertools.count()
        self._warned: dict[Any, Any] = {}
        self._has_told = False
        # at the exit of a program that does not shut it down
        self._end = util.Finalize(self, _end_all, args=(self._workers, self._shared), exitpriority=100)

    def submit(self, task: Callable[[], T], resources: Resources) -> Handle[T]:
        """Take a task; see :meth:`Executor.submit`."""
        if not self._end.still_active():
            raise ExecutorError("this executor was shut down; make a new one")
        resources = resources.settled()
        if resources.gpus > len(self._gpus):
            raise ExecutorError(
                f"a task needs {resources.gpus:g} GPUs, and {len(self._gpus)} can be seen here; ask for as many in "
                f"resources={{'gpus': …}}, train on the CPU, or see that {VISIBLE_GPUS} names those that are there"
            )
        if resources.cpus > (cores := usable_cores()) and not self._has_told:
            self._has_told = True
            _log.warning("a task asks for %d cores, and this machine has %d: it takes longer", resources.cpus, cores)
        with refusing_what_cannot_travel(task, "the task"):
            shared = shared_in(task)
            keys = {id(each): self._shared.of(each, self._packed)[0] for each in shared}
            packed = Packed((TASK, task), dumps=dumps_task(keys))
        handle = _ProcessHandle[T](self, packed, shared, resources)
        self._waiting.append(handle)
        self.poll(0)
        return handle

    def n_gpus(self) -> int:
        """Return how many GPUs are dealt out."""
        return len(self._gpus)

    def shutdown(self) -> None:
        """End all processes at once."""
        for handle in [*self._waiting, *(each.handle for each in self._workers if each.handle is not None)]:
            handle.fail(CancelledError("the executor was shut down"))
        self._waiting.clear()
        self._end()

    def cancel(self, handle: "_ProcessHandle[Any]") -> None:
        """Have a task not begin, or ask it to stop."""
        if handle in self._waiting:
            self._waiting.remove(handle)
            handle.fail(CancelledError("the task was cancelled before it began"))
        for worker in self._workers:
            if worker.handle is handle:
                with contextlib.suppress(OSError):  # it has ended
                    worker.orders.send(STOP)

    def poll(self, timeout: float) -> None:
        """Hear what the processes say, for ``timeout`` seconds at most, and hand out what waits."""
        if timeout:
            connections.wait([worker.tasks for worker in self._workers if worker.handle], min(timeout, _LOOK))
        for worker in [*self._workers]:
            self._hear(worker)
        for handle in [*self._waiting]:
            if len([worker for worker in self._workers if worker.handle]) >= self.n_jobs:
                break
            if (gpus := self._free_gpus(handle.resources.gpus)) is not None:
                self._waiting.remove(handle)
                self._begin(handle, gpus)

    # ------------------------------------------------------------------ one task after the other

    def _begin(self, handle: "_ProcessHandle[Any]", gpus: tuple[str, ...]) -> None:
        wanted = (handle.resources.cpus, gpus)
        idle = [worker for worker in self._workers if worker.handle is None]
        worker = next((each for each in idle if each.kind == wanted), None)
        while worker is None and idle and len(self._workers) >= self.n_jobs:
            self._drop(idle.pop())
        try:
            if worker is None:
                worker = _Process(*wanted)
                self._workers.append(worker)
            worker.handle = handle
            for gpu in gpus:
                self._gpus[gpu] -= min(handle.resources.gpus, 1)
            shared = dict(self._shared.made())
            if gone := worker.has - {*shared}:
                with contextlib.closing(Packed((FORGET, gone))) as packed:
                    packed.send(worker.tasks)
                worker.has -= gone
            for key, packed in shared.items():
                if key not in worker.has:
                    packed.send(worker.tasks)
                    worker.has.add(key)
            handle.packed.send(worker.tasks)
        except OSError as error:
            if worker is None:
                handle.fail(WorkerLostError(f"no process could be started: {error}; choose a smaller n_jobs"))
            else:
                self._lose(worker)

    def _hear(self, worker: "_Process") -> None:
        while worker in self._workers and connections.wait([worker.tasks], 0):
            try:
                kind, value = receive(worker.tasks)
            except (EOFError, OSError):
                self._lose(worker)
            except Unreadable as unreadable:
                self._finish(worker, Failure.of(unreadable.__cause__ or unreadable))
            else:
                self._understand(worker, kind, value)
        if worker in self._workers and worker.process.poll() is not None:
            self._lose(worker)

    def _understand(self, worker: "_Process", kind: str, value: Any) -> None:
        if kind == RECORD:
            logger = logging.getLogger(value.name)
            if logger.isEnabledFor(value.levelno):
                logger.handle(value)
        elif kind == WARNING:
            message, category, file, line = value
            try:
                warnings.warn_explicit(message, category, file, line, registry=self._warned)
            except Warning as error:  # the filters of this program make it an error: that of the task, as it is here
                error.add_note(f"warned by {file}:{line} in process {worker.process.pid}, which was ended")
                if (handle := self._let_go(worker)) is not None:
                    handle.fail(error)
                self._drop(worker)
        else:
            self._finish(worker, value)
            if kind == UNREADABLE:  # what it was sent before the task, perhaps: it lacks that for the next one, too
                self._drop(worker)

    def _finish(self, worker: "_Process", value: Any) -> None:
        handle = self._let_go(worker)
        if handle is None:
            return
        if isinstance(value, Failure):
            error = value.unpacked()
            error.__cause__ = WorkerTraceback(value.text)
            handle.fail(error)
        else:
            handle.succeed(value)

    def _lose(self, worker: "_Process") -> None:
        """A process has ended, and nobody told it to."""
        handle = self._let_go(worker)
        self._workers.remove(worker)
        cause = worker.end(_GRACE)
        if handle is not None:
            handle.fail(WorkerLostError(f"process {worker.process.pid} {cause} while it ran a task"))

    def _drop(self, worker: "_Process") -> None:
        self._workers.remove(worker)
        worker.end(_GRACE)

    def _let_go(self, worker: "_Process") -> "_ProcessHandle[Any] | None":
        handle, worker.handle = worker.handle, None
        for gpu in () if handle is None else worker.kind[1]:
            self._gpus[gpu] += min(handle.resources.gpus, 1)  # type: ignore[union-attr]
        return handle

    def _free_gpus(self, wanted: float) -> tuple[str, ...] | None:
        """Return GPUs that have as much left, those with most first; ``None`` if there are none now."""
        if wanted == 0:
            return ()
        share, number = min(wanted, 1.0), max(1, round(wanted))
        free = [gpu for gpu, left in self._gpus.items() if left >= share - 1e-9]
        free.sort(key=lambda gpu: -self._gpus[gpu])
        return tuple(free[:number]) if len(free) >= number else None

    # ------------------------------------------------------------------ what is sent

    def _packed(self, value: Any) -> tuple[int, Packed]:
        key = next(self._keys)
        return key, Packed((SHARED, (key, value)), dumps=dumps_task({}), together=True)


class _ProcessHandle(Handle[T]):
    """One task of a :class:`ProcessExecutor`."""

    def __init__(self, executor: ProcessExecutor, packed: Packed, shared: list[Shared[Any]], resources: Resources):
        self.packed, self.shared, self.resources = packed, shared, resources
        self._executor = executor
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def succeed(self, value: T) -> None:
        """The task returned a value."""
        self._is_done, self._value = True, value
        self.packed.close()

    def fail(self, error: BaseException) -> None:
        """The task raised an error, or was lost."""
        self._is_done, self._error = True, error
        self.packed.close()

    def done(self) -> bool:
        """Return True if there is a result."""
        if not self._is_done:
            self._executor.poll(0)
        return self._is_done

    def result(self) -> T:
        """Wait for the result."""
        while not self._is_done:
            self._executor.poll(_LOOK)
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Have it not begin, or ask it to stop."""
        if not self._is_done:
            self._executor.cancel(self)


class _Process:
    """One worker process, as seen from here.

    Parameters
    ----------
    cpus, gpus
        What its libraries are told to use.

    Raises
    ------
    OSError
        If the system gives no further process or file.
    """

    def __init__(self, cpus: int, gpus: tuple[str, ...]):
        self.kind = cpus, gpus
        self.handle: _ProcessHandle[Any] | None = None
        #: keys of what is shared that it has
        self.has: set[int] = set()
        environment = {**os.environ, **dict.fromkeys(THREADS, str(cpus))}
        if gpus:
            environment[VISIBLE_GPUS] = ",".join(gpus)
        self.tasks, tasks = socket.socketpair()
        self.orders, orders = socket.socketpair()
        with tasks, orders, contextlib.ExitStack() as if_it_fails:
            if_it_fails.callback(self.tasks.close)
            if_it_fails.callback(self.orders.close)
            descriptors = tasks.fileno(), orders.fileno()
            # flags such as -W and -X hold there, too
            flags = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
            command = [sys.executable, *flags, "-c", "from delira.execution.worker import main; main()"]
            # a session of its own: Ctrl-C reaches the process that started it, which decides
            self.process = subprocess.Popen(
                [*command, *map(str, descriptors)], pass_fds=descriptors, env=environment, start_new_session=True
            )
            with contextlib.closing(Packed(Setup.of_this())) as packed:
                packed.send(self.tasks)
            if_it_fails.pop_all()

    def end(self, wait: float) -> str:
        """End it, after ``wait`` seconds by force; returns how it ended."""
        self.orders.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(wait)
        self.process.kill()  # a stopped one, too
        code = self.process.wait()
        self.tasks.close()
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            return f"was ended by {name}{' (what the system does when memory runs out)' * (name == 'SIGKILL')}"
        return f"was ended by signal {-code}"


def _end_all(workers: list[_Process], shared: Copies[tuple[int, Packed]]) -> None:
    for worker in workers:
        worker.orders.close()
    deadline = time.monotonic() + _GRACE
    while workers:
        workers.pop().end(max(0.0, deadline - time.monotonic()))
    shared.clear()


def _are_gpus(gpus: object) -> bool:
    """Return True for a list of different numbers from 0, or of texts."""
    if not isinstance(gpus, (list, tuple)):
        return False
    names = [gpu for gpu in gpus if (isinstance(gpu, str) and gpu) or (type(gpu) is int and gpu >= 0)]
    return len(names) == len(gpus) == len({*map(str, gpus)})
