"""``delira work``: folds of a run that a script, another command or another machine began."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from delira import cli
from delira.experiments.experiment_file import FILE_NAME
from delira.experiments.search_result import SearchResult
from delira.runs.folder import RunFolder

ROOT = Path(__file__).parents[2]

SCRIPT = '''
"""Lines through the origin, slowly."""

import functools
import sys
import time

import numpy as np

from delira.callbacks import AbstractCallback
from delira.data_loading import BaseDataManager
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error
from delira.training import Parameters


class Line(ToyNetwork):
    """A network of the script's own."""


class Slow(AbstractCallback):
    """Takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def at_epoch_end(self, trainer, **facts):
        time.sleep(self.seconds)


def error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def numbers(n=12, slope=2.0):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 1))
    return BaseDataManager({"data": data, "label": slope * data}, 4)


def experiment(seconds, variable=None):
    training = {
        "losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD, "optimizer_params": {"lr": 0.1},
        "num_epochs": 3, "verbose": 0, "save_freq": 1, "callbacks": [Slow(seconds)],
    }
    params = Parameters({"model": {"n_features": 1}, "training": training}, variable or {})
    return ToyExperiment(params, Line, name="lines", save_path="runs")


def searched(seconds):
    from delira.search import Float

    return experiment(seconds, {"training": {"optimizer_params": {"lr": Float(0.01, 0.3, log=True)}}})


if __name__ == "__main__":
    kind, seconds = sys.argv[1], float(sys.argv[2])
    if kind == "once":
        experiment(seconds).run(numbers())
    else:
        load = functools.partial(numbers, n=15)
        given = {"manager": load(), "lambda": lambda: load()}.get(kind, load)
        options = {"num_splits": 4, "shuffle": True, "random_seed": 1, "val_split": None, "metrics": {"error": error}}
        if kind == "search":
            given, options = load, {**options, "num_splits": 2, "n_trials": 16, "metric": "error", "direction": "min"}
            searched(seconds).tune(given, **options, resume="auto")
            sys.exit()
        made = experiment(seconds)
        print(made.learning_curve(given, (4, 1.0), **options) if kind == "sizes" else made.kfold(given, **options))
'''


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Run the script, and return what it printed; or start it, and return the process."""
    (tmp_path / "lines.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    begun = []

    def start(kind, seconds=0.0, *, wait=True):
        command = [sys.executable, "lines.py", kind, str(seconds)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        begun.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return begun[-1].communicate()[0] if wait else begun[-1]

    yield start
    sys.modules.pop("lines", None)
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def work(script, capsys):
    """What the command says: exit code, standard output and error stream."""

    def call(*words):
        try:
            code = cli.main(["work", *map(str, words)])
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    return call


def only_folder():
    (folder,) = Path("runs/lines").glob("2*")
    return RunFolder(folder)


def folds(folder, event):
    return sorted(each["fold"] for each in folder.events() if each["event"] == event)


def wait_for_a_fold(process, event="fold_started"):
    for _ in range(600):
        if [*Path("runs/lines").glob("2*")] and any(each["event"] == event for each in only_folder().events()):
            return only_folder()
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError("it did not begin")


def test_a_run_that_a_script_began_is_shared(script, work):
    process = script("function", 0.4, wait=False)
    folder = wait_for_a_fold(process)
    code, out, err = work("runs/lines", "--import", "lines.py")
    assert code == 0, err
    printed = process.communicate()[0]
    assert printed.strip() in out
    assert f"folder  {folder.path}" in out
    assert folds(folder, "fold_finished") == folds(folder, "fold_started") == [0, 1, 2, 3]
    assert len({each["worker"] for each in folder.events() if each["event"] == "fold_started"}) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a script is killed")
@pytest.mark.parametrize(
    "kind", ["function", *(pytest.param(each, marks=pytest.mark.slow) for each in ("manager", "lambda"))]
)
def test_what_a_killed_script_left_is_finished_from_a_shell(script, work, kind):
    process = script(kind, 0.3, wait=False)
    folder = wait_for_a_fold(process)
    process.kill()
    process.communicate()
    words = [] if kind == "function" else ["--data", "lines:numbers", "--data-arguments", "{n: 15}"]
    if words:
        code, _, err = work(folder.path, "--import", "lines.py")
        assert code == 2
        assert f"{FILE_NAME} names no data" in err
        assert "--data module:function" in err
        code, _, err = work(folder.path, "--import", "lines.py", "--data", "lines:numbers")
        assert code == 2
        assert re.search("cannot be continued: its .*data", err)
    code, out, err = work(folder.path, "--import", "lines.py", *words, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["path"], told["folds"]) == (str(folder.path), [0, 1, 2, 3])
    assert folds(folder, "fold_finished") == [0, 1, 2, 3]
    again = json.loads(work(folder.path, "--import", "lines.py", *words, "--json")[1])
    assert again == told
    assert folds(folder, "fold_finished") == [0, 1, 2, 3]


def test_what_a_killed_learning_curve_left_is_finished_from_a_shell(script, work):
    process = script("sizes", 0.3, wait=False)
    folder = wait_for_a_fold(process)
    process.kill()
    process.communicate()
    code, out, err = work(folder.path, "--import", "lines.py", "--json")
    assert code == 0, err
    assert [*json.loads(out)["sizes"]] == ["4", "11"]
    assert folds(folder, "fold_finished") == [*range(8)]


def test_what_a_killed_search_left_is_finished_from_a_shell(script, work, tmp_path):
    pytest.importorskip("optuna", reason="searches are made with the package 'optuna', which is not installed")
    process = script("search", 0.1, wait=False)
    folder = wait_for_a_fold(process, "trial_started")
    process.kill()
    process.communicate()
    code, out, err = work(folder.path, "--import", "lines.py", "--json")
    assert code == 0, err
    assert f"{folder.path}" in out
    ended = sorted(each["trial"] for each in folder.events() if each["event"] == "trial_finished")
    assert ended == [*range(16)]
    found = SearchResult.load(folder.path)
    shutil.move("runs", "worked")
    script("search", 0.0)
    quiet = SearchResult.load(only_folder().path)
    assert [trial.values for trial in found.trials] == [trial.values for trial in quiet.trials]
    assert [trial.scores for trial in found.trials] == [trial.scores for trial in quiet.trials]


def test_what_cannot_be_worked_at_is_refused_with_the_reason(script, work):
    script("function")
    folder = only_folder()
    code, _, err = work(folder.path)
    assert code == 2
    assert "--import SCRIPT.py" in err
    assert "model_cls" in err
    code, _, err = work(folder.path, "--import", "lines.py", "--data", "lines")
    assert code == 2
    assert "data must be a function at the top of a module" in err
    code, _, err = work(folder.path, "--import", "lines.py", "--data", "lines:letters")
    assert code == 2
    assert "lines:letters" in err
    code, _, err = work(folder.path, "--import", "lines.py", "--data-arguments", "[1, 2]")
    assert code == 2
    assert "data_arguments" in err
    for seconds in ("0", "-1", "nan"):
        code, _, err = work(folder.path, "--import", "lines.py", "--takeover-after", seconds)
        assert code == 2
        assert "takeover_after" in err
    (folder.path / FILE_NAME).unlink()
    code, _, err = work(folder.path, "--import", "lines.py")
    assert code == 2
    assert f"has no {FILE_NAME}" in err
    code, _, err = work("nowhere")
    assert code == 2


def test_a_single_training_is_refused(script, work):
    script("once")
    code, _, err = work("runs/lines", "--import", "lines.py")
    assert code == 2
    assert "is a single training" in err
