"""Who works at which part of a run: one at a time, of all processes on all machines that see its folder."""

import contextlib
import dataclasses
import errno
import functools
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from delira.errors import ConfigError, LeaseLostError, check_numbers
from delira.utils import files, lock
from delira.utils.owned import fenced

_log = logging.getLogger("delira")
_T = TypeVar("_T")

#: folder of the leases in that of the run, and how their files end
FOLDER, _SUFFIX = ".leases", ".lease"
#: seconds without a heartbeat after which a lease is taken over, and heartbeats in that time
TAKEN_OVER_AFTER, _BEATS = 60.0, 12
#: seconds between two looks of who waits
_LOOK = 0.1
#: a heartbeat is written over the one before: as many digits; and the bytes that a file of a lease has at most
_DIGITS, _MOST = 12, 1 << 16
#: what no waiting changes: the folder is another user's, or a disk that is only read
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
#: states of processes of Linux that have ended, but for somebody who asks how
_ENDED = ("Z", "X", "x")
#: by process: tokens of the leases that it holds
_held: set[tuple[int, str]] = set()


class _Starter:
    """Starts the heartbeats of leases that are held for so long that they need one: most are let go of before.

    It reads and writes nothing, so that a file system that hangs keeps no lease of another one from beating.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lease, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, lease: "Lease", after: float) -> None:
        """Begin with a lease after so many seconds."""
        with self._changed:
            self._waiting[lease] = time.monotonic() + after
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="delira-leases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def discard(self, lease: "Lease") -> None:
        """Begin with it no more."""
        with self._changed:
            self._waiting.pop(lease, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for lease in [lease for lease, due in self._waiting.items() if due <= now]:
                    del self._waiting[lease]
                    lease.begin()
                first = min(self._waiting.values(), default=None)
                self._changed.wait(None if first is None else max(0.0, first - time.monotonic()))


_starter = _Starter()


def _start_anew() -> None:
    """A child that was forked has neither the thread nor the leases, and its lock may be held for ever."""
    global _starter
    _starter = _Starter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a lease, as its file says."""

    number: int
    """Of the lease; each takeover of a part has one more. 0: nobody."""
    token: str = ""
    """That no other holder has, also where numbers begin again; empty: the file cannot be read yet, or any more."""
    worker: str = "another process"
    """The process and the machine, in words."""
    machine: str = ""
    pid: int = 0
    began: str = ""
    """When the process did, as its machine counts."""
    expires_after: float = TAKEN_OVER_AFTER
    """Seconds without a heartbeat after which it is taken to be dead."""

    @property
    def is_dead(self) -> bool:
        """Return True if its process, if it is one of this machine, has surely ended or let go of it."""
        if not self.began or self.machine != machine():
            return False
        if self.pid == os.getpid() and (self.pid, self.token) not in _held:
            return True
        return _began(self.pid) != self.began


@dataclasses.dataclass
class _Seen:
    """What an observer saw last of a lease."""

    content: bytes
    at: float
    quiet: float = 0.0
    """Seconds in which it was looked at and did not change."""


