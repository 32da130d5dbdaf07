"""A run is read back from its folder: as the live result said, and with what is missing told."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edited_files import read_plain, write_lines
from problems import linear_problem
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.metrics import MeanSquaredError, per_sample
from delira.runs.folder import RunFolder
from delira.runs.results import SUMMARY
from delira.runs.stored_run import find_runs, read_run
from delira.training import KFoldResult, Parameters
from delira.training.callbacks import AbstractCallback
from delira.utils.lock import locked

ROOT = Path(__file__).parents[2]


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


@per_sample
def distance(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.abs(y_true - y_pred).mean())


def metrics() -> dict[str, Any]:
    sklearn = pytest.importorskip("sklearn.metrics")
    return {
        "rmse": rmse,
        "distance": distance,
        "r2": sklearn.r2_score,
        "pinball": functools.partial(sklearn.mean_pinball_loss, alpha=0.25),
        "mse_of_delira": MeanSquaredError(),
    }


class Stop(AbstractCallback):
    """Breaks a run off at the end of an epoch."""

    def __init__(self, fold: int, epoch: int, error: type[BaseException] = RuntimeError):
        self.at, self.error = (fold, epoch), error

    def at_epoch_end(self, trainer: Any, *, curr_epoch: int, **facts: Any) -> None:
        if (trainer.fold, curr_epoch) == self.at:
            raise self.error("the cable was pulled")


def cross_validate(path: Path, *callbacks: Any, **more: Any) -> KFoldResult:
    data = BaseDataManager(linear_problem(24, 3, 7, patient=np.arange(24) // 2), 4)
    training = {"val_metrics": {"rmse": rmse}, "save_freq": 1, "num_epochs": 3}
    experiment = toy_kit().experiment(path, training=training, val_score_key="rmse")
    options = {
        "metrics": metrics(),
        "groups_key": "patient",
        "num_splits": 3,
        "random_seed": 5,
        "shuffle": True,
        **more,
    }
    return experiment.kfold(data, callbacks=list(callbacks), **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> KFoldResult:
    return cross_validate(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def live(finished: KFoldResult, tmp_path: Path) -> Path:
    """The folder of a finished run, which may be changed."""
    folder = tmp_path / "UnnamedExperiment" / finished.path.name
    shutil.copytree(finished.path, folder)
    return folder


def broken_off(path: Path, *at: Any) -> Path:
    with pytest.raises(at[2] if len(at) > 2 else RuntimeError, match="cable"):
        cross_validate(path, Stop(*at))
    (folder,) = (path / "UnnamedExperiment").iterdir()
    return folder


# ---- what was finished


def test_a_loaded_result_shows_what_the_live_one_shows(finished):
    loaded = KFoldResult.load(finished.path, metrics={"rmse": rmse})
    assert str(loaded) == str(finished)
    for fmt in ("plain", "markdown", "latex", "html"):
        assert loaded.table(fmt) == finished.table(fmt)
    assert loaded.to_html() == finished.to_html()
    for mine, other in zip(loaded.folds, finished.folds, strict=True):
        np.testing.assert_array_equal(mine.test_indices, other.test_indices)
        np.testing.assert_array_equal(mine.predictions["pred"], other.predictions["pred"])
        same = ("history", "best_epoch", "best_score", "path", "timings", "seconds")
        assert [getattr(mine, name) for name in same] == [getattr(other, name) for name in same]
        assert mine.parameters.training_settings().keys() == other.parameters.training_settings().keys()
    np.testing.assert_array_equal(loaded.groups, finished.groups)
    assert loaded.problems == []


def test_a_function_that_is_nobodys_is_shown_as_the_run_has_stored_it(finished):
    KFoldResult.load(finished.path, metrics={"rmse": rmse}).summary()
    loaded = KFoldResult.load(finished.path)
    assert loaded.summary() == finished.summary()
    assert str(loaded) == str(finished)


def test_a_function_that_is_nobodys_is_shown_fold_by_fold_where_nothing_is_stored(finished):
    expected = finished.summary()
    (finished.path / "numbers.json").unlink(missing_ok=True)
    summary = KFoldResult.load(finished.path).summary()
    assert summary["rmse"]["mean"] == expected["rmse"]["mean"]
    assert np.isnan(summary["rmse"]["oof"])
    assert "not known here" in summary["rmse"]["note"]
    for name in ("distance", "r2", "pinball", "mse_of_delira"):  # a value for each sample needs no function
        assert summary[name] == expected[name]


def test_any_path_a_user_has_at_hand_leads_to_the_run(finished):
    run = finished.path
    for path in (run, str(run), run / "fold_01", run / "fold_01" / "checkpoints", run.parent, run.parent.parent):
        assert KFoldResult.load(path).path == run


def test_of_several_runs_the_newest_is_read(live):
    older = live.parent / "2001-02-03_04-05-06"
    shutil.copytree(live, older)
    assert find_runs(live.parent.parent) == [older, live]
    assert KFoldResult.load(live.parent).path == live


def test_no_framework_is_imported_and_the_folder_stays_as_it_is(live):
    KFoldResult.load(live).summary()  # keeps its numbers beside the folds, if nobody has asked for them before
    before = {path: path.stat().st_mtime_ns for path in live.rglob("*")}
    script = (
        "import sys; from delira.training import KFoldResult; KFoldResult.load(sys.argv[1]).to_html();"
        "print([name for name in ('torch', 'tensorflow', 'jax', 'keras') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, "-c", script, live], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert {path: path.stat().st_mtime_ns for path in live.rglob("*")} == before


def test_a_run_that_was_written_before_there_was_a_summary_is_read(live):
    (live / SUMMARY).unlink()
    manifest = read_plain(live / "manifest.json")
    del manifest["format"], manifest["room"], manifest["checksums"]
    manifest["options"]["groups_key"] = None
    (live / "manifest.json").write_text(json.dumps(manifest))
    loaded = KFoldResult.load(live)
    assert loaded.problems == []
    assert loaded.groups is None
    assert np.isfinite(loaded.summary()["r2"]["ci_low"])
    assert loaded.summary()["r2"]["oof"] == KFoldResult.load(live).summary()["r2"]["oof"]
    assert "optimizer_cls" in loaded.info["settings"]


def test_a_single_training_is_one_fold(tmp_path, manager):
    experiment = toy_kit().experiment(tmp_path, training={"val_metrics": {"rmse": rmse}, "num_epochs": 2})
    experiment.run(manager(12), manager(6), val_score_key="rmse")
    loaded = KFoldResult.load(tmp_path)
    (fold,) = loaded.folds
    assert fold.history == experiment.last_trainer.state.history
    assert fold.best_epoch == experiment.last_trainer.state.best_epoch
    assert loaded.problems == []
    assert loaded.title == f"{loaded.name}: a single training, 2 epochs, seed 0"
    assert "Learning curves" in loaded.to_html()
    assert read_run(tmp_path).metrics["val_rmse"] == fold.history[fold.best_epoch - 1]["val_rmse"]


def test_what_a_trainer_alone_left_is_shown_as_one_training(tmp_path, manager):
    trainer = toy_kit().experiment(tmp_path, training={"num_epochs": 2}).setup(training=True)
    trainer.train(2, manager(12))
    folder = trainer.save_path.parent
    loaded = KFoldResult.load(folder)
    assert read_run(folder).state == "unknown"
    assert [len(fold.history) for fold in loaded.unfinished] == [2]
    assert "a single training, 2 epochs" in loaded.title
    assert "Nothing says whether the run has ended, as it has no ledger.jsonl: one training." in loaded.problems[0]
    assert f"Go on with resume='{folder}'" in loaded.problems[0]
    for path in folder.rglob("checkpoint_*"):
        path.unlink()
    assert "resume" not in KFoldResult.load(folder).problems[0]


# ---- what is not whole


def test_a_run_that_was_broken_off_shows_its_finished_folds(tmp_path):
    folder = broken_off(tmp_path, 1, 2)
    loaded = KFoldResult.load(folder)
    assert [fold.fold for fold in loaded.folds] == [0]
    assert [(fold.fold, len(fold.history)) for fold in loaded.unfinished] == [(1, 2)]
    assert "broken off by an error: RuntimeError: the cable was pulled; 1 of 3 folds can be shown" in loaded.warnings[0]
    assert read_run(folder).state == "failed"


def test_without_a_finished_fold_there_is_what_there_is(tmp_path):
    folder = broken_off(tmp_path, 0, 3, KeyboardInterrupt)
    loaded = KFoldResult.load(folder)
    assert loaded.folds == []
    assert "0 of 3 folds can be shown" in str(loaded)
    assert loaded.summary() == {}
    page = loaded.to_html()
    assert "0 of 3 folds can be shown" in page
    assert "Learning curves" in page  # of the two epochs
    assert repr(loaded) == "KFoldResult('UnnamedExperiment', 0 folds, metrics=[])"
    assert read_run(folder).state == "broken off"


def test_an_error_without_words_is_told_by_its_name(tmp_path):
    folder = broken_off(tmp_path, 0, 3, KeyboardInterrupt)
    ledger = folder / "ledger.jsonl"
    write_lines(ledger, lambda event: event | ({"error": "KeyboardInterrupt: "} if "error" in event else {}))
    assert read_run(folder).error == "KeyboardInterrupt"
    assert "The run is broken off: KeyboardInterrupt; 0 of 3 folds" in str(KFoldResult.load(folder))
    with pytest.raises(KeyboardInterrupt), RunFolder(folder).recorded():
        raise KeyboardInterrupt
    assert json.loads(ledger.read_text().splitlines()[-1])["error"] == "KeyboardInterrupt"


def test_a_run_in_which_nothing_was_done_yet(tmp_path):
    loaded = KFoldResult.load(_begun(tmp_path))
    assert "is missing" in str(loaded)
    assert loaded.to_html()


def _begun(path: Path) -> Path:
    folder = RunFolder.create(path)
    folder.log("started")
    return folder.path


def test_a_run_that_is_being_written_says_by_whom(live):
    with locked(live):
        run = read_run(live)
        assert run.state == "running"
        assert f"The run is running, by this process, {os.getpid()}" in KFoldResult.load(live).problems[0]
    assert read_run(live).state == "finished"


def test_a_run_of_another_process_is_running(live):
    script = "import sys; from delira.utils.lock import locked\nwith locked(sys.argv[1]): print('in'); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", script, live],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == "in\n"
        assert f"process {other.pid} on" in str(read_run(live).owner)
        assert read_run(live).state == "running"
        other.stdin.close()
    assert read_run(live).state == "finished"


@pytest.mark.sampled("half")
@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
def test_a_damaged_fold_is_named_and_the_rest_is_shown(live, how):
    path = live / "fold_01" / "result.zip"
    content = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    else:
        content[len(content) // 2] ^= 255
        path.write_bytes(content[:-100] if how == "cut" else content)
    loaded = KFoldResult.load(live)
    assert [fold.fold for fold in loaded.folds] == [0, 2]
    assert [fold.fold for fold in loaded.unfinished] == [1]
    assert any(str(path) in problem for problem in loaded.problems)
    assert any("2 of 3 folds can be shown" in problem for problem in loaded.problems)
    assert "r2" in loaded.table()


@pytest.mark.parametrize("name", ["manifest.json", SUMMARY, "parameters.yml"])
@pytest.mark.parametrize("content", ["{", "[1]", "{}"])
def test_a_damaged_file_is_named_and_the_folds_are_shown(live, name, content):
    (live / name).write_text(content)
    loaded = KFoldResult.load(live)
    assert len(loaded.folds) == 3
    assert loaded.title
    if (name, content) != ("manifest.json", "{}"):
        assert any(str(live / name) in problem for problem in loaded.problems)


def test_parameters_that_were_cut_and_are_yaml_still_are_not_taken_for_whole(live):
    path = live / "parameters.yml"
    path.write_text(path.read_text().partition("variable:")[0] + "variable: {}\n")
    Parameters.load(path)
    assert [problem for problem in KFoldResult.load(live).problems if "its checksum is not" in problem]


@pytest.mark.parametrize("how", ["missing", "cut", "of a later version", "with the manifest"])
def test_without_its_groups_a_run_has_no_intervals(live, finished, how):
    path = live / SUMMARY
    if how == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif how == "of a later version":
        path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    else:
        path.unlink()
    key = "by which the cases were split, are lost"
    if how == "with the manifest":
        (live / "manifest.json").unlink()
        key = "it is not known whether the cases were split by groups"
    loaded = KFoldResult.load(live, metrics=metrics())
    assert len(loaded.folds) == 3
    for name, row in loaded.summary().items():
        assert row["oof"] == finished.summary()[name]["oof"]
        assert np.isnan([row["ci_low"], row["ci_high"]]).all()
        assert key in row["note"]
    told = [problem for problem in loaded.problems if problem.startswith(str(path))]
    assert [problem.endswith("; groups and warnings of the run are not known") for problem in told] == [True]
    assert any("there are no intervals" in problem and key in problem for problem in loaded.problems)
    assert "Intervals: percentile bootstrap" not in str(loaded)


def test_a_run_without_groups_keeps_its_intervals_when_the_file_of_the_result_is_lost(tmp_path):
    live = cross_validate(tmp_path, groups_key="")
    (live.path / SUMMARY).unlink()
    loaded = KFoldResult.load(live.path, metrics=metrics())
    assert loaded.summary() == live.summary()
    assert loaded.problems == [f"{live.path / SUMMARY} is missing; warnings of the run are not known"]


def of_patients(y_true: np.ndarray, y_pred: np.ndarray, patient: np.ndarray) -> float:
    return float(np.mean([np.abs(y_true - y_pred)[patient == one].mean() for one in np.unique(patient)]))


def test_groups_that_a_metric_read_are_found_in_the_folds(tmp_path):
    asked = {"metrics": {"by_patient": of_patients}, "metric_keys": {"by_patient": ("label", "pred", "patient")}}
    live = cross_validate(tmp_path, **asked)
    (live.path / SUMMARY).unlink()
    (row,) = KFoldResult.load(live.path, metrics=asked["metrics"]).summary().values()
    assert row["n_groups"] == live.summary()["by_patient"]["n_groups"] == 12
    shutil.rmtree(live.path / "fold_01")
    page = KFoldResult.load(live.path, metrics=asked["metrics"]).to_html()
    assert re.search(r"<dt>Groups</dt><dd>\d+</dd>", page)  # how many there were in the lost fold is not known


@pytest.mark.sampled("half")
@pytest.mark.parametrize("how", ["missing", "garbage"])
def test_without_manifest_and_ledger_the_files_of_the_folds_tell_what_was_done(live, finished, how):
    for name in ("manifest.json", "ledger.jsonl"):
        (live / name).unlink() if how == "missing" else (live / name).write_bytes(b"\x00garbage\n")
    run, loaded = read_run(live), KFoldResult.load(live, metrics={"rmse": rmse})
    assert (run.kind, run.state, [*run.finished_folds], run.n_folds) == ("kfold", "unknown", [0, 1, 2], None)
    means = read_run(finished.path).metrics
    assert run.metrics == pytest.approx(means)
    assert (loaded.kind, len(loaded.folds), loaded.name) == ("kfold", 3, finished.name)
    assert loaded.summary() == finished.summary()
    why = "it has no ledger.jsonl" if how == "missing" else "its ledger.jsonl cannot be read"
    assert f"as {why}: 3 folds can be shown; how many there were to be is not known." in loaded.problems[0]
    assert not any("resume" in problem for problem in loaded.problems)
    (told,) = (problem for problem in loaded.problems if problem.startswith(str(live / "manifest.json")))
    assert told.endswith("; settings, versions and seed are those in result.json")
    assert "<dd>3 of" not in loaded.to_html()
    (live / SUMMARY).unlink()
    assert any(problem.endswith("; settings, versions and seed are lost") for problem in read_run(live).problems)
    lost = KFoldResult.load(live)
    assert lost.seed is None
    assert lost.title.endswith("seed not known")
    assert "<dt>Seed</dt><dd>–</dd>" in lost.to_html()
    assert "<dt>Date</dt><dd>–</dd>" in lost.to_html()


def test_a_finished_run_without_its_manifest_has_the_folds_of_the_ledger(live):
    (live / "manifest.json").unlink()
    assert read_run(live).n_folds == 3
    shutil.rmtree(live / "fold_01")
    assert KFoldResult.load(live).problems[0] == "The run has finished: 2 of 3 folds can be shown."


def test_a_run_that_was_broken_off_cannot_go_on_without_its_manifest(tmp_path):
    folder = broken_off(tmp_path, 1, 2)
    assert "Go on with resume=" in KFoldResult.load(folder).problems[0]
    (folder / "manifest.json").unlink()
    told = KFoldResult.load(folder).problems[0]
    assert "1 fold can be shown; how many there were to be is not known." in told
    assert "resume" not in told


def test_a_single_training_without_manifest_and_ledger_stays_one(tmp_path, manager):
    experiment = toy_kit().experiment(tmp_path, training={"num_epochs": 2})
    experiment.run(manager(12), manager(6))
    for name in ("manifest.json", "ledger.jsonl"):
        next(tmp_path.rglob(name)).unlink()
    assert read_run(tmp_path).kind == "run"
    assert read_run(tmp_path).n_folds == 1


def test_a_folder_of_a_finished_fold_that_is_gone_is_named(live):
    shutil.rmtree(live / "fold_01")
    loaded = KFoldResult.load(live)
    assert f"{live / 'fold_01'} is missing, though the ledger says that fold 1 has finished" in loaded.problems


def test_a_ledger_that_cannot_be_read_at_all_stops_nothing(live):
    (live / "ledger.jsonl").unlink()
    (live / "ledger.jsonl").mkdir()
    loaded = KFoldResult.load(live)
    assert len(loaded.folds) == 3
    assert any("ledger.jsonl cannot be read" in problem for problem in loaded.problems)


def test_the_page_of_a_part_says_of_how_many_folds(live):
    (live / "fold_01" / "result.zip").unlink()
    assert "<dd>2 of 3" in KFoldResult.load(live).to_html()


def test_lines_of_the_ledger_and_of_a_history_that_cannot_be_read_are_counted(tmp_path):
    folder = broken_off(tmp_path, 1, 3)
    for path in (folder / "ledger.jsonl", folder / "fold_01" / "history.jsonl"):
        path.write_bytes(b'{"half": \n' + path.read_bytes())
    problems = "\n".join(KFoldResult.load(folder).problems)
    assert f"lines of {folder / 'ledger.jsonl'} cannot be read" in problems
    assert f"1 of 4 epochs in {folder / 'fold_01' / 'history.jsonl'} cannot be read" in problems


@pytest.mark.parametrize("epoch", ["x", None, 1.5])
def test_an_epoch_without_its_number_is_counted_as_one_that_cannot_be_read(tmp_path, epoch):
    folder = broken_off(tmp_path, 1, 3)
    path = folder / "fold_01" / "history.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "epoch": epoch}), *rest]) + "\n")
    problems = "\n".join(KFoldResult.load(folder).problems)
    assert f"1 of {1 + len(rest)} epochs in {path} cannot be read" in problems


def test_a_run_of_a_later_version_says_so(live):
    manifest = read_plain(live / "manifest.json")
    manifest["format"], manifest["versions"]["delira"] = 7, "9.9"
    (live / "manifest.json").write_text(json.dumps(manifest))
    loaded = KFoldResult.load(live)
    assert any("has the format 7, written by delira 9.9" in problem for problem in loaded.problems)
    assert len(loaded.folds) == 3


def test_where_there_is_no_run_it_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no run in .*: a run has a manifest"):
        KFoldResult.load(tmp_path)
    with pytest.raises(ConfigError, match="there is no such folder"):
        KFoldResult.load(tmp_path / "nowhere")


def test_metrics_that_the_run_does_not_have_are_refused(finished):
    with pytest.raises(ConfigError, match="the run has no metric 'rsme'; did you mean 'rmse'"):
        KFoldResult.load(finished.path, metrics={"rsme": rmse})


def test_numbers_of_numpy_stay_numbers(tmp_path):
    loaded = KFoldResult.load(cross_validate(tmp_path, random_seed=np.int64(3)).path)
    assert loaded.seed == 3
    assert not loaded.problems


class Shown:
    """A logger that needs a password."""

    def __init__(self, password: str):
        self.password = password

    def show_value(self, value: Any, name: str) -> None:
        pass


def test_a_password_is_in_no_report(tmp_path):
    training = {"num_epochs": 1, "logging_type": Shown, "logging_kwargs": {"password": "open sesame"}}
    experiment = toy_kit().experiment(tmp_path, training=training)
    result = experiment.kfold(BaseDataManager(linear_problem(12, 3, 7), 4), num_splits=2)
    loaded = KFoldResult.load(result.path)
    for shown in (result, loaded):
        assert "password" in shown.to_html()
        assert "sesame" not in shown.to_html()
    assert "sesame" not in (result.path / SUMMARY).read_text()


# ---- what a stranger may have written


@pytest.mark.parametrize(
    "metric",
    [
        {"$object": "os:getcwd"},
        {"$object": "delira.experiments.result:KFoldResult"},
        {"$object": "sklearn.metrics._x:os"},
        {"$object": "my.sklearn.metrics:r2_score"},
        {"$call": "os:mkdir", "arguments": {"path": "broken-in"}},
        {"$partial": "os:mkdir", "args": ["broken-in"]},
        {"$partial": "delira.metrics.functions:accuracy", "args": [{"$object": "os:mkdir"}]},
        {"$partial": "sklearn.metrics._regression:r2_score", "arguments": {"x": {"$call": "os:mkdir", "args": ["a"]}}},
        "os.getcwd",
        ["os"],
        None,
        3,
    ],
)
def test_nothing_that_a_file_names_is_run(live, metric, monkeypatch):
    monkeypatch.chdir(live)
    summary = read_plain(live / SUMMARY)
    summary["metrics"]["r2"] = {"metric": metric, "criterion": None}
    (live / SUMMARY).write_text(json.dumps(summary))
    loaded = KFoldResult.load(live)
    assert "r2" not in loaded.metrics
    assert not list(live.rglob("broken-in"))
