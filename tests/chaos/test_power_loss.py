"""The power fails after every single system call, and what was not synced is lost in every way there is."""

import os
import shutil

import disk_model
import pytest
from small_backends import build_kit
from system_calls import Call, recorded
from test_writer_protocol import LINKS, POLICIES, checkpoint_folder, tree_of
from trainings import check_checkpoints, check_equal, kfold, ledger, train, tune

from delira.runs.folder import RunFolder
from delira.training import Parameters
from delira.utils.files import make_folder, publish, publish_text


def found_after_power_loss(action, tmp_path, every=1, sweeps=False):
    """``(marks reached, folder)`` for all that may be on the disk; the last is where nothing was lost.

    ``every`` leaves states out; ``sweeps`` those that differ from others only in temporary files.
    """
    root = tmp_path / "recorded"
    root.mkdir()
    calls = recorded(action, root)
    assert disk_model.replay(calls) == disk_model.read(root)
    states = {}
    for marks, tree in disk_model.states(calls):
        kept = ((path, content) for path, content in tree.items() if not (sweeps and "partial" in path))
        states[len(marks), frozenset(kept)] = marks, tree
    states = list(states.values())
    for number, (marks, tree) in enumerate([*states[::every], (states[-1][0], disk_model.read(root))]):
        folder = disk_model.write(tree, tmp_path / f"state-{number}")
        yield marks, folder
        shutil.rmtree(folder)


# ---- the model


def trees(*calls):
    return [tree for _, tree in disk_model.states(calls)]


def test_content_that_was_not_synced_may_be_missing_cut_zeroed_or_there():
    calls = [
        Call("open", "a", inode=1), Call("sync_folder", "."), Call("write", inode=1, data=b"1234"),
        Call("fsync", inode=1), Call("write", inode=1, data=b"5678", offset=4),
    ]  # fmt: skip
    last = [tree["a"] for tree in trees(*calls) if len(tree.get("a", b"")) > 4]
    assert sorted(last) == [b"1234\0\0\0\0", b"123456", b"12345678"]
    assert {"a": b"1234"} in trees(*calls)
    assert {} in trees(*calls)  # before anything was synced
    synced = disk_model.states([*calls, Call("fsync", inode=1), Call("mark", "x")])
    assert [tree for marks, tree in synced if marks] == [{"a": b"12345678"}]


def test_a_file_in_a_new_folder_is_there_only_if_the_folder_is():
    calls = [
        Call("mkdir", "f"), Call("open", "f/a", inode=1), Call("write", inode=1, data=b"12"), Call("fsync", inode=1),
        Call("sync_folder", "f"), Call("mark", "x"),
    ]  # fmt: skip
    assert [tree for marks, tree in disk_model.states(calls) if marks] == [{"f": None, "f/a": b"12"}, {}]
    synced = [*calls[:-1], Call("sync_folder", "."), Call("mark", "x")]
    assert [tree for marks, tree in disk_model.states(synced) if marks] == [{"f": None, "f/a": b"12"}]


def test_changes_of_names_get_lost_one_by_one_and_a_rename_never_by_half():
    calls = [
        Call("open", "a", inode=1), Call("open", "b", inode=2), Call("write", inode=2, data=b"x"),
        Call("fsync", inode=2), Call("sync_folder", "."), Call("replace", "b", "a"), Call("open", "c", inode=3),
        Call("mark", "x"),
    ]  # fmt: skip
    found = [tree for marks, tree in disk_model.states(calls) if marks]
    old, new = {"a": b"", "b": b"x"}, {"a": b"x"}
    assert sorted(found, key=str) == sorted([old, new, {**old, "c": b""}, {**new, "c": b""}], key=str)


# ---- writers that are known to lose files: the harness finds that


def in_place(path, text):
    path.write_text(text)


def synced_in_place(path, text):
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def renamed_without_sync(path, text):
    publish_text(path, text, durable=False)


def renamed_without_sync_of_the_folder(path, text):
    partial = path.with_name("partial")
    synced_in_place(partial, text)
    os.replace(partial, path)


