"""A worker process: what runs in it, how objects travel to it and back, how it comes to life."""

import ast
import contextlib
import ctypes
import faulthandler
import gc
import itertools
import logging
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading.abstract_dataset import numbers_of
from delira.data_loading.data_loader import BatchRecipe, BatchTask, Made, describe_task
from delira.data_loading.workers.outline import generators_in, own_state
from delira.errors import ConfigError, DataError
from delira.utils.signals import DUMP_SIGNAL, STOP_SIGNALS, of_submitit
from delira.utils.threads import use_one_thread

#: seconds that a worker has to end by itself
GRACE = 0.2

# of mallopt and prctl, which Python does not name
_TRIM_THRESHOLD, _MMAP_THRESHOLD, PARENT_DEATH_SIGNAL = -1, -3, 1

_WATCHED_BATCHES = 3  # of each worker; then it is known whether a generator is drawn from

_DEEPEST = 20  # attributes of attributes that are looked into for what cannot be pickled

_NOTHING, _TRANSFORMING = 0, -1  # what a worker does beside loading samples

_log = logging.getLogger(__name__)

_LARGE = 2**16  # bytes from which on an array is not copied but mapped
_MOST_FILES = 16  # of one message; the system hands over about 250 at once
_ALIGNMENT = 64
_MOST_MAPPINGS = 128  # each keeps a file descriptor open, of which a process may have 1,024 or fewer

_mappings: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()


# ------------------------------------------------------------------ objects between a process and its workers
# What is sent is written to files without a name (in memory, on Linux), and the files are handed over through a socket.
# The message itself is a byte, their number, which arrives with them or not at all: a sender that is killed never
# leaves half of one. Nothing is left behind either, since the system frees such a file with its last user. Only
# objects of our own live processes are pickled here, never what comes from disk.


class Unreadable(Exception):
    """A message arrived and could not be unpacked; the cause says why."""


class Packed:
    """An object as anonymous files, to be sent once or several times.

    Parameters
    ----------
    value
        Anything that can be pickled; large arrays are written to files without a further copy.
    dumps
        ``pickle.dumps`` or a function with its signature.
    together
        Write all large arrays to one file. Otherwise each gets its own, so that a receiver who keeps the
        label of a batch does not keep its images in memory.
    """

    def __init__(self, value: object, *, dumps: Callable[..., bytes] = pickle.dumps, together: bool = False) -> None:
        buffers: list[memoryview] = []

        def stays_inside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= _LARGE:
                buffers.append(raw)
            return raw.nbytes < _LARGE

        body = dumps(value, protocol=5, buffer_callback=stays_inside)
        is_one = (together and buffers) or len(buffers) >= _MOST_FILES
        groups = [buffers] if is_one else [[buffer] for buffer in buffers]
        sizes = [[buffer.nbytes for buffer in group] for group in groups]
        self._files: list[int] = []
        try:
            for group in ([memoryview(pickle.dumps((sizes, body)))], *groups):
                self._files.append(anonymous_file())
                _write(self._files[-1], group)
        except BaseException:
            self.close()
            raise

    def send(self, connection: socket.socket) -> None:
        """Send it through a stream socket of the Unix family.

        Raises
        ------
        OSError
            If nobody is there to receive it any more.
        """
        socket.send_fds(connection, [bytes([len(self._files)])], self._files)

    def close(self) -> None:
        """Close the files; those that were sent live on with their receivers."""
        while self._files:
            os.close(self._files.pop())


def send(connection: socket.socket, value: object) -> None:
    """Send one object; raises OSError if nobody is there to receive it any more."""
    with contextlib.closing(Packed(value)) as packed:
        packed.send(connection)


def receive(connection: socket.socket, *, private: bool = False, loads: Callable[..., Any] = pickle.loads) -> Any:
    """Receive one object.

    Parameters
    ----------
    connection
        A stream socket of the Unix family.
    private
        Whether others receive the same files: what is written to an array is then seen here alone.
    loads
        ``pickle.loads`` or a function with its signature.

    Raises
    ------
    EOFError
        If the sender is gone.
    Unreadable
        If the object cannot be unpacked.
    """
    message, files, _, _ = socket.recv_fds(connection, 1, _MOST_FILES)
    if not message:
        raise EOFError("the other end is closed")
    try:
        if len(files) != message[0]:
            raise OSError("a message came without its files: too many files are open in this process (ulimit -n)")
        sizes, body = pickle.loads(_read(files[0]))
        buffers = []
        for file, group in zip(files[1:], sizes, strict=True):
            memory, start = _map(file, private), 0
            for size in group:
                buffers.append(memory[start : start + size])
                start = _aligned(start + size)
        return loads(body, buffers=buffers)
    except Exception as error:
        raise Unreadable from error
    finally:
        for file in files:
            os.close(file)


