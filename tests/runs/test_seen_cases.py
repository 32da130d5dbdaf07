"""The file of the cases that a run has seen: what it says of a fold and of two sessions, and a damaged one."""

import json

import pytest

from delira.runs.seen_cases import FILE, SeenCases

SEEN = SeenCases(
    entries=["data"],
    names=["a", "b", "c"],
    hashes=["1", "2", "3"],
    folds={0: {"training": [0, 1], "validation": []}, 1: {"training": [2], "validation": [1]}},
)


def test_it_is_read_as_it_was_written(tmp_path):
    SEEN.write(tmp_path)
    assert SeenCases.read(tmp_path) == SEEN
    assert SeenCases.read(tmp_path / "elsewhere") is None


def test_of_a_fold_there_is_what_it_has_seen_and_nothing_else(tmp_path):
    one = SEEN.of_fold(1)
    assert (one.names, one.hashes) == (["b", "c"], ["2", "3"])
    assert one.folds == {1: {"training": [1], "validation": [0]}}
    one.write(tmp_path)
    assert SeenCases.read(tmp_path).of_fold(None) == one
    assert SEEN.of_fold(7).unknown


def test_two_sessions_with_other_data_have_seen_both():
    both = SEEN.joined(SeenCases(entries=["data"], names=["d"], hashes=["4"], folds={1: {"training": [0]}}))
    assert both.of_fold(1).hashes == ["2", "3", "4"]
    assert both.of_fold(0).hashes == ["1", "2"]


@pytest.mark.parametrize(
    "change",
    [{"format": 9}, {"hashes": 5}, {"folds": {"x": {}}}, {"folds": {"0": {"training": [9]}}}, {"names": []}],
    ids=str,
)
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_damaged_file_is_none(tmp_path, caplog, change, is_sealed):
    from delira.utils.files import sealed, unsealed

    path = SEEN.write(tmp_path)
    content = {**unsealed(json.loads(path.read_text())), **change}
    path.write_text(json.dumps(sealed(content) if is_sealed else {**json.loads(path.read_text()), **change}))
    assert SeenCases.read(tmp_path) is None
    assert FILE in caplog.text
