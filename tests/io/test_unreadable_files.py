"""What the system cannot read now is never taken for damaged: tried again, then an error, and nothing is renamed."""

import errno
import os

import pytest
from problems import linear_problem
from refused_files import Refusing
from small_backends import toy_kit

from delira.cli.runs import list_runs
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, UnreadableError
from delira.experiments.result import KFoldResult
from delira.io import read_tree, verify_zip, write_tree
from delira.io.checkpoint import CheckpointFolder
from delira.utils import files
from delira.utils.files import read_patiently, refusal_behind

CODES = [
    getattr(errno, name)
    for name in ("EIO", "ESTALE", "EMFILE", "ENFILE", "ENOMEM", "EACCES", "EPERM", "ETIMEDOUT", "EKEYEXPIRED")
    if hasattr(errno, name)
]
CODE = pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])


def content_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tree(epoch):
    return {"model": {}, "optimizer": {}, "epoch": epoch, "step": 0}


@pytest.fixture
def folder(tmp_path):
    """Three epochs; the last one is also the best."""
    checkpoints = CheckpointFolder(tmp_path / "checkpoints", ".zip", write_tree, read_tree)
    for epoch in (1, 2, 3):
        checkpoints.save(tree(epoch), "best", f"epoch_{epoch}", "last")
    return checkpoints


# ---- one file


@CODE
@pytest.mark.parametrize("read", [verify_zip, read_tree])
def test_an_error_of_the_system_names_number_and_file_and_is_no_damage(folder, read, code):
    path = folder.path("last")
    with Refusing("checkpoint_last", code), pytest.raises(UnreadableError, match=rf"\[Errno {code}\]") as caught:
        read(path)
    assert (caught.value.errno, caught.value.filename) == (code, str(path))
    assert not isinstance(caught.value, CheckpointError)
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_passes_by_itself_is_tried_again(folder, code):
    with Refusing("checkpoint_last", code, times=3) as refusing:
        verify_zip(folder.path("last"))
    assert refusing.n_refused == 3


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_missing_permission_is_told_at_once(folder, code):
    with Refusing("checkpoint_last", code) as refusing, pytest.raises(UnreadableError, match="ermi") as caught:
        verify_zip(folder.path("last"))
    assert refusing.n_refused == 1
    assert "times" not in str(caught.value)


def test_a_memory_that_does_not_suffice_is_no_damage(tmp_path):
    def read():
        raise MemoryError

    with pytest.raises(UnreadableError, match="Cannot allocate memory") as caught:
        read_patiently(tmp_path / "a", read)
    assert caught.value.errno == errno.ENOMEM


def test_the_tries_are_few_and_short(monkeypatch):
    slept = []
    monkeypatch.setattr(files.time, "sleep", slept.append)

    def read():
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(UnreadableError, match=r"4 times in 0\.75 s.*'a'"):
        read_patiently("a", read)
    assert slept == [0.05, 0.2, 0.5]


def test_an_error_that_a_reader_has_wrapped_is_seen_through():
    wrapped = CheckpointError("not readable")
    wrapped.__cause__ = OSError(errno.EIO, "Input/output error")
    assert refusal_behind(wrapped) == (errno.EIO, "Input/output error")
    assert refusal_behind(CheckpointError("the checksum is wrong")) is None
    assert refusal_behind(FileNotFoundError(errno.ENOENT, "No such file")) is None
    assert refusal_behind(OSError(errno.EINVAL, "a position before the file, of a damaged one")) is None


# ---- the checkpoints of a folder


@CODE
def test_no_checkpoint_is_renamed_because_it_cannot_be_read(folder, code):
    before = content_of(folder.folder)
    with Refusing("checkpoint_", code), pytest.raises(UnreadableError, match="checkpoint_last"):
        folder.newest()
    assert content_of(folder.folder) == before
    assert folder.newest()[1]["epoch"] == 3


@CODE
def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(folder, code):
    for name in ("last", "best", "previous"):
        folder.path(name).unlink()
    with Refusing(folder.folder, code), pytest.raises(UnreadableError, match=rf"\[Errno {code}\].*'.*checkpoints'"):
        folder.newest()
    assert folder.newest()[1]["epoch"] == 3


def test_a_checkpoint_whose_name_cannot_be_asked_for_is_not_missing(folder, monkeypatch):
    """A folder that may be listed but not entered: the names are there, the files are not to be seen."""
    monkeypatch.setattr(os, "lstat", _refused)
    with pytest.raises(UnreadableError, match="Permission denied"):
        folder.load_or_warn(folder.path("last"))


def _refused(path, **kw):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_one_error_that_passes_changes_nothing(folder):
    with Refusing("checkpoint_best", errno.EIO, times=1):
        assert folder.load_or_warn(folder.path("best"))["epoch"] == 3
    with Refusing("checkpoint_last", errno.EIO, times=1):
        assert folder.newest()[1]["epoch"] == 3