def anonymous_file() -> int:
    """Open a file without a name and return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("delira")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: int, buffers: list[memoryview]) -> None:
    start = 0
    for buffer in buffers:
        rest = buffer
        while rest.nbytes:  # the system writes 2 GB at a time
            written = os.pwrite(file, rest, start)
            rest, start = rest[written:], start + written
        start = _aligned(start)


def _read(file: int) -> bytearray:
    memory = bytearray(os.fstat(file).st_size)
    read = 0
    while read < len(memory):  # the system reads 2 GB at a time
        read += os.preadv(file, [memoryview(memory)[read:]], read)
    return memory


def _map(file: int, private: bool) -> memoryview:
    """Show a file as writable memory, which is freed with the last array in it."""
    size = os.fstat(file).st_size
    if not private and len(_mappings) >= _MOST_MAPPINGS:
        return memoryview(_read(file))
    sharing = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    mapping = mmap.mmap(file, size, flags=sharing, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    _mappings.add(mapping)
    return memoryview(mapping)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


# ------------------------------------------------------------------ what runs in a worker


class Failure(NamedTuple):
    """An exception on its way to the main process."""

    error: Any
    """The exception, or its class, arguments and attributes where it cannot be pickled."""
    text: str
    """Its traceback, which an exception loses on the way."""
    notes: tuple[str, ...]
    """Its notes, which some exceptions lose."""

    @classmethod
    def of(cls, error: BaseException, dumps: Callable[[object], bytes] = pickle.dumps) -> "Failure":
        """Pack an exception: as it is if it can travel, as ``dumps`` sends it, else what it said."""
        text = "".join(traceback.format_exception(error))
        notes = tuple(map(str, getattr(error, "__notes__", ())))
        attributes = {name: value for name, value in vars(error).items() if name != "__notes__"}
        for packed in (error, (type(error), error.args, attributes)):
            failure = cls(packed, text, notes)
            with contextlib.suppress(Exception):
                twin = pickle.loads(dumps(failure)).unpacked()
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


class Progress(ctypes.Structure):
    """A few numbers that a process and one of its workers share: the session that counts, and what is going on.

    Attributes
    ----------
    session : int
        The iteration that batches are made for; tasks of older ones are dropped.
    doing : int
        The number, counted from 1, of the sample that is being loaded; else one of the constants above.
    """

    _fields_ = (("session", ctypes.c_int64), ("doing", ctypes.c_int64))

    @classmethod
    def in_file(cls, file: int) -> "Progress":
        """Open those that a file begins with."""
        return cls.from_buffer(mmap.mmap(file, ctypes.sizeof(cls)))

    def note(self, index: int | None) -> None:
        """Sample ``index`` is being loaded; None: the transform is at work."""
        self.doing = _TRANSFORMING if index is None else int(index) + 1

    @property
    def current_sample(self) -> int | None:
        """The sample being loaded, if that is what is going on."""
        return int(self.doing) - 1 if self.doing > 0 else None


def serve(connection: socket.socket, recipe: BatchRecipe | None, dies_with: int | None = None) -> None:
    """Make batches until the other end is closed.

    Parameters
    ----------
    connection
        Where the tasks come from; the first message is a file for the progress and, behind it, the stack of a crash.
    recipe
        How batches are made; if None it is the second message.
    dies_with
        The process whose end ends this one, if its main thread started this one.
    """
    _settle_in(dies_with)
    with contextlib.suppress(EOFError, OSError):  # the main process is gone, or wants no more
        _, (file,), _, _ = socket.recv_fds(connection, 1, 1)
        faulthandler.disable()  # what is on already leaves alone what others have put in its place since
        faulthandler.enable(file)
        faulthandler.register(DUMP_SIGNAL, file)
        progress = Progress.in_file(file)
        try:
            recipe = receive(connection, private=True) if recipe is None else recipe
        except Exception as unreadable:
            error = unreadable.__cause__ or unreadable
            error.add_note("while a worker process unpacked the dataset and the transforms")
            send(connection, Failure.of(error))
            return
        send(connection, None)
        kept: dict[str, Any] = {}
        with contextlib.suppress(Exception):  # an object that cannot be looked at: nothing is said of it
            kept = generators_in(recipe.transform and recipe.transform.transform, recipe.loader.dataset)
        for n_made in itertools.count():
            task = receive(connection)
            result = _carry_out(recipe, task, progress, kept) if task.session == progress.session else None
            if n_made >= _WATCHED_BATCHES:
                kept = {}
            progress.doing = _NOTHING
            _answer(connection, task.number, result)


def _carry_out(recipe: BatchRecipe, task: BatchTask, progress: Progress, kept: dict[str, Any]) -> Made | Failure:
    try:
        before = {name: own_state(generator) for name, generator in kept.items()}
        made = recipe.make(task, progress.note)
        drew = tuple(name for name, generator in kept.items() if repr(own_state(generator)) != repr(before[name]))
        return made._replace(drew=drew) if drew else made
    except BaseException as error:  # SystemExit too: the main process decides
        return Failure.of(error)


def _answer(connection: socket.socket, number: int, result: Made | Failure | None) -> None:
    try:
        send(connection, result)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        error.add_note(f"while batch {number + 1} was sent to the main process{_unsendable(result)}")
        send(connection, Failure.of(error))


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
    keep_freed_memory()
    if dies_with is not None and sys.platform == "linux":  # even if this process is stopped then
        ask_system("prctl", PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if dies_with != os.getppid() and multiprocessing.get_start_method(allow_none=True) != "forkserver":
            os._exit(1)
    gc.freeze()  # inherited objects stay untouched, so their memory stays shared
    with contextlib.suppress(ValueError):  # only in the main thread
        signal.set_wakeup_fd(-1)  # that of an event loop in the main process
        # Ctrl-C and a scheduler's signals reach all processes, and the main one decides what they mean. It ends its
        # workers; no SIG_IGN, which programs that a worker starts would inherit.
        for number in (*STOP_SIGNALS, signal.SIGHUP, *of_submitit()):
            signal.signal(number, lambda number, frame: None)
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    use_one_thread()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()


def keep_freed_memory() -> None:
    """Keep memory that this process frees: batch after batch and step after step need the same, and new pages cost.

    A step of a small network on the CPU takes half of the time; a process of the user's own is left as it is.
    """
    if sys.platform == "linux":
        ask_system("mallopt", _MMAP_THRESHOLD, 2**25)  # the most that the C library took before 2022
        ask_system("mallopt", _MMAP_THRESHOLD, 2**30)
        ask_system("mallopt", _TRIM_THRESHOLD, 2**30)


def ask_system(function: str, *arguments: int) -> None:
    """Call a function of the C library, where there is such a one."""
    with contextlib.suppress(OSError, AttributeError):
        getattr(ctypes.CDLL(None), function)(*arguments)


def _watch_parent(parent: int) -> None:
    """End this process when the main process is gone, even if a batch is being made for ever."""
    main = multiprocessing.parent_process()
    while os.getppid() == parent and (main is None or main.is_alive()):
        time.sleep(1)
    os._exit(1)


# ------------------------------------------------------------------ how it comes to life


class Worker:
    """One worker process as the main process sees it.

    Parameters
    ----------
    recipe
        How batches are made.
    method
        ``"fork"``, ``"forkserver"`` or ``"spawn"``.
    packed
        The recipe, where processes do not inherit it: what :func:`pack` made.
    name
        Of the process.

    Raises
    ------
    OSError
        If the system gives no further process or file.
    """

    def __init__(self, recipe: BatchRecipe, method: str, packed: Packed | None, name: str) -> None:
        self._dataset = recipe.loader.dataset  # for messages
        self.is_ready = False
        self.tasks: deque[BatchTask] = deque()
        """What was handed to it and has not come back; each is answered once, in this order."""
        self.connection, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as if_it_fails:
            if_it_fails.callback(self.connection.close)
            self._file = anonymous_file()
            if_it_fails.callback(os.close, self._file)
            os.write(self._file, bytes(ctypes.sizeof(Progress)))  # behind it comes the stack of a crash
            self.progress = Progress.in_file(self._file)
            self.process = _started(method, name, theirs, recipe if packed is None else None)
            socket.send_fds(self.connection, [b"f"], [self._file])
            if packed is not None:
                packed.send(self.connection)
            if_it_fails.pop_all()

    def submit(self, task: BatchTask) -> None:
        """Hand it one more task."""
        self.tasks.append(task)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is dead: the watch will see
            send(self.connection, task)

    @property
    def at_work_on(self) -> str:
        """What it is doing, for messages."""
        if not self.tasks:
            return "while it was idle"
        doing = describe_task(self.tasks[0], self._dataset)
        if (index := self.progress.current_sample) is not None:
            return f"while it loaded sample {numbers_of(self._dataset, np.array([index]))[0]} for {doing}"
        is_transforming = self.progress.doing == _TRANSFORMING
        return f"while the transform worked on {doing}" if is_transforming else f"while it made {doing}"

    @property
    def is_stopped(self) -> bool:
        """Return True if a signal has stopped it, as far as the system tells."""
        with contextlib.suppress(OSError, AttributeError):  # no child of this process; not on every system
            return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        return False

    def stack(self) -> str:
        """Return what it wrote of the user's code at a crash, or now writes of it; empty if nothing."""
        if self.process.is_alive():
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, DUMP_SIGNAL)
                time.sleep(GRACE)
        dump = os.pread(self._file, 2**16, ctypes.sizeof(Progress)).decode(errors="replace")
        lines = dump.partition("Current thread")[2].splitlines()[1:]  # the thread that made the batch
        ours = (number for number, line in enumerate(lines) if os.path.join("workers", "process.py") in line)
        return "\n".join(line for line in lines[: next(ours, len(lines))] if line.startswith("  File"))

    def end(self, wait: float) -> None:
        """End it: after ``wait`` seconds by force."""
        self.connection.close()
        self.process.join(wait)
        self.process.kill()  # a stopped process, too
        self.process.join()
        with contextlib.suppress(ValueError):  # somebody else was told that it ended
            self.process.close()
        os.close(self._file)


