"""Traps of runs: a disk that is full at the very end, runs that were extended, changes without effect, two threads."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.errors import ConfigError, FolderInUseError
from delira.runs.folder import RunFolder
from delira.utils import lock
from delira.utils.lock import locked


class Stop(Exception):
    """Whatever ends a run before its time."""


class StopAt:
    """Ends a run before one of its epochs, of any fold or of one."""

    def __init__(self, epoch, fold=None):
        self.epoch, self.fold = epoch, fold

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == self.epoch and self.fold in (None, trainer.fold):
            raise Stop


class FullDisk:
    """From the end of a training on, or at once, the system lets no file grow, whoever writes it."""

    def __init__(self, fold=0, at_once=False):
        self.fold, self.at_once = fold, at_once
        self.resource = pytest.importorskip("resource", reason="limits of file sizes need a Unix")
        self.before = self.resource.getrlimit(self.resource.RLIMIT_FSIZE)

    def at_training_end(self, trainer, **facts):
        if trainer.fold == self.fold:
            self.begin()

    def begin(self):
        self.resource.setrlimit(self.resource.RLIMIT_FSIZE, (0, self.before[1]))

    def __deepcopy__(self, memo):
        return self

    def __enter__(self):
        if self.at_once:
            self.begin()
        return self

    def __exit__(self, *error):
        self.resource.setrlimit(self.resource.RLIMIT_FSIZE, self.before)


def experiment_of(room, path, **training):
    return room.experiment(path, {"dropout": 0.4}, training={"save_freq": 1, **training})


def names(folder):
    return [entry["event"] for entry in RunFolder(folder).events()]


def only_folder(path):
    (folder,) = (path / "UnnamedExperiment").iterdir()
    return folder


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


# ---- a disk that is full at the very end


def test_a_run_returns_its_result_though_the_last_line_of_its_ledger_cannot_be_written(room, tmp_path, manager, caplog):
    expected = room.read(experiment_of(room, tmp_path / "unbroken").run(manager()))
    experiment = experiment_of(room, tmp_path / "full")
    with FullDisk() as full, pytest.warns(RuntimeWarning, match="'finished' of .*ledger.jsonl could not be") as caught:
        network = experiment.run(manager(), callbacks=[full])
    assert len(caught) == 1
    assert "File too large" in str(caught[0].message)
    assert str(caught[0].message) in caplog.text
    assert room.same(room.read(network), expected)
    folder = only_folder(tmp_path / "full")
    assert names(folder) == ["started"]
    again = experiment.run(manager(), resume="auto")
    assert room.same(room.read(again), expected)
    assert names(folder) == ["started", "resumed", "finished"]


def test_the_first_line_of_a_ledger_must_be_written(tmp_path):
    with FullDisk(at_once=True), pytest.raises(OSError, match="File too large"):
        RunFolder(tmp_path).log("started")


def test_an_error_is_not_hidden_by_the_line_that_tells_of_it(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log("started")
    with FullDisk(at_once=True), pytest.raises(Stop), folder.recorded():  # warnings are errors
        raise Stop
    assert names(tmp_path) == ["started"]


@pytest.fixture
def torn(regression):
    """A dataset with a sample that cannot be loaded."""
    arrays = regression(12)

    def load(index):
        if index == 3:
            raise OSError("torn")
        return {"data": arrays["data"][index], "label": arrays["label"][index]}

    return BaseLazyDataset(range(12), load)


def test_a_cross_validation_returns_its_result_though_the_files_of_a_fold_cannot_be_written(room, tmp_path, torn):
    def kfold(path, **options):
        data = BaseDataManager(torn, 1, bad_samples="skip")
        return experiment_of(room, path).kfold(data, num_splits=2, shuffle=True, random_seed=0, **options)

    with pytest.warns(UserWarning, match="is left out, it cannot be loaded: OSError: torn"):
        expected = kfold(tmp_path / "unbroken")
    with FullDisk(fold=1) as full, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = kfold(tmp_path / "full", callbacks=[full])
    said = [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
    begins = ["what was left out of", "the predictions of fold 1", "the result of fold 1", "the line 'fold_finished'"]
    assert [text.startswith(begin) for text, begin in zip(said, [*begins, "the line 'finished'"], strict=True)] == [
        True
    ] * 5
    for fold, other in zip(result.folds, expected.folds, strict=True):
        assert room.same(fold.predictions, other.predictions)
        assert fold.left_out == other.left_out == {3: "OSError: torn"}
    kept = {path.name for path in (result.path / "fold_00").iterdir()}
    assert {"result.zip", "predictions.npz", "left_out.json"} <= kept
    assert not {"result.zip", "predictions.npz", "left_out.json"} & {
        path.name for path in (result.path / "fold_01").iterdir()
    }
    with pytest.warns(UserWarning, match="is left out"):
        again = kfold(tmp_path / "full", resume="auto")
    assert again.path == result.path
    assert room.same(again.folds[1].predictions, expected.folds[1].predictions)
    assert (result.path / "fold_01" / "result.zip").exists()
    assert names(result.path)[-1] == "finished"


# ---- which run goes on


def test_auto_continues_a_finished_run_that_was_broken_off_when_it_was_extended(room, tmp_path, manager):
    expected = room.read(experiment_of(room, tmp_path / "unbroken", num_epochs=4).run(manager()))
    experiment = experiment_of(room, tmp_path / "run")
    experiment.run(manager())
    folder = only_folder(tmp_path / "run")
    with pytest.raises(Stop):
        experiment.resume(folder, manager(), num_epochs=4, callbacks=[StopAt(4)])
    network = experiment.run(manager(), num_epochs=4, resume="auto")
    assert only_folder(tmp_path / "run") == folder
    assert room.same(room.read(network), expected)
    assert names(folder) == ["started", "finished", "resumed", "broken_off", "resumed", "finished"]
    network = experiment.run(manager(), num_epochs=4, resume="auto")  # it has ended by now, and is read
    assert room.same(room.read(network), expected)
    assert names(folder) == ["started", "finished", "resumed", "broken_off", "resumed", "finished"]


@pytest.mark.parametrize(
    ("events", "is_unfinished"),
    [
        (["started"], True),
        (["started", "finished"], False),
        (["started", "finished", "resumed"], True),  # killed: nothing more was written
        (["started", "finished", "resumed", "finished"], False),
        (["started", "finished", "resumed", "fold_started", "broken_off"], True),
        (["started", "finished", "fold_started"], True),  # the line "resumed" was lost
    ],
)
def test_the_last_of_a_ledger_decides_whether_a_run_has_ended(tmp_path, events, is_unfinished):
    folder = RunFolder(tmp_path)
    for event in events:
        folder.log(event)
    assert folder.is_unfinished() == is_unfinished


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", ["run", "kfold"])
def test_auto_says_which_unfinished_run_it_passes_by_and_who_uses_it(room, tmp_path, manager, monkeypatch, kind):
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)  # seconds
    experiment = experiment_of(room, tmp_path)
    options = {"num_splits": 2} if kind == "kfold" else {}
    call = getattr(experiment, kind)
    with pytest.raises(Stop):
        call(manager(), callbacks=[StopAt(2)], **options)
    folder = only_folder(tmp_path)
    with (
        in_use(folder) as process,
        pytest.warns(UserWarning, match=rf"passes by .*{folder.name}' is in use by process {process.pid} on") as caught,
    ):
        call(manager(), resume="auto", **options)
    assert [warning.filename for warning in caught] == [__file__]
    assert len(list(folder.parent.iterdir())) == 2
    assert names(folder)[-1] == "broken_off"


def test_a_run_is_recorded_in_its_folder_wherever_the_program_goes(room, tmp_path, manager, monkeypatch):
    class Leave:
        def at_epoch_begin(self, trainer, **facts):
            os.chdir(tmp_path / "other")

    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    experiment_of(room, "runs").run(manager(), callbacks=[Leave()])
    assert names(only_folder(tmp_path / "runs")) == ["started", "finished"]
    assert list((tmp_path / "other").iterdir()) == []


# ---- changes that are allowed


def changed(room, path, data, **changes):
    """A run that is broken off in its third epoch, and the warning with which it is continued with changes."""
    training = {**room.halving(), "num_epochs": 4}
    callbacks = training.pop("callbacks", [])
    experiment = experiment_of(room, path, **training)
    with pytest.raises(Stop):
        experiment.run(data, callbacks=[*callbacks, StopAt(3)])
    folder = only_folder(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        experiment.resume(folder, data, allow_changes=True, callbacks=callbacks, **changes)
    (said,) = [str(warning.message) for warning in caught if "continued with changes" in str(warning.message)]
    return said, experiment.last_trainer, folder


def rates(trainer):
    return [rate for record in trainer.state.history for name, rate in record.items() if name == "lr"]


def test_new_learning_rates_are_said_to_have_no_effect_and_have_none(room, tmp_path, manager):
    said, trainer, folder = changed(room, tmp_path, manager(), optimizer_params={"lr": 0.3, "momentum": 0.5})
    assert "training.optimizer_params.lr: 0.1 in the run, 0.3 now\n" in said
    assert pytest.approx([0.1, 0.05, 0.025, 0.0125]) == rates(trainer)
    lines = said.split("\n  ")[1:]
    assert len(lines) == 2
    assert lines[1].startswith("optimizers and schedules go on with their state in the checkpoint")
    assert lines[1].endswith("trainer.scale_rates(factor)")
    (entry,) = [entry for entry in RunFolder(folder).events() if entry["event"] == "resumed"]
    assert entry["changes"] == lines


def test_rates_are_changed_as_the_warning_says(room, tmp_path, manager):
    class Scale:
        def at_training_begin(self, trainer, **facts):
            trainer.scale_rates(10)

    experiment = experiment_of(room, tmp_path, num_epochs=4)
    with pytest.raises(Stop):
        experiment.run(manager(), callbacks=[StopAt(3)])
    experiment.resume(only_folder(tmp_path), manager(), callbacks=[Scale()])
    assert pytest.approx([0.1, 0.1, 1, 1]) == rates(experiment.last_trainer)


def test_a_new_schedule_is_said_to_have_no_effect(tmp_path, manager):
    torch = pytest.importorskip("torch", reason="only the torch room has schedules")
    from small_rooms import torch_room

    params = {"lr_scheduler_params": {"step_size": 100, "gamma": 0.5}}
    said, trainer, _ = changed(torch_room(), tmp_path / "params", manager(), **params)
    assert "trainer.scale_rates(factor)" in said
    assert pytest.approx([0.1, 0.05, 0.025, 0.0125]) == rates(trainer)
    params = {"lr_scheduler_cls": torch.optim.lr_scheduler.ExponentialLR, "lr_scheduler_params": {"gamma": 0.5}}
    said, _, _ = changed(torch_room(), tmp_path / "cls", manager(), **params)
    assert "trainer.scale_rates(factor)" in said


def test_other_changes_are_not_said_to_have_no_effect(room, tmp_path, manager):
    said, _, _ = changed(room, tmp_path, manager(), val_freq=2)
    assert said.split("\n  ")[1:] == ["training.val_freq: not given in the run, 2 now"]


def test_another_optimizer_is_refused_whatever_is_allowed(room, tmp_path, manager):
    if isinstance(room.optimizer_cls, type):

        class Other(room.optimizer_cls):
            pass

    else:  # a function that makes one
        Other = pytest.importorskip("optax").rmsprop

    experiment = experiment_of(room, tmp_path)
    with pytest.raises(Stop):
        experiment.run(manager(), callbacks=[StopAt(2)])
    folder = only_folder(tmp_path)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for allow in (False, True):
        with pytest.raises(ConfigError, match=r"(?s)training\.optimizer_cls: .* cannot go on with the state of anoth"):
            experiment.resume(folder, manager(), optimizer_cls=Other, allow_changes=allow)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# ---- two threads


def raised_in_a_thread(work):
    errors = []

    def run():
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


def enter(folder, **options):
    with locked(folder, patience=0, **options):
        pass


def test_a_folder_is_locked_alone_once_in_a_process(tmp_path):
    inner = tmp_path / "fold_00"
    inner.mkdir()
    with locked(tmp_path), locked(tmp_path, alone=True), locked(inner, alone=True):
        enter(tmp_path)
        for work in (lambda: enter(tmp_path, alone=True), lambda: enter(inner / "..", alone=True)):
            (error,) = raised_in_a_thread(work)
            assert isinstance(error, FolderInUseError)
            assert f"in use by this process, {os.getpid()}, already" in str(error)
        assert raised_in_a_thread(lambda: enter(tmp_path)) == []
    with pytest.raises(Stop), locked(tmp_path, alone=True):
        raise Stop
    with locked(tmp_path):
        for _ in range(2):
            enter(tmp_path, alone=True)
    assert [*inner.iterdir()] == []


def test_a_second_training_in_the_same_folder_and_process_is_refused(room, tmp_path, manager):
    expected = room.read(room.trainer(tmp_path / "unbroken", save_freq=1).train(2, manager()))
    folder, errors = tmp_path / "run", []

    class Second:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            if curr_epoch == 2:
                second = room.trainer(folder, save_freq=1)  # looking is allowed
                assert second.state.epoch == 1
                errors.extend(raised_in_a_thread(lambda: second.train(3, manager())))

    trainer = room.trainer(folder, save_freq=1, callbacks=[Second()])
    assert room.same(room.read(trainer.train(2, manager())), expected)
    (error,) = errors
    assert isinstance(error, FolderInUseError)
    assert trainer.train(3, manager()) is not None
    assert [json.loads(line)["epoch"] for line in (folder / "history.jsonl").read_text().splitlines()] == [1, 2, 3]
    assert np.isfinite(room.read(trainer.module)).all()
