"""The folder of a run: its ledger survives whatever happens, one process works in it, any path in it will do."""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from delira.errors import ConfigError, FolderInUseError
from delira.runs.folder import At, RunFolder
from delira.utils import lock

pytestmark = pytest.mark.turns


class Stop(Exception):
    """Whatever ends a run before its time."""


class Epochs:
    """Notes the epochs, and may end the run before one of them."""

    def __init__(self, stop_at=None):
        self.stop_at, self.begun = stop_at, []

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.stop_at:
            raise Stop
        self.begun.append(curr_epoch)

    def __deepcopy__(self, memo):
        return self


def experiment_of(kit, path, num_epochs=4):
    return kit.experiment(path, {"dropout": 0.4}, training={"save_freq": 1, "num_epochs": num_epochs})


def broken_off(backend, path, data, stop_at=3):
    """The folder of a run that was broken off."""
    experiment = experiment_of(backend, path)
    before = set(experiment.save_path.iterdir()) if experiment.save_path.is_dir() else set()
    with pytest.raises(Stop):
        experiment.run(data, callbacks=[Epochs(stop_at)])
    (folder,) = set(experiment.save_path.iterdir()) - before
    return folder


def names(folder):
    return [entry["event"] for entry in RunFolder(folder).events()]


@contextlib.contextmanager
def in_use(folder):
    """Another process at work in a folder."""
    script = (
        "import sys\nfrom delira.utils.lock import locked\n"
        "with locked(sys.argv[1]):\n    print(flush=True)\n    sys.stdin.readline()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


# ---- the ledger


def test_what_is_logged_is_read_back_in_order(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log("started")
    folder.log("fold_finished", fold=1, metrics={"a": float("nan")}, name='Ü\n"quoted"')
    events = folder.events()
    assert [event["event"] for event in events] == ["started", "fold_finished"]
    assert events[1]["name"] == 'Ü\n"quoted"'
    assert np.isnan(events[1]["metrics"]["a"])
    assert (tmp_path / "ledger.jsonl").read_bytes().count(b"\n") == 2


def test_a_line_that_was_cut_short_anywhere_harms_no_other(tmp_path):
    folder = RunFolder(tmp_path)
    for event in ("started", "resumed", "finished"):
        folder.log(event, note="Ü" * 3)
    ledger = tmp_path / "ledger.jsonl"
    whole = ledger.read_bytes()
    ends = [position for position, byte in enumerate(whole) if byte == ord("\n")]
    lengths = {0, 1, *(end + step for end in ends for step in (-1, 0, 1)), *range(0, len(whole), 11)}
    for length in sorted(lengths):
        complete = [event for event, end in zip(("started", "resumed", "finished"), ends, strict=True) if length >= end]
        for tail in (b"", b"\0" * 7, b"\xff\xfe{"):
            ledger.write_bytes(whole[:length] + tail)
            if tail and length in ends:  # it is glued to a line whose end is lost
                continue
            assert names(tmp_path) == complete
            assert folder.is_unfinished() == (bool(complete) and complete[-1] != "finished")
            folder.log("again")
            folder.log("and again")
            assert names(tmp_path) == [*complete, "again", "and again"]


def test_the_text_of_an_error_ends_no_run(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log("started")
    with pytest.raises(Stop), folder.recorded():
        raise Stop('"event": "finished"')
    assert folder.is_unfinished()
    with folder.recorded():
        pass
    assert not folder.is_unfinished()
    folder.log("resumed")  # with more epochs
    assert folder.is_unfinished()


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"[1]\n3\nnull\n{}\n", None])
def test_a_folder_without_a_word_is_no_unfinished_run(tmp_path, content):
    if content is not None:
        (tmp_path / "ledger.jsonl").write_bytes(content)
    assert not RunFolder(tmp_path).is_unfinished()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", None])
def test_a_manifest_that_cannot_be_read_is_none(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    assert RunFolder(tmp_path).read_manifest() == {}


@pytest.mark.parametrize("error", [None, Stop("mine")])
def test_the_folder_may_be_deleted_under_the_run(tmp_path, error):
    folder = RunFolder.create(tmp_path / "runs")
    folder.log("started")
    with contextlib.suppress(Stop), folder.recorded():
        shutil.rmtree(tmp_path / "runs")
        if error:
            raise error
    assert names(folder.path) == ["broken_off" if error else "finished"]


def test_nothing_of_the_lock_is_left_in_a_finished_run(kit, tmp_path, manager):
    experiment_of(kit, tmp_path, 1).run(manager())
    (folder,) = (tmp_path / "UnnamedExperiment").iterdir()
    files = {"parameters.yml", "experiment.yml", "manifest.json", "ledger.jsonl", "cases.json"}
    assert {path.name for path in folder.iterdir()} == {*files, "fold_00"}


def test_a_place_for_a_new_run_may_refuse_what_it_would_be(kit, tmp_path, manager):
    experiment, told = experiment_of(kit, tmp_path, 1), []

    def refuse(facts):
        told.append(facts["seed"])
        raise ConfigError("not this one")

    with pytest.raises(ConfigError, match="not this one"):
        experiment.run(manager(), seed=3, resume=At(tmp_path / "new", 1, check=refuse))
    assert told == [3]
    assert not (tmp_path / "new").exists()
    experiment.run(manager(), seed=3, resume=At(tmp_path / "new", 1, check=lambda facts: told.append(facts["seed"])))
    assert told == [3, 3]
    assert names(tmp_path / "new") == ["started", "finished"]


# ---- which run goes on


def test_auto_passes_by_what_is_no_run(kit, tmp_path, manager):
    folder = broken_off(kit, tmp_path, manager())
    parent = folder.parent
    (parent / "9999-file").write_text("text")
    for name, content in (("9999-list", "[]"), ("9999-torn", '{"fingerprint": {"kind": "r'), ("9999-odd", '{"a": 1}')):
        (parent / name).mkdir()
        (parent / name / "manifest.json").write_text(content)
        shutil.copy(folder / "ledger.jsonl", parent / name)
    (parent / "9999-empty").mkdir()
    experiment = experiment_of(kit, tmp_path)
    experiment.run(manager(), resume="auto")
    assert experiment.last_trainer.save_path.parent == folder


def test_auto_continues_a_finished_run_whose_extension_was_broken_off(kit, tmp_path, manager):
    expected = kit.read(experiment_of(kit, tmp_path / "unbroken").run(manager()))
    experiment = experiment_of(kit, tmp_path, 2)
    experiment.run(manager())
    first = experiment.last_trainer.save_path.parent
    with pytest.raises(Stop):
        experiment.resume(first, manager(), num_epochs=4, callbacks=[Epochs(4)])
    ledger = first / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-30])  # torn on top of it
    assert kit.same(kit.read(experiment.run(manager(), num_epochs=4, resume="auto")), expected)
    assert experiment.last_trainer.save_path.parent == first


