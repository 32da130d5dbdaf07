"""The lines of a ledger: which of them are as they were written, and a last one that a crash cut short."""

import contextlib
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from delira.utils import files


def events_in(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those lines of a ledger that say what happened, and are as they were written."""
    return [entry for entry in entries if isinstance(entry.get("event"), str) and not files.is_changed(entry)]


def cut_line(content: bytes) -> int | None:
    """Return where the last line of a ledger begins, if that was cut short; ``None`` if it is whole.

    A line that lacks nothing but the line feed is whole.

    Parameters
    ----------
    content
        Of the ledger.
    """
    begin = content.rfind(b"\n") + 1
    with contextlib.suppress(ValueError):
        entry = files.parse_json(content[begin:])
        if isinstance(entry, dict) and events_in([entry]):
            return None
    return begin if content[begin:] else None


def mended_end(file: BinaryIO, *, is_alone: bool) -> bytes:
    """Cut away a last line that a crash cut short; returns what the end lacks before another line: its line feed.

    Parameters
    ----------
    file
        The ledger, open for reading and appending.
    is_alone
        Whether it is locked; without locks somebody may be just writing that line, which then stays.
    """
    if not file.seek(0, os.SEEK_END):
        return b""
    file.seek(-1, os.SEEK_END)
    if file.read(1) == b"\n":
        return b""
    file.seek(0)
    if not is_alone or (begin := cut_line(file.read())) is None:
        return b"\n"
    file.truncate(begin)
    return b""
