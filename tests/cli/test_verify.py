"""``delira verify``: which files a run must have, as far as it says so itself, and what is said of the others."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from edited_files import read_plain
from problems import linear_problem
from small_backends import toy_kit

from delira.callbacks.history import HistoryWriter
from delira.cli.runs import list_runs
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.runs.folder import RunFolder, locate_run
from delira.runs.stored_run import read_history
from delira.training import KFoldResult
from delira.training.callbacks import AbstractCallback
from delira.utils.files import unsealed


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Stop(AbstractCallback):
    """Breaks the second fold off at the end of an epoch."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def at_epoch_end(self, trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        if (trainer.fold, curr_epoch) == (1, self.epoch):
            raise KeyboardInterrupt


def cross_validate(
    path: Path, *callbacks: Any, resume: Path | None = None, num_epochs: int = 3, **settings: Any
) -> Path:
    """The folder of a run of two folds of three epochs each."""
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": num_epochs, "optimizer_params": {"lr": 0.05}}
    experiment = toy_kit().experiment(path, training=training, name="run", **{"save_freq": 1, **settings})
    experiment.kfold(data, num_splits=2, shuffle=True, random_seed=5, callbacks=list(callbacks), resume=resume)
    return next((path / "run").iterdir())


def break_off(path: Path, epoch: int, **settings: Any) -> Path:
    with pytest.raises(KeyboardInterrupt):
        cross_validate(path, Stop(epoch), **settings)
    return next((path / "run").iterdir())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cross_validate(tmp_path_factory.mktemp("made"), val_score_key="rmse")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A finished run that may be damaged."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def found(run: Path) -> dict[str, str]:
    """What is not whole, with its state."""
    return {check["what"]: check["state"] for check in verify([run]).content["files"] if check["state"] != "whole"}


def told(run: Path, part: str, what: str) -> str:
    return str(next(check["detail"] for check in verify([run]).content[part] if check["what"] == what))


@pytest.mark.parametrize(
    "names",
    [
        ["fold_01/checkpoints/checkpoint_last"],
        ["fold_00/checkpoints/checkpoint_previous"],
        ["fold_01/timings.json"],
        ["fold_00/predictions.npz"],
        ["fold_01/history.jsonl", "fold_01/history.csv"],
    ],
)
def test_what_a_finished_fold_must_have_is_named(run, names):
    assert found(run) == {}
    for name in names:
        (path,) = run.glob(f"{name}*")
        path.unlink()
    missing = found(run)
    assert {name.removesuffix(Path(name).suffix) for name in missing} == {
        name.removesuffix(Path(name).suffix) for name in names
    }
    assert set(missing.values()) == {"missing"}


@pytest.mark.parametrize(
    ("entry", "files"), [("states", "checkpoints/checkpoint_previous*"), ("checksums", "timings.json")]
)
def test_an_older_run_has_no_state_before_the_last_and_no_times(run, entry, files):
    path = run / "manifest.json"
    manifest = read_plain(path)
    del manifest[entry]
    path.write_text(json.dumps(manifest))
    for older in run.glob(f"fold_*/{files}"):
        older.unlink()
    assert found(run) == {}


def test_one_file_under_both_names_is_told(run):
    (last,) = run.glob("fold_00/checkpoints/checkpoint_last*")
    previous = last.with_name(last.name.replace("last", "previous"))
    previous.unlink()
    previous.hardlink_to(last)
    assert found(run) == {f"fold_00/checkpoints/{previous.name}": "broken"}
    (detail,) = [check["detail"] for check in verify([run]).content["files"] if check["state"] == "broken"]
    assert "another name of checkpoint_last" in detail


def test_pictures_of_samples_need_not_be_there_but_must_be_whole(run):
    path = run / "report" / "examples.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, image_0=np.zeros((90, 90), np.uint8))
    assert found(run) == {}
    path.write_bytes(path.read_bytes()[:100])
    assert found(run) == {"report/examples.npz": "broken"}


def test_numbered_checkpoints_may_be_deleted(run):
    numbered = list(run.glob("fold_*/checkpoints/checkpoint_epoch_*"))
    assert numbered
    for path in numbered:
        path.unlink()
    assert found(run) == {}


def test_what_was_left_out_of_the_data_can_be_read(run):
    (run / "fold_00" / "left_out.json").write_text('{"3": "it is no image"}')
    assert found(run) == {}
    (run / "fold_00" / "left_out.json").write_text('{"3":')
    assert found(run) == {"fold_00/left_out.json": "broken"}


def test_the_best_weights_of_a_run_that_went_back_may_be_under_their_number(run):
    path = next((run / "fold_00" / "checkpoints").glob("checkpoint_best*"))
    aside = path.rename(f"{path}.superseded")
    assert found(run) == {}
    aside.unlink()
    assert found(run) == {f"fold_00/checkpoints/{path.name}": "missing"}


