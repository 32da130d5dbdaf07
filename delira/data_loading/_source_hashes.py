"""What files contain, without reading them each time."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delira.data_loading._content import fingerprint_of

_LARGE = 2**28  # bytes; reading a mapped file of a terabyte would take hours
_SETTLED = 2 * 10**9  # ns; a file changed twice within one tick of the clock would look unchanged


class SourceHashes:
    """Hashes of files, kept in a file under (size, times of last change of content and status, inode).

    Parameters
    ----------
    file
        Where hashes are kept, a line of JSON for each. Processes append to it at once; a line that one of
        them did not finish is passed over.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, tuple[list[int], str]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": None}

    def content_of(self, paths: Iterable[str]) -> str:
        """Return what tells files, and folders with all that is in them, from others; their names do not count."""
        return fingerprint_of([self._tree(path) if os.path.isdir(path) else self._hash(path) for path in paths])

    def stamps_of(self, paths: Iterable[str]) -> dict[str, str]:
        """Return what tells each file from others: its content, of files above 256 MiB size and time of change.

        Raises
        ------
        OSError
            If one is not there any more.
        """
        return {path: self._stamp(path) for path in paths}

    def _stamp(self, path: str) -> str:
        status = os.stat(path)
        return self._hash(path) if status.st_size <= _LARGE else f"{status.st_size} {status.st_mtime_ns}"

    def _tree(self, folder: str) -> list[Any]:
        files = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
        return [(os.path.relpath(file, folder), self._hash(file)) for file in sorted(files) if os.path.isfile(file)]

    def _hash(self, path: str) -> str:
        path = os.path.abspath(path)
        status = os.stat(path)
        # who sets the time of a file cannot set that of its status
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        if self._known is None:
            self._known = self._read()
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED:
            self._known[path] = (stamp, content)
            self._append({"path": path, "stamp": stamp, "sha256": content})
        return content

    def _read(self) -> dict[str, tuple[list[int], str]]:
        known = {}
        with contextlib.suppress(OSError), open(self._file, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    known[entry["path"]] = (entry["stamp"], entry["sha256"])
        return known

    def _append(self, entry: dict[str, Any]) -> None:
        # the line break in front parts it from a line that was not finished
        line = f"\n{json.dumps(entry)}\n".encode()
        with contextlib.suppress(OSError), open(self._file, "ab", buffering=0) as file:  # only saves time
            file.write(line)