def _started(method: str, name: str, theirs: socket.socket, recipe: BatchRecipe | None) -> Any:
    dies_with = os.getpid() if threading.current_thread() is threading.main_thread() else None
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=serve, args=(theirs, recipe, dies_with), name=name, daemon=False)
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    with contextlib.ExitStack() as at_end, warnings.catch_warnings():
        if config.get("daemon"):  # a process of a pool, which may have no children: ours end when it ends
            config["daemon"] = False
            at_end.callback(config.update, daemon=True)
        # of a fork beside other threads; workers call none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        process.start()
    # at its exit multiprocessing ends or awaits the children it knows of; a fork of this process would end ours
    getattr(multiprocessing.process, "_children", set()).discard(process)
    return process


def can_have_workers() -> bool:
    """Return True if this system can have workers; elsewhere batches, the same ones, are made in this process."""
    if hasattr(socket, "send_fds") and hasattr(os, "pread"):
        return True
    _log.warning("worker processes need a Unix system; the batches are made in this process, and they are the same")
    return False


def refuse_unguarded_script(method: str) -> None:
    """Refuse to start processes that would run the user's script again from its top.

    Raises
    ------
    ConfigError
        If the script that runs has no ``if __name__ == "__main__":``.
    """
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not os.path.isfile(path):  # interactive, or -c: nothing is run again
        return
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (SyntaxError, ValueError):  # no Python source
        return
    tested = [node for each in tree.body if isinstance(each, ast.If) for node in ast.walk(each.test)]
    if not any(isinstance(node, ast.Name) and node.id == "__name__" for node in tested):
        raise ConfigError(
            f"with start_method={method!r} each worker process runs {path} again, and it has no guard; put what it "
            'does below the line\n    if __name__ == "__main__":\nor set n_process_augmentation=0'
        )


