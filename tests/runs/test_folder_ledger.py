"""The ledger of a run: written where it can be, and what it says decides which run is continued."""

import contextlib
import os
import subprocess
import sys
import warnings

import pytest
from broken_off import Interrupted, StopAt

from delira.data_loading import BaseDataManager, BaseLazyDataset
from delira.runs.folder import RunFolder
from delira.utils import lock

pytestmark = pytest.mark.turns


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


def experiment_of(kit, path, **training):
    return kit.experiment(path, {"dropout": 0.4}, training={"save_freq": 1, **training})


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


def test_a_run_returns_its_result_though_the_last_line_of_its_ledger_cannot_be_written(kit, tmp_path, manager, caplog):
    expected = kit.read(experiment_of(kit, tmp_path / "unbroken").run(manager()))
    experiment = experiment_of(kit, tmp_path / "full")
    with FullDisk() as full, pytest.warns(RuntimeWarning, match="'finished' of .*ledger.jsonl could not be") as caught:
        network = experiment.run(manager(), callbacks=[full])
    assert len(caught) == 1
    assert "File too large" in str(caught[0].message)
    assert str(caught[0].message) in caplog.text
    assert kit.same(kit.read(network), expected)
    folder = only_folder(tmp_path / "full")
    assert names(folder) == ["started"]
    again = experiment.run(manager(), resume="auto")
    assert kit.same(kit.read(again), expected)
    assert names(folder) == ["started", "resumed", "finished"]


def test_the_first_line_of_a_ledger_must_be_written(tmp_path):
    with FullDisk(at_once=True), pytest.raises(OSError, match="File too large"):
        RunFolder(tmp_path).log("started")


def test_an_error_is_not_hidden_by_the_line_that_tells_of_it(tmp_path):
    folder = RunFolder(tmp_path)
    folder.log("started")
    with FullDisk(at_once=True), pytest.raises(Interrupted), folder.recorded():  # warnings are errors
        raise Interrupted
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


def test_a_cross_validation_returns_its_result_though_the_files_of_a_fold_cannot_be_written(kit, tmp_path, torn):
    def kfold(path, **options):
        data = BaseDataManager(torn, 1, bad_samples="skip")
        return experiment_of(kit, path).kfold(data, num_splits=2, shuffle=True, random_seed=0, **options)

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
        assert kit.same(fold.predictions, other.predictions)
        assert fold.left_out == other.left_out == {3: "OSError: torn"}
    kept = {path.name for path in (result.path / "fold_00").iterdir()}
    assert {"result.zip", "predictions.npz", "left_out.json"} <= kept
    assert not {"result.zip", "predictions.npz", "left_out.json"} & {
        path.name for path in (result.path / "fold_01").iterdir()
    }
    with pytest.warns(UserWarning, match="is left out"):
        again = kfold(tmp_path / "full", resume="auto")
    assert again.path == result.path
    assert kit.same(again.folds[1].predictions, expected.folds[1].predictions)
    assert (result.path / "fold_01" / "result.zip").exists()
    assert names(result.path)[-1] == "finished"


def test_auto_continues_a_finished_run_that_was_broken_off_when_it_was_extended(kit, tmp_path, manager):
    expected = kit.read(experiment_of(kit, tmp_path / "unbroken", num_epochs=4).run(manager()))
    experiment = experiment_of(kit, tmp_path / "run")
    experiment.run(manager())
    folder = only_folder(tmp_path / "run")
    with pytest.raises(Interrupted):
        experiment.resume(folder, manager(), num_epochs=4, callbacks=[StopAt(4)])
    network = experiment.run(manager(), num_epochs=4, resume="auto")
    assert only_folder(tmp_path / "run") == folder
    assert kit.same(kit.read(network), expected)
    assert names(folder) == ["started", "finished", "resumed", "broken_off", "resumed", "finished"]
    network = experiment.run(manager(), num_epochs=4, resume="auto")  # it has ended by now, and is read
    assert kit.same(kit.read(network), expected)
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
def test_auto_says_which_unfinished_run_it_passes_by_and_who_uses_it(kit, tmp_path, manager, monkeypatch, kind):
    monkeypatch.setattr(lock, "_PATIENCE", 0.2)  # seconds
    experiment = experiment_of(kit, tmp_path)
    options = {"num_splits": 2} if kind == "kfold" else {}
    call = getattr(experiment, kind)
    with pytest.raises(Interrupted):
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


def test_a_run_is_recorded_in_its_folder_wherever_the_program_goes(kit, tmp_path, manager, monkeypatch):
    class Leave:
        def at_epoch_begin(self, trainer, **facts):
            os.chdir(tmp_path / "other")

    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    experiment_of(kit, "runs").run(manager(), callbacks=[Leave()])
    assert names(only_folder(tmp_path / "runs")) == ["started", "finished"]
    assert list((tmp_path / "other").iterdir()) == []
