"""Two whole states that share no byte are on the disk at any time: one damaged file is never all there is."""

import os
import warnings

import numpy as np
import pytest

from delira.io import CheckpointFolder, read_tree, write_tree


def tree_of(epoch, names=("last",)):
    return {"epoch": epoch, "step": 0, "weight": np.full(3, float(epoch)), "names": [*names]}


def save(checkpoints, epoch, *names):
    checkpoints.save(tree_of(epoch, names), *names)


@pytest.fixture
def checkpoints(tmp_path):
    return CheckpointFolder(tmp_path / "checkpoints", ".zip", write_tree, read_tree)


def inodes(checkpoints):
    return {path.stat().st_ino for path in checkpoints.folder.glob("checkpoint_*.zip")}


def epochs(checkpoints, *names):
    return [checkpoints.load(checkpoints.path(name))["epoch"] for name in names]


def damage(checkpoints, name):
    """Flip a byte on the disk: all names of the file show it."""
    with open(checkpoints.path(name), "r+b") as file:
        file.seek(150)
        byte = file.read(1)
        file.seek(150)
        file.write(bytes([byte[0] ^ 1]))


def resumed(checkpoints):
    """The epoch that a trainer would go on from, as :meth:`try_resume_training` finds it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        path, tree = checkpoints.newest()
    checkpoints.complete(path, tree)
    return tree["epoch"]


NAMES = pytest.mark.parametrize(
    "names", [["last"], ["best", "last"], ["best", "epoch_{}", "last"], ["epoch_{}", "last"]], ids=" ".join
)


@NAMES
def test_the_state_before_the_last_has_a_file_of_its_own(checkpoints, names):
    for epoch in (1, 2, 3, 4):
        save(checkpoints, epoch, *(name.format(epoch) for name in names))
        assert epochs(checkpoints, "last", "previous") == [epoch, max(epoch - 1, 1)]
        assert not checkpoints.path("last").samefile(checkpoints.path("previous"))
        assert not [*checkpoints.folder.glob("*partial*")]


@NAMES
def test_one_damaged_file_with_all_its_names_loses_one_save_at_most(checkpoints, names):
    for epoch in (1, 2, 3):
        save(checkpoints, epoch, *(name.format(epoch) for name in names))
        damage(checkpoints, "last")
        assert resumed(checkpoints) == max(epoch - 1, 1)
        assert not checkpoints.path("last").samefile(checkpoints.path("previous"))
        save(checkpoints, epoch, *(name.format(epoch) for name in names))
        assert epochs(checkpoints, "last") == [epoch]


def test_a_run_that_saves_once_has_two_files(checkpoints):
    save(checkpoints, 1, "best", "epoch_1", "last")
    damage(checkpoints, "best")
    assert resumed(checkpoints) == 1


@pytest.mark.parametrize("names", [["last"], ["best", "epoch_{}", "last"]], ids=" ".join)
def test_wherever_a_save_is_killed_two_whole_files_are_there(checkpoints, names, monkeypatch, tmp_path):
    """Before each call that changes a name: what is there could be all that is left."""
    for epoch in (1, 2):
        save(checkpoints, epoch, *(name.format(epoch) for name in names))
    seen = []

    def watched(function):
        def call(*paths, **kw):
            whole = [path for path in checkpoints.folder.glob("checkpoint_*.zip") if is_whole(path)]
            seen.append(len({path.stat().st_ino for path in whole}))
            return function(*paths, **kw)

        return call

    def is_whole(path):
        return read_tree(path)["epoch"] > 0

    for name in ("replace", "link", "unlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    save(checkpoints, 3, *(name.format(3) for name in names))
    save(checkpoints, 4, *(name.format(4) for name in names))
    assert len(seen) >= 8
    assert min(seen) >= 2


def test_a_save_costs_no_further_write_after_the_first(checkpoints, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_size), fsync(file)))
    counts = []
    for epoch in (1, 2, 3):
        save(checkpoints, epoch, "best", f"epoch_{epoch}", "last")
        counts.append(len(synced))
        synced.clear()
    assert counts == [6, 3, 3]  # a file, and the folder twice; the first time a new folder and a copy, too
    save(checkpoints, 4, "epoch_4", "last")
    assert len(synced) == 2


def test_where_there_are_no_links_the_files_are_as_many(checkpoints, monkeypatch):
    def refused(*paths, **kw):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    for epoch in (1, 2, 3):
        save(checkpoints, epoch, "best", "last")
    assert epochs(checkpoints, "best", "last", "previous") == [3, 3, 2]
    assert len(inodes(checkpoints)) == 3


def test_names_that_did_not_reach_the_disk_are_given_again(checkpoints):
    for epoch in (1, 2, 3):
        save(checkpoints, epoch, f"epoch_{epoch}", "best", "last")
    checkpoints.path("epoch_3").unlink()
    os.replace(checkpoints.path("epoch_2"), checkpoints.path("best"))
    assert resumed(checkpoints) == 3
    assert epochs(checkpoints, "epoch_3", "best", "last", "previous") == [3, 3, 3, 2]
    assert checkpoints.path("epoch_3").samefile(checkpoints.path("last"))


def test_a_run_of_before_gets_the_second_file_with_its_next_save(checkpoints):
    save(checkpoints, 1, "epoch_1", "last")
    checkpoints.path("previous").unlink()
    assert resumed(checkpoints) == 1
    save(checkpoints, 2, "epoch_2", "last")
    assert epochs(checkpoints, "last", "previous") == [2, 1]


def test_what_is_later_than_where_a_run_goes_back_to_is_never_the_state_before(checkpoints):
    for epoch in (1, 2, 3, 4):
        save(checkpoints, epoch, f"epoch_{epoch}", "last")
    path = checkpoints.path("epoch_2")
    checkpoints.rewind(path, checkpoints.load(path))
    assert epochs(checkpoints, "last", "previous") == [2, 2]
    assert not checkpoints.path("last").samefile(checkpoints.path("previous"))
    damage(checkpoints, "last")
    assert resumed(checkpoints) == 2


def test_a_training_that_goes_on_from_another_file_forgets_where_it_was(kit, manager, tmp_path):
    trainer = kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    trainer.train(1, manager(), manager(seed=8))
    other = trainer.save_state(tmp_path / "other")
    trainer.train(4, manager(), manager(seed=8))
    trainer.update_state(other)
    trainer.saving.return_to_last()
    found = [trainer.load_state(trainer.checkpoints.path(name))["epoch"] for name in ("last", "previous")]
    assert found == [1, 1]


@pytest.mark.sampled("values")
@pytest.mark.parametrize("settings", [{"save_freq": None}, {"save_freq": 1, "keep_last_checkpoints": 1}])
def test_a_training_whose_newest_file_is_damaged_goes_on_and_ends_alike(kit, manager, tmp_path, settings):
    expected = kit.trainer(tmp_path / "whole", kit.build(dropout=0.2), val_score_key="mse", **settings)
    expected = kit.read(expected.train(4, manager(), manager(seed=8)))
    trainer = kit.trainer(tmp_path / "run", kit.build(dropout=0.2), val_score_key="mse", **settings)
    trainer.train(3, manager(), manager(seed=8))
    last = trainer.checkpoints.path("last")
    with open(last, "r+b") as file:
        file.truncate(last.stat().st_size // 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        again = kit.trainer(tmp_path / "run", kit.build(dropout=0.2), val_score_key="mse", **settings)
    assert 1 <= again.state.epoch < 3  # without save_freq not every epoch is saved
    assert kit.same(kit.read(again.train(4, manager(), manager(seed=8))), expected)
