"""Checkpoints of one run: how they are named, published, verified and found again."""

import dataclasses
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from delira.errors import CheckpointError
from delira.utils.files import publish, publish_link, sweep_partials

_EPOCH_NAME = re.compile(r"checkpoint_epoch_(\d+)(?:_step_(\d+))?")


def verify_zip(path: str | Path) -> None:
    """Compare the checksum of every record of a checkpoint file.

    Raises
    ------
    CheckpointError
        If the file is missing, no zip file, cut short or changed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, ValueError, RuntimeError, EOFError, struct.error, zlib.error, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is not a complete checkpoint file: {error}") from error
    if damaged is not None:
        raise CheckpointError(f"{path} is damaged: the checksum of its record {damaged!r} is wrong")


@dataclasses.dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run in one folder.

    ``<n>`` in ``checkpoint_epoch_<n>`` is the number of finished epochs. ``checkpoint_last`` and
    ``checkpoint_best`` are further names of files that were serialised once.
    """

    folder: Path
    suffix: str
    """Ending of the files, with the dot."""
    write: Callable[[BinaryIO, Mapping[str, Any]], None]
    """Serialises a tree."""
    read: Callable[[Path], dict[str, Any]]
    """Reads a tree back."""

    def path(self, name: str) -> Path:
        """File of a checkpoint called e.g. ``"best"``, ``"last"`` or ``"epoch_3"``."""
        return self.folder / f"checkpoint_{name}{self.suffix}"

    def save(self, tree: Mapping[str, Any], *names: str) -> Path:
        """Serialise ``tree`` once and publish it under every name; the last name is replaced last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        first, *others = (self.path(name) for name in names)
        publish(first, lambda file: self.write(file, tree))
        for other in others:
            publish_link(first, other)
        return first

    def load(self, path: Path) -> dict[str, Any]:
        """Verify and read one checkpoint."""
        verify_zip(path)
        return self.read(path)

    def best(self) -> Path | None:
        """The best checkpoint, if there is one."""
        path = self.path("best")
        return path if path.exists() else None

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest complete checkpoint, with its content; damaged ones are warned about and left out.

        Raises
        ------
        CheckpointError
            If a checkpoint is complete, but cannot be read.
        """
        sweep_partials(self.folder)
        found: tuple[Path, dict[str, Any]] | None = None
        reached = (-1, 0)
        for name in ("last", "best"):  # they have their epoch inside
            path = self.path(name)
            if found is not None and path.exists() and path.samefile(found[0]):
                continue
            tree = self._try(path)
            if tree is not None and (place := (int(tree.get("epoch", 0)), int(tree.get("step", 0)))) > reached:
                found, reached = (path, tree), place
        for place, path in self._numbered():
            if place <= reached:
                break
            if (tree := self._try(path)) is not None:
                return path, tree
        return found

    def _try(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            verify_zip(path)
        except CheckpointError as error:
            warnings.warn(f"{error}; it is left out and an earlier checkpoint is used", RuntimeWarning, stacklevel=4)
            return None
        return self.read(path)

    def _numbered(self) -> Iterator[tuple[tuple[int, int], Path]]:
        """``((epoch, step), path)`` of all numbered checkpoints, newest first."""
        found = []
        for path in self.folder.glob(f"checkpoint_epoch_*{self.suffix}"):
            if match := _EPOCH_NAME.fullmatch(path.name.removesuffix(self.suffix)):
                found.append(((int(match[1]), int(match[2] or 0)), path))
        yield from sorted(found, reverse=True)