@pytest.mark.parametrize(("epoch", "is_due"), [(1, False), (2, True)])
def test_a_fold_that_was_broken_off_needs_the_checkpoint_that_it_goes_on_from(tmp_path, epoch, is_due):
    run = break_off(tmp_path, epoch)
    assert found(run) == {}
    shutil.rmtree(run / "fold_01" / "checkpoints", ignore_errors=True)
    missing = [f"fold_01/checkpoints/checkpoint_{name}" for name in ("last", "previous")]
    assert found(run) == (dict.fromkeys(missing, "missing") if is_due else {})


@pytest.mark.parametrize("settings", [{"save_freq": None}, {"save_freq": 3}, {"on_save_error": "warn"}])
def test_a_checkpoint_that_the_settings_did_not_ask_for_is_not_missed(tmp_path, settings):
    run = break_off(tmp_path, 2, **settings)
    shutil.rmtree(run / "fold_01" / "checkpoints", ignore_errors=True)
    assert found(run) == {}


def test_a_fold_of_which_only_checkpoints_are_left_lacks_its_epochs(tmp_path):
    run = break_off(tmp_path, 2)
    (run / "fold_01" / "history.jsonl").unlink()
    (run / "fold_01" / "history.csv").unlink()
    assert found(run) == {"fold_01/history.jsonl": "missing", "fold_01/history.csv": "missing"}


def test_a_finished_training_without_its_folder_lacks_it(tmp_path):
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"num_epochs": 2, "optimizer_params": {"lr": 0.05}}
    toy_kit().experiment(tmp_path, training=training, name="single").run(data)
    (run,) = (tmp_path / "single").iterdir()
    assert found(run) == {}
    (run / "fold_00" / "timings.json").unlink()
    assert found(run) == {"fold_00/timings.json": "missing"}
    shutil.rmtree(run / "fold_00")
    assert found(run) == {"fold_00": "missing"}


