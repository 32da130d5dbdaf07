"""One process for each folder, or several that share it: a lock that dies with its owner."""

import contextlib
import datetime
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from delira.errors import FolderInUseError
from delira.utils.files import read_json
from delira.utils.owned import homes

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

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
def locked(
    folder: str | Path,
    patience: float | None = None,
    *,
    alone: bool = False,
    shared: bool = False,
    is_leased: bool = False,
) -> Iterator[None]:
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
    shared
        Let others in that say the same; who works at which part of the folder, leases say.
    is_leased
        This process has a lease of the folder: who holds the lock was stopped, and nobody waits for it.

    Raises
    ------
    FolderInUseError
        If another process holds the lock; it is named. If this one does ``alone``.
    """
    folder = Path(folder).resolve()
    key = (os.getpid(), str(folder))
    with _guard:
        if key not in _holds:
            patience = 0 if is_leased else _PATIENCE if patience is None else patience
            try:
                lock = _acquire(folder, patience, shared=shared, is_leased=is_leased)
            except FolderInUseError:
                if not is_leased:
                    raise
                lock = None
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


@contextlib.contextmanager
def of_file(file: IO[bytes]) -> Iterator[bool]:
    """Scope in which other processes that say the same wait for this one; short, as nothing shows who it is.

    It is given False where there are no locks, and nobody waits.
    """
    is_locked = False
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
            is_locked = True
    yield is_locked


def is_ours(folder: str | Path) -> bool:
    """Return True if this process holds the lock of a folder."""
    with _guard:
        return (os.getpid(), str(Path(folder).resolve())) in _holds


def owner_of(folder: str | Path, leased: Callable[[], str | None] = lambda: None) -> str | None:
    """Who is at work in a folder, in words; ``None`` if nobody is. Nothing is waited for and nothing is kept.

    Where locks cannot be asked for (a folder of another user, a file system that has none), whoever said that they
    hold it is believed, else ``leased`` is asked.
    """
    folder = Path(folder).resolve()
    if is_ours(folder):
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
        return _describe_owner(folder) if (folder / _OWNER).exists() else leased()
    lock.release()
    return None


class _SharedLock:
    """A lock of a file that several hold, but nobody else; where the system has none, leases have to do.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path):
        self._path = path
        self._file: int | None = None

    def acquire(self, timeout: float, poll_interval: float) -> None:
        """Wait for who holds it alone."""
        from filelock import Timeout

        deadline = time.monotonic() + timeout
        while fcntl is not None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(self._path)):
                    self._file = file
                    return
            except (BlockingIOError, FileNotFoundError):
                pass
            finally:
                if self._file is None:
                    os.close(file)
            if time.monotonic() >= deadline:
                raise Timeout(str(self._path))
            time.sleep(poll_interval)

    def alone(self) -> bool:
        """Return True if nobody else holds it, nor gets it any more."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[arg-type]
        except (OSError, AttributeError, TypeError):
            return False
        return True

    def release(self) -> None:
        """Let go of it."""
        if self._file is not None:
            os.close(self._file)


def _acquire(folder: Path, patience: float, *, shared: bool = False, is_leased: bool = False) -> Any:
    from filelock import FileLock, Timeout

    lock: Any = _SharedLock(folder / _LOCK) if shared else FileLock(folder / _LOCK, thread_local=False)
    try:
        lock.acquire(timeout=patience, poll_interval=_POLL)
    except Timeout:
        raise FolderInUseError(
            f"{str(folder)!r} is in use by {_describe_owner(folder)}; wait until it has ended, or choose another "
            "save_path"
        ) from None
    except (OSError, NotImplementedError) as error:  # ENOLCK, ENOTSUP, EROFS, the file of another user
        # leases need no locks
        if not (shared or is_leased) and (device := folder.stat().st_dev) not in _without_locks:
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
        is_own = (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname())
        if lock.alone() if isinstance(lock, _SharedLock) else is_own:
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