def pack(recipe: BatchRecipe, method: str) -> Packed | None:
    """Pack a recipe for workers that are started in another way than by fork.

    Raises
    ------
    ConfigError
        If it cannot be pickled, or the script that runs has no guard.
    """
    if method == "fork":
        return None
    import cloudpickle  # carries lambdas, and classes of notebooks

    refuse_unguarded_script(method)
    if getattr(sys.modules.get("__main__"), "__file__", None) is not None:
        # the worker imports the script too, and finds its classes there: they stay the same ones
        with contextlib.suppress(Exception):
            return Packed(recipe, together=True)
    try:
        return Packed(recipe, dumps=cloudpickle.dumps, together=True)
    except Exception as error:
        place, reason = find_unpicklable(recipe, cloudpickle.dumps) or ("the dataset or the transforms", error)
        raise ConfigError(
            f"with start_method={method!r} the dataset and the transforms are sent to each worker process, but "
            f"{place} cannot be pickled: {reason}; open it when the first sample is read and leave it out of "
            "__getstate__, or set n_process_augmentation=0"
        ) from error


def find_unpicklable(owner: object, dumps: Callable[[object], bytes], *above: str) -> tuple[str, Exception] | None:
    """Return the innermost attribute that cannot be pickled, and why."""
    parts = owner if isinstance(owner, Mapping) else getattr(owner, "__dict__", {})
    for name, value in parts.items() if len(above) < _DEEPEST else ():
        place = (*above, str(name))
        try:
            dumps(value)
        except Exception as error:
            said = f"{'.'.join(place).removeprefix('loader.')} (a {type(value).__name__})"
            return find_unpicklable(value, dumps, *place) or (said, error)
    return None
