"""The process dies before every single system call that writes, and in the middle of every write."""

import dataclasses
import errno
import os

import disk_model
import numpy as np
import pytest
from system_calls import Died, in_child, killed_at, killed_everywhere, recorded
from trainings import check_checkpoints, check_equal, files, kfold, ledger, train

from delira.io import CheckpointFolder
from delira.runs.folder import RunFolder
from delira.training import Parameters
from delira.utils.files import publish, publish_text


def no_links():
    def link(*paths, **kw):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), *paths)

    os.link = link


def nothing():
    pass


LINKS = pytest.mark.parametrize("patch", [nothing, no_links], ids=["links", "copies"])
#: settings of trainings: which checkpoints are written, and which stay
POLICIES = {
    "all": {"save_freq": 1},
    "best and last": {"save_freq": None},
    "retention": {"save_freq": 1, "keep_last_checkpoints": 1, "keep_best_checkpoints": 1},
    "steps": {"save_freq": 2, "save_freq_steps": 2, "keep_last_checkpoints": 2},
    "background": {"save_freq": 1, "save_freq_steps": 2, "save_in_background": True},
}


# ---- the tool


def test_a_killed_child_cleans_nothing_up_and_loses_what_it_did_not_flush(tmp_path):
    def write(folder):
        try:
            with open(folder / "a", "w") as file:
                file.write("first")
                file.flush()
                file.write("second")
        finally:
            (folder / "finally").touch()

    left = [(files(path), path.joinpath("a").read_text() if files(path) else None, done)
            for path, done in killed_everywhere(write, tmp_path)]  # fmt: skip
    assert left == [
        ([], None, False),  # before the file is made
        (["a"], "", False),
        (["a"], "fi", False),
        (["a"], "first", False),
        (["a"], "firstsec", False),
        (["a"], "firstsecond", False),
        (["a", "finally"], "firstsecond", True),
    ]


def test_every_change_of_a_run_is_among_the_recorded_calls(kit, tmp_path):
    """Else there would be instants at which nothing was tried."""
    kfold(kit, tmp_path / "imports what is needed")
    root = tmp_path / "recorded"
    root.mkdir()
    calls = recorded(lambda folder, calls: kfold(kit, folder), root)
    found, real = disk_model.replay(calls), disk_model.read(root)
    assert {path: found.get(path) for path in real} == real
    assert found.keys() == real.keys()
    assert {call.name for call in calls} >= {"open", "write", "fsync", "sync_folder", "replace", "link", "mkdir"}


def test_errors_of_a_child_come_back(tmp_path):
    with pytest.raises(KeyError, match="on purpose"):
        in_child(lambda: {}["on purpose"])
    with pytest.raises(Died):
        in_child(lambda: os.kill(os.getpid(), 9))


# ---- one file


@LINKS
def test_a_file_is_the_old_or_the_new_one(tmp_path, patch):
    def prepare(folder):
        publish_text(folder / "a", "old")

    def write(folder):
        publish_text(folder / "a", "new" * 5000)

    seen = set()
    for path, is_done in killed_everywhere(write, tmp_path, prepare=prepare, patch=patch):
        text = (path / "a").read_text()
        assert text in ("old", "new" * 5000)
        assert not is_done or text != "old"
        seen.add(text)
    assert len(seen) == 2


def test_an_unfinished_file_of_a_writer_that_was_killed_never_has_its_name(tmp_path):
    def write(folder):
        publish(folder / "a", lambda file: [file.write(b"part"), file.flush(), file.write(b"rest")], durable=False)

    found = {path.joinpath("a").read_bytes() for path, _ in killed_everywhere(write, tmp_path) if (path / "a").exists()}
    assert found == {b"partrest"}


# ---- checkpoints


def tree_of(backend, epoch):
    """The tree of a real trainer after some epochs, made different for each."""
    tree = {"model": {"weight": np.full((3, 1), float(epoch))}, "optimizer": {}, "epoch": epoch, "step": 0}
    return {**tree, "history": [{"epoch": number, "loss": 1 / number} for number in range(1, epoch + 1)]}