def test_a_run_in_use_is_refused_and_auto_passes_it_by(kit, tmp_path, manager, monkeypatch):
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)  # seconds
    older, newer = broken_off(kit, tmp_path, manager()), broken_off(kit, tmp_path, manager())
    older, newer = sorted((older, newer), key=lambda path: (len(path.name), path.name))
    before = {path: path.read_bytes() for path in newer.rglob("*") if path.is_file()}
    experiment, used = experiment_of(kit, tmp_path), []
    with in_use(newer) as process:
        for path in (newer, newer / "fold_00", newer / "fold_00" / "checkpoints"):
            with pytest.raises(FolderInUseError, match=f"in use by process {process.pid} on "):
                experiment.resume(path, manager())
        for _ in range(2):
            with pytest.warns(UserWarning, match=f"passes by an unfinished run.* process {process.pid} on "):
                experiment.run(manager(), resume="auto")
            used.append(experiment.last_trainer.save_path.parent)
        assert used == [older, older]  # which has finished by then, and is read
        after = {path: path.read_bytes() for path in newer.rglob("*") if path.is_file() and "lock" not in path.name}
        assert after == before
    experiment.run(manager(), resume="auto")
    assert experiment.last_trainer.save_path.parent == newer


def lock_elsewhere(folder):
    """Whether another process is refused, and how it ends."""
    script = f"from delira.utils.lock import locked\nwith locked({str(folder)!r}, 0): pass"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    return "FolderInUseError" in done.stderr, done.returncode


