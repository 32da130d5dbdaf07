"""Trials of a search that runs, in trackers: each as it ends, once, by who asked for the search."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from executors import EXECUTORS, executor_called
from problems import linear_problem
from small_backends import toy_kit
from test_tuning import SPLITS, Fail, experiment, tune

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.search_result import SearchResult
from delira.experiments.tracked_trials import MARK
from delira.logging.handlers import MessageFileHandler, MessageHandler

pytest.importorskip("optuna")

ROOT = Path(__file__).parents[2]
ONE = logging.NullHandler()


class Written:
    """A tracker: a file for each run, named by the trial and by how often it was asked for it."""

    def __init__(self, folder, away=(), pause=0.0):
        self.folder, self.away, self.pause = folder, set(away), pause
        self.trials = []
        #: what no other process could be sent
        self.lock = threading.Lock()

    def __call__(self, trial):
        if trial.number in self.away:
            raise ConnectionError("nobody answers")
        time.sleep(self.pause)
        self.trials.append(trial.number)
        return MessageFileHandler(self.folder / f"{trial.number}_{os.getpid()}_{len(self.trials)}.jsonl")


def marked(result):
    return [trial.number for trial in result.trials if (trial.path / MARK).exists()]


def test_each_trial_is_written_as_it_ends(tmp_path):
    seen = []

    def handler_of(trial):
        run = next((tmp_path / "search").glob("*/*"))
        begun = len([*run.glob("trials/trial_*")])
        seen.append((trial.number, begun, (trial.path / "trial.json").exists(), (trial.path / MARK).exists()))
        return MessageFileHandler(tmp_path / f"{trial.number}.jsonl")

    result = tune(toy_kit(), tmp_path / "search", asked={"log_to": handler_of, "n_trials": 3})
    assert seen == [(0, 1, True, False), (1, 2, True, False), (2, 3, True, False)]
    assert marked(result) == [0, 1, 2]
    for trial in result.trials:
        lines = [json.loads(line) for line in (tmp_path / f"{trial.number}.jsonl").read_text().splitlines()]
        folds = [(each["step"], each["value"]) for each in lines if each["name"] == "fold/rmse"]
        assert folds == [(fold, value) for fold, (value,) in enumerate(trial.fold_scores)]
        assert len(folds) == 3
        assert [each["value"] for each in lines if each["name"] == "rmse"] == [*trial.scores]
    assert not verify([str(result.path)]).is_broken


def test_a_search_that_goes_on_writes_only_what_is_new(tmp_path):
    first = Written(tmp_path / "first")
    tune(toy_kit(), tmp_path / "search", asked={"log_to": first, "n_trials": 3})
    second = Written(tmp_path / "second")
    asked = {"log_to": second, "n_trials": 5, "resume": "auto"}
    result = tune(toy_kit(), tmp_path / "search", asked=asked)
    assert (first.trials, second.trials) == ([0, 1, 2], [3, 4])
    assert marked(result) == [0, 1, 2, 3, 4]
    assert len([*(tmp_path / "search").glob("*/*")]) == 1


def test_a_search_that_goes_on_from_its_mirror_writes_only_what_is_new(tmp_path):
    pytest.importorskip("fsspec")
    asking = {"mirror": f"file://{tmp_path}/store", "resume": "auto"}
    tune(toy_kit(), tmp_path / "here", asked={**asking, "log_to": Written(tmp_path / "runs"), "n_trials": 2})
    tracker = Written(tmp_path / "runs")
    tune(toy_kit(), tmp_path / "there", asked={**asking, "log_to": tracker, "n_trials": 3})
    assert tracker.trials == [2]


def test_trials_of_a_session_without_a_tracker_are_written_when_there_is_one(tmp_path):
    tune(toy_kit(), tmp_path / "search", asked={"n_trials": 2})
    tracker = Written(tmp_path / "runs")
    tune(toy_kit(), tmp_path / "search", asked={"log_to": tracker, "n_trials": 3, "resume": "auto"})
    assert tracker.trials == [0, 1, 2]


def test_what_ended_otherwise_is_written_too(tmp_path):
    tracker = Written(tmp_path / "runs")
    asked = {"log_to": tracker, "n_trials": 10, "pruner": "median", "callbacks": [Fail(0.02, 0.05)]}
    result = tune(toy_kit(), tmp_path / "search", asked=asked)
    assert {trial.state for trial in result.trials} == {"finished", "pruned", "failed"}
    assert tracker.trials == [*range(10)]


def test_processes_run_trials_and_this_one_writes_them(tmp_path):
    tracker = Written(tmp_path / "runs")
    result = tune(toy_kit(), tmp_path / "search", asked={"log_to": tracker, "n_trials": 4, "n_jobs": 2})
    assert sorted(tracker.trials) == [0, 1, 2, 3]
    assert {path.name.split("_")[1] for path in (tmp_path / "runs").iterdir()} == {str(os.getpid())}
    assert marked(result) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", EXECUTORS)
def test_wherever_trials_run_who_asked_writes_them(tmp_path, name):
    tracker = Written(tmp_path / "runs")
    with executor_called(name, tmp_path) as executor:
        asked = {"log_to": tracker, "n_trials": 4, "executor": executor}
        tune(toy_kit(), tmp_path / "search", asked=asked)
    assert sorted(tracker.trials) == [0, 1, 2, 3]


# ---- a tracker that fails


def test_a_tracker_that_is_away_ends_nothing_and_gets_the_trial_later(tmp_path, caplog):
    away = Written(tmp_path / "runs", away=[1])
    result = tune(toy_kit(), tmp_path / "search", asked={"log_to": away, "n_trials": 3})
    assert [trial.state for trial in result.trials] == ["finished"] * 3
    assert (away.trials, marked(result)) == ([0, 2], [0, 2])
    told = [record.getMessage() for record in caplog.records if "tracker" in record.getMessage()]
    assert len(told) == 1
    assert "trial 1 has not reached its tracker" in told[0]
    assert "ConnectionError: nobody answers" in told[0]
    back = Written(tmp_path / "runs")
    tune(toy_kit(), tmp_path / "search", asked={"log_to": back, "n_trials": 3, "resume": result.path})
    assert back.trials == [1]


def test_a_result_writes_what_is_missing(tmp_path):
    away = Written(tmp_path / "runs", away=[0, 2])
    tune(toy_kit(), tmp_path / "search", asked={"log_to": away, "n_trials": 3})
    for expected in ([0, 2], []):
        tracker = Written(tmp_path / "runs")
        SearchResult.load(tmp_path / "search").log_to(tracker, only_missing=True)
        assert tracker.trials == expected
    again = Written(tmp_path / "again")
    SearchResult.load(tmp_path / "search").log_to(again)
    assert again.trials == [0, 1, 2]
    with pytest.raises(ConfigError, match="only_missing"):
        SearchResult.load(tmp_path / "search").log_to(again, only_missing="yes")


class Full(MessageHandler):
    def show(self, message, place):
        if message.name == "fold/rmse" and message.step == 1:
            raise OSError("no place left")


def test_a_trial_of_which_a_part_is_missing_is_not_taken_as_written(tmp_path, caplog):
    made = []
    asked = {"log_to": lambda trial: made.append(Full()) or made[-1], "n_trials": 2}
    result = tune(toy_kit(), tmp_path, asked=asked)
    assert marked(result) == []
    assert [handler.has_failed for handler in made] == [True, True]
    assert "trial 1 has not reached its tracker, and the search goes on: it missed a part" in caplog.text


@pytest.mark.parametrize(
    ("handler_of", "why"),
    [
        (lambda trial: "mlflow", "log_to needs a handler of delira.logging for each trial, got 'mlflow'"),
        (lambda trial: ONE, "one handler for two trials"),
    ],
)
def test_what_makes_no_handlers_of_their_own_is_told(tmp_path, caplog, handler_of, why):
    result = tune(toy_kit(), tmp_path, asked={"log_to": handler_of, "n_trials": 4})
    assert len(result.trials) == 4
    assert not {1, 2, 3} & {*marked(result)}
    assert caplog.text.count(why) == caplog.text.count("reaches its tracker, and the search goes on") == 1


def test_a_trial_whose_mark_cannot_be_written_is_told(tmp_path, caplog):
    def handler_of(trial):
        (trial.path / MARK).mkdir()  # a file cannot take its name
        return logging.NullHandler()

    tune(toy_kit(), tmp_path, asked={"log_to": handler_of, "n_trials": 1})
    assert "trial 0 is in its tracker, which could not be noted, so it may be written twice" in caplog.text


def test_what_is_no_function_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(ConfigError, match="log_to needs a function that makes a handler for a trial, got 'mlflow'"):
        tune(toy_kit(), tmp_path, asked={"log_to": "mlflow"})
    assert not [*tmp_path.rglob("manifest.json")]


# ---- what it is no part of


def test_it_is_in_no_file_of_a_search_or_an_experiment(tmp_path):
    with_one = tune(toy_kit(), tmp_path / "with", asked={"log_to": Written(tmp_path / "runs"), "n_trials": 1})
    without = tune(toy_kit(), tmp_path / "without", asked={"n_trials": 1})
    plans = [(result.path / "experiment.yml").read_text() for result in (with_one, without)]
    assert plans[0].replace(str(tmp_path / "with"), "") == plans[1].replace(str(tmp_path / "without"), "")
    texts = [path.read_text() for path in with_one.path.glob("*") if path.suffix in (".json", ".jsonl", ".yml")]
    assert texts
    assert not any("log_to" in text for text in texts)
    with pytest.raises(ConfigError, match="tune takes no 'log_to'"):
        experiment(toy_kit(), tmp_path).save(tune={"n_trials": 1, "log_to": print})


SCRIPT = """
import sys
from pathlib import Path
from test_tuning import tune
from small_backends import toy_kit
from test_tracked_searches import Written

