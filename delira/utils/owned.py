"""Folders that this process writes into, and whether they are still its own."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from delira.errors import CheckpointError

#: by process and name: each folder that is locked here, open, wherever it is moved to
homes: dict[tuple[int, str], int] = {}
#: by process and name: what refuses to write below a folder that somebody else may have taken over
_fences: dict[tuple[int, str], Callable[[], None]] = {}


@contextlib.contextmanager
def fenced(folder: Path, check: Callable[[], None]) -> Iterator[None]:
    """Scope in which this process calls ``check`` before it writes a file below a folder."""
    key = (os.getpid(), os.path.realpath(folder))
    _fences[key] = check
    try:
        yield
    finally:
        _fences.pop(key, None)


def check_ours(folder: Path) -> None:
    """Refuse to write into a folder that has another name by now, or that another process has taken over.

    Raises
    ------
    CheckpointError, LeaseLostError
        Saying which.
    """
    path = os.path.realpath(folder)
    _refuse_moved(path)
    for (process, name), check in [*_fences.items()]:
        if process == os.getpid() and _is_below(path, name):
            check()


def refuse_moved(path: Path) -> None:
    """Refuse to write below a folder that was locked here and has another name by now: there would be two halves.

    A folder that was deleted may be made again.

    Raises
    ------
    CheckpointError
        Naming where the folder is, if the system tells.
    """
    _refuse_moved(os.path.realpath(path))


def _is_below(path: str, folder: str) -> bool:
    """Return True if a path is a folder, or below it; both are real ones."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _refuse_moved(path: str) -> None:
    for (process, name), home in [*homes.items()]:
        if process != os.getpid() or not _is_below(path, name):
            continue
        try:
            about = os.fstat(home)
        except OSError:  # deleted on a network's disk, or let go of in this moment
            continue
        try:
            is_there = os.path.samestat(os.stat(name), about)
        except FileNotFoundError:
            is_there = False
        if not is_there and about.st_nlink:
            where = ""
            with contextlib.suppress(OSError):  # of Linux alone
                where = f"; it is {os.readlink(f'/proc/self/fd/{home}')!r} now"
            raise CheckpointError(
                f"{name!r} was moved or renamed while this process writes into it{where}. Nothing more is written, "
                "so that the run does not fall into two halves: give it its name back, or go on with it where it is "
                "now, by resume=…"
            )