def test_a_finished_run_that_goes_on_for_more_epochs_is_whole_while_its_results_are_those_of_the_first(tmp_path):
    path = cross_validate(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        cross_validate(tmp_path, Stop(5), resume=path, num_epochs=6)
    assert found(path) == {}
    lines = (path / "fold_01" / "history.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) > 3
    (path / "fold_01" / "history.jsonl").write_text("".join(lines[1:]))
    assert found(path) == {"fold_01/history.jsonl": "broken", "fold_01/history.csv": "broken"}


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A finished training of three epochs."""
    data = BaseDataManager(linear_problem(12, 3, 7), 4)
    training = {"val_metrics": {"rmse": rmse}, "val_score_key": "rmse", "optimizer_params": {"lr": 0.05}}
    toy_kit().experiment(tmp_path, training=training, name="run", num_epochs=3, save_freq=1).run(data, data)
    return next((tmp_path / "run").iterdir())


def test_a_changed_digit_of_an_epoch_is_noticed(single):
    path = single / "fold_00" / "history.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    whole = KFoldResult.load(single)
    assert found(single) == {}
    assert not whole.problems
    second = json.loads(lines[1])
    second["val_rmse"] /= 10  # it would be the best epoch
    path.write_text("".join([lines[0], json.dumps(second) + "\n", lines[2]]))
    assert found(single) == {"fold_00/history.jsonl": "broken"}
    changed = "1 of 3 epochs in history.jsonl left out: the checksum is another one"
    assert told(single, "files", "fold_00/history.jsonl") == changed
    loaded = KFoldResult.load(single)
    assert f"1 of 3 epochs in {path} left out: the checksum is another one" in loaded.warnings
    assert loaded.folds[0].history == [whole.folds[0].history[0], whole.folds[0].history[2]]
    (listed,) = list_runs(single.parent).content["runs"]
    assert any("1 of 3 epochs" in text for text in listed["problems"])


def test_a_torn_epoch_is_one_that_cannot_be_read(single):
    path = single / "fold_00" / "history.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert f"1 of 3 epochs in {path} cannot be read" in KFoldResult.load(single).warnings
    path.write_text(whole)
    assert found(single) == {}


def test_a_history_without_checksums_is_read_as_before(single):
    path = single / "fold_00" / "history.jsonl"
    records = [unsealed(json.loads(line)) for line in path.read_text().splitlines()]
    before = KFoldResult.load(single).folds[0].history
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert KFoldResult.load(single).folds[0].history == before == records
    assert found(single) == {}


def test_a_value_of_the_name_of_the_checksum_stays_the_users_own(tmp_path):
    history = [{"epoch": 1, "checksum": 0.5}, {"epoch": 2, "checksum": 0.25}]
    HistoryWriter(tmp_path).at_training_end(SimpleNamespace(state=SimpleNamespace(history=history)))
    assert read_history(tmp_path) == (history, "")


def test_a_changed_digit_of_the_table_of_epochs_is_noticed(single):
    table = single / "fold_00" / "history.csv"
    header, first, *rest = table.read_text().splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True)) | {"val_rmse": "0.125"}
    table.write_text("\n".join([header, ",".join(cells.values()), *rest]) + "\n")
    assert found(single) == {"fold_00/history.csv": "broken"}
    assert told(single, "files", "fold_00/history.csv").startswith("its 'val_rmse' of epoch 1 is '0.125', and was ")


def test_a_trainer_that_was_made_alone_has_no_manifest(run):
    assert found(Path(shutil.copytree(run / "fold_00", run.parent / "alone"))) == {}


@pytest.mark.parametrize("name", ["manifest.json", "result.json"])
def test_a_file_of_a_newer_version_is_neither_whole_nor_broken(run, name):
    path = run / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    answer = verify([run])
    assert (found(run), answer.is_broken) == ({name: "unknown"}, False)
    assert "written by a newer version of delira, which this one cannot read" in told(run, "files", name)
    n_files = len(answer.content["files"])
    assert f"{n_files - 1} of {n_files} are whole" in answer.text
    assert "none of 2 runs is known to be broken" in verify([run, run]).text


def test_a_result_of_a_newer_version_is_neither_whole_nor_broken(run, monkeypatch):
    monkeypatch.setattr("delira.cli.verify.results.RESULT_FORMAT", 0)
    assert found(run) == {"fold_00/result.zip": "unknown", "fold_01/result.zip": "unknown"}


@pytest.mark.parametrize("content", ["", "null", "[1]", "{"])
def test_what_cannot_be_read_is_told_in_words(run, content):
    for name in ("manifest.json", "result.json", "fold_00/timings.json"):
        (run / name).write_text(content)
        state, detail = found(run)[name], told(run, "files", name)
        assert (state, detail.startswith("it cannot be read")) == ("broken", True), detail
        assert not any(word in detail for word in ("Error", "NoneType", str(run)))


@pytest.mark.parametrize(("is_there", "words"), [(True, "cannot be read"), (False, "is missing")])
def test_without_a_manifest_nobody_says_that_the_run_did_not_record_its_versions(run, is_there, words):
    if is_there:
        (run / "manifest.json").write_text("{")
    else:
        (run / "manifest.json").unlink()
    for what in ("versions", "platform", "git"):
        assert told(run, "environment", what) == f"it would be in manifest.json, which {words}"


@pytest.mark.parametrize(
    "name", ["manifest.json", "fold_01/history.csv", "fold_01/checkpoints/checkpoint_last", "report/page.html"]
)
def test_a_file_names_the_run_that_it_is_in(run, name, monkeypatch):
    (run / "report").mkdir(exist_ok=True)
    (run / "report" / "page.html").touch()
    (path,) = run.glob(f"{name}*")
    assert locate_run(path) == run
    assert locate_run(path.parent) == run
    monkeypatch.chdir(path.parent)
    assert locate_run(path.name) == run


def test_a_file_that_is_in_no_run_is_said_to_be_a_file(run):
    path = run.parent / "notes.txt"
    path.touch()
    with pytest.raises(ConfigError, match="it is a file, and in no run; name the folder of a run"):
        verify([path])


def test_folders_of_runs_may_be_called_logs(run):
    logs = run.parent / "logs"
    logs.mkdir()
    (run.parent / "manifest.json").touch()
    assert locate_run(logs) == logs


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_last_line_of_the_ledger_that_was_cut_off_is_told_and_mended(tmp_path, is_finished, share):
    run = cross_validate(tmp_path) if is_finished else break_off(tmp_path, 2)
    ledger = run / "ledger.jsonl"
    *lines, last = ledger.read_bytes().splitlines(keepends=True)
    cut = b"".join(lines) + last[: max(1, int(share * len(last)))]
    ledger.write_bytes(cut)
    answer = verify([run])
    assert not answer.is_broken
    assert found(run) == {"ledger.jsonl": "cut off"}
    told_of = f"the last of {len(lines) + 1} lines of ledger.jsonl was cut off, as by a power loss; the next resume"
    assert told(run, "files", "ledger.jsonl").startswith(told_of)
    assert "cut off ledger.jsonl: the last of" in " ".join(answer.text.split())
    assert ledger.read_bytes() == cut
    assert cross_validate(tmp_path, resume=run) == run
    assert found(run) == {}
    assert ledger.read_bytes().startswith(b"".join(lines) + b"{")
    assert [json.loads(line)["event"] for line in ledger.read_text().splitlines()][-1] == "finished"


def test_a_last_line_that_lacks_only_its_end_is_whole(run):
    ledger = run / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-1])
    assert found(run) == {}
    RunFolder(run).log("resumed")
    assert ledger.read_bytes().startswith(whole + b"{")


@pytest.mark.parametrize("also_cut", [False, True])
def test_a_damaged_line_in_the_middle_of_the_ledger_is_broken(run, also_cut):
    ledger = run / "ledger.jsonl"
    first, second, *rest = ledger.read_bytes().splitlines(keepends=True)
    content = b"".join([first, second[:10] + b"\n", *rest])
    ledger.write_bytes(content[:-9] if also_cut else content)
    assert verify([run]).is_broken
    assert found(run)["ledger.jsonl"] == "broken"


def test_a_damaged_last_line_that_has_its_end_is_broken(run):
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-9] + b"\n")
    assert found(run)["ledger.jsonl"] == "broken"
