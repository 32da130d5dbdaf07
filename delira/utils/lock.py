"""One process for each folder: a lock that dies with its owner."""

import contextlib
import datetime
import json
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delira.errors import FolderInUseError
from delira.utils.files import homes, read_json

_LOCK, _OWNER = ".lock", ".lock-owner.json"
#: seconds to wait for another process: one that was killed keeps its files open until its memory is freed
_PATIENCE = 3.0
_POLL = 0.05  # seconds between two tries


#: by process and folder (what a process forks does not own its locks): the lock, ``None`` where the file system has
#: none, and of each scope that holds it whether it is ``alone``
_holds: dict[tuple[int, str], tuple[Any, list[bool]]] = {}
_guard = threading.RLock()
#: devices whose file systems have no locks, as far as was said
_without_locks: set[int] = set()


@contextlib.contextmanager
def locked(folder: str | Path, patience: float | None = None, *, alone: bool = False) -> Iterator[None]:
    """Keep other processes out of a folder.

    The system frees the lock when the process ends, however it ends. One process may lock a folder several
    times, in any of its threads, but only once ``alone``. Where the file system has no locks there is a warning,
    once, and no lock between processes.

    Parameters
    ----------
    folder
        An existing folder.
    patience
        Seconds to wait for another process; 3 if ``None``.
    alone
        Refuse a second scope with ``alone`` of this process, too, at once; scopes without it may be nested.

    Raises
    ------
    FolderInUseError
        If another process holds the lock; it is named. If this one does ``alone``.
    """
    folder = Path(folder).resolve()
    key = (os.getpid(), str(folder))
    with _guard:
        if key not in _holds:
            lock = _acquire(folder, _PATIENCE if patience is None else patience)
            if hasattr(os, "O_DIRECTORY"):
                with contextlib.suppress(OSError):
                    homes[key] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            _holds[key] = lock, []
        lock, scopes = _holds[key]
        if alone and any(scopes):
            raise FolderInUseError(
                f"{str(folder)!r} is in use by this process, {key[0]}, already; wait until that has ended, or choose "
                "another save_path"
            )
        scopes.append(alone)
    try:
        yield
    finally:
        if os.getpid() == key[0]:  # what a fork left of the scope must not free the lock of its parent
            with _guard:
                scopes.remove(alone)
                if not scopes:
                    del _holds[key]
                    home = homes.pop(key, None)
                    _release(lock, folder)
                    if home is not None:
                        os.close(home)


def owner_of(folder: str | Path) -> str | None:
    """Who is at work in a folder, in words; ``None`` if nobody is. Nothing is waited for and nothing is kept.

    Where locks cannot be asked for (a folder of another user), whoever said that they hold it is believed.
    """
    folder = Path(folder).resolve()
    with _guard:
        if (os.getpid(), str(folder)) in _holds:
            return f"this process, {os.getpid()}"
    if not (folder / _LOCK).is_file() or (folder / _LOCK).is_symlink():  # taking it would empty what it leads to
        return None
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return _describe_owner(folder)
    except (OSError, NotImplementedError):
        return _describe_owner(folder) if (folder / _OWNER).exists() else None
    lock.release()
    return None


def _acquire(folder: Path, patience: float) -> Any:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK, thread_local=False)
    try:
        lock.acquire(timeout=patience, poll_interval=_POLL)
    except Timeout:
        raise FolderInUseError(
            f"{str(folder)!r} is in use by {_describe_owner(folder)}; wait until it has ended, or choose another "
            "save_path"
        ) from None
    except (OSError, NotImplementedError) as error:  # ENOLCK, ENOTSUP, EROFS, the file of another user
        if (device := folder.stat().st_dev) not in _without_locks:
            _without_locks.add(device)
            text = f"{str(folder)!r} cannot be locked ({error}); make sure yourself that no second process uses it"
            warnings.warn(text, stacklevel=4)
        return None
    with contextlib.suppress(OSError):  # it is for messages only, and not worth a run on a full disk
        since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        (folder / _OWNER).write_text(json.dumps(owner), encoding="utf-8")
    return lock


def _release(lock: Any, folder: Path) -> None:
    if lock is None:
        return
    with contextlib.suppress(
        OSError, ValueError, LookupError, TypeError
    ):  # the folder may be gone, or somebody else's by now
        owner = read_json(folder / _OWNER)
        if (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname()):
            (folder / _OWNER).unlink()
            # while it is held: who has it open already sees that it has no name any more, and tries again
            (folder / _LOCK).unlink()
    with contextlib.suppress(OSError):
        lock.release()


def _describe_owner(folder: Path) -> str:
    try:
        owner = read_json(folder / _OWNER)
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, LookupError, TypeError):  # it has only just begun
        return "another process"
