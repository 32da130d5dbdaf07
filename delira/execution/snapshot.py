"""What is finished in the folder of a run, as it was at one instant."""

import contextlib
import dataclasses
import hashlib
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

#: folder of the mirror in that of a run; like all hidden names it is not copied
OWN = ".mirror"
#: what is written line by line: copied to the end of its last whole line
_BY_LINES = (".jsonl", ".csv", ".log", ".txt")
_LOGS = "logs"
#: of a scheduler, which has them for its own jobs alone
_LEFT_OUT = ("slurm",)
#: seconds between two copies of a log that grows, and after which a folder that always changes is tried again
_BETWEEN_LOGS, _PAUSE = 60.0, 0.01
_TRIES = 200
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


class Snapshots:
    """Looks at a folder again and again, and keeps what it saw new until it is copied.

    What is written is replaced by renaming, so that a second name keeps its content. A part of the folder is seen as
    it was at one instant: nothing in it changed from the first look to the last. The files of the run itself are
    looked at before those of its folds, since they name what the folds have written.

    Parameters
    ----------
    folder
        Of the run.
    """

    def __init__(self, folder: Path):
        self.folder, self._staged = folder, folder / OWN / "staged"
        self._known: dict[str, tuple[Mark, Entry]] = {}
        self._logs_at = float("-inf")
        #: what is not copied yet, by its checksum
        self.pending: dict[str, Staged] = {}

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
        found = self._group("", stored)
        for group in sorted(path.name for path in self.folder.glob("fold_*") if path.is_dir()):
            found |= self._group(group, stored)
        for name, mark in self._logs():
            if name not in self._known or (is_time and self._known[name][0] != mark):
                with contextlib.suppress(FileNotFoundError):
                    self._keep(name, mark, self._stage(name, mark), stored)
            if name in self._known:
                found[name] = self._known[name][1]
        if is_time:
            self._logs_at = now
        self._known = {name: known for name, known in self._known.items() if name in found}
        return found

    def forget(self) -> None:
        """Let go of what was not copied."""
        self.pending.clear()
        shutil.rmtree(self._staged, ignore_errors=True)

    def _group(self, group: str, stored: Mapping[str, int]) -> dict[str, Entry]:
        """Return the files of one fold, or of the run itself, as they were at one instant."""
        staged: dict[tuple[str, Mark], Path] = {}
        for _ in range(_TRIES):
            marks = dict(self._scan(group))
            new = [(name, mark) for name, mark in marks.items() if self._known.get(name, (None,))[0] != mark]
            with contextlib.suppress(FileNotFoundError):
                for each in new:
                    if each not in staged:
                        staged[each] = self._stage(*each)
                if dict(self._scan(group)) == marks:
                    for each in new:  # only now: to compute a checksum takes longer than to look
                        self._keep(*each, staged[each], stored)
                    return {name: self._known[name][1] for name in marks}
            time.sleep(_PAUSE)
        raise Unquiet(f"{self.folder / group} changed all the time while it was looked at")

    def _stage(self, name: str, mark: Mark) -> Path:
        """Give the content of a file a second name.

        Raises
        ------
        FileNotFoundError
            If the file is gone, or another one has its name.
        """
        path, staged = self.folder / name, self._staged / uuid.uuid4().hex
        if path.suffix in _BY_LINES or _LOGS in name.split("/"):
            _copy_grown(path, staged, mark)
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

    def _scan(self, group: str) -> Iterator[tuple[str, Mark]]:
        """Yield the files of a fold, or of the run itself, without logs."""
        for name, mark in self._walk(self.folder / group, is_whole=bool(group)):
            if _LOGS not in name.split("/"):
                yield name, mark

    def _logs(self) -> Iterator[tuple[str, Mark]]:
        for folder in self.folder.glob(f"**/{_LOGS}"):
            if folder.is_dir() and not any(part.startswith(".") for part in folder.relative_to(self.folder).parts):
                yield from self._walk(folder, is_whole=True)

    def _walk(self, folder: Path, *, is_whole: bool) -> Iterator[tuple[str, Mark]]:
        for place, folders, names in os.walk(folder):
            is_top = Path(place) == self.folder
            folders[:] = [
                name
                for name in sorted(folders)
                if not name.startswith(".")
                and not (is_top and (name in _LEFT_OUT or (name.startswith("fold_") and not is_whole)))
            ]
            for name in sorted(names):
                if name.startswith(".") or ".partial-" in name:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    about = os.lstat(os.path.join(place, name))
                    if stat.S_ISREG(about.st_mode):
                        yield Path(place, name).relative_to(self.folder).as_posix(), _mark_of(about)


def _mark_of(about: os.stat_result) -> Mark:
    return about.st_ino, about.st_mtime_ns, about.st_size


def _copy_grown(path: Path, staged: Path, mark: Mark) -> None:
    """Copy what was in a file when it was looked at; of lines those that are whole."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_ino != mark[0]:
            raise FileNotFoundError(f"{path} was replaced")
        content = file.read(mark[2])
    if path.suffix in _BY_LINES and _LOGS not in path.parts:
        content = content[: content.rfind(b"\n") + 1]
    staged.write_bytes(content)
