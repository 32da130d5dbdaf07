"""What commands print: text that is readable in 80 columns and in a pipe, or one JSON object."""

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

WIDTH = 80
DASH = "–"


@dataclass(frozen=True)
class Answer:
    """What a command found."""

    content: Mapping[str, Any]
    """For ``--json``; the keys of a command stay the same from version to version."""
    text: str = ""
    """For people."""
    is_broken: bool = False
    """Whether the command found something broken: exit code 1."""


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer."""
    if as_json and answer.content:
        print(json.dumps(_strict(answer.content), indent=1, default=str))
    elif answer.text:
        # what a run calls itself may hold codes that a terminal would obey
        text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in answer.text)
        encoding = sys.stdout.encoding or "utf-8"  # of a pipe, it need not know "–" or "±"
        print(text.encode(encoding, errors="replace").decode(encoding))


def say(line: str) -> None:
    """Tell people something while a command is at work, beside its answer."""
    print(line, file=sys.stderr, flush=True)


def with_bar(items: Iterable[Item], total: int, text: str) -> Iterator[Item]:
    """Show on a terminal how many items were gone through."""
    if sys.stderr is not None and sys.stderr.isatty():  # no bars in log files
        from tqdm import tqdm

        items = tqdm(items, desc=text, total=total)
    yield from items


def _strict(value: object) -> Any:
    """Return the value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(header: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    """Columns of text, two spaces apart; the last one may be as long as it likes.

    Parameters
    ----------
    header
        One word for each column.
    rows
        The cells.
    sides
        ``<`` or ``>`` for each column.
    """
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        [f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)] for line in lines
    )
    return "\n".join("  ".join(line).rstrip() for line in padded)


def wrapped(text: str, indent: str = "") -> str:
    """Return a sentence in lines of 80 columns; paths are never cut."""
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def duration(seconds: float | None) -> str:
    """Write a time span in one unit: ``"8.3 s"``, ``"14 min"``, ``"3.2 h"``, ``"5 d"``."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 99.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 9.95 else f"{hours:.0f} h" if hours < 47.5 else f"{hours / 24:.0f} d"
