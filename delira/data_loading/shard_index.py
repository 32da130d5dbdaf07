"""Where the samples of shards lie: tar files of which each sample is several members of one name."""

import concurrent.futures
import contextlib
import io
import itertools
import json
import logging
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._content import with_progress
from delira.data_loading.remote import Address, RemoteFile, RemoteSettings, RemoteStream
from delira.errors import ConfigError, DataError, listed
from delira.utils.urls import is_url

_log = logging.getLogger("delira")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}")
_NAME = re.compile(r"((?:.*/|)[^.]+)[.]([^/]*)")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}
_AT_ONCE = 8  # shards
_BUFFER = 2**16  # bytes
_INDEX = "index 2"
"""What the index of a shard is kept as: the first kind was also made of shards that are cut off."""
NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
"""Endings of members that are a whole number, which the index holds itself."""
UNKNOWN = -(2**63)
"""In place of a number that the index does not hold."""


class LocalFile:
    """A file here, of which ranges are read; it must stay as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self.size, self._changed = self._status()
        self.stamp = f"{self.size} bytes"

    def __str__(self) -> str:
        return self._path

    def read(self, start: int, stop: int) -> bytes:
        """Read bytes ``start`` to ``stop``."""
        with open(self._path, "rb") as file:
            if self._status() != (self.size, self._changed):
                raise DataError(f"{self._path!r} has changed since it was opened; begin again with data that stay")
            file.seek(start)
            return file.read(stop - start)

    def _status(self) -> tuple[int, int]:
        status = os.stat(self._path)
        return status.st_size, status.st_mtime_ns


Shard = LocalFile | RemoteFile


class Members(NamedTuple):
    """The samples of shards, in their order."""

    keys: list[str]
    """What members of one sample have in common, of each sample."""
    endings: list[str]
    """What there is after it, in lower case."""
    places: np.ndarray
    """Offset and size in bytes of each member, shape (n, number of endings, 2), dtype int64; -1 if there is none."""
    numbers: np.ndarray
    """What members that are numbers hold, shape (n, number of endings), dtype int64; else :data:`UNKNOWN`."""
    shards: np.ndarray
    """Number of the shard of each sample, shape (n,), dtype int64."""


def expanded(shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return paths and addresses; of ``"train-{000..009}.tar"`` all ten, of ``"{train,val}.tar"`` both.

    Raises
    ------
    ConfigError
        If they are none, or there are no shards.
    """
    one = isinstance(shards, (str, os.PathLike))
    given = [shards] if one else list(shards) if isinstance(shards, Iterable) else []
    if not given or not all(isinstance(shard, (str, os.PathLike)) and os.fspath(shard) for shard in given):
        raise ConfigError(f"shards must be a path or URL, or a list of these, got {shards!r:.100}")
    return list(itertools.chain.from_iterable(_expand(os.fsdecode(shard)) for shard in given))  # type: ignore[arg-type]


def _expand(pattern: str) -> Iterator[str]:
    found = _RANGE.search(pattern)
    if found is None:
        yield pattern
        return
    first, last, choices = found.groups()
    if choices is None:
        width = len(first) if first.startswith("0") else 0
        numbers = range(int(first), int(last) + 1)
        if not numbers:
            raise ConfigError(f"{found.group()} in the name of the shards counts nothing; the first number is larger")
        parts: Iterable[str] = (f"{number:0{width}d}" for number in numbers)
    else:
        parts = choices.split(",")
    for part in parts:
        yield from _expand(pattern[: found.start()] + part + pattern[found.end() :])


def open_shards(names: Sequence[str], settings: RemoteSettings) -> tuple[list[Shard], Members]:
    """Open shards and find their samples; of shards elsewhere the index is kept in the cache.

    Raises
    ------
    DataError
        If one is missing, compressed, or no tar file.
    """
    with concurrent.futures.ThreadPoolExecutor(min(_AT_ONCE, len(names))) as pool:
        opened = list(pool.map(lambda name: _open(name, settings), names))
        found = list(with_progress(pool.map(_index, opened), "Indexing shards", total=len(names), delay=2, leave=False))
    return opened, _joined(found)


def _open(name: str, settings: RemoteSettings) -> Shard:
    if is_url(name):
        return RemoteFile.open(Address(name, settings), "which should be a shard")
    if not os.path.isfile(name):
        raise DataError(f"there is no {os.path.abspath(name)!r}, which should be a shard")
    return LocalFile(name)