class Leases:
    """The leases of a run, or of another folder, as one session sees them.

    A lease is a file that one of all takers can create; its holder writes a new number into it now and then. It has
    expired when an observer has looked at it for ``expires_after`` seconds by its own clock, and saw no other number;
    what any clock says it is does not matter. The next holder creates the file with the next number, and removes the
    one before. Once a part is released its numbers begin again, and tokens tell the holders apart: who was stopped
    finds another one in the file of its number. Nothing else is asked of the file system, no locks and no links.

    Parameters
    ----------
    folder
        That is shared.
    expires_after
        Seconds without a heartbeat after which what is taken here may be taken over.
    """

    def __init__(self, folder: str | Path, expires_after: float = TAKEN_OVER_AFTER):
        check_numbers(self, above=0, expires_after=expires_after)
        self.folder = Path(folder) / FOLDER
        self.expires_after = float(expires_after)
        self._seen: dict[str, _Seen] = {}
        self._n_beats = 0
        """Heartbeats that were seen."""

    def take(self, part: str, over: Holder | None = None) -> "Lease | None":
        """Take a part, if nobody holds it.

        Parameters
        ----------
        part
            A name that can be that of a file, without dots.
        over
            Whose lease somebody else saw expire; who has taken the part since is left alone.

        Returns
        -------
        Lease or None
            ``None``: somebody else holds it, or was faster.

        Raises
        ------
        ConfigError
            If this user may not write there.
        """
        before = self.holder(part)
        is_given = before is not None and over is not None and _is_same(before, over)
        if before is not None and not is_given and not self._is_over(part, before):
            return None
        lease = Lease(self, part, 1 if before is None else before.number + 1)
        if not lease.create():
            return None
        if before is not None:
            lease.taken_from = before.worker
            self.remove_before(part, lease.number)
        return lease

    def remove_before(self, part: str, number: int) -> None:
        """Remove what earlier holders left."""
        for earlier in self.numbers(part):
            if earlier < number:
                with contextlib.suppress(OSError):
                    (self.folder / _name(part, earlier)).unlink()

    def holder(self, part: str) -> Holder | None:
        """Return who holds a part; ``None`` if nobody does. Each call looks at its heartbeat."""
        number = max(self.numbers(part), default=0)
        if not number:
            self._seen.pop(part, None)
            return None
        content = b""
        with contextlib.suppress(OSError):
            content = files.read_bytes(self.folder / _name(part, number))
        self._look(part, b"%d %s" % (number, content))
        return _read(content, number)

    def is_free(self, part: str) -> Holder | None:
        """Return whose lease of a part has expired, with the number 0 if there was none; ``None``: it is held."""
        holder = self.holder(part)
        if holder is None:
            return Holder(0)
        return holder if self._is_over(part, holder) else None

    def numbers(self, part: str) -> list[int]:
        """Numbers of the leases that there are of a part."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        start = len(part) + 1
        ours = [name[start : -len(_SUFFIX)] for name in names if name.startswith(f"{part}.") and name.endswith(_SUFFIX)]
        return [int(number) for number in ours if number.isdecimal()]

    def parts(self) -> list[str]:
        """Parts that somebody holds, or held until it died."""
        names = []
        with contextlib.suppress(OSError):
            names = os.listdir(self.folder)
        return sorted({name.partition(".")[0] for name in names if name.endswith(_SUFFIX)})

    def held(self) -> list[str]:
        """Parts that somebody holds, as far as nobody is known to be dead."""
        return [part for part in self.parts() if self.is_free(part) is None]

    def workers(self) -> str | None:
        """Who holds parts, in words; ``None`` if nobody is known to."""
        holders = [holder for part in self.held() if (holder := self.holder(part)) is not None]
        return ", ".join(sorted({holder.worker for holder in holders})) or None

    def are_all_dead(self) -> bool:
        """Watch who holds parts until it is known whether anybody is alive: for ``expires_after`` seconds at most."""
        while self.held():
            if self._n_beats:
                return False
            time.sleep(_LOOK)
        return True

    def sweep(self) -> None:
        """Remove what is left of holders that are known to be dead."""
        for part in self.parts():
            with contextlib.suppress(OSError, ConfigError):
                if (lease := self.take(part)) is not None:
                    lease.release()

    def call_alone(self, part: str, folder: Path, function: Callable[[], _T]) -> _T:
        """Call what writes below a folder while this process holds a part; again, if that was taken over meanwhile.

        Parameters
        ----------
        part
            That is waited for.
        folder
            That nobody else writes into without it.
        function
            That may be called several times.
        """
        while True:
            try:
                with self.waited_for(part) as lease, lease.fenced(folder):
                    return function()
            except LeaseLostError as error:
                _log.warning("%s; it is done again", error)

    @contextlib.contextmanager
    def waited_for(self, part: str) -> Iterator["Lease"]:
        """Scope of a short piece of work that others wait for."""
        while (lease := self.take(part)) is None:
            time.sleep(_LOOK)
        with lease:
            yield lease

    def _look(self, part: str, content: bytes) -> None:
        seen, now = self._seen.get(part), time.monotonic()
        if seen is None or seen.content != content:
            self._n_beats += seen is not None
            self._seen[part] = _Seen(content, now)
            return
        # time in which this process slept, or was stopped, is none in which it looked
        seen.quiet += min(now - seen.at, self.expires_after / _BEATS)
        seen.at = now

    def _is_over(self, part: str, holder: Holder) -> bool:
        seen = self._seen.get(part)
        # who wrote what cannot be read, or cannot be read now, may have said any time
        patience = holder.expires_after if holder.token else max(self.expires_after, TAKEN_OVER_AFTER)
        return holder.is_dead or (seen is not None and seen.quiet >= patience)


class Lease:
    """One part that this process may write, until it is released or taken over; used with ``with``.

    Parameters
    ----------
    leases, part, number
        Whose it is; see :meth:`Leases.take`.
    """

    def __init__(self, leases: Leases, part: str, number: int):
        self.part, self.number = part, number
        self.path = leases.folder / _name(part, number)
        #: who held it before, and lost it
        self.taken_from = ""
        self._leases = leases
        self._own = Holder(
            number, uuid.uuid4().hex, worker(), machine(), os.getpid(), _began(os.getpid()) or "", leases.expires_after
        )
        self._beat = 0
        self._is_written = True
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def create(self) -> bool:
        """Return True if this was the first to create its file.

        Where the disk has no place for it that is said, and the work goes on: no result is lost for it.

        Raises
        ------
        ConfigError
            If this user may not write there: each process would take everything.
        """
        folder = self.path.parent.parent
        try:
            return self._create()
        except OSError as error:
            self._let_go()
            if error.errno in _FORBIDDEN:
                raise ConfigError(
                    f"{str(self.path.parent)!r} cannot be written ({error.strerror}): processes tell each other there "
                    f"who is at work on {str(folder)!r}; let this user write into it, or choose another save_path"
                ) from error
            self._is_written = False
            _log.warning(
                "nothing tells other processes who is at work on %s (%s): begin no second one before there is room",
                folder, error,
            )  # fmt: skip
            return True

    def _create(self) -> bool:
        _held.add((os.getpid(), self._own.token))
        while True:
            try:
                file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed below
            except FileExistsError:
                self._let_go()
                return False
            except FileNotFoundError:  # also: somebody has just released the last one, and removed the folder
                with files.unsynced():  # after a power loss nobody holds it
                    files.make_folder(self.path.parent)
                continue
            with file:
                try:
                    file.write(self._content())
                except OSError:
                    self.path.unlink()
                    raise
            return True

    def __enter__(self) -> Self:
        """Begin to show that this process is alive."""
        if not self._is_written:
            return self
        _starter.add(self, self._leases.expires_after / _BEATS)
        return self

    def begin(self) -> None:
        """Begin with its heartbeats, at once."""
        self._thread = threading.Thread(target=self._keep, name=f"delira-lease-{self.part}", daemon=True)
        self._thread.start()

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if os.getpid() == self._own.pid:
            self.release()

    def release(self) -> None:
        """Let somebody else have it."""
        _starter.discard(self)
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError, ConfigError):
            holder = _read(files.read_bytes(self.path), self.number)
            if holder.token == self._own.token:
                self._leases.remove_before(self.part, self.number)
                self.path.unlink()
        self._let_go()
        with contextlib.suppress(OSError):  # others are in it
            self.path.parent.rmdir()

    def _let_go(self) -> None:
        _held.discard((os.getpid(), self._own.token))

    def check(self) -> None:
        """Refuse to go on if somebody has taken over.

        Raises
        ------
        LeaseLostError
            Saying who.
        """
        if not self._is_written and not self._leases.numbers(self.part):
            return
        try:
            is_own = _read(files.read_bytes(self.path), self.number).token == self._own.token
        except FileNotFoundError:
            is_own = False
        numbers = self._leases.numbers(self.part)
        if is_own and max(numbers, default=0) == self.number:
            return
        other = self._leases.holder(self.part)
        raise LeaseLostError(
            f"{self.part} of {str(self.path.parent.parent)!r} was taken over by "
            f"{'somebody else' if other is None else other.worker}: this process had shown no sign of life for "
            f"{self._leases.expires_after:g} s, as it was stopped or could not reach the folder; it writes nothing more"
        )

    @contextlib.contextmanager
    def fenced(self, folder: Path) -> Iterator[None]:
        """Scope in which nothing is written below a folder once somebody has taken over."""
        files.writable_folder(folder)
        with fenced(folder, self.check), lock.locked(folder, is_leased=True):
            self.check()
            yield

    def _content(self) -> bytes:
        return json.dumps({**vars(self._own), "beat": f"{self._beat:0{_DIGITS}}"}).encode() + b"\n"

    def _keep(self) -> None:
        while not self._is_over.is_set():
            self._beat += 1
            try:
                with open(self.path, "r+b", buffering=0) as file:
                    # the number may have begun again, and be somebody else's: what was opened is what is looked at
                    if _read(file.read(_MOST), self.number).token != self._own.token:
                        return  # taken over: whoever works finds it out before it writes
                    file.seek(0)
                    file.write(self._content())
            except FileNotFoundError:
                return
            except OSError:  # a disk that is away now may be back for the next one
                pass
            self._is_over.wait(self._leases.expires_after / _BEATS)


def _name(part: str, number: int) -> str:
    return f"{part}.{number}{_SUFFIX}"


def _is_same(one: Holder, other: Holder) -> bool:
    return (one.number, one.token) == (other.number, other.token)


def _read(content: bytes, number: int) -> Holder:
    """Who a file of a lease says that holds it; what cannot be read may be half written."""
    try:
        told = files.parse_json(content)
        known = {field.name: told[field.name] for field in dataclasses.fields(Holder)}
        holder = Holder(**known | {"number": number, "expires_after": float(known["expires_after"])})
    except (ValueError, LookupError, TypeError):
        return Holder(number)
    are_texts = all(isinstance(text, str) for text in (holder.token, holder.worker, holder.machine, holder.began))
    is_whole = are_texts and type(holder.pid) is int and 0 < holder.expires_after < float("inf")
    return dataclasses.replace(holder, worker=files.harmless(holder.worker)) if is_whole else Holder(number)


def worker() -> str:
    """Return this process and its machine, in words."""
    return f"process {os.getpid()} on {socket.gethostname()}"


@functools.cache
def machine() -> str:
    """What tells where numbers of processes mean the same: a running system, and what it counts as one."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    return uuid.uuid4().hex  # nobody is known to be dead there


def _began(pid: int) -> str | None:
    """When a process of this machine began, so that another one with its number is told from it; None: it ended."""
    try:
        told: Any = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return None
    return None if told[0] in _ENDED else told[19]
