"""Blocks of bytes on the local disk, of bounded size: what was fetched once need not be fetched again."""

import contextlib
import hashlib
import logging
import os
import re
from pathlib import Path
from typing import IO

from delira.utils.files import make_folder, publish, sweep_partials
from delira.utils.lock import of_file

_log = logging.getLogger("delira")
_SUM = 16  # bytes of the checksum in front of a block
_UNIT = 4096  # bytes: what a disk gives a file is a multiple of it
_KEPT = 0.9
"""Share of the bound that is left when blocks are removed: to look through all of them takes its time."""
_LOCK = "size"
#: names of the folders and of the blocks in them; whatever else lies beside them is somebody else's
_FOLDER, _BLOCK = "[0-9a-f]" * 2, "[0-9a-f]" * 62
#: folders that cannot be written, as far as was said, with the process that found it out
_broken: set[tuple[int, str]] = set()


class BlockCache:
    """A folder of blocks; those that nobody has read for the longest time go first.

    Any number of processes may share it. All blocks together, and what is being written, take at most ``size`` bytes:
    who writes holds a lock of the folder and makes room first. Where the file system has no locks, each process may
    be one block above. A file counts as what it takes of the disk, 4 KiB at least; the folders, at most 256, do not. A
    block that is removed while it is being read is read to its end.

    Parameters
    ----------
    folder
        Made when the first block is written.
    size
        Bytes that the files may take of the disk together; 0 keeps nothing.
    """

    def __init__(self, folder: str | Path, size: int) -> None:
        self.folder, self.size = Path(folder), size

    def get(self, name: str) -> bytes | None:
        """Return a block; None if it is not there, or not as it was written: then it is removed.

        Parameters
        ----------
        name
            Tells it from all others.
        """
        if not self.size:
            return None
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                stored = file.read()
        except OSError:
            return None
        content = stored[_SUM:]
        if _sum(name, content) != stored[:_SUM]:
            _log.warning("a block of the cache in %s is damaged; it is fetched again", self.folder)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):  # only says when it was read
            os.utime(path)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep a block, and remove others for it; where it cannot be written there is a warning, once.

        Parameters
        ----------
        name
            See :meth:`get`.
        content
            One larger than the whole cache is not kept.
        """
        broken = (os.getpid(), str(self.folder))
        if _on_disk(len(content) + _SUM) > self.size or broken in _broken:
            return
        try:
            if not self.folder.is_dir():
                make_folder(self.folder)
                os.chmod(self.folder, 0o700)  # data may be confidential
            with open(self.folder / _LOCK, "a+b") as lock, of_file(lock):
                self._publish(self._path(name), _sum(name, content) + content, lock)
        except OSError as error:
            _broken.add(broken)
            _log.warning(
                "blocks cannot be kept in the cache %s any more (%s); what is not there is fetched each time",
                self.folder, error,
            )  # fmt: skip

    def _publish(self, path: Path, stored: bytes, lock: IO[bytes]) -> None:
        if path.exists():
            return
        used, more = self._size_in(lock), _on_disk(len(stored))
        if used is None or used + more > self.size:
            used = self._make_room(more)
        # before the block: a process that ends in between leaves a sum that is too large, which is counted again
        lock.truncate(0)
        lock.write(b"%d\n" % (used + more))
        lock.flush()
        publish(path, lambda file: file.write(stored), durable=False)

    def _make_room(self, n_bytes: int) -> int:
        """Remove the blocks that were not read for the longest time; returns the bytes of those that stay."""
        found, used = [], 0
        for folder in self._folders():
            sweep_partials(folder, _BLOCK)
            for entry in os.scandir(folder):
                if not re.fullmatch(_BLOCK, entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append((status.st_mtime_ns, entry.path, _on_disk(status.st_size)))
                    used += _on_disk(status.st_size)
        wanted = max(0, min(int(self.size * _KEPT), self.size - n_bytes))
        for _, path, size in sorted(found):
            if used <= wanted:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            used -= size
        return used

    def _size_in(self, lock: IO[bytes]) -> int | None:
        lock.seek(0)
        text = lock.read(32)
        if text.strip(b"\0\n0123456789"):  # not even half of a sum, or what a power loss leaves of one
            raise OSError(f"{str(self.folder / _LOCK)!r} is no file of a cache")
        return int(text) if text.endswith(b"\n") and text[:-1].isdigit() else None

    def _folders(self) -> list[Path]:
        found = (entry for entry in os.scandir(self.folder) if re.fullmatch(_FOLDER, entry.name))
        return [Path(entry.path) for entry in found if entry.is_dir(follow_symlinks=False)]

    def _path(self, name: str) -> Path:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return self.folder / digest[:2] / digest[2:]


def _on_disk(n_bytes: int) -> int:
    """What a file takes of a disk, as far as nobody has to be asked."""
    return -(-n_bytes // _UNIT) * _UNIT


def _sum(name: str, content: bytes) -> bytes:
    """The checksum of a block, which no other block has, nor a part of it."""
    digest = hashlib.blake2b(len(content).to_bytes(8, "little") + name.encode(), digest_size=_SUM)
    digest.update(content)
    return digest.digest()
