"""The checkpoints of one run: names, links, and which one is the newest that is whole."""

import os
import warnings

import numpy as np
import pytest

from delira.errors import CheckpointError
from delira.io import CheckpointFolder, read_tree, write_tree


def tree_of(epoch, step=0):
    return {"epoch": epoch, "step": step, "weight": np.full(3, float(epoch))}


@pytest.fixture
def checkpoints(tmp_path):
    return CheckpointFolder(tmp_path / "checkpoints", ".zip", write_tree, read_tree)


def names(checkpoints):
    return sorted(os.listdir(checkpoints.folder))


def damage(path):
    """Flip a byte of the array; the file is no longer shared with other names."""
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.unlink()
    path.write_bytes(content)


def test_a_tree_is_serialised_once_under_all_its_names(checkpoints):
    calls = []

    def write(file, tree):
        calls.append(tree)
        write_tree(file, tree)

    counting = CheckpointFolder(checkpoints.folder, ".zip", write, read_tree)
    path = counting.save(tree_of(1), "epoch_1", "best", "last")
    assert len(calls) == 1
    assert path == checkpoints.path("epoch_1")
    assert names(checkpoints) == [f"checkpoint_{name}.zip" for name in ("best", "epoch_1", "last", "previous")]
    assert all(os.path.samefile(path, checkpoints.path(name)) for name in ("best", "last"))
    assert checkpoints.load(checkpoints.path("best"))["epoch"] == 1


def test_a_later_checkpoint_leaves_the_names_of_earlier_ones_alone(checkpoints):
    checkpoints.save(tree_of(1), "epoch_1", "best", "last")
    checkpoints.save(tree_of(2), "last")
    checkpoints.save(tree_of(3), "epoch_3", "last")
    found = {name: checkpoints.load(checkpoints.path(name))["epoch"] for name in ("epoch_1", "best", "epoch_3", "last")}
    assert found == {"epoch_1": 1, "best": 1, "epoch_3": 3, "last": 3}


def test_saving_the_same_epoch_again_replaces_it(checkpoints):
    checkpoints.save(tree_of(1), "epoch_1", "last")
    checkpoints.save({**tree_of(1), "weight": np.zeros(1)}, "epoch_1", "last")
    assert checkpoints.load(checkpoints.path("last"))["weight"].tolist() == [0.0]
    assert names(checkpoints) == ["checkpoint_epoch_1.zip", "checkpoint_last.zip", "checkpoint_previous.zip"]


def test_where_links_are_not_possible_files_are_copied(checkpoints, monkeypatch):
    def no_links(*args, **kwargs):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    checkpoints.save(tree_of(1), "epoch_1", "last")
    first, last = checkpoints.path("epoch_1"), checkpoints.path("last")
    assert not os.path.samefile(first, last)
    assert first.read_bytes() == last.read_bytes()
    assert names(checkpoints) == ["checkpoint_epoch_1.zip", "checkpoint_last.zip", "checkpoint_previous.zip"]


def test_the_best_is_there_only_if_it_was_saved(checkpoints):
    checkpoints.save(tree_of(1), "last")
    assert checkpoints.best() is None
    checkpoints.save(tree_of(2), "best", "last")
    assert checkpoints.best() == checkpoints.path("best")


# ---- the newest


def test_an_empty_folder_has_no_newest(checkpoints):
    checkpoints.folder.mkdir()
    assert checkpoints.newest() is None


def test_the_newest_is_the_last(checkpoints):
    for epoch in (1, 2, 10):
        checkpoints.save(tree_of(epoch), f"epoch_{epoch}", "last")
    path, tree = checkpoints.newest()
    assert (path, tree["epoch"]) == (checkpoints.path("last"), 10)


def test_the_newest_is_found_without_a_last_in_the_order_of_numbers(checkpoints):
    for epoch in (2, 9, 10):
        checkpoints.save(tree_of(epoch), f"epoch_{epoch}")
    assert checkpoints.newest()[1]["epoch"] == 10