def checkpoint_folder(kit, folder):
    backend = kit.backend
    return CheckpointFolder(
        folder / "checkpoints", backend.checkpoint_suffix, backend.checkpoints.write, backend.checkpoints.read
    )


@dataclasses.dataclass
class Saving:
    """One call of ``save`` on top of earlier ones."""

    earlier: list
    """Names under which epochs 1, 2, … were saved before."""
    names: list


SAVINGS = {
    "the first": Saving([], ["best", "epoch_1", "last"]),
    "one that replaces best and last": Saving([["best", "epoch_1", "last"]], ["best", "epoch_2", "last"]),
    "one without a number": Saving([["last"]], ["last"]),
    "one that is not the best": Saving([["best", "last"], ["last"]], ["epoch_3", "last"]),
}


def checkpoint_or_the_one_before(kit, tmp_path, saving, patch):
    epoch = len(saving.earlier) + 1

    def prepare(folder):
        for number, names in enumerate(saving.earlier, 1):
            checkpoint_folder(kit, folder).save(tree_of(kit, number), *names)

    def save(folder):
        checkpoint_folder(kit, folder).save(tree_of(kit, epoch), *saving.names)

    reached = []
    for path, is_done in killed_everywhere(save, tmp_path, prepare=prepare, patch=patch):
        checkpoints = checkpoint_folder(kit, path)
        checkpoints.sweep()
        newest = checkpoints.newest() if checkpoints.folder.is_dir() else None
        found = 0 if newest is None else newest[1]["epoch"]
        assert found in (epoch - 1, epoch)
        assert found == epoch or not is_done
        assert newest is None or kit.same(newest[1], tree_of(kit, found))
        check_checkpoints(checkpoints.folder, checkpoints.suffix)
        assert not [name for name in files(path) if "partial" in name]
        reached.append(found)
        checkpoints.save(tree_of(kit, epoch + 1), "best", "last")  # and it goes on
        assert checkpoints.newest()[1]["epoch"] == epoch + 1
    assert reached == sorted(reached)
    assert len(set(reached)) == 2


@pytest.mark.slow
def test_a_checkpoint_is_there_or_the_one_before_it(kit, tmp_path):
    checkpoint_or_the_one_before(kit, tmp_path, SAVINGS["one that replaces best and last"], nothing)


@pytest.mark.slow
@LINKS
@pytest.mark.parametrize("saving", SAVINGS.values(), ids=SAVINGS)
def test_every_kind_of_checkpoint_is_there_or_the_one_before_it(kit, tmp_path, saving, patch):
    checkpoint_or_the_one_before(kit, tmp_path, saving, patch)


@pytest.mark.slow_cases("toy")
def test_a_state_that_is_saved_by_hand_is_the_old_or_the_new_one(kit, tmp_path):
    trainer = kit.trainer(tmp_path / "run")
    name = f"mine{kit.backend.checkpoint_suffix}"
    seen = set()
    for path, is_done in killed_everywhere(
        lambda folder: trainer.save_state(folder / name, 2),
        tmp_path,
        prepare=lambda folder: trainer.save_state(folder / name, 1),
    ):
        epoch = trainer.load_state(path / name)["epoch"]
        assert epoch == 2 if is_done else epoch in (1, 2)
        seen.add(epoch)
    assert seen == {1, 2}


# ---- trainings


def killed_trainings(kit, tmp_path, every, patch=nothing, **settings):
    """Train; be killed; go on with another trainer: compare with the training that was not killed."""
    expected = train(kit, tmp_path / "unbroken", **settings)
    n_deaths = 0
    for path, is_done in killed_everywhere(
        lambda folder: train(kit, folder / "run", **settings), tmp_path, every=every, patch=patch
    ):
        check_checkpoints(path / "run" / "checkpoints", kit.backend.checkpoint_suffix)
        assert kit.same(train(kit, path / "run", **settings), expected)
        check_equal(kit, path / "run", tmp_path / "unbroken")
        n_deaths += not is_done
    assert n_deaths > 30 // every