def deleted_before(path, text):
    path.unlink(missing_ok=True)
    publish_text(path, text)


def losses(write, tmp_path):
    """What is lost of a file that is written three times: neither the version returned from nor the one after."""
    texts = [number * 100 for number in "123"]

    def action(folder, calls):
        for text in texts:
            write(folder / "a", text)
            calls.mark(text)

    lost = []
    for marks, folder in found_after_power_loss(action, tmp_path):
        text = (folder / "a").read_text() if (folder / "a").exists() else None
        if text not in (*(marks[-1:] or [None]), *texts[len(marks) :][:1]):
            lost.append((marks, text))
    return lost


@pytest.mark.parametrize(
    "write", [in_place, synced_in_place, renamed_without_sync, renamed_without_sync_of_the_folder, deleted_before]
)
def test_careless_writers_are_found_out(write, tmp_path):
    assert losses(write, tmp_path)


def test_a_published_file_is_never_lost(tmp_path):
    assert losses(publish_text, tmp_path) == []


def test_a_published_file_is_there_in_a_new_folder_too(tmp_path):
    assert losses(lambda path, text: publish_text(path.parent / "deep" / "er" / "a", text), tmp_path)  # another name
    (tmp_path / "again").mkdir()

    def action(folder, calls):
        publish(folder / "deep" / "er" / "a", lambda file: file.write(b"content"))
        calls.mark("published")

    for marks, folder in found_after_power_loss(action, tmp_path / "again"):
        file = folder / "deep" / "er" / "a"
        assert file.exists() or not marks
        assert not file.exists() or file.read_bytes() == b"content"


def test_a_folder_that_was_made_is_there(tmp_path):
    def action(folder, calls):
        (folder / "a").mkdir()
        make_folder(folder / "b" / "c")
        calls.mark("made")

    found = [files_and_folders(folder) for marks, folder in found_after_power_loss(action, tmp_path) if marks]
    assert all({"b", "b/c"} <= names for names in found)


