"""What is finished in the folder of a run, as it was at one instant."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import re
import shutil
import stat
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

_log = logging.getLogger("delira")

#: folder of the mirror in that of a run; like all hidden names it is not copied
OWN = ".mirror"
#: in it, of each process: second names of what is to be copied
_STAGED = "staged"
#: what may grow line by line: copied up to where it was when it was looked at
_GROWING = (".jsonl", ".csv", ".log", ".txt", ".journal")
#: what delira writes line by line: copied to the end of its last whole line, as what follows is half of one
_BY_LINES = re.compile(r"(.*/)?((ledger|history|hashes)\.jsonl|history\.csv|study\.journal)")
_LOGS, _TRIALS = "logs", "trials"
#: of what changes while a run is at work, what it resumes from: such files belong together, and none is left out
_RESUMED_FROM = re.compile(rf"(.*/)?checkpoints/.+|{_BY_LINES.pattern}")
#: of a scheduler, which has them for its own jobs alone
_LEFT_OUT = ("slurm",)
#: seconds between two copies of a log that grows, after which a folder that changes is tried again, and for which
_BETWEEN_LOGS, _PAUSE, _LONGEST = 60.0, 0.01, 2.0
#: looks in which a file changed, after which it is taken to do so all the time
_MANY = 20
#: tries to copy what is written into
_TRIES = 5
#: bytes that are read at once
_BLOCK = 1 << 22
#: inode, time of change in ns, and size: of a file that was replaced or has grown it is another one
Mark = tuple[int, int, int]


class Unquiet(Exception):
    """What is copied, or what it is copied to, changed: it is looked at again."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a file holds."""

    sha256: str
    size: int
    """In bytes."""


def is_stored(entry: Entry, stored: Mapping[str, int]) -> bool:
    """Return True if a store has all of a content, whose sizes there are given by checksum."""
    return stored.get(entry.sha256) == entry.size


@dataclasses.dataclass(frozen=True)
class Staged:
    """The content of a file, under a name of its own."""

    path: Path
    mark: Mark

    def is_same(self) -> bool:
        """Return True if nobody wrote into it since its checksum was computed, as callbacks of a user may."""
        return _mark_of(os.stat(self.path)) == self.mark


@dataclasses.dataclass
class _Look:
    """What there is in a part of the folder."""

    marks: dict[str, Mark] = dataclasses.field(default_factory=dict)
    parts: list[str] = dataclasses.field(default_factory=list)
    """Folds and trials, which are parts of their own."""
    logs: list[str] = dataclasses.field(default_factory=list)
    """Folders of logs."""