def test_a_numbered_checkpoint_that_is_newer_than_the_last_wins(checkpoints):
    """The program was killed between the two names."""
    checkpoints.save(tree_of(1), "last")
    checkpoints.save(tree_of(2), "epoch_2")
    assert checkpoints.newest()[0] == checkpoints.path("epoch_2")


def test_a_step_inside_an_epoch_is_newer_than_the_epoch(checkpoints):
    checkpoints.save(tree_of(2), "epoch_2", "last")
    checkpoints.save(tree_of(2, 50), "epoch_2_step_50")
    checkpoints.save(tree_of(2, 7), "epoch_2_step_7")
    assert checkpoints.newest()[0] == checkpoints.path("epoch_2_step_50")


def test_other_files_are_no_checkpoints(checkpoints):
    checkpoints.save(tree_of(1), "epoch_1")
    for name in ("checkpoint_epoch_x.zip", "checkpoint_epoch_9.pt", "checkpoint_epoch_9.zip.bak", "notes.txt"):
        (checkpoints.folder / name).write_text("mine")
    assert checkpoints.newest()[1]["epoch"] == 1
    assert "notes.txt" in names(checkpoints)


def test_damaged_checkpoints_are_left_out_with_a_warning(checkpoints):
    for epoch in (1, 2, 3):
        checkpoints.save(tree_of(epoch), f"epoch_{epoch}", "last")
    for name in ("last", "epoch_3"):
        damage(checkpoints.path(name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path, tree = checkpoints.newest()
    assert (path, tree["epoch"]) == (checkpoints.path("epoch_2"), 2)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert all(
        "is damaged: the checksum of its record" in text and "an earlier checkpoint is looked for" in text
        for text in texts
    )
    assert {warning.category for warning in caught} == {RuntimeWarning}


def test_if_all_are_damaged_there_is_no_newest(checkpoints):
    checkpoints.save(tree_of(1), "epoch_1", "last")
    for name in ("last", "epoch_1", "previous"):
        damage(checkpoints.path(name))
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert checkpoints.newest() is None


def test_loading_a_damaged_checkpoint_is_refused(checkpoints):
    path = checkpoints.save(tree_of(1), "epoch_1")
    damage(path)
    with pytest.raises(
        CheckpointError, match=r"checkpoint_epoch_1\.zip is damaged: the checksum of its record 'arrays/0\.npy'"
    ):
        checkpoints.load(path)


# ---- crashes


def test_a_failure_while_writing_leaves_every_name_as_it_was(checkpoints):
    checkpoints.save(tree_of(1), "epoch_1", "last")
    with pytest.raises(CheckpointError, match="cannot be stored safely"):
        checkpoints.save({**tree_of(2), "more": object()}, "epoch_2", "last")
    assert names(checkpoints) == ["checkpoint_epoch_1.zip", "checkpoint_last.zip", "checkpoint_previous.zip"]
    assert checkpoints.newest()[1]["epoch"] == 1


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_failure_while_publishing_leaves_only_whole_files(call, checkpoints, monkeypatch):
    checkpoints.save(tree_of(1), "epoch_1", "best", "last")
    replace, calls = os.replace, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == call:
            raise OSError("on purpose")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="on purpose"):
        checkpoints.save(tree_of(2), "epoch_2", "best", "last")
    monkeypatch.undo()
    found = {path.name: checkpoints.load(path)["epoch"] for path in checkpoints.folder.iterdir()}
    assert found["checkpoint_epoch_1.zip"] == 1
    assert found["checkpoint_last.zip"] == 1  # replaced last
    assert found.get("checkpoint_epoch_2.zip", 2) == 2
    assert checkpoints.newest()[1]["epoch"] == (1 if call == 1 else 2)


def test_what_a_killed_program_left_half_written_is_removed(checkpoints):
    checkpoints.save(tree_of(1), "last")
    (checkpoints.folder / "checkpoint_epoch_2.zip.partial-0123abcd").write_bytes(b"half")
    checkpoints.sweep()
    assert names(checkpoints) == ["checkpoint_last.zip", "checkpoint_previous.zip"]