@pytest.mark.slow_cases("toy|background")
@pytest.mark.parametrize("policy", ["retention", "background"])
def test_a_killed_training_goes_on_and_ends_in_the_same_bits(kit, tmp_path, policy):
    killed_trainings(kit, tmp_path, every=17, **POLICIES[policy])


@pytest.mark.slow
@pytest.mark.timeout(600)
@LINKS
@pytest.mark.parametrize("policy", POLICIES)
def test_a_training_that_is_killed_anywhere_ends_in_the_same_bits(kit, tmp_path, policy, patch):
    killed_trainings(kit, tmp_path, every=1, patch=patch, **POLICIES[policy])


@pytest.mark.slow
def test_a_training_may_be_killed_again_and_again(kit, tmp_path):
    """Also while it recovers: each time it does a few calls more, and it comes to its end."""
    expected = train(kit, tmp_path / "unbroken", save_freq=1)
    run = tmp_path / "run"
    instants = range(8, 120, 9)
    ends = [killed_at(instant, lambda run: train(kit, run, save_freq=1), run) for instant in instants]
    assert ends.count(False) > 3
    assert kit.same(train(kit, run, save_freq=1), expected)
    check_equal(kit, run, tmp_path / "unbroken")


# ---- the run folder


def test_a_manifest_is_the_old_or_the_new_one_or_not_yet_there(tmp_path):
    seen = set()
    for path, is_done in killed_everywhere(lambda folder: RunFolder(folder).write_manifest({"fact": 1}), tmp_path):
        fact = RunFolder(path).read_manifest().get("fact")
        assert fact == 1 or not is_done
        seen.add(fact)
    assert seen == {None, 1}


def test_lines_of_the_ledger_stay_whatever_happens_to_the_next_one(tmp_path):
    def prepare(folder):
        RunFolder(folder).log("started")

    def log(folder):
        RunFolder(folder).log("finished", text="x" * 50)

    for path, is_done in killed_everywhere(log, tmp_path, prepare=prepare):
        folder = RunFolder(path)
        events = [line["event"] for line in ledger(path)]
        assert events == ["started", "finished"] or (events == ["started"] and not is_done)
        assert folder.is_unfinished() == ("finished" not in events)
        folder.log("resumed")  # after a torn line a new one begins
        assert [line["event"] for line in ledger(path)] == [*events, "resumed"]


def test_parameters_are_complete_or_not_there(tmp_path):
    parameters = Parameters(fixed_params={"model": {"n_features": 3}, "training": {"num_epochs": 2}})
    text = parameters.save(tmp_path / "expected.yml").read_text()
    for path, is_done in killed_everywhere(lambda folder: parameters.save(folder / "deep" / "a.yml"), tmp_path):
        file = path / "deep" / "a.yml"
        assert file.exists() or not is_done
        assert not file.exists() or file.read_text() == text


# ---- cross-validation


def killed_kfolds(kit, tmp_path, every, resumed=kfold):
    expected = kfold(kit, tmp_path / "unbroken")
    for path, _ in killed_everywhere(lambda folder: kfold(kit, folder), tmp_path, every=every):
        result = resumed(kit, path, resume="auto")
        assert kit.same(list(result), list(expected))
        assert str(result.summary()) == str(expected.summary())
        for fold, unbroken in zip(result.folds, expected.folds, strict=True):
            check_equal(kit, fold.path, unbroken.path)
        run = result.folds[0].path.parent
        assert [line["event"] for line in ledger(run)].count("finished") == 1
        assert RunFolder(run).read_manifest()["fingerprint"]


@pytest.mark.slow_cases("toy")
def test_a_killed_cross_validation_goes_on_and_ends_in_the_same_bits(kit, tmp_path, quick_takeover):
    killed_kfolds(kit, tmp_path, every=60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cross_validation_that_is_killed_anywhere_ends_in_the_same_bits(kit, tmp_path, quick_takeover):
    killed_kfolds(kit, tmp_path, every=1)
