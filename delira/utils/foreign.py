"""Reading what somebody else may have put into a folder: nobody waits, nothing grows, and no link leads away."""

import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from delira.utils.patience import read_patiently

#: bytes of a file that is read as a whole, and of one with an entry for each sample or epoch
MOST_BYTES, MOST_OF_MANY = 1 << 26, 1 << 28
_DEEPEST = 100  # dictionaries and lists inside each other
#: what a terminal or a font would obey: control characters but for line feed and tab, halves of characters, changes of
#: the direction of writing
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a file for reading, unless it is something else that has a name, such as a pipe, which would block.

    Raises
    ------
    OSError
        If it is a folder, a pipe or a device, or cannot be opened.
    """
    refused = OSError(f"{str(path)!r} is a folder, a pipe or a device, not a file")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise refused
    at_once = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))  # noqa: SIM115 - the caller's
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it may have been changed in between
        file.close()
        raise refused
    return file


def refuse_link(path: str | Path) -> None:
    """Refuse a link that leads out of the folder that it is in: what it shows may be meant for nobody else.

    Raises
    ------
    OSError
        Naming where it leads.
    """
    if os.path.islink(path) and os.path.dirname(os.path.realpath(path)) != os.path.realpath(os.path.dirname(path)):
        raise OSError(f"{str(path)!r} is a link to {os.readlink(path)!r}, out of its folder; it is not followed")


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Read a small file as a whole.

    Parameters
    ----------
    path
        A plain file, or a link to one in the same folder.
    most
        Bytes that it may have.

    Raises
    ------
    OSError
        If it is missing, no plain file, a link that leads away, or larger.
    UnreadableError
        If the system cannot read it now.
    """

    def read() -> bytes:
        if os.path.islink(path):
            refuse_link(path)
        with open_regular(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"{str(path)!r} is larger than {most >> 20} MiB")
        return content

    return read_patiently(path, read)


def check_unpacked(file: io.BufferedReader) -> None:
    """Refuse a zip file whose compressed records unpack into more than 256 MiB together.

    Raises
    ------
    zipfile.BadZipFile
        If they do, or it is no zip file.
    """
    with zipfile.ZipFile(file) as archive:
        packed = [entry.file_size for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
    if sum(packed) > MOST_OF_MANY:
        raise zipfile.BadZipFile(f"its compressed records unpack into more than {MOST_OF_MANY >> 20} MiB")
    file.seek(0)


def read_json(path: str | Path, most: int = MOST_BYTES) -> Any:
    """Read a small file of JSON; see :func:`read_bytes`.

    Raises
    ------
    ValueError
        If it is no JSON, or nested deeper than any file of a run.
    """
    return parse_json(read_bytes(path, most))


def parse_json(content: str | bytes) -> Any:
    """Values of a text of JSON.

    Raises
    ------
    ValueError
        If it is no JSON, or nested deeper than any file of a run.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if isinstance(part, (dict, list)):
            waiting += [(item, depth + 1) for item in (part.values() if isinstance(part, dict) else part)]
    return value


def read_json_lines(path: str | Path, most: int = MOST_OF_MANY) -> tuple[list[dict[str, Any]], int]:
    """Dictionaries of a file with one on each line, and the number of lines; others are left out.

    Raises
    ------
    OSError
        As of :func:`read_bytes`.
    """
    lines = read_bytes(path, most).splitlines()
    found = []
    for line in lines:
        try:
            entry = parse_json(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found, len(lines)


def harmless(value: Any) -> Any:
    """Return a text, or a tree with texts, without what a terminal would obey; the rest is as it was."""
    if isinstance(value, str):
        return _OBEYED.sub("\ufffd", value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return np.array([harmless(text) for text in value.ravel().tolist()], value.dtype).reshape(value.shape)
    if isinstance(value, Mapping):
        return {harmless(key): harmless(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(harmless(item) for item in value)
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """Return a dictionary as it is, and an empty one instead of anything else."""
    return value if isinstance(value, Mapping) else {}
