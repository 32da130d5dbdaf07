"""Copies of a run at a URL: made in the background while it runs, whole at any instant."""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from delira.errors import LeaseLostError, MirrorError, check_numbers
from delira.execution.fetching import needed_of
from delira.execution.place import Claim, Index, Place
from delira.execution.snapshot import OWN, Entry, Snapshots, Unquiet, is_stored
from delira.execution.store import Store, check_url
from delira.runs.leases import TAKEN_OVER_AFTER, Lease, Leases

_log = logging.getLogger("delira")

#: leases of who copies, and of who looks whether the place is free
_COPIES, _CLAIMS = "copying", "claiming"
#: seconds between tries of a store that refuses: twice as many each time
_FIRST_PAUSE, _MOST_PAUSE, _PAUSE_AT_END = 1.0, 60.0, 2.0
#: seconds between two lines that say how much is left
_BETWEEN_LINES = 15.0
#: seconds in which what is copied changes all the time, after which that is said
_UNQUIET_FOR = 60.0
#: looks at the end, after which a file that is written into all the time is left out
_LAST_LOOKS = 3
#: seconds between two lists of what the store has: usually, and once it did not say whether it had deleted something
_BETWEEN_LISTS, _BETWEEN_DOUBTS = 600.0, 60.0


@dataclasses.dataclass(frozen=True)
class Mirror:
    """Where the files of runs are copied to, in the background; a URL does for most.

    What is copied for a run lies in ``<url>/<name of the experiment>/<name of the run folder>``; ``resume=`` with the
    same mirror fetches it where there is no such folder. Endpoint, keys and other options of a store come from the
    environment or from fsspec's configuration.

    Parameters
    ----------
    url
        Of any kind that fsspec knows, ``"s3://bucket/folder"``, or a folder. ``pip install delira[remote]``, and the
        package of its protocol, s3fs for ``s3://``.
    every
        Seconds from one look for new files to the next.
    patience
        Seconds that the end of a run waits until everything is copied; then it raises a ``MirrorError``.
    grace
        The same where a signal ended the run: schedulers kill a program 30 to 120 seconds after it.
    takeover_after
        Seconds without a sign of life after which another program that works at the same run folder copies.

    Raises
    ------
    ConfigError
        If the URL is none, or has a password, a key or options in it.
    """

    url: str
    every: float = 5.0
    patience: float = 600.0
    grace: float = 20.0
    takeover_after: float = TAKEN_OVER_AFTER

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", check_url(self.url))
        check_numbers(self, above=0, every=self.every, patience=self.patience, takeover_after=self.takeover_after)
        check_numbers(self, at_least=0, grace=self.grace)

    def connected(self) -> Store:
        """Return the store, in which a file was written and read.

        Raises
        ------
        ConfigError
            If it cannot be: an unknown protocol, no such bucket, a permission that is missing, nobody who answers.
        MissingBackendError
            If a package is not installed.
        """
        store = Store(self.url)
        store.probe()
        return store

    @contextlib.contextmanager
    def following(self) -> Iterator["Copying"]:
        """Scope whose end waits until what :meth:`Copying.begin` was told of is copied.

        Raises
        ------
        MirrorError
            At its end, naming what is not copied; if an error ends it, that has a note instead.
        """
        copying = Copying(self)
        try:
            yield copying
        except BaseException as error:
            limit = self.patience if isinstance(error, Exception) else self.grace
            if missing := copying.end(limit):
                error.add_note(missing)
                _log.error("%s", missing)
            raise
        if missing := copying.end(self.patience):
            raise MirrorError(
                f"{missing}; the run has ended and is whole on this disk. The same call with resume='auto' copies the "
                "rest and returns the result, with mirror=None it returns it without"
            )


def _listed(names: Iterable[str]) -> str:
    first = sorted(names)
    return ", ".join(first[:3]) + (f" and {len(first) - 3} others" if len(first) > 3 else "")


class _TakenOver(Exception):
    """Another machine went on with the run."""


class _Refused(Exception):
    """Another run has the place."""


class _Later(Exception):
    """The run has ended meanwhile: its last state is copied instead."""