def files_and_folders(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ---- checkpoints


@pytest.mark.sampled("values")
@LINKS
def test_the_checkpoint_that_was_saved_last_or_the_one_being_saved_is_there(kit, tmp_path, patch):
    def save(folder, calls):
        patch()
        checkpoints = checkpoint_folder(kit, folder)
        for epoch, names in enumerate([("best", "epoch_1", "last"), ("epoch_2", "last"), ("best", "last")], 1):
            checkpoints.save(tree_of(kit, epoch), *names)
            calls.mark(epoch)

    n_states = 0
    for marks, folder in found_after_power_loss(save, tmp_path):
        checkpoints = checkpoint_folder(kit, folder)
        checkpoints.sweep()
        check_checkpoints(checkpoints.folder, checkpoints.suffix)
        newest = checkpoints.newest() if checkpoints.folder.is_dir() else None
        found = 0 if newest is None else newest[1]["epoch"]
        assert found in (len(marks), len(marks) + 1)
        assert newest is None or kit.same(newest[1], tree_of(kit, found))
        if len(marks) > 0:  # the best was epoch 1, and then epoch 3
            assert checkpoints.load(checkpoints.best())["epoch"] in ((1, 3) if len(marks) > 1 else (1,))
        n_states += 1
    assert n_states > 20


def test_a_state_that_was_saved_by_hand_is_there(kit, tmp_path):
    trainer = kit.trainer(tmp_path / "run")
    name = f"mine{kit.backend.checkpoint_suffix}"

    def save(folder, calls):
        for epoch in (1, 2):
            trainer.save_state(folder / name, epoch)
            calls.mark(epoch)

    for marks, folder in found_after_power_loss(save, tmp_path):
        epoch = trainer.load_state(folder / name)["epoch"] if (folder / name).exists() else 0
        assert epoch in (len(marks), len(marks) + 1)


# ---- trainings


def trainings_after_power_loss(kit, tmp_path, every, **settings):
    expected = train(kit, tmp_path / "unbroken", **settings)
    for _, folder in found_after_power_loss(
        lambda folder, calls: train(kit, folder / "run", **settings), tmp_path, every, sweeps=True
    ):
        check_checkpoints(folder / "run" / "checkpoints", kit.backend.checkpoint_suffix)
        assert kit.same(train(kit, folder / "run", **settings), expected)
        check_equal(kit, folder / "run", tmp_path / "unbroken")


@pytest.mark.sampled("values")
@pytest.mark.parametrize("policy", ["all", "retention"])
def test_a_training_goes_on_after_a_power_loss(kit, tmp_path, policy):
    trainings_after_power_loss(kit, tmp_path, every=30, **POLICIES[policy])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_training_goes_on_after_a_power_loss_at_any_time(kit, tmp_path, policy):
    trainings_after_power_loss(kit, tmp_path, every=1, **POLICIES[policy])


# ---- the run folder


def test_lines_of_the_ledger_that_were_written_are_there(tmp_path):
    def log(folder, calls):
        run = RunFolder(folder / "run")
        make_folder(run.path)
        for number in range(4):
            run.log("fold_finished", fold=number, text="x" * 40)
            calls.mark(number)

    for marks, folder in found_after_power_loss(log, tmp_path):
        run = RunFolder(folder / "run")
        folds = [line["fold"] for line in ledger(run.path)] if (run.path / "ledger.jsonl").exists() else []
        assert folds in (list(range(len(marks))), list(range(len(marks) + 1)))
        run.log("resumed")
        assert [line["event"] for line in ledger(run.path)] == ["fold_finished"] * len(folds) + ["resumed"]


def test_a_new_run_folder_with_its_manifest_is_there(tmp_path):
    def create(folder, calls):
        run = RunFolder.create(folder / "runs" / "name")
        run.write_manifest({"fact": 1})
        calls.mark(run.path.name)

    for marks, folder in found_after_power_loss(create, tmp_path):
        for path in (folder / "runs" / "name").glob("*"):
            assert RunFolder(path).read_manifest().get("fact") == 1 or not marks
        for name in marks:
            assert RunFolder(folder / "runs" / "name" / name).read_manifest()["fact"] == 1


def test_parameters_that_were_saved_are_there(tmp_path):
    parameters = Parameters(fixed_params={"model": {"n_features": 3}})
    text = parameters.save(tmp_path / "expected.yml").read_text()

    def save(folder, calls):
        parameters.save(folder / "deep" / "a.yml")
        calls.mark("saved")

    for marks, folder in found_after_power_loss(save, tmp_path):
        path = folder / "deep" / "a.yml"
        assert path.exists() or not marks
        assert not path.exists() or path.read_text() == text


# ---- cross-validation


def kfolds_after_power_loss(kit, tmp_path, every):
    expected = kfold(kit, tmp_path / "unbroken")
    for _, folder in found_after_power_loss(lambda folder, calls: kfold(kit, folder), tmp_path, every, True):
        result = kfold(kit, folder, resume="auto")
        assert kit.same(list(result), list(expected))
        for fold, unbroken in zip(result.folds, expected.folds, strict=True):
            check_equal(kit, fold.path, unbroken.path)


@pytest.mark.slow_cases("toy")
def test_a_cross_validation_goes_on_after_a_power_loss(kit, tmp_path, quick_takeover):
    kfolds_after_power_loss(kit, tmp_path, every=250)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cross_validation_goes_on_after_a_power_loss_at_any_time(kit, tmp_path, quick_takeover):
    kfolds_after_power_loss(kit, tmp_path, every=1)


# ---- search


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_search_goes_on_after_a_power_loss(tmp_path, quick_takeover):
    pytest.importorskip("optuna")
    kit = build_kit("toy")
    expected = rows_of(tune(kit, tmp_path / "unbroken"))
    for _, folder in found_after_power_loss(lambda folder, calls: tune(kit, folder), tmp_path, 25, True):
        assert rows_of(tune(kit, folder, resume="auto")) == expected


def rows_of(search):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in search.table()]
