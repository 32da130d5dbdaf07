"""Which files are read while a sample is made: those that nobody named beforehand."""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from delira.data_loading._own_code import is_own_file

_NOT_DATA = (".py", ".pyc", ".so", ".pyd", ".dll")
_SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/", "/lib")

_recording = threading.local()


@contextlib.contextmanager
def opened_files(files: list[str]) -> Iterator[None]:
    """Append the files that this thread opens for reading through Python, each once, as absolute paths.

    Left out are files of Python, of packages and of the system, and those that were written meanwhile.
    """
    _listen()
    found: dict[str, bool] = {}  # whether it was only read
    outer, _recording.found = getattr(_recording, "found", None), found
    try:
        yield
    finally:
        _recording.found = outer
    read = (os.path.abspath(path) for path, is_only_read in found.items() if is_only_read)
    files += filter(_is_data, dict.fromkeys(read))


@functools.cache
def _listen() -> None:
    sys.addaudithook(_note)  # for good: Python takes none away again


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or (found := getattr(_recording, "found", None)) is None:
        return
    path, _, flags = arguments
    if isinstance(flags, int) and isinstance(path, (str, bytes)):
        name = os.fsdecode(path)
        found[name] = found.get(name, True) and not flags & (os.O_WRONLY | os.O_RDWR)


def _is_data(path: str) -> bool:
    is_code = path.endswith(_NOT_DATA) or path.startswith(_SYSTEM) or not is_own_file(path)
    return not is_code and os.path.isfile(path)
