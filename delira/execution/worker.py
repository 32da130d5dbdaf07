"""What runs in a process of a ``ProcessExecutor``, and how tasks and answers travel.

Two sockets lead to the process that wants something done. Through one come tasks, and go answers, log records and
warnings; through the other comes a byte if the task is to stop, and the end if that process has ended. Only objects of
two live processes are pickled here, never what comes from disk.
"""

import contextlib
import faulthandler
import io
import logging
import logging.handlers
import os
import pickle
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

from delira.data_loading.workers.process import (
    PARENT_DEATH_SIGNAL,
    Failure,
    Packed,
    Unreadable,
    ask_system,
    find_unpicklable,
    keep_freed_memory,
    receive,
)
from delira.errors import ConfigError, ExecutorError, TrainingInterrupted
from delira.execution.executor import Shared
from delira.utils import references
from delira.utils.signals import DUMP_SIGNAL

#: kinds of messages to a worker, and from it
SETUP, SHARED, FORGET, TASK = "setup", "shared", "forget", "task"
RECORD, WARNING, DONE, UNREADABLE = "record", "warning", "done", "unreadable"
STOP = b"s"
#: what libraries read when they are loaded
THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS",
)  # fmt: skip


class Setup(NamedTuple):
    """What a worker takes over from the process that started it."""

    path: list[str]
    argv: list[str]
    main_file: str | None
    """Of the script that runs: what asks for it finds it here, too."""
    levels: dict[str, int]
    """Of the root logger, and of delira's."""
    dies_with: int | None
    """The process whose end ends this one, if its main thread started this one."""
    known_as: dict[str, str]
    """Modules that files know under another name."""

    @classmethod
    def of_this(cls) -> "Setup":
        """What a worker of this process takes over."""
        main_file = getattr(sys.modules.get("__main__"), "__file__", None)
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in ("", "delira")}
        starter = os.getpid() if threading.current_thread() is threading.main_thread() else None
        return cls([*sys.path], [*sys.argv], main_file, levels, starter, {**references.known_as})

    def take_over(self) -> None:
        """Be like the process that started this one, as far as code can see, and train all the time."""
        keep_freed_memory()
        sys.path[:] = self.path
        sys.argv[:] = self.argv
        references.known_as.update(self.known_as)
        if self.main_file is not None:
            sys.modules["__main__"].__file__ = self.main_file
        for name, level in self.levels.items():
            logging.getLogger(name).setLevel(level)


# ------------------------------------------------------------------ objects on their way


def dumps_task(keys: Mapping[int, int]) -> Callable[..., bytes]:
    """Return a ``dumps`` that carries functions and classes of scripts, and stands a key for what is shared.

    Parameters
    ----------
    keys
        ``id`` of each :class:`Shared` that the worker has -> its key.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc,name-defined]
        def persistent_id(self, value: object) -> int | None:
            return keys.get(id(value)) if isinstance(value, Shared) else None

    def dumps(value: object, **options: Any) -> bytes:
        with io.BytesIO() as file:
            Pickler(file, **options).dump(value)
            return file.getvalue()

    return dumps


def shared_in(task: object) -> list[Shared[Any]]:
    """Return what is shared among the attributes and arguments of a task."""
    parts = [*vars(task).values()] if hasattr(task, "__dict__") else []
    parts += [*getattr(task, "args", ()), *getattr(task, "keywords", {}).values()]
    return [part for part in parts if isinstance(part, Shared)]


@contextlib.contextmanager
def refusing_what_cannot_travel(value: object, what: str) -> Iterator[None]:
    """Scope in which a task is pickled; what cannot be is named, with the cure.

    Raises
    ------
    ExecutorError
        Saying where it is.
    """
    try:
        yield
    except Exception as error:
        place, reason = find_unpicklable(value, dumps_task({})) or (what, error)
        raise ExecutorError(
            f"tasks are sent to other processes, but {place} cannot be pickled: {reason}; open it when it is first "
            "used and leave it out of __getstate__, or leave executor, n_jobs and devices out"
        ) from error


def loads_task(kept: Mapping[int, Shared[Any]]) -> Callable[..., Any]:
    """Return the ``loads`` of the worker that has what is shared, by key."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: int) -> Shared[Any]:
            return kept[key]

    return lambda body, **options: Unpickler(io.BytesIO(body), **options).load()


