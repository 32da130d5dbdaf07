"""What runs in a worker process."""

import contextlib
import faulthandler
import gc
import itertools
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any, NamedTuple

from delira.data_loading._threads import use_one_thread
from delira.data_loading.recipe import BatchRecipe, BatchTask, Made
from delira.data_loading.workers.inside import generators_in, own_state
from delira.data_loading.workers.transport import receive, send
from delira.errors import DataError

#: makes a worker write down what each of its threads is doing
DUMP_SIGNAL = signal.SIGUSR2

#: number of the answer that says that a worker is ready
READY = -1

# of mallopt and prctl, which Python does not name
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _PARENT_DEATH_SIGNAL = -1, -3, 1

_WATCHED_BATCHES = 3  # of each worker; then it is known whether a generator is drawn from

_PROGRESS = struct.Struct("<qqq")  # the session that counts, what is going on, with which sample
_IDLE, _LOADING, _TRANSFORMING = range(3)


class Failure(NamedTuple):
    """An exception on its way to the main process."""

    error: Any
    """The exception, or its class, arguments and attributes where it cannot be pickled."""
    text: str
    """Its traceback, which an exception loses on the way."""
    notes: tuple[str, ...]
    """Its notes, which some exceptions lose."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Pack an exception: as it is if it can travel, else what it said."""
        text = "".join(traceback.format_exception(error))
        notes = tuple(map(str, getattr(error, "__notes__", ())))
        attributes = {name: value for name, value in vars(error).items() if name != "__notes__"}
        for packed in (error, (type(error), error.args, attributes)):
            failure = cls(packed, text, notes)
            with contextlib.suppress(Exception):
                twin = pickle.loads(pickle.dumps(failure)).unpacked()
                if type(twin) is type(error) and str(twin) == str(error):
                    return failure
        said = type(error).__name__
        with contextlib.suppress(Exception):  # some cannot even be shown
            said = f"{said}: {error}"
        return cls(DataError(said), text, notes)

    def unpacked(self) -> BaseException:
        """Return the exception as it was raised, with its notes."""
        error = self.error
        if isinstance(error, tuple):
            cls, args, attributes = error
            error = cls.__new__(cls, *args)  # its constructor may want something else than it keeps
            error.args = args
            error.__dict__.update(attributes)
        if self.notes:
            error.__notes__ = [*self.notes]
        return error  # type: ignore[no-any-return]


class Progress:
    """A few numbers in a file that a process and one of its workers share."""

    size = _PROGRESS.size

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, self.size)

    @property
    def session(self) -> int:
        """The iteration that batches are made for; tasks of older ones are dropped."""
        return int(_PROGRESS.unpack_from(self._memory)[0])

    @session.setter
    def session(self, session: int) -> None:
        struct.pack_into("<q", self._memory, 0, session)

    def sample(self, index: int) -> None:
        """Sample ``index`` is being loaded."""
        struct.pack_into("<qq", self._memory, 8, _LOADING, index)

    def transform(self) -> None:
        """The transform is at work."""
        struct.pack_into("<qq", self._memory, 8, _TRANSFORMING, -1)

    def rest(self) -> None:
        """Nothing is going on."""
        struct.pack_into("<qq", self._memory, 8, _IDLE, -1)

    @property
    def current_sample(self) -> int | None:
        """The sample being loaded, if that is what is going on."""
        _, stage, index = _PROGRESS.unpack_from(self._memory)
        return int(index) if stage == _LOADING else None

    @property
    def is_transforming(self) -> bool:
        """Return True if the transform is at work."""
        return bool(_PROGRESS.unpack_from(self._memory)[1] == _TRANSFORMING)