tracker = Written(Path(sys.argv[2]), pause=1.5)  # the other one looks twice in a second
result = tune(toy_kit(), sys.argv[1], asked={"n_trials": 5, "log_to": tracker, "resume": "auto"})
print(len(tracker.trials), len(result.trials))
"""


@pytest.mark.slow
def test_of_two_programs_that_share_a_search_one_writes_each_trial(tmp_path):
    places = os.pathsep.join(map(str, (ROOT / "tests", Path(__file__).parent, ROOT)))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "search"), str(tmp_path / "runs")]
    options = {"env": {**os.environ, "PYTHONPATH": places}, "text": True, "stdout": subprocess.PIPE}
    programs = [subprocess.Popen(command, **options) for _ in range(2)]
    told = [program.communicate(timeout=100)[0].split() for program in programs]
    assert [program.returncode for program in programs] == [0, 0]
    assert [n_trials for _, n_trials in told] == ["5", "5"]
    runs = sorted(int(path.name.split("_")[0]) for path in (tmp_path / "runs").iterdir())
    assert runs == [*range(5)]
    assert len([*(tmp_path / "search").glob("*/*")]) == 1


def test_who_only_helps_writes_nothing(tmp_path):
    result = tune(toy_kit(), tmp_path / "search", asked={"n_trials": 1})
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    experiment(toy_kit(), tmp_path / "search").tune(data, n_trials=2, **SPLITS, resume=result.path)
    tracker = Written(tmp_path / "runs")
    tune(toy_kit(), tmp_path / "search", asked={"log_to": tracker, "n_trials": 2, "resume": "auto"})
    assert tracker.trials == [0, 1]