class _AnswerPickler(pickle.Pickler):
    """Names classes of the script: the process that wants the answer has them, and they are the same ones there."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, type) and value.__module__ == "__main__":
            _of_script[value.__qualname__] = value
            return class_of_script, (value.__qualname__,)
        return NotImplemented


#: classes of the script of another process, as they came from it
_of_script: dict[str, type] = {}


def class_of_script(name: str) -> type:
    """Return a class of the script that runs, by its qualified name."""
    if name in _of_script:
        return _of_script[name]
    found: Any = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def dumps_answer(value: object, protocol: int | None = None, **options: Any) -> bytes:
    """As ``pickle.dumps``, for what goes back."""
    with io.BytesIO() as file:
        _AnswerPickler(file, protocol, **options).dump(value)
        return file.getvalue()


# ------------------------------------------------------------------ the process


class _Forward(logging.handlers.QueueHandler):
    """Hands log records to the process that wants the work done."""

    queue: "_Worker"  # type: ignore[assignment]

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.send(RECORD, record)


class _Worker:
    """The one of this process."""

    def __init__(self, tasks: socket.socket, orders: socket.socket):
        self._tasks, self._orders = tasks, orders
        self._kept: dict[int, Shared[Any]] = {}
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Do tasks until there are no more."""
        with contextlib.suppress(EOFError, OSError):
            setup: Setup = receive(self._tasks)
            self._settle_in(setup)
            while self._take():
                pass

    def _take(self) -> bool:
        """Do what comes next; False if it cannot be read, nor what follows."""
        try:
            kind, value = receive(self._tasks, private=True, loads=loads_task(self._kept))
        except Unreadable as unreadable:
            error = unreadable.__cause__ or unreadable
            error.add_note("while a worker process unpacked what it was sent: its modules must be importable there")
            self.send(UNREADABLE, Failure.of(error, dumps_answer))
            return False
        if kind == SHARED:
            key, shared = value
            self._kept[key] = Shared(shared)
            return True
        if kind == FORGET:
            for key in value:
                del self._kept[key]
            return True
        answer: Any
        try:
            answer = value()
        except BaseException as error:  # SystemExit too: the other process decides
            answer = Failure.of(error, dumps_answer)
        try:
            self.send(DONE, answer)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            error.add_note("while the answer of a task was sent")
            self.send(DONE, Failure.of(error, dumps_answer))
        return True

    def send(self, kind: str, value: Any) -> None:
        """Send a message; threads may."""
        with contextlib.closing(Packed((kind, value), dumps=dumps_answer)) as packed, self._sending:
            packed.send(self._tasks)

    def _settle_in(self, setup: Setup) -> None:
        if setup.dies_with is not None and sys.platform == "linux":  # even if this process is stopped then
            ask_system("prctl", PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if setup.dies_with != os.getppid():
                os._exit(1)
        faulthandler.enable()
        faulthandler.register(DUMP_SIGNAL)
        setup.take_over()
        # outside of trainings, which hear of it at their next step
        signal.signal(signal.SIGTERM, _interrupt)
        forward = _Forward(self)  # type: ignore[arg-type]
        logging.getLogger().addHandler(forward)
        warnings.simplefilter("always")  # which of them are shown the other process knows
        warnings.showwarning = self._show_warning  # type: ignore[assignment]
        threading.Thread(target=self._hear, name="delira orders", daemon=True).start()

    def _show_warning(self, message: Warning | str, category: type[Warning], file: str, line: int, *rest: Any) -> None:
        with contextlib.suppress(Exception):  # of a class that cannot be sent; the training does not depend on it
            self.send(WARNING, (str(message), category, file, line))

    def _hear(self) -> None:
        """Stop the task if that is wanted, and end this process when nobody wants anything any more."""
        while self._orders.recv(1) == STOP:
            told = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
            if getattr(told, "received", None) is None:  # or it has heard of it from the system, too
                os.kill(os.getpid(), signal.SIGTERM)
        os._exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TrainingInterrupted(number, f"{signal.Signals(number).name}: stopped where no training was running")


def main() -> None:
    """Be a worker; the arguments are the descriptors of the two sockets."""
    descriptors = [int(text) for text in sys.argv[1:]]
    if len(descriptors) != 2:
        raise ConfigError("worker processes are started by executors: kfold(executor='processes')")
    tasks, orders = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    _Worker(tasks, orders).serve()