class Snapshots:
    """Looks at a folder again and again, and keeps what it saw new until it is copied.

    What is written is replaced by renaming, so that a second name keeps its content. A part of the folder is seen as
    it was at one instant: nothing in it changed from the first look to the last. Such parts are the files of the run
    itself, those of each fold and those of each trial, in this order: what is above names what is below. A file that
    changes all the time, and that no run resumes from, is like a log: copied now and then, apart from the others.

    Parameters
    ----------
    folder
        Of the run.
    """

    def __init__(self, folder: Path):
        self.folder, self._staged = folder, folder / OWN / _STAGED / uuid.uuid4().hex
        self._known: dict[str, tuple[Mark, Entry]] = {}
        self._seen: dict[str, dict[str, Mark]] = {}
        """What was in each part at the last instant."""
        self._logs_at = float("-inf")
        self._restless: set[str] = set()
        """Names of files that are like logs."""
        #: what is not copied yet, by its checksum
        self.pending: dict[str, Staged] = {}
        #: names that were written into all the time, so that nothing whole was seen of them
        self.left_out: set[str] = set()

    def take(self, stored: Mapping[str, int], *, with_logs: bool = False) -> dict[str, Entry]:
        """Return the files by their names, with ``/`` between the parts; new ones are in :attr:`pending`.

        Parameters
        ----------
        stored
            Checksums and sizes of what need not be kept.
        with_logs
            Whether logs that grow are looked at, even if they were a short while ago.

        Raises
        ------
        Unquiet
            If something changed all the time.
        OSError
            If the folder cannot be read, or has no manifest: it was deleted, or is none of a run.
        """
        self.forget()
        self._known = {name: known for name, known in self._known.items() if is_stored(known[1], stored)}
        os.stat(self.folder / "manifest.json")  # a folder that was deleted is no reason to delete its mirror
        self._staged.mkdir(parents=True, exist_ok=True)
        now = time.monotonic()
        is_time = with_logs or now >= self._logs_at + _BETWEEN_LOGS
        found: dict[str, Entry] = {}
        parts, logs = [""], []
        for part in parts:  # which grows: those in a part are listed when it was seen
            look = self._part(part, stored)
            found |= {name: self._known[name][1] for name in look.marks}
            parts += sorted(look.parts)
            logs += look.logs
        found |= self._like_logs(logs, stored, is_time=is_time)
        if is_time:
            self._logs_at = now
        self._known = {name: known for name, known in self._known.items() if name in found}
        return found

    def give_up(self, digest: str) -> set[str]:
        """Let go of a content that was written into while it was copied; return the names that have it.

        Raises
        ------
        Unquiet
            If a run resumes from one of them.
        """
        names = {name for name, (_, entry) in self._known.items() if entry.sha256 == digest}
        written = {name for name in names if self._known[name][0][0] == self.pending[digest].mark[0]}
        self._restless |= {name for name in written if not _RESUMED_FROM.fullmatch(name)}
        for name in names:
            del self._known[name]
        told = f"{', '.join(sorted(written))} in {self.folder} was written into while it was copied"
        if any(map(_RESUMED_FROM.fullmatch, names)):
            raise Unquiet(told)
        _log.info("%s; it is in the next state", told)
        return names

    def forget(self) -> None:
        """Let go of what was not copied."""
        self.pending.clear()
        shutil.rmtree(self._staged, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what processes left that copied before, and died."""
        for other in self._staged.parent.glob("*"):
            if other != self._staged:
                shutil.rmtree(other, ignore_errors=True)

    def _part(self, part: str, stored: Mapping[str, int]) -> _Look:
        """Look at one part, as it was at one instant."""
        staged: dict[tuple[str, Mark], Path] = {}
        changes: Counter[str] = Counter()
        end = time.monotonic() + _LONGEST
        while True:
            look = self._look(part)
            marks = look.marks
            new = [(name, mark) for name, mark in marks.items() if self._known.get(name, (None,))[0] != mark]
            if not new and marks == self._seen.get(part):
                return look  # what it was at an earlier instant it is still
            is_staged = self._stage_all(new, staged)
            look = self._look(part)
            again = look.marks
            if is_staged and again == marks:
                for each in new:  # only now: to compute a checksum takes longer than to look
                    self._keep(*each, staged[each], stored)
                self._seen[part] = marks
                return look
            changes.update(name for name in marks.keys() | again.keys() if marks.get(name) != again.get(name))
            self._tell_restless({name for name, number in changes.items() if number >= _MANY})
            if time.monotonic() >= end:
                often = ", ".join(name for name, _ in changes.most_common(3)) or part
                raise Unquiet(f"{often} in {self.folder} changed all the time while it was looked at")
            time.sleep(_PAUSE)

    def _stage_all(self, new: list[tuple[str, Mark]], staged: dict[tuple[str, Mark], Path]) -> bool:
        with contextlib.suppress(FileNotFoundError):
            for each in new:
                if each not in staged:
                    staged[each] = self._stage(*each)
            return True
        return False

    def _tell_restless(self, names: set[str]) -> None:
        """Look at files no longer together with the others."""
        for name in sorted(names - self._restless):
            if not _RESUMED_FROM.fullmatch(name):
                self._restless.add(name)
                _log.warning(
                    "%s in %s changes all the time: the mirror has it as it was up to a minute ago, and as it is when "
                    "the run ends", name, self.folder,
                )  # fmt: skip

    def _like_logs(self, logs: list[str], stored: Mapping[str, int], *, is_time: bool) -> dict[str, Entry]:
        """Return logs and what is like them, as they are now or were a short while ago."""
        marks: dict[str, Mark] = {}
        found = {}
        self.left_out = set()
        for folder in logs:
            marks |= self._look(folder, is_log=True).marks
        for name in sorted(self._restless):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                marks[name] = _mark_of(os.lstat(self.folder / name))
        for name, mark in marks.items():
            if name not in self._known or (is_time and self._known[name][0] != mark):
                with contextlib.suppress(FileNotFoundError):
                    self._keep(name, mark, self._stage(name, mark), stored)
            if name in self._known:
                found[name] = self._known[name][1]
        return found

    def _stage(self, name: str, mark: Mark) -> Path:
        """Give the content of a file a second name.

        Raises
        ------
        FileNotFoundError
            If the file is gone, or another one has its name.
        """
        path, staged = self.folder / name, self._staged / uuid.uuid4().hex
        is_log = _LOGS in name.split("/")
        if path.suffix in _GROWING or is_log:
            _copy_grown(path, staged, mark, is_of_lines=_BY_LINES.fullmatch(name) is not None, is_log=is_log)
            return staged
        if name in self._restless:
            if not _copy_whole(path, staged):
                self.left_out.add(name)
                raise FileNotFoundError(f"{path} was written into")
            return staged
        try:
            os.link(path, staged)
        except FileNotFoundError:
            raise
        except OSError:  # no links there
            shutil.copyfile(path, staged)
            is_same = _mark_of(os.lstat(path)) == mark
        else:
            is_same = _mark_of(os.lstat(staged)) == mark
        if not is_same:
            raise FileNotFoundError(f"{path} was replaced")
        return staged

    def _keep(self, name: str, mark: Mark, staged: Path, stored: Mapping[str, int]) -> None:
        own = _mark_of(os.stat(staged))
        with open(staged, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._known[name] = mark, Entry(digest, own[2])
        if not is_stored(self._known[name][1], stored):
            self.pending.setdefault(digest, Staged(staged, own))

    def _look(self, part: str, *, is_log: bool = False) -> _Look:
        """Look once; at what is like a log, and at folders of logs, only if that is asked for."""
        look, folders = _Look(), [part]
        for folder in folders:
            start = f"{folder}/" if folder else ""
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(self.folder / folder) as entries,
            ):
                for entry in entries:
                    name = f"{start}{entry.name}"
                    if entry.name.startswith(".") or name in _LEFT_OUT:
                        continue
                    is_fold = entry.name.startswith("fold_")
                    # a fold may be kept on another disk
                    if entry.is_dir(follow_symlinks=is_fold and not folder):
                        is_part = is_fold or folder.rpartition("/")[2] == _TRIALS
                        is_of_logs = entry.name == _LOGS and not is_log
                        kind = look.logs if is_of_logs else look.parts if is_part and not is_log else folders
                        kind.append(name)
                    elif ".partial-" not in entry.name and (is_log or name not in self._restless):
                        with contextlib.suppress(FileNotFoundError):
                            about = entry.stat(follow_symlinks=False)
                            if stat.S_ISREG(about.st_mode):
                                look.marks[name] = _mark_of(about)
        return look


def _mark_of(about: os.stat_result) -> Mark:
    return about.st_ino, about.st_mtime_ns, about.st_size


def _copy_grown(path: Path, staged: Path, mark: Mark, *, is_of_lines: bool, is_log: bool) -> None:
    """Copy what was in a file when it was looked at; of lines, and of what is written just now, those that are whole.

    The last line of a file of a user that rests is complete, whether it ends as one or not.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_ino != mark[0]:
            raise FileNotFoundError(f"{path} was replaced")
        content = file.read(mark[2])
        is_written = _mark_of(os.fstat(file.fileno())) != mark
    if (is_of_lines or is_written) and not is_log:
        content = content[: content.rfind(b"\n") + 1]
    staged.write_bytes(content)


def _copy_whole(path: Path, staged: Path) -> bool:
    """Copy a file that others write into, as it is at one instant, or what it had before it grew; False: it is torn."""
    for _ in range(_TRIES):
        with open(path, "rb") as file:
            before = _mark_of(os.fstat(file.fileno()))
            with open(staged, "wb") as copy:
                while block := file.read(min(_BLOCK, before[2] - copy.tell())):
                    copy.write(block)
            after = _mark_of(os.fstat(file.fileno()))
        if after == before or after[2] > before[2]:
            return True
        time.sleep(_PAUSE)
    return False
