"""Lines of a ledger that are as they were written, and a last one that a crash cut short."""

import json

import pytest

from delira.runs.ledger import cut_line, events_in, mended_end
from delira.utils.files import sealed

FIRST, LAST = (json.dumps(sealed({"event": event})).encode() for event in ("started", "finished"))


def mended(path, *, is_alone=True):
    """What is in a file when the next line is written."""
    with open(path, "a+b") as file:
        file.write(mended_end(file, is_alone=is_alone))
    return path.read_bytes()


def test_only_lines_that_are_as_they_were_written_are_events():
    entries = [json.loads(FIRST), {**json.loads(LAST), "event": "resumed"}, {"time": 3}, {"event": "old"}]
    assert [entry["event"] for entry in events_in(entries)] == ["started", "old"]


@pytest.mark.parametrize("n_bytes", range(1, len(LAST)))
def test_a_line_is_cut_away_wherever_it_was_cut_short(tmp_path, n_bytes):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(FIRST + b"\n" + LAST[:n_bytes])
    assert cut_line(path.read_bytes()) == len(FIRST) + 1
    assert mended(path) == FIRST + b"\n"


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"", b""),
        (FIRST + b"\n", FIRST + b"\n"),
        (FIRST + b"\n" + LAST, FIRST + b"\n" + LAST + b"\n"),
        (FIRST[:9] + b"\n" + LAST + b"\n", FIRST[:9] + b"\n" + LAST + b"\n"),
    ],
)
def test_lines_that_are_whole_or_have_their_end_stay(tmp_path, content, whole):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    assert cut_line(content) is None
    assert mended(path) == whole


def test_where_there_are_no_locks_somebody_may_be_writing_the_last_line(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(FIRST + b"\n" + LAST[:9])
    assert mended(path, is_alone=False) == FIRST + b"\n" + LAST[:9] + b"\n"


def test_zeros_that_a_power_loss_left_are_cut_away(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(FIRST + b"\n" + bytes(40))
    assert mended(path) == FIRST + b"\n"