class Copying:
    """Copies one run folder, in a thread, until it is ended.

    Of several processes that work at a folder one copies, which has a lease of it; the others are ready to take over.

    Parameters
    ----------
    asked
        How.
    """

    def __init__(self, asked: Mirror):
        self._asked = asked
        self._thread: threading.Thread | None = None
        self._wake, self._is_over, self._is_given_up = threading.Event(), threading.Event(), threading.Event()
        self._is_ending = False
        self._lease: Lease | None = None
        self._claim = Claim("")
        self._stored: dict[str, int] = {}
        """Sizes of the contents that this copy has."""
        self._index: Index | None = None
        self._orphans: set[str] = set()
        """Checksums of contents that no index names, and that are to be deleted."""
        self._serials: list[int] = []
        """Of indexes of this copy that are to be deleted."""
        self._is_tidy = False
        """Whether there is no other copy any more."""
        self._n_failures = 0
        self._failure = ""
        self._is_told = False
        """Whether it was said that nothing is copied now."""
        self._is_refused = False
        self._unquiet_since: float | None = None
        self._unknown = ""
        """A copy that had not said whose it is when it was seen."""
        self._n_left_out = 0
        """Looks at the end that did not see all files."""
        self._listed_at, self._is_in_doubt = time.monotonic(), False
        self._left: tuple[int, int] | None = None
        """Files and bytes to be copied; ``None``: not known yet."""

    # ------------------------------------------------------------------ of the program

    def begin(self, folder: Path, place: Place) -> None:
        """Make the place that of the folder of a run, and begin to copy.

        Raises
        ------
        ConfigError
            If another run has the place, or it is in the folder.
        """
        place.check_apart(folder)
        self._folder, self._place = folder, place
        self._leases = Leases(folder / OWN, self._asked.takeover_after)
        self._snapshots = Snapshots(folder)
        with self._leases.waited_for(_CLAIMS):
            self._claim = self._place.claim(folder)
        self._thread = threading.Thread(target=self._work, name="delira-mirror", daemon=True)
        self._thread.start()

    def end(self, limit: float) -> str:
        """Copy what is left, for so many seconds at most; return what is not copied, in words.

        A second call, and one without :meth:`begin`, does nothing.
        """
        thread, self._thread = self._thread, None
        if thread is None:
            return ""
        self._is_ending = True
        self._wake.set()
        end = time.monotonic() + limit
        try:
            while not self._is_over.wait(max(0.0, min(_BETWEEN_LINES, end - time.monotonic()))):
                if time.monotonic() >= end:
                    break
                _log.info("waiting for the mirror %s: %s", self._place.url, self._told_left())
        finally:
            is_over = self._is_over.is_set()
            self._is_given_up.set()
            self._wake.set()
            thread.join(timeout=_PAUSE_AT_END)
            self._let_go(is_stuck=thread.is_alive())
        if is_over and not self._is_refused:
            return ""
        why = f" ({self._failure})" if self._failure else ""
        long = "" if self._is_refused else f" in {limit:g} s"
        return f"{self._told_left()} not copied from {self._folder} to {self._place.url}{long}{why}"

    def _told_left(self) -> str:
        if self._left is None or not self._left[0]:
            return "the last state is"
        n_files, n_bytes = self._left
        return f"{n_files} {'file' if n_files == 1 else 'files'} ({n_bytes / 1e6:.3g} MB) are"

    def _let_go(self, *, is_stuck: bool) -> None:
        with contextlib.suppress(OSError):
            if is_stuck and self._lease is not None:  # what it writes one day must not count
                dataclasses.replace(self._claim, copy="", fetched=self._claim.copy).write(self._folder)
            else:
                self._snapshots.forget()
            if self._lease is not None:
                self._lease.release()
                self._lease = None

    # ------------------------------------------------------------------ of the thread

    def _work(self) -> None:
        pause = 0.0
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if self._is_given_up.is_set():
                return
            is_last = self._is_ending
            try:
                is_done = self._copy_once(is_last)
                pause = self._asked.every
                self._tell_recovered()
            except _Later:
                pause, is_done = 0.0, False
            except _TakenOver as error:
                _log.warning("%s", error)
                is_done = is_last = True
            except _Refused as error:
                self._failure, self._is_refused = str(error), True
                _log.error("%s is not copied: %s", self._folder, error)
                is_done = is_last = True
            except Unquiet as error:
                pause, is_done = self._waiting(error), False
            except LeaseLostError as error:
                _log.info("%s", error)
                pause, is_done = min(self._asked.every, _PAUSE_AT_END), False
            except Exception as error:  # of whatever store
                pause, is_done = self._failed(error), False
            if is_last and is_done:
                self._is_over.set()
                return
            if is_last:
                pause = min(pause, _PAUSE_AT_END)

    def _failed(self, error: Exception) -> float:
        """Say, once, that the store refuses; return the seconds until the next try."""
        self._failure = f"{type(error).__name__}: {error}".removesuffix(": ")
        self._n_failures += 1
        self._tell("look whether the store can be reached, has room, and lets you write")
        return min(_MOST_PAUSE, max(self._asked.every, _FIRST_PAUSE * 2.0 ** (self._n_failures - 1)))

    def _waiting(self, error: Unquiet) -> float:
        """Say, once, that nothing was at rest for long; return the seconds until the next look."""
        self._failure = str(error)
        if self._unquiet_since is None:
            self._unquiet_since = time.monotonic()
        elif time.monotonic() >= self._unquiet_since + _UNQUIET_FOR:
            self._tell("what a run resumes from is copied when it rests for a moment")
        return self._asked.every

    def _tell(self, cure: str) -> None:
        if not self._is_told:
            self._is_told = True
            _log.warning(
                "%s is not copied to %s now: %s. The run goes on, its files on this disk are whole, and it is tried "
                "again; %s", self._folder, self._place.url, self._failure, cure,
            )  # fmt: skip

    def _tell_recovered(self) -> None:
        if self._is_told:
            _log.warning("%s is copied to %s again", self._folder, self._place.url)
        self._n_failures, self._failure, self._is_told, self._unquiet_since = 0, "", False, None

    def _copy_once(self, is_last: bool) -> bool:
        """Copy what is new; return False if somebody else does that, or is about to."""
        if self._lease is None and not self._take_lease():
            # who is alive copies this, too; of who is not that turns out
            return is_last and not self._leases.are_all_dead()
        self._check()
        files = self._snapshots.take(self._stored, with_logs=is_last)
        left = {} if self._index is None else {k: e for k, e in self._index.left.items() if k not in files}
        if self._index is None:
            left = self._bring_left(files)
        left_out = self._put_pending(is_last)
        files = {name: entry for name, entry in files.items() if name not in left_out}
        if self._index is None or (dict(self._index.files), dict(self._index.left)) != (files, left):
            self._write_index(files, left)
        self._tidy()
        has_all = self._has_all(is_last)
        return not is_last or (has_all and self._is_complete(left_out | self._snapshots.left_out))

    def _is_complete(self, left_out: set[str]) -> bool:
        """Return True if no file is left out of the last state, or nothing helps; then say so."""
        self._n_left_out += 1
        if left_out and self._n_left_out >= _LAST_LOOKS:
            _log.warning(
                "%s: %s is not in %s as it is: it is written into still, though the run has ended",
                self._folder, ", ".join(sorted(left_out)), self._place.url,
            )  # fmt: skip
        return not left_out or self._n_left_out >= _LAST_LOOKS

    def _has_all(self, is_last: bool) -> bool:
        """Return False if the store lacks what the index names: a delete that timed out may come late."""
        after = _BETWEEN_DOUBTS if self._is_in_doubt else _BETWEEN_LISTS
        if self._index is None or not (is_last or time.monotonic() >= self._listed_at + after):
            return True
        there = self._place.objects(self._claim.copy)
        self._listed_at = time.monotonic()
        self._stored = {digest: size for digest, size in self._stored.items() if there.get(digest) == size}
        lost = {name for name, entry in self._index.files.items() if not is_stored(entry, there)}
        gone = {name for name, entry in self._index.left.items() if not is_stored(entry, there)}
        if lost:
            _log.warning("%s lacks %s, which was copied there and is copied again", self._place.url, _listed(lost))
        if gone:
            _log.warning("%s lacks %s, which only the store had", self._place.url, _listed(gone))
            left = {name: entry for name, entry in self._index.left.items() if name not in gone}
            self._write_index(self._index.files, left)
        return not (lost or gone)

    def _take_lease(self) -> bool:
        """Become the one who copies, unless another process is; begin where it ended."""
        holder = self._leases.holder(_COPIES)
        is_dead = holder is None or holder.is_dead
        lease = self._leases.take(_COPIES)
        if lease is None:
            return False
        self._lease = lease.__enter__()
        self._claim = Claim.of(self._folder) or self._claim
        self._snapshots.sweep()
        if lease.taken_from and not is_dead:  # it may be about to write
            self._claim = self._place.renew(self._folder, self._claim.run)
        self._stored = self._place.objects(self._claim.copy)
        self._index = self._place.index_of(self._claim.copy)
        self._serials = self._place.serials(self._claim.copy)
        self._orphans.clear()  # who copied meanwhile may need them
        self._is_tidy = False
        return True

    def _check(self) -> None:
        """Refuse to go on if the copy is not that which counts."""
        if self._is_given_up.is_set():
            raise _TakenOver(f"copying {self._folder} to {self._place.url} was given up")
        if self._lease is not None:
            try:
                self._lease.check()
            except LeaseLostError:
                self._lease = None  # who has it copies the rest
                raise
        copies, claim = self._place.copies(), self._claim
        if not copies:  # somebody emptied the store
            _log.warning("%s was emptied, and what was copied there is copied again", self._place.url)
            self._claim = self._place.renew(self._folder, claim.run)
            self._stored, self._index, self._serials = {}, None, []
            self._orphans.clear()
            raise Unquiet(f"{self._place.url} was emptied")
        newest, serials = copies[-1], self._place.serials(copies[-1])
        if newest != claim.copy and not self._place.run_of(newest) and not serials and newest != self._unknown:
            self._unknown = newest
            raise Unquiet(f"{self._place.url} has a copy that is being made")
        if newest != claim.copy and self._place.run_of(newest) not in ("", claim.run):
            if not self._place.serials(claim.copy):
                self._place.remove(claim.copy)
            raise _Refused(str(self._place.refusal(self._folder, claim)))
        if newest != claim.copy or max(serials, default=0) > claim.serial:
            raise _TakenOver(
                f"{self._place.url} was taken over by {self._place.describe(newest)}, which went on with the run; "
                f"this process trains on in {self._folder}, and copies nothing more"
            )

    def _put_pending(self, is_last: bool) -> set[str]:
        """Copy the contents that the store has not; return the names of files that were written into meanwhile."""
        left_out: set[str] = set()
        pending = self._snapshots.pending
        sizes = {digest: staged.mark[2] for digest, staged in pending.items()}
        for digest, staged in sorted(pending.items(), key=lambda item: item[1].mark[2]):
            self._left = len(sizes), sum(sizes.values())
            if self._is_given_up.is_set() or (self._is_ending and not is_last):
                raise _Later
            key = self._place.object(self._claim.copy, digest)
            self._place.store.put(staged.path, key)
            if not staged.is_same():
                self._place.store.delete(key)
                left_out |= self._snapshots.give_up(digest)
                del sizes[digest]
                continue
            self._stored[digest] = sizes.pop(digest)
            self._orphans.discard(digest)
        self._left = 0, 0
        self._snapshots.forget()
        return left_out

    def _bring_left(self, files: dict[str, Entry]) -> dict[str, Entry]:
        """Copy, within the store, what the copy before has and nobody has fetched."""
        before = self._place.newest()
        if before is None or before.copy == self._claim.copy:
            return {}
        needed = needed_of(self._place, before)
        left = {name: entry for name, entry in before.all.items() if name not in {*files, *needed}}
        for entry in left.values():
            if self._stored.get(entry.sha256) != entry.size:
                source, key = before.copy, entry.sha256
                self._place.store.copy(
                    self._place.object(source, key), self._place.object(self._claim.copy, key), entry.size
                )
                self._stored[entry.sha256] = entry.size
        return left

    def _write_index(self, files: Mapping[str, Entry], left: Mapping[str, Entry]) -> None:
        self._check()
        serial = 1 + max(*self._serials, self._claim.serial, 0)
        # before it: a store that has a later one than its folder knows of has it from somebody else
        self._claim = dataclasses.replace(self._claim, serial=serial)
        self._claim.write(self._folder)
        index = Index(copy=self._claim.copy, serial=serial, run=self._claim.run, files=files, left=left)
        self._serials.append(serial)
        self._place.write_index(index)
        self._index = index

    def _tidy(self) -> None:
        """Delete what no index names any more."""
        index = self._index
        if index is None:
            return
        for serial in [serial for serial in self._serials if serial != index.serial]:
            self._place.delete_index(index.copy, serial)
            self._serials.remove(serial)
        named = {entry.sha256 for entry in index.all.values()}
        for digest in [digest for digest in self._stored if digest not in named]:
            del self._stored[digest]  # first: if it is needed again it is copied again
            self._orphans.add(digest)
        for digest in [*self._orphans]:
            try:
                self._place.store.delete(self._place.object(index.copy, digest))
            except Exception:
                self._is_in_doubt = True
                raise
            self._orphans.remove(digest)
        if not self._is_tidy:
            for copy in self._place.copies():
                if copy < index.copy:
                    self._place.remove(copy)
            self._is_tidy = True
