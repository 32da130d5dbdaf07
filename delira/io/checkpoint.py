"""Checkpoints of one run: how they are named, published, verified and found again."""

import contextlib
import dataclasses
import fnmatch
import functools
import itertools
import os
import re
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from delira.errors import CheckpointError, UnreadableError, check_functions, check_that
from delira.io import shards
from delira.io.container import verify_zip
from delira.io.shards import digest_of
from delira.utils.files import (
    as_path,
    partial_of,
    publish,
    publish_copy,
    publish_link,
    read_patiently,
    sweep_partials,
    sync_folder,
)

#: what a checkpoint may say of itself that it was saved under
_NAME = re.compile(r"best|last|epoch_\d+(_step_\d+)?")
#: entry of a tree: ending of a file beside it -> its SHA-256
BESIDE = "beside"
BEST, LAST, PREVIOUS = "best", "last", "previous"
#: version of the layout of checkpoints
FORMAT = 1
Write = Callable[[BinaryIO, Mapping[str, Any]], None]
#: links, copies or renames a file
Put = Callable[[Path, Path], object]
_EPOCH_NAME = re.compile(r"checkpoint_epoch_(\d+)(?:_step_(\d+))?")


@dataclasses.dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run in one folder.

    ``<n>`` in ``checkpoint_epoch_<n>`` is the number of finished epochs. ``checkpoint_last`` and
    ``checkpoint_best`` are further names of files that were serialised once. ``checkpoint_previous`` is the state
    before the last: from the first save on there are always two whole files that share no byte on the disk, also
    while one is written.
    """

    folder: Path
    suffix: str
    """Ending of the files, with the dot."""
    write: Write
    """Serialises a tree."""
    read: Callable[[Path], dict[str, Any]]
    """Reads a tree back."""
    beside: Mapping[str, Write] = dataclasses.field(default_factory=dict)
    """Files that are written, linked and deleted with each checkpoint, though none is read: ending -> writer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", as_path(self.folder, "folder"))
        check_functions(self, write=self.write, read=self.read)
        what = "suffix is the ending of the files, with the dot, e.g. '.zip'"
        check_that(_is_ending(self.suffix) and "." in self.suffix, "CheckpointFolder", what, self.suffix)
        is_dict = isinstance(self.beside, Mapping) and all(map(_is_ending, self.beside))
        what = "beside is a dict, ending of a further file -> function that writes it"
        check_that(is_dict and self.suffix not in self.beside, "CheckpointFolder", what, self.beside)
        check_functions("CheckpointFolder: beside", **self.beside)

    def path(self, name: str) -> Path:
        """File of a checkpoint called e.g. ``"best"``, ``"last"`` or ``"epoch_3"``."""
        return self.folder / f"checkpoint_{name}{self.suffix}"

    def save(self, tree: Mapping[str, Any], *names: str) -> Path:
        """Serialise ``tree`` once and publish it under every name; ``"last"`` is replaced last.

        All names reach the disk with one sync of the folder, but for ``"best"``, which is there before a last that
        says so. What was the last becomes ``checkpoint_previous``, once the new state has its names there.
        """
        first, *others = sorted(names, key=LAST.__eq__)
        with self._kept_as_previous() if LAST in names else contextlib.nullcontext():
            path = self.publish(self.path(first), tree, loose=True)
            for other in others:
                if other == LAST and BEST in names:
                    sync_folder(self.folder)
                self._put(_link, path, self.path(other))
            sync_folder(self.folder)
        return path

    @contextlib.contextmanager
    def _kept_as_previous(self) -> Iterator[None]:
        """Scope that replaces the last, which is the one before then."""
        last, previous = self.path(LAST), self.path(PREVIOUS)
        has_own = is_there(last) and not _is_same(last, previous)
        kept = partial_of(previous)
        try:
            if has_own:
                self._put(_link_anew, last, kept)
            yield
            if has_own:  # it reaches the disk with the next save, and what it was is whole until then
                self._put(os.replace, kept, previous)
            elif not is_there(previous):
                self._put(publish_copy, last, previous)
        finally:
            for path in (kept, *(self._beside(kept, ending) for ending in self.beside)):
                path.unlink(missing_ok=True)

    def _make_last(self, path: Path) -> None:
        """Let ``path`` be the last, and what was that, the one before; at no time do both names mean one file only."""
        last, previous = self.path(LAST), self.path(PREVIOUS)
        if path == previous:  # all that is left: it stays, and the last becomes a file of its own
            self._put(publish_copy, path, last)
        elif not _is_same(path, last):
            if is_there(last):
                self._put(_link, last, previous)
            self._put(publish_link, path, last)
        if _is_same(previous, last) or not is_there(previous):
            self._put(publish_copy, last, previous)

    def settle(self) -> None:
        """Let all names reach the disk: none of them changes any more."""
        if self.folder.is_dir():
            sync_folder(self.folder)

    def renew_previous(self) -> None:
        """Let the state before the last be a copy of the last: what it was belongs to a training that was left."""
        if is_there(self.path(LAST)):
            self._put(publish_copy, self.path(LAST), self.path(PREVIOUS))

    def publish(self, path: Path, tree: Mapping[str, Any], *, loose: bool = False) -> Path:
        """Serialise ``tree``; the files beside it go first, and it names their checksums."""
        digests = {
            ending: digest_of(publish(self._beside(path, ending), functools.partial(_fill, write, tree)))
            for ending, write in self.beside.items()
        }
        whole = {**tree, BESIDE: digests} if digests else tree
        if shards.spread(whole):
            whole = shards.write(self.folder, whole, self.write)
        return publish(path, lambda file: self.write(file, whole), loose=loose)

    def _beside(self, path: Path, ending: str) -> Path:
        """Return a file beside a checkpoint, which may have been set aside."""
        base, found, aside = path.name.partition(self.suffix)
        return path.with_name(base + ending + aside if found else path.stem + ending)

    def _put(self, put: Put, source: Path, target: Path) -> None:
        """Link or copy a checkpoint under another name, and before it what lies beside it."""
        for ending in self.beside:
            if (beside := self._beside(source, ending)).exists():
                put(beside, self._beside(target, ending))
        put(source, target)

    def _rename(self, path: Path, ending: str) -> Path | None:
        """Set a checkpoint aside, under a name that is free; ``None`` if that is not possible."""
        for other in self.beside:
            if (beside := self._beside(path, other)).exists():
                _rename(beside, ending)
        return _rename(path, ending)

    def load(self, path: Path) -> dict[str, Any]:
        """Verify and read one checkpoint."""
        verify_zip(path)
        return self.read(path)

    def best(self) -> Path | None:
        """Return the best checkpoint, if there is one."""
        path = self.path(BEST)
        return path if path.exists() else None

    def numbered(self) -> list[tuple[tuple[int, int], Path]]:
        """``((finished epochs, steps of the next), path)`` of all numbered checkpoints, newest first."""
        places = {name: _place_in(name, self.suffix) for name in self._names() if name.endswith(self.suffix)}
        return sorted(((place, self.folder / name) for name, place in places.items() if place), reverse=True)

    def _names(self) -> list[str]:
        """Return what is in the folder: an error if it may not be listed, which is not the same as empty."""
        try:
            return read_patiently(self.folder, lambda: os.listdir(self.folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """Return the newest complete checkpoint, with its content.

        Damaged ones are warned about, renamed (``.damaged``) and passed over.

        Raises
        ------
        CheckpointError
            If a checkpoint is complete, but cannot be read.
        UnreadableError
            If the system cannot read one, or the folder, now.
        """
        found: tuple[Path, dict[str, Any]] | None = None
        reached = (-1, 0)
        for name in (LAST, BEST, PREVIOUS):  # they have their epoch inside
            path = self.path(name)
            if found is not None and (_is_same(path, found[0]) or (name == PREVIOUS and found[0] == self.path(LAST))):
                continue  # what is before a last that is whole is not newer
            tree = self.load_or_warn(path)
            if tree is not None and (place := place_of(tree)) > reached:
                found, reached = (path, tree), place
        for place, path in self.numbered():
            if found is not None and found[0] == self.path(PREVIOUS) and _is_same(path, found[0]):
                return path, found[1]  # the state before the last, by the name that is its own
            if place <= reached:
                break
            if (tree := self.load_or_warn(path)) is not None:
                return path, tree
        return found

    def complete(self, path: Path, tree: Mapping[str, Any]) -> None:
        """Give the newest checkpoint, with content ``tree``, the names that a crash in :meth:`save` left out."""
        for name in tree.get("names", [LAST]):
            target = self.path(str(name))
            is_there_already = target == path or target.is_dir() or _is_same(path, target)
            if _NAME.fullmatch(str(name)) and name != LAST and not is_there_already:
                self._put(publish_link, path, target)
        self._make_last(path)

    def prune(self, keep: Container[Path]) -> None:
        """Delete the numbered checkpoints that are not in ``keep``; other names of the same files stay."""
        for _, path in self.numbered():
            if path not in keep:
                path.unlink(missing_ok=True)
        for ending in self.beside:  # of earlier ones too: after a power loss one of two may be back
            for path in self.folder.glob(f"checkpoint_epoch_*{ending}"):
                if not path.with_name(path.name.removesuffix(ending) + self.suffix).exists():
                    path.unlink(missing_ok=True)

    def rewind(self, path: Path, tree: Mapping[str, Any]) -> None:
        """Make ``path``, with content ``tree``, the newest: later checkpoints are renamed (``.superseded``)."""
        self.set_aside_after(place_of(tree))
        if not _is_same(path, self.path(LAST)):
            self._put(publish_link, path, self.path(LAST))
        self._make_last(self.path(LAST))

    def set_aside_after(self, place: tuple[int, int]) -> None:
        """Rename the checkpoints that are later than ``place``, but for the last (``.superseded``)."""
        for later, other in self.numbered():
            if later > place:
                self._rename(other, "superseded")
        for name in (BEST, PREVIOUS):
            tree = self.load_or_warn(self.path(name))
            if tree is not None and place_of(tree) > place:
                self._rename(self.path(name), "superseded")

    def has_damaged(self) -> bool:
        """Return True if a damaged checkpoint was set aside here."""
        return any(fnmatch.fnmatchcase(name, "checkpoint_*.damaged*") for name in self._names())

    def sweep(self) -> None:
        """Remove what a crash left half written; only who holds the lock of the folder may do so."""
        if self.folder.is_dir():
            sweep_partials(self.folder)

    def load_or_warn(self, path: Path) -> dict[str, Any] | None:
        """Read a checkpoint; ``None`` if there is none, or a damaged one, which is warned about and set aside.

        Raises
        ------
        CheckpointError
            If it is complete, but cannot be read.
        UnreadableError
            If the system cannot read it now; then nobody knows whether it is damaged, and it stays where it is.
        """
        if not is_there(path):
            return None
        try:
            verify_zip(path)
        except CheckpointError as error:
            self._warn_of_damage(path, error)
            return None
        try:
            tree = self.read(path)
        except shards.DamagedShardError as error:
            self._warn_of_damage(path, error)
            return None
        if not all(isinstance(tree.get(name, 0), int) for name in ("epoch", "step")):
            raise CheckpointError(f"{path} is no checkpoint of a training: its epoch or step is no number")
        check_name(path, tree, self.suffix)
        return tree

    def _warn_of_damage(self, path: Path, error: CheckpointError) -> None:
        aside = self._rename(path, "damaged")
        where = "left out" if aside is None else f"set aside as {aside.name}"
        text = f"{error}; it is {where} and an earlier checkpoint is looked for"
        warnings.warn(text, RuntimeWarning, stacklevel=5)

    def sweep_shards(self) -> None:
        """Delete parts of checkpoints that are gone; those that were set aside keep theirs."""
        if (self.folder / shards.FOLDER).is_dir():
            shards.sweep(self.folder, [self.folder / name for name in self._names() if self.suffix in name])


def _link(source: Path, target: Path) -> None:
    """Give a file a further name, which reaches the disk with the next sync of the folder."""
    publish_link(source, target, loose=True)


def _link_anew(source: Path, target: Path) -> None:
    """Give a file a further name that nothing has."""
    try:
        os.link(source, target)
    except OSError:
        publish_copy(source, target)


def _is_ending(name: object) -> bool:
    return isinstance(name, str) and name != "" and not any(sign in name for sign in "/\\\0")


def _is_same(one: Path, other: Path) -> bool:
    """Return True if both names are there and mean one file."""
    return is_there(one) and is_there(other) and one.exists() and other.exists() and one.samefile(other)


def _fill(write: Write, tree: Mapping[str, Any], file: BinaryIO) -> None:
    write(file, tree)


def is_there(path: Path) -> bool:
    """Return True if something has this name, be it a link to nothing.

    Raises
    ------
    UnreadableError
        If the system does not say.
    """
    try:
        read_patiently(path, lambda: os.lstat(path))
    except UnreadableError:
        raise
    except OSError:
        return False
    return True


def check_format(path: Path | str, tree: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of a later layout, whose entries may mean something else.

    Raises
    ------
    CheckpointError
        Naming the file.
    """
    if (found := tree.get("format", FORMAT)) != FORMAT:
        raise CheckpointError(
            f"{path} has the format {found!r}; this version of delira reads {FORMAT}: pip install --upgrade delira"
        )


def check_name(path: Path, tree: Mapping[str, Any], suffix: str) -> None:
    """Refuse a numbered checkpoint that holds another state than its name says: it was copied or renamed.

    Raises
    ------
    CheckpointError
        Naming the file, and what is in it.
    """
    named = _place_in(path.name, suffix)
    if named is None or "epoch" not in tree or place_of(tree) == named:
        return
    epoch, step = place_of(tree)
    own = f"checkpoint_epoch_{epoch}{f'_step_{step}' if step else ''}{suffix}"
    raise CheckpointError(
        f"{path} is not what its name says: it holds the state of {own}, so it was copied or renamed; delete it, or "
        "give it its own name"
    )


def _place_in(name: str, suffix: str) -> tuple[int, int] | None:
    """Return the place that the name of a numbered checkpoint says; None of another name."""
    match = _EPOCH_NAME.fullmatch(name.removesuffix(suffix))
    return (int(match[1]), int(match[2] or 0)) if match else None


def place_of(tree: Mapping[str, Any]) -> tuple[int, int]:
    """Return where in the run a checkpoint is: finished epochs, and finished steps of the next."""
    return int(tree.get("epoch") or 0), int(tree.get("step") or 0)


def _rename(path: Path, ending: str) -> Path | None:
    """Take a file out of the way, under a name that is free; ``None`` if that is not possible."""
    names = (path.with_name(f"{path.name}.{ending}{number or ''}") for number in itertools.count())
    try:
        return path.rename(next(name for name in names if not os.path.lexists(name)))
    except OSError:
        return None