def test_a_damaged_checkpoint_is_set_aside_as_ever(folder):
    path = folder.path("epoch_3")
    path.write_bytes(path.read_bytes()[:-30])  # one file with three names
    with pytest.warns(RuntimeWarning, match=r"set aside as checkpoint_.*\.damaged"):
        assert folder.newest()[1]["epoch"] == 2


# ---- trainings


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_training_whose_checkpoints_cannot_be_read_does_not_begin_anew(kit, manager, tmp_path, code):
    trainer = kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    trainer.train(2, manager(), manager(seed=8))
    before = content_of(tmp_path / "run" / "checkpoints")
    with Refusing("checkpoint_", code), pytest.raises(UnreadableError, match=rf"\[Errno {code}\].*checkpoint_"):
        kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    assert content_of(tmp_path / "run" / "checkpoints") == before
    assert kit.trainer(tmp_path / "run", kit.build(), save_freq=1).state.epoch == 2


# ---- runs


@pytest.fixture
def run(tmp_path):
    """A finished cross-validation, and the experiment that would go on with it."""
    training = {"num_epochs": 1, "save_freq": 1, "optimizer_params": {"lr": 0.05}}
    experiment = toy_kit().experiment(tmp_path, name="good", training=training)
    options = {"num_splits": 2, "random_seed": 5, "metrics": {}}
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    experiment.kfold(data, **options)
    (folder,) = (tmp_path / "good").iterdir()
    return folder, lambda: experiment.kfold(data, **options, resume="auto")


@pytest.mark.sampled("values")
@pytest.mark.parametrize("name", ["manifest.json", "ledger.jsonl", "result.zip", "checkpoint_"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_run_that_cannot_be_read_is_not_begun_anew(run, name, code):
    folder, go_on = run
    (folder / "ledger.jsonl").write_text('{"event": "started"}\n')
    if name == "checkpoint_":
        (folder / "fold_01" / "result.zip").unlink()
    before = content_of(folder)
    with Refusing(name, code), pytest.raises(UnreadableError, match=rf"\[Errno {code}\].*{name}") as caught:
        go_on()
    assert caught.value.errno == code
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    after = content_of(folder)
    assert {path: content for path, content in after.items() if "ledger" not in path} == {
        path: content for path, content in before.items() if "ledger" not in path
    }
    assert len(go_on().folds) == 2


@pytest.mark.parametrize(
    "name", ["manifest.json", "fold_00/result.zip", "fold_00/checkpoints/checkpoint_last", "fold_00/predictions.npz",
             "fold_00/history.jsonl", "result.json", "parameters.yml"],
)  # fmt: skip
def test_verify_calls_a_file_that_cannot_be_read_unreadable_and_not_broken(run, name):
    folder, _ = run
    with Refusing(name, errno.EIO):
        answer = verify([folder])
        listed = list_runs(folder.parent).content["runs"]
    assert answer.is_broken
    states = {check["what"]: check["state"] for check in answer.content["files"] if check["state"] != "whole"}
    assert set(states.values()) == {"unreadable"}
    assert any(what.startswith(name) for what in states)
    assert len(listed) == 1
    assert not verify([folder]).is_broken


GUARDS = '{"version": 1, "left_out": [{"epoch": 1, "updates": 1, "steps": 3}], "rollbacks": []}'


@pytest.mark.parametrize("name", ["timings.json", "guards.json"])
def test_what_lies_beside_a_fold_is_not_lost_because_it_cannot_be_read_now(run, name):
    folder, go_on = run
    for fold in folder.glob("fold_*"):
        (fold / "guards.json").write_text(GUARDS)
    with Refusing(f"fold_00/{name}", errno.EIO), pytest.raises(UnreadableError, match=rf"\[Errno 5\].*{name}"):
        go_on()
    with Refusing(f"fold_00/{name}", errno.EIO, times=2):
        fold = go_on().folds[0]
    assert fold.timings["steps"] == 1
    assert fold.guards["left_out"] == [{"epoch": 1, "updates": 1, "steps": 3}]
    # who only looks at a run is told, and shown the rest
    with Refusing(f"fold_00/{name}", errno.EIO):
        result = KFoldResult.load(folder)
    part = name.partition(".")[0]
    assert getattr(result.folds[0], part) is None
    assert getattr(result.folds[1], part) is not None
    assert any(f"the {part} of fold_00 are not shown: [Errno 5]" in text for text in result.warnings)


@pytest.mark.parametrize("name", ["timings.json", "guards.json"])
def test_a_training_does_not_write_over_what_it_cannot_read_now(manager, tmp_path, name):
    kit = toy_kit()
    kit.trainer(tmp_path / "run", kit.build(), save_freq=1).train(1, manager())
    (tmp_path / "run" / "guards.json").write_text(GUARDS)
    before = content_of(tmp_path / "run")
    with Refusing(name, errno.EACCES), pytest.raises(UnreadableError, match=name):
        kit.trainer(tmp_path / "run", kit.build(), save_freq=1)
    after = content_of(tmp_path / "run")
    assert after[name] == before[name]
