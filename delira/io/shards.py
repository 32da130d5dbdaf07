"""Checkpoints of which several processes have a part each: a file for each part, and an index that names them all.

The files of the parts lie in ``shards`` beside the checkpoints, named by their SHA-256: none is ever overwritten, and
the index, which is the checkpoint, is published when all are there.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from delira.errors import CheckpointError
from delira.io.container import BROKEN_ZIP
from delira.utils.arrays import iterate_leaves, map_leaves
from delira.utils.files import publish, publish_copy, read_patiently, sync_folder

#: entry of an index: names of the files of its parts, in the order of the processes; their folder, and their ending
SHARDS, FOLDER, ENDING = "shards", "shards", ".shard"
_LEAF = "$shard"
_DIGEST = re.compile("[0-9a-f]{64}")


class DamagedShardError(CheckpointError):
    """A file that a checkpoint names is missing, or is not what it was."""


@dataclasses.dataclass(frozen=True, eq=False)
class Shards:
    """A leaf of a tree that is spread over processes along its first axis."""

    parts: Sequence[Any]
    """What each has, on the host; some may be empty."""


def spread(tree: Mapping[str, Any]) -> bool:
    """Return True if something of a tree is spread over processes; not of its state, which may have many entries."""
    parts = {name: part for name, part in tree.items() if name != "state"}
    return any(isinstance(leaf, Shards) for _, leaf in iterate_leaves(parts))


Write = Callable[[BinaryIO, Mapping[str, Any]], None]


def write(folder: Path, tree: Mapping[str, Any], write_tree: Write) -> dict[str, Any]:
    """Write the parts of a tree into a folder, and return the index that names them.

    Parameters
    ----------
    folder
        Of the checkpoints.
    tree
        With leaves that are :class:`Shards`.
    write_tree
        Serialises a tree.
    """
    numbers, contents = itertools.count(), list[dict[str, Any]]()

    def taken(leaf: Any) -> Any:
        if not isinstance(leaf, Shards):
            return leaf
        number = next(numbers)
        contents.extend({} for _ in range(len(leaf.parts) - len(contents)))
        for content, part in zip(contents, leaf.parts, strict=True):
            content[str(number)] = part
        return {_LEAF: number}

    index = map_leaves(taken, tree)
    (shards := folder / FOLDER).mkdir(parents=True, exist_ok=True)
    names = []
    for content in contents:
        made = publish(shards / f"next{ENDING}", functools.partial(_fill, write_tree, content))
        names.append(digest_of(made))
        os.replace(made, shards / f"{names[-1]}{ENDING}")
    sync_folder(shards)
    return {**index, SHARDS: names}


def read(
    path: Path,
    index: Mapping[str, Any],
    read_tree: Callable[[Path], Mapping[str, Any]],
    join: Callable[[list[Any]], Any],
) -> dict[str, Any]:
    """Return the whole tree of an index.

    Parameters
    ----------
    path
        Of the index.
    index
        Its content.
    read_tree
        Reads the file of a part.
    join
        Makes one array of parts, along the first axis.

    Raises
    ------
    DamagedShardError
        Naming a file that is missing or is not what it was.
    """
    contents = []
    for name in names_in(index):
        file = path.parent / FOLDER / f"{name}{ENDING}"
        if not file.is_file() or digest_of(file) != name:
            state = "damaged" if file.exists() else "missing"
            raise DamagedShardError(f"{path} is one of several parts, and {file} is {state}")
        contents.append(read_tree(file))

    def filled(part: Any) -> Any:
        if isinstance(part, Mapping):
            if part.keys() == {_LEAF}:
                return join([content[str(part[_LEAF])] for content in contents])
            return {key: filled(value) for key, value in part.items()}
        return type(part)(map(filled, part)) if type(part) in (list, tuple) else part

    return {key: filled(value) for key, value in index.items() if key != SHARDS}


def names_in(index: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts of an index, without anything that could lead out of their folder."""
    return [name for name in index.get(SHARDS, ()) if isinstance(name, str) and _DIGEST.fullmatch(name)]


def names_in_file(path: Path) -> list[str]:
    """Return the names of the parts of an index as they stand in its file, which needs no framework.

    Parameters
    ----------
    path
        As ``torch.save`` writes it; nothing in it is executed. Of any other file there are none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            record = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            texts = [text for _, text, _ in pickletools.genops(archive.read(record)) if isinstance(text, str)]
    except (StopIteration, *BROKEN_ZIP):
        return []
    start = max((place for place, text in enumerate(texts) if text == SHARDS), default=len(texts))
    return [text for text in texts[start:] if _DIGEST.fullmatch(text)]


def wrong_parts(path: Path) -> str:
    """Return what is wrong with the parts of an index; nothing of a checkpoint that is one file."""
    for name in names_in_file(path):
        file = path.parent / FOLDER / f"{name}{ENDING}"
        if not file.is_file() or digest_of(file) != name:
            return f"its part {FOLDER}/{file.name} is {'damaged' if file.exists() else 'missing'}"
    return ""


def copy(path: Path, folder: Path) -> Path:
    """Copy a checkpoint into another folder, and before it the parts that it names; returns the copy.

    Parameters
    ----------
    path
        Of the checkpoint, which may be one file.
    folder
        Where the copy goes.
    """
    for name in names_in_file(path):
        part = Path(FOLDER) / f"{name}{ENDING}"
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        publish_copy(path.parent / part, folder / part)
    return publish_copy(path, folder / path.name)


def sweep(folder: Path, checkpoints: Iterable[Path]) -> None:
    """Delete the files of parts that no index names.

    Parameters
    ----------
    folder
        Of the checkpoints.
    checkpoints
        All that are there, those that were set aside, too.
    """
    named = {f"{name}{ENDING}" for path in checkpoints for name in names_in_file(path)}
    for file in (folder / FOLDER).glob(f"*{ENDING}"):
        if file.name not in named:
            file.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""

    def read_all() -> str:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return read_patiently(path, read_all)


def _fill(
    write_tree: Callable[[BinaryIO, Mapping[str, Any]], None], content: Mapping[str, Any], file: BinaryIO
) -> None:
    write_tree(file, content)