def test_what_is_recorded_keeps_other_processes_out(tmp_path):
    folder = RunFolder.create(tmp_path)
    with folder.recorded():
        assert lock_elsewhere(folder.path) == (True, 1)
    assert lock_elsewhere(folder.path) == (False, 0)


def test_a_run_keeps_other_processes_out_for_as_long_as_it_lasts(kit, tmp_path, manager):
    codes = []

    class Other:
        def at_epoch_begin(self, trainer, **facts):
            codes.append(lock_elsewhere(trainer.save_path.parent))

    experiment = experiment_of(kit, tmp_path, 1)
    experiment.run(manager(), callbacks=[Other()])
    assert codes == [(True, 1)]
    assert lock_elsewhere(experiment.last_trainer.save_path.parent) == (False, 0)


# ---- from where


@pytest.mark.sampled("values")
@pytest.mark.parametrize(
    "form", ["run folder", "fold folder", "checkpoints folder", "newest file", "older file", "text"]
)
def test_a_run_goes_on_from_any_path_in_it(kit, tmp_path, manager, form):
    expected = kit.read(experiment_of(kit, tmp_path / "unbroken").run(manager()))
    folder = broken_off(kit, tmp_path / "broken", manager(), 4)
    checkpoints, suffix = folder / "fold_00" / "checkpoints", kit.backend.checkpoint_suffix
    path, begun = {
        "run folder": (folder, [4]),
        "fold folder": (folder / "fold_00", [4]),
        "checkpoints folder": (checkpoints, [4]),
        "newest file": (checkpoints / f"checkpoint_epoch_3{suffix}", [4]),
        "older file": (checkpoints / f"checkpoint_epoch_1{suffix}", [2, 3, 4]),
        "text": (str(checkpoints / f"checkpoint_epoch_2{suffix}"), [3, 4]),
    }[form]
    epochs = Epochs()
    experiment = experiment_of(kit, tmp_path / "broken")
    assert kit.same(kit.read(experiment.resume(path, manager(), callbacks=[epochs])), expected)
    assert epochs.begun == begun
    assert experiment.last_trainer.save_path == folder / "fold_00"
    history = (folder / "fold_00" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in history] == [1, 2, 3, 4]
    assert names(folder)[-2:] == ["resumed", "finished"]


def test_a_checkpoint_file_that_is_not_there_is_refused(kit, tmp_path, manager):
    folder = broken_off(kit, tmp_path, manager())
    before = names(folder)
    missing = folder / "fold_00" / "checkpoints" / f"checkpoint_epoch_9{kit.backend.checkpoint_suffix}"
    with pytest.raises(ConfigError, match=r"there is no checkpoint '.*checkpoint_epoch_9.*; there are: checkpoint_"):
        experiment_of(kit, tmp_path).resume(missing, manager())
    assert names(folder) == before


def test_a_cross_validation_says_how_it_is_continued(kit, tmp_path, manager):
    experiment = experiment_of(kit, tmp_path, 1)
    folder = experiment.kfold(manager(), num_splits=2).path
    with pytest.raises(ConfigError, match=r"holds a kfold .*; call experiment.kfold\(…, resume="):
        experiment.resume(folder / "fold_01", manager())