def serve(connection: socket.socket, recipe: BatchRecipe | None, dies_with: int | None = None) -> None:
    """Make batches until the other end is closed.

    Parameters
    ----------
    connection
        Where the tasks come from; the first message is two files: one for the progress, one for the stack
        of a crash.
    recipe
        How batches are made; if None it is the second message.
    dies_with
        The process whose end ends this one, if its main thread started this one.
    """
    _settle_in(dies_with)
    with contextlib.suppress(EOFError, OSError):  # the main process is gone, or wants no more
        _, (progress_file, dump_file), _, _ = socket.recv_fds(connection, 1, 2)
        faulthandler.enable(dump_file)
        faulthandler.register(DUMP_SIGNAL, dump_file)
        progress = Progress(progress_file)
        try:
            recipe = receive(connection, private=True) if recipe is None else recipe
        except Exception as unreadable:
            error = unreadable.__cause__ or unreadable
            error.add_note("while a worker process unpacked the dataset and the transforms")
            send(connection, (0, READY, Failure.of(error)))
            return
        send(connection, (0, READY, None))
        kept: dict[str, Any] | None = None
        for n_made in itertools.count():
            session, task = receive(connection)
            if kept is None:
                kept = _kept_generators(recipe)
            result = _carry_out(recipe, task, progress, kept) if session == progress.session else None
            if n_made >= _WATCHED_BATCHES:
                kept = {}
            progress.rest()
            _answer(connection, session, task.number, result)


def _kept_generators(recipe: BatchRecipe) -> dict[str, Any]:
    try:
        return generators_in(recipe.transform and recipe.transform.transform, recipe.loader.dataset)
    except Exception:  # an object that cannot be looked at: nothing is said of it
        return {}


def _carry_out(recipe: BatchRecipe, task: BatchTask, progress: Progress, kept: dict[str, Any]) -> Made | Failure:
    try:
        before = {name: own_state(generator) for name, generator in kept.items()}
        made = recipe.make(task, progress)
        drew = tuple(name for name, generator in kept.items() if repr(own_state(generator)) != repr(before[name]))
        return made._replace(drew=drew) if drew else made
    except BaseException as error:  # SystemExit too: the main process decides
        return Failure.of(error)


def _answer(connection: socket.socket, session: int, number: int, result: Made | Failure | None) -> None:
    try:
        send(connection, (session, number, result), tag=(session, number))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        error.add_note(f"while batch {number + 1} was sent to the main process{_unsendable(result)}")
        send(connection, (session, number, Failure.of(error)))


def _unsendable(result: object) -> str:
    """Say which entries of a batch cannot be pickled."""
    wrong = []
    for key, value in ((result.batch or {}) if isinstance(result, Made) else {}).items():
        try:
            pickle.dumps(value)
        except Exception:
            wrong.append(f"{key!r} (a {type(value).__name__})")
    return f"; these entries cannot be sent: {', '.join(wrong)}; return arrays" if wrong else ""


def _settle_in(dies_with: int | None) -> None:
    """Give up what belongs to the main process: its signals, its threads, its garbage."""
    if sys.platform == "linux":  # freed memory is kept: batch after batch needs the same, and new pages cost 10 %
        _ask_system("mallopt", _MMAP_THRESHOLD, 2**25)  # the most that the C library took before 2022
        _ask_system("mallopt", _MMAP_THRESHOLD, 2**30)
        _ask_system("mallopt", _TRIM_THRESHOLD, 2**30)
    if dies_with is not None and sys.platform == "linux":  # even if this process is stopped then
        _ask_system("prctl", _PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if dies_with != os.getppid() and multiprocessing.get_start_method(allow_none=True) != "forkserver":
            os._exit(1)
    gc.freeze()  # inherited objects stay untouched, so their memory stays shared
    with contextlib.suppress(ValueError):  # only in the main thread
        signal.set_wakeup_fd(-1)  # that of an event loop in the main process
        # Ctrl-C and a scheduler's signals reach all processes, and the main one decides what they mean. It ends its
        # workers; no SIG_IGN, which programs that a worker starts would inherit.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, _leave_to_main)
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    use_one_thread()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()


def _leave_to_main(number: int, frame: object) -> None:
    pass


def _ask_system(function: str, *arguments: int) -> None:
    """Call a function of the C library, where there is such a one."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), function)(*arguments)


def _watch_parent(parent: int) -> None:
    """End this process when the main process is gone, even if a batch is being made for ever."""
    main = multiprocessing.parent_process()
    while os.getppid() == parent and (main is None or main.is_alive()):
        time.sleep(1)
    os._exit(1)
