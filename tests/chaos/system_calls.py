"""Stands between Python and the system calls that change files: records them, lets one fail, or dies at one.

What is written is seen where it leaves Python's buffers for the system, so a process that dies loses what it had
not flushed, as it does in reality. What a library writes behind Python's back is not seen;
:func:`disk_model.replay` of all calls shows whether there was any.
"""

import builtins
import contextlib
import dataclasses
import gc
import io
import os
import pickle
import shutil
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

if not hasattr(os, "fork"):
    pytest.skip("a process that dies is forked", allow_module_level=True)

REPLACED = (
    "open", "close", "write", "fsync", "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "truncate",
    "ftruncate",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Call:
    """One system call that changed something, or a mark of the test."""

    name: str
    """open, write, truncate, fsync, sync_folder, replace, link, unlink, mkdir, rmdir, or mark."""
    path: str = ""
    """Relative to the watched folder."""
    target: str = ""
    """The new name of replace and link."""
    inode: int = -1
    """Number of the file, however it is called."""
    data: bytes = b""
    offset: int = 0
    """Where the data begin, or the length after truncate, in bytes."""


class SystemCalls:
    """The calls below one folder while this context is entered.

    Parameters
    ----------
    root
        The folder.
    die_at
        Instant (from 1) at which the process is killed: there is one before each call, and one in the middle of
        each write.
    fault
        Is shown each call before it is done, and may raise an OSError in its place.
    """

    def __init__(self, root: Path, die_at: int | None = None, fault: Callable[[Call], None] | None = None):
        self.root = os.path.realpath(root)
        self.die_at, self.fault = die_at, fault
        self.instants = 0
        self.calls: list[Call] = []
        self._real = {name: getattr(os, name) for name in REPLACED}
        self._open = io.open
        self._lock = threading.RLock()
        self._inodes: dict[tuple[int, int], int] = {}
        self._descriptors: dict[int, str] = {}

    def __enter__(self) -> "SystemCalls":
        for name in REPLACED:
            setattr(os, name, getattr(self, f"_os_{name}"))
        builtins.open = io.open = self._file_open
        return self

    def __exit__(self, *error: Any) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)
        builtins.open = io.open = self._open

    def mark(self, text: Any) -> None:
        """Note among the calls that something has been reached."""
        with self._lock:
            self.calls.append(Call("mark", str(text)))

    # ------------------------------------------------------------------ what every call goes through

    def _inside(self, path: Any) -> str | None:
        """The path relative to the root; ``None`` outside of it."""
        if isinstance(path, int):
            return self._descriptors.get(path)
        path = os.path.abspath(os.fsdecode(path))
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return os.path.relpath(path, self.root) if path.startswith(self.root) else None

    def _instant(self) -> None:
        self.instants += 1
        if self.instants == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextlib.contextmanager
    def _seen(self, call: Call) -> Iterator[None]:
        with self._lock:
            self._instant()
            if self.fault is not None:
                self.fault(call)
            yield
            self.calls.append(call)

    def _plain(self, name: str, path: Any, *args: Any, target: Any = None, **kw: Any) -> None:
        arguments = (path, *args) if target is None else (path, target, *args)
        place = None if kw.get("dir_fd") is not None else self._inside(path)
        if place is None:
            return self._real[name](*arguments, **kw)
        call = Call(
            {"rename": "replace", "remove": "unlink"}.get(name, name), place, self._inside(target or path) or ""
        )
        with self._seen(call):
            return self._real[name](*arguments, **kw)

    def _number(self, descriptor: int, is_new: bool) -> int:
        """Number of an open file; the system gives those of deleted files to new ones."""
        about = os.fstat(descriptor)
        key = (about.st_dev, about.st_ino)
        if is_new or key not in self._inodes:
            self._inodes[key] = len(self.calls)
        return self._inodes[key]

    def _write(self, descriptor: int, place: str, data: Any, write: Callable[[Any], int], appends: bool) -> int:
        data = bytes(data)
        about = os.fstat(descriptor)
        offset = about.st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        call = Call("write", place, inode=self._number(descriptor, False), data=data, offset=offset)
        with self._lock:
            self._instant()
            if self.fault is not None:
                self.fault(call)
            if self.die_at == self.instants + 1:
                write(data[: len(data) // 2])
            self._instant()
            done = write(data)
            self.calls.append(dataclasses.replace(call, data=data[:done]))
        return done

    # ------------------------------------------------------------------ the calls

    def _file_open(self, file: Any, mode: str = "r", *args: Any, **kw: Any) -> Any:
        place = None if isinstance(file, int) else self._inside(file)
        if place is None or not set(mode) & set("wxa+") or kw.get("opener"):  # which calls os.open
            return self._open(file, mode, *args, **kw)
        with self._lock:
            is_new = not os.path.lexists(file)
            self._instant()
            if self.fault is not None:
                self.fault(Call("open", place))
            opened = self._open(file, mode, *args, **kw)
            self._note_open(opened.fileno(), place, is_new, "w" in mode)
        raw = getattr(opened, "buffer", opened)
        raw = getattr(raw, "raw", raw)
        write, truncate = raw.write, raw.truncate

        def seen_truncate(size: int | None = None) -> int:
            length = raw.tell() if size is None else size
            with self._seen(Call("truncate", place, inode=self._number(raw.fileno(), False), offset=length)):
                return truncate(length)

        raw.write = lambda data: self._write(raw.fileno(), place, data, write, "a" in mode)
        raw.truncate = seen_truncate
        return opened

    def _note_open(self, descriptor: int, place: str, is_new: bool, truncates: bool) -> None:
        inode = self._number(descriptor, is_new)
        if is_new:
            self.calls.append(Call("open", place, inode=inode))
        elif truncates:
            self.calls.append(Call("truncate", place, inode=inode))

    def _os_open(self, path: Any, flags: int, *args: Any, **kw: Any) -> int:
        place = None if kw.get("dir_fd") is not None else self._inside(path)
        if place is None or flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1):
            return self._real["open"](path, flags, *args, **kw)
        with self._lock:
            if flags & (os.O_CREAT | os.O_TRUNC):
                self._instant()
                if self.fault is not None:
                    self.fault(Call("open", place))
            is_new = not os.path.lexists(path)
            descriptor = self._real["open"](path, flags, *args, **kw)
            self._descriptors[descriptor] = place
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self._note_open(descriptor, place, is_new, bool(flags & os.O_TRUNC))
        return descriptor

    def _os_close(self, descriptor: int) -> None:
        self._descriptors.pop(descriptor, None)
        self._real["close"](descriptor)

    def _os_write(self, descriptor: int, data: Any) -> int:
        real = self._real["write"]
        if (place := self._descriptors.get(descriptor)) is None:
            return real(descriptor, data)
        return self._write(descriptor, place, data, lambda part: real(descriptor, part), False)

    def _os_fsync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        about = os.fstat(number)
        if stat.S_ISDIR(about.st_mode):
            place = self._descriptors.get(number)
            call = None if place is None else Call("sync_folder", place)
        else:
            inode = self._inodes.get((about.st_dev, about.st_ino))
            call = None if inode is None else Call("fsync", inode=inode)
        if call is None:
            return self._real["fsync"](descriptor)
        with self._seen(call):
            return self._real["fsync"](descriptor)

    def _os_replace(self, source: Any, target: Any, **kw: Any) -> None:
        self._plain("replace", source, target=target, **kw)

    def _os_rename(self, source: Any, target: Any, **kw: Any) -> None:
        self._plain("rename", source, target=target, **kw)

    def _os_link(self, source: Any, target: Any, **kw: Any) -> None:
        self._plain("link", source, target=target, **kw)

    def _os_unlink(self, path: Any, **kw: Any) -> None:
        self._plain("unlink", path, **kw)

    def _os_remove(self, path: Any, **kw: Any) -> None:
        self._plain("remove", path, **kw)

    def _os_mkdir(self, path: Any, *args: Any, **kw: Any) -> None:
        self._plain("mkdir", path, *args, **kw)

    def _os_rmdir(self, path: Any, **kw: Any) -> None:
        self._plain("rmdir", path, **kw)

    def _os_truncate(self, path: Any, length: int) -> None:
        with self._open(path, "r+b") as file:
            self._os_ftruncate(file.fileno(), length)

    def _os_ftruncate(self, descriptor: int, length: int) -> None:
        about = os.fstat(descriptor)
        if (inode := self._inodes.get((about.st_dev, about.st_ino))) is None:
            return self._real["ftruncate"](descriptor, length)
        with self._seen(Call("truncate", inode=inode, offset=length)):
            return self._real["ftruncate"](descriptor, length)


# ------------------------------------------------------------------ processes


class Died(Exception):
    """The child was killed by a signal."""


def in_child(function: Callable[[], Any], timeout: int = 100) -> Any:
    """Call ``function`` in a forked child and return what it returns.

    Nothing is cleaned up if the child dies: no ``finally``, no buffer.

    Parameters
    ----------
    function
        Its result or its error goes back through a pipe.
    timeout
        Seconds after which the child is killed.

    Raises
    ------
    Died
        If the child was killed.
    """
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        gc.disable()  # it would touch, and so copy, every page of the parent
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(timeout)
        if "torch" in sys.modules:  # the threads of its pool were not forked
            sys.modules["torch"].set_num_threads(1)
        try:
            answer = pickle.dumps((True, function()))
        except BaseException as error:
            error.add_note(f"in the child:\n{traceback.format_exc()}")
            answer = pickle.dumps((False, error))
        with open(sink, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(sink)
    with open(source, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        assert name == "SIGKILL", f"the child ended by {name}"
        raise Died
    is_result, value = pickle.loads(answer)
    if is_result:
        return value
    raise value


def killed_at(instant: int, action: Callable[[Path], Any], root: Path, patch: Callable[[], Any] | None = None) -> bool:
    """Call ``action(root)`` in a child that is killed at an instant; whether it came to its end before.

    Parameters
    ----------
    instant
        See :class:`SystemCalls`.
    action, root
        What is done in which folder, and watched.
    patch
        Called in the child before.
    """

    def run() -> None:
        if patch is not None:
            patch()
        with SystemCalls(root, die_at=instant):
            action(root)

    try:
        in_child(run)
    except Died:
        return False
    return True


def killed_everywhere(
    action: Callable[[Path], Any],
    folder: Path,
    *,
    every: int = 1,
    prepare: Callable[[Path], Any] | None = None,
    patch: Callable[[], Any] | None = None,
) -> Iterator[tuple[Path, bool]]:
    """Do ``action`` in a child that is killed at its first instant, in another that is killed at its second, ….

    Parameters
    ----------
    action
        Called with a folder of its own; what it does there is watched.
    folder
        Where those folders are made; they are removed again.
    every
        Distance of the instants, for a short form.
    prepare
        Called with each folder before, not watched.
    patch
        Called in the child before.

    Yields
    ------
    tuple
        The folder as the dead process left it, and whether the action came to its end: so it does at last.
    """
    instant, is_done = 1, False
    while not is_done:
        path = folder / f"killed-at-{instant}"
        path.mkdir()
        if prepare is not None:
            prepare(path)
        is_done = killed_at(instant, action, path, patch)
        yield path, is_done
        shutil.rmtree(path)
        instant += every


def recorded(action: Callable[[Path, SystemCalls], Any], root: Path) -> list[Call]:
    """The calls of ``action(root, calls)``, which may leave its marks among them."""

    def run() -> list[Call]:
        with SystemCalls(root) as calls:
            action(root, calls)
        return calls.calls

    return in_child(run)
