"""The file that says where the time of a fold went: read if it is whole, else told of."""

import json

import pytest

from delira.runs.results import TIMES_FILE, read_timings
from delira.utils.files import sealed

WRITTEN = {"version": 1, "steps": 4, "seconds": {"data": 1, "step": 2.5}, "note": ""}


def test_what_was_written_is_read(tmp_path):
    (tmp_path / TIMES_FILE).write_text(json.dumps(sealed(WRITTEN)))
    found = read_timings(tmp_path)
    assert found == WRITTEN
    assert isinstance(found["seconds"]["data"], float)


def test_a_fold_without_the_file_has_no_times(tmp_path, caplog):
    assert read_timings(tmp_path) is None
    assert not caplog.records


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        json.dumps(sealed({**WRITTEN, "version": 2})),
        json.dumps({**sealed(WRITTEN), "steps": 5}),
        json.dumps(sealed({**WRITTEN, "seconds": {"data": "long"}})),
    ],
)
def test_a_file_that_is_damaged_or_of_a_later_version_is_told_of(tmp_path, caplog, content):
    (tmp_path / TIMES_FILE).write_text(content)
    assert read_timings(tmp_path) is None
    assert "the times of the phases in it are lost" in caplog.text