def _index(shard: Shard) -> dict[str, Any]:
    """The index of one shard, as JSON holds it."""
    kept = shard.kept(_INDEX) if isinstance(shard, RemoteFile) else None
    if kept is not None:
        return json.loads(zlib.decompress(kept))  # type: ignore[no-any-return]
    if kind := _COMPRESSED.get(shard.read(0, min(2, shard.size))):
        raise DataError(
            f"the shard {str(shard)!r} is compressed ({kind}), and a sample of it cannot be read alone; "
            "decompress it: what is in it (jpg, png, npz) is compressed already, or can be"
        )
    with io.BufferedReader(RemoteStream(shard), _BUFFER) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                found = {"samples": _samples(archive, shard)}
                _check_end(archive, shard)
        except tarfile.TarError as error:
            raise DataError(f"the shard {str(shard)!r} is no whole tar file ({error})") from error
    if isinstance(shard, RemoteFile):
        shard.keep(_INDEX, zlib.compress(json.dumps(found).encode()))
    return found


def _check_end(archive: tarfile.TarFile, shard: Shard) -> None:
    """Refuse a shard whose members end without the zeros that end a tar file: ``tarfile`` takes it for whole.

    Raises
    ------
    DataError
        If it was cut off between two members, or something else follows.
    """
    place = archive.offset
    block = shard.read(place, min(place + tarfile.BLOCKSIZE, shard.size))
    if len(block) < tarfile.BLOCKSIZE:
        raise DataError(
            f"the shard {str(shard)!r} is cut off: it ends at byte {shard.size} without the zeros that every writer of "
            "tar files ends them with; copy it again, or write it anew and close what writes it"
        )
    if any(block):
        raise DataError(
            f"the shard {str(shard)!r} is no whole tar file: at byte {place} there is no header of a member; copy it "
            "again, or write it anew"
        )


def _samples(archive: tarfile.TarFile, shard: Shard) -> list[tuple[str, dict[str, list[int]]]]:
    samples: list[tuple[str, dict[str, list[int]]]] = []
    for member in archive:
        archive.members = []  # type: ignore[attr-defined]  # else it keeps them all
        match = _NAME.fullmatch(member.name)
        is_meta = "/" not in member.name and member.name.startswith("__") and member.name.endswith("__")
        if not member.isfile() or match is None or is_meta:
            continue
        if member.sparse is not None:
            raise DataError(f"{member.name!r} in the shard {str(shard)!r} is a sparse file, which is not read")
        key, ending = match.group(1), match.group(2).lower()
        if not samples or samples[-1][0] != key:
            samples.append((key, {}))
        if ending in samples[-1][1]:
            raise DataError(f"the shard {str(shard)!r} has two members {key}.{ending} in one sample")
        place = [member.offset_data, member.size]
        if last_of(ending) in NUMBERS:
            with contextlib.suppress(DataError):  # told when it is read, unless the user decodes it
                place.append(to_number(shard.read(place[0], sum(place)), member.name))
        samples[-1][1][ending] = place
    return samples


def last_of(ending: str) -> str:
    """Return what of an ending says how a member is decoded, of ``seg.png`` what stands behind the last dot."""
    return "nii.gz" if ending.endswith("nii.gz") else ending.rpartition(".")[2]


def to_number(content: bytes, what: str) -> int:
    """Return the whole number that a member holds as text."""
    try:
        number = int(content)
        if not -(2**63) < number < 2**63:
            raise ValueError
    except ValueError as error:
        raise DataError(f"{what} holds {content[:40]!r}, which is no whole number of 64 bit") from error
    return number


def _joined(found: Sequence[dict[str, Any]]) -> Members:
    samples = [sample for one in found for sample in one["samples"]]
    endings = sorted({ending for _, members in samples for ending in members})
    column = {ending: place for place, ending in enumerate(endings)}
    places = np.full((len(samples), len(endings), 2), -1, np.int64)
    numbers = np.full((len(samples), len(endings)), UNKNOWN, np.int64)
    for row, (_, members) in enumerate(samples):
        for ending, (offset, size, *number) in members.items():
            places[row, column[ending]] = offset, size
            numbers[row, column[ending]] = number[0] if number else UNKNOWN
    shards = np.repeat(np.arange(len(found)), [len(one["samples"]) for one in found])
    return Members([key for key, _ in samples], endings, places, numbers, shards)


def describe_endings(endings: Sequence[str]) -> str:
    """The endings that there are, for messages."""
    return listed([*map(repr, endings)], 10) or "none"
