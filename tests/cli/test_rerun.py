"""``delira rerun``: a run again from what its folder says, and where it first differs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from edited_files import read_plain, write_lines

from delira import cli
from delira.cli.verify import verify
from delira.experiments.experiment_file import FILE_NAME
from delira.experiments.result import KFoldResult
from delira.runs import weight_hashes
from delira.runs.folder import RunFolder
from delira.utils import lock

ROOT = Path(__file__).parents[2]

SCRIPT = '''
"""Lines through the origin."""

import functools
import os
import sys

import numpy as np

from delira.callbacks import AbstractCallback
from delira.data_loading import BaseDataManager
from delira.testing import ToyExperiment, ToyNetwork, ToySGD
from delira.training import Parameters

FACTOR = {1: 1.0, 2: 1.0, 3: 0.5}


class Line(ToyNetwork):
    """A network of the script's own."""


class Rates(AbstractCallback):
    """Changes the learning rate after an epoch."""

    def at_epoch_end(self, trainer, curr_epoch, **facts):
        trainer.optimizers["default"].lr *= FACTOR.get(curr_epoch, 1.0)


class Stop(AbstractCallback):
    """Breaks the second fold off, if it is asked for."""

    only_watches = True

    def at_iter_end(self, trainer, **facts):
        if os.environ.get("STOP_AT") == f"{trainer.fold} {trainer.state.epoch}":
            raise KeyboardInterrupt


def distance(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def squared(pred, target):
    return ((pred - target) ** 2).mean()


def numbers(n=12, slope=2.0):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 3))
    return BaseDataManager({"data": data, "label": slope * data.sum(1, keepdims=True)}, 4)


def two(n=12):
    return numbers(n), numbers(n, 3.0)


def experiment(name):
    training = {
        "losses": {"mse": squared}, "optimizer_cls": ToySGD, "optimizer_params": {"lr": 0.1}, "num_epochs": 4,
        "verbose": 0, "callbacks": [Rates(), Stop()], "val_metrics": {"distance": distance},
        "val_score_key": "distance", "val_score_mode": "min",
    }
    params = {"model": {"n_features": 3, "dropout": 0.2}, "training": training}
    return ToyExperiment(params, Line, name=name, save_path="runs")


def kfold(given, **more):
    options = {"num_splits": 3, "shuffle": True, "random_seed": 1, "metrics": {"distance": distance}}
    return experiment("folds").kfold(given, **options, **more)


def searched(name):
    from delira.search import Float

    fixed = {"model": {"n_features": 3}, "training": dict(experiment(name).params["fixed"]["training"])}
    variable = {"training": {"optimizer_params": {"lr": Float(0.01, 0.1, log=True)}}}
    return ToyExperiment(Parameters(fixed, variable), Line, name=name, save_path="runs")


def search():
    searched("search").tune(
        numbers, n_trials=2, num_splits=2, metric="distance", metrics={"distance": distance}, direction="min",
        val_split=0.3, random_seed=4,
    )


def nested():
    from delira.search import Tune

    tune = Tune(n_trials=2, num_splits=2, metric="distance", direction="min")
    searched("nested").kfold(
        numbers, num_splits=2, shuffle=True, random_seed=4, metrics={"distance": distance}, tune=tune
    )


if __name__ == "__main__":
    load = functools.partial(numbers, n=15)
    for word in sys.argv[1:]:
        if word == "kfold":
            kfold(load)
        elif word == "again":
            kfold(load, resume="auto")
        elif word == "sizes":
            asked = {"num_splits": 2, "shuffle": True, "random_seed": 1, "metrics": {"distance": distance}}
            experiment("sizes").learning_curve(load, (6, 1.0), **asked)
        elif word == "once":
            experiment("once").run(*two(), seed=7)
        elif word == "manager":
            kfold(load(), num_epochs=2)
        else:
            {"search": search, "nested": nested}[word]()
'''
WORDS = ["--import", "lines.py", "--import", "delira.testing.toy"]


def write(folder, *words, script=SCRIPT, **environment):
    (folder / "lines.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "lines.py", *words], cwd=folder, env=environment, capture_output=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a script, and what it has run."""
    folder = tmp_path_factory.mktemp("rerun")
    write(folder, "kfold", "once").check_returncode()
    return folder


@pytest.fixture
def here(written, tmp_path, monkeypatch):
    """A copy of the folder, which is the working directory."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("lines", "others"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield tmp_path
    for name in ("lines", "others"):
        sys.modules.pop(name, None)


@pytest.fixture
def ask(here, capsys):
    """What the command says: exit code, standard output and error stream."""

    def call(*words, command="rerun"):
        try:
            code = cli.main([command, *map(str, words)])
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    return call


def runs(name):
    """The runs, and behind them what was run again."""
    places = [place for place in (Path("runs", name), Path("runs", f"{name}-reruns")) if place.is_dir()]
    return [folder for place in places for folder in sorted(place.iterdir()) if folder.is_dir()]


def runs_beside(run):
    return [*run.parent.iterdir()]


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_cross_validation_is_equal_bit_for_bit(ask):
    (run,) = runs("folds")
    before = contents(run)
    code, out, err = ask(run, *WORDS)
    assert code == 0, err
    _, new = runs("folds")
    assert out.splitlines() == [
        "equal, bit for bit: 12 epochs of 3 folds",
        "weights      compared after 12 epochs",
        "tests        metrics and predictions of 3 folds",
        f"rerun        {new.absolute()}",
    ]
    assert contents(run) == before
    first, second = (read_plain(each / "manifest.json") for each in (run, new))
    names = ("fingerprint", "seed", "num_threads", "num_epochs", "code", "functions", "settings", "model_params")
    assert {name: first[name] for name in names} == {name: second[name] for name in names}
    assert ask(new, *WORDS)[0] == 0  # a rerun says what it is, too


def test_the_object_of_json_has_what_was_compared(ask):
    (run,) = runs("folds")
    told = json.loads(ask(run, *WORDS, "--only-folds", "2,0", "--json")[1])
    assert told == {
        "run": str(run), "rerun": str(runs("folds")[1].absolute()), "is_equal": True, "epochs": 8, "hashes": 8,
        "folds": [0, 2], "tested": [0, 2], "predicted": [0, 2], "first": None, "differences": [], "largest": None,
        "changes": [], "environment": [], "remarks": [],
    }  # fmt: skip


def test_a_learning_curve_is_equal_with_all_of_its_sizes(ask, here):
    write(here, "sizes").check_returncode()
    (run,) = runs("sizes")
    code, out, err = ask(run, *WORDS)
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 16 epochs of 4 folds\n")
    assert "metrics and predictions of 4 folds" in out
    code, _, err = ask(run, *WORDS, "--only-folds", "1")
    assert code == 2
    assert "is a learning curve" in err


def test_a_single_training_needs_to_be_told_its_data(ask):
    (run,) = runs("once")
    code, _, err = ask(run, *WORDS)
    assert code == 2
    assert "--data module:function" in err
    code, out, err = ask(run, *WORDS, "--data", "lines:two")
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 4 epochs\nweights      compared after 4 epochs\n")
    assert read_plain(runs("once")[1] / "manifest.json")["seed"] == 7
    # whose file names them
    assert ask(runs("once")[1], *WORDS)[0] == 0


def test_other_data_are_refused_before_anything_is_trained(ask):
    (run,) = runs("folds")
    code, _, err = ask(run, *WORDS, "--data", "lines:numbers", "--data-arguments", "{n: 14}")
    assert code == 2
    data = read_plain(run / "manifest.json")["fingerprint"]["data"]
    assert "15 samples then, 14 now" in err
    assert data[:12] in err
    (once,) = runs("once")
    (Path("others.py")).write_text("import lines\ndef two():\n    return lines.numbers(12), lines.numbers(12, 4.0)\n")
    code, _, err = ask(once, *WORDS, "--import", "others.py", "--data", "others:two")
    assert code == 2
    assert "validation data: 12 samples then, 12 now" in err
    code, _, err = ask(once, *WORDS, "--data", "lines:numbers")
    assert code == 2
    assert "validation data: BaseDataManager in the run, none now" in err
    assert (runs("folds"), runs("once")) == ([run], [once])


def test_a_module_that_is_not_named_is_asked_for(ask):
    (run,) = runs("folds")
    code, _, err = ask(run)
    assert code == 2
    assert "--import SCRIPT.py" in err
    assert runs("folds") == [run]


def test_a_function_that_was_changed_is_told_before_and_shows_where(ask, here):
    (run,) = runs("folds")
    (here / "lines.py").write_text(SCRIPT.replace("** 2).mean()", "** 2).mean() * 1.001"))
    code, out, err = ask(run, *WORDS)
    assert code == 1
    assert "code: squared is another one" in err
    assert out.startswith("different: first in fold 0, epoch 1\n\nentry")
    assert "mse" in out
    assert "largest      relative difference" in out
    assert "changed      code: squared" in out


def test_what_only_changes_later_is_found_there(ask, here):
    (run,) = runs("folds")
    (here / "lines.py").write_text(SCRIPT.replace("3: 0.5", "3: 0.6"))
    told = json.loads(ask(run, *WORDS, "--json")[1])
    assert told["is_equal"] is False
    # the validation at the end of epoch 3 had the weights of before
    assert [(each["fold"], each["epoch"]) for each in told["differences"]] == [(0, 4), (1, 4), (2, 4)]
    first = told["first"]
    assert first["run"] != first["rerun"]
    assert 0 < first["relative"] <= told["largest"]["relative"] < 1


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_line_of_the_history_that_was_changed_shows_where(ask, is_sealed):
    (run,) = runs("folds")
    path = run / "fold_01" / "history.jsonl"
    lines = path.read_text().splitlines()
    value = json.loads(lines[1])["mse"]
    lines[1] = lines[1].replace(repr(value), repr(value * 1.25))
    path.write_text("\n".join(lines) + "\n")
    if not is_sealed:  # as an older version wrote them
        write_lines(path, dict)
    code, out, _ = ask(run, *WORDS, "--json")
    told = json.loads(out)
    assert code == 1
    assert told["differences"] == [told["first"]] == [told["largest"]]
    expected = {"fold": 1, "epoch": 2, "entry": "mse", "run": value * 1.25, "rerun": value}
    assert {name: told["first"][name] for name in expected} == expected
    assert told["first"]["relative"] == pytest.approx(0.2)
    assert ("its checksum is another one" in str(told["remarks"])) == is_sealed


def test_the_seed_is_that_of_the_manifest_and_no_other_can_be_given(ask):
    (run,) = runs("once")
    file = run / FILE_NAME
    assert "seed: 7" in file.read_text()
    file.write_text(file.read_text().replace("seed: 7", "seed: 8"))
    assert ask(run, *WORDS, "--data", "lines:two")[0] == 0
    code, _, err = ask(run, *WORDS, "--seed", "8")
    assert code == 2
    assert "unrecognized arguments: --seed 8" in err


def test_a_run_without_hashes_is_compared_by_its_numbers(ask):
    (run,) = runs("folds")
    for path in run.rglob(weight_hashes.FILE):
        path.unlink()
    code, out, _ = ask(run, *WORDS, "--only-folds", "1")
    assert code == 0
    assert "equal, number for number: 4 epochs of 1 fold\ntests        metrics and predictions of 1 fold\n" in out
    assert "no hashes of the weights were recorded" in out


def test_a_fold_that_lost_its_hashes_is_told_beforehand(ask):
    (run,) = runs("folds")
    assert not verify([str(run)]).is_broken
    (run / "fold_01" / weight_hashes.FILE).unlink()
    told = verify([str(run)])
    assert told.is_broken
    assert "a rerun cannot compare its weights epoch by epoch" in " ".join(told.text.split())


def test_weights_that_differ_where_no_number_does_are_found(ask):
    (run,) = runs("folds")
    write_lines(
        run / "fold_02" / weight_hashes.FILE,
        lambda line: line | ({"weights": "0" * 64} if line["epoch"] == 3 else {}),
    )
    told = json.loads(ask(run, *WORDS, "--json")[1])
    assert {name: told["first"][name] for name in ("fold", "epoch", "entry")} == {
        "fold": 2,
        "epoch": 3,
        "entry": "weights",
    }


def test_a_run_that_was_broken_off_and_went_on_is_equal_to_one_without_a_break(ask, here):
    shutil.rmtree("runs")
    assert write(here, "kfold", STOP_AT="1 2").returncode != 0
    (run,) = runs("folds")
    code, out, err = ask(run, *WORDS, "--only-folds", "0,1", "--out", "apart")  # as far as it came
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 6 epochs of 2 folds\n")
    write(here, "again").check_returncode()
    assert "resumed" in [event["event"] for event in RunFolder(run).events()]
    code, out, err = ask(run, *WORDS)
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 12 epochs of 3 folds\nweights      compared after 12 epochs\n")


def test_the_new_run_lies_where_it_is_asked_to_and_nothing_elsewhere(ask, here, monkeypatch):
    (run,) = (each.absolute() for each in runs("folds"))
    (here / "away").mkdir()
    monkeypatch.chdir(run)
    assert ask(".", "--import", here / "lines.py", *WORDS[2:], "--only-folds", "1")[0] == 0
    assert runs_beside(run) == [run]  # or it would be taken for the newest run there
    assert len([*run.parent.with_name("folds-reruns").iterdir()]) == 1
    monkeypatch.chdir(here / "away")
    words = ["--import", here / "lines.py", "--import", "delira.testing.toy", "--only-folds", "0"]
    assert ask(run, *words, "--out", "apart")[0] == 0
    assert [path.name for path in (here / "away").iterdir()] == ["apart"]
    assert [path.name for path in Path("apart").iterdir()] == ["folds"]
    shutil.move(run.parent, here / "away" / "renamed")
    assert ask(here / "away" / "renamed" / run.name, *words)[0] == 0
    assert len(runs_beside(here / "away" / "renamed" / run.name)) == 1
    assert sorted(path.name for path in (here / "away").iterdir()) == ["apart", "renamed", "renamed-reruns"]


def test_a_rerun_is_not_the_newest_run_of_its_folder(ask, here):
    (run,) = runs("folds")
    assert ask("runs/folds", *WORDS, "--only-folds", "1")[0] == 0
    assert KFoldResult.load("runs/folds").path.name == run.name
    assert len(KFoldResult.load("runs/folds").folds) == 3
    edit = SCRIPT.replace("np.abs(y_true - y_pred).mean()", "np.abs(y_true - y_pred).mean() * 0.5")
    (here / "lines.py").write_text(edit)
    sys.modules.pop("lines", None)
    for _ in range(2):  # not with the one before
        code, out, _ = ask("runs/folds", *WORDS)
        assert code == 1
    assert "code: distance, of the test, is another one" in out
    _, first, second, _ = runs("folds")
    assert first.parent == second.parent == Path("runs/folds-reruns")
    assert ask(second, *WORDS, "--only-folds", "0")[0] == 0
    assert len(runs("folds")) == 5  # a rerun of a rerun lies beside it


def test_what_is_not_there_any_more_is_not_counted(ask):
    (run,) = runs("folds")
    (run / "fold_01" / "predictions.npz").unlink()
    code, out, err = ask(run, *WORDS)
    assert code == 0, err
    assert "metrics of 3 folds, and predictions of 2" in out
    shutil.rmtree(run / "fold_01")
    out = ask(run, *WORDS)[1].replace("\n" + " " * 13, " ")
    assert "the folders of folds [1], which have finished, are gone" in out


def test_folds_and_places_that_there_are_not_are_refused(ask):
    (run,), (once,) = runs("folds"), runs("once")
    refused = {
        (run, "--only-folds", "3"): "nothing to compare fold 3 with",
        (run, "--only-folds", "first"): "no numbers of folds",
        (once, "--only-folds", "0"): "is one training",
        (once, "--data", "lines:two", "--n-jobs", "2"): "is one training",
    }
    for words, told in refused.items():
        code, _, err = ask(*words, *WORDS)
        assert code == 2
        assert told in err
    assert (runs("folds"), runs("once")) == ([run], [once])


def test_what_cannot_be_run_again_says_what_to_do(ask):
    (run,) = runs("folds")
    with lock.locked(run):
        code, _, err = ask(run, *WORDS)
    assert code == 2
    assert "is at work on" in err
    (run / FILE_NAME).unlink()
    code, _, err = ask(run, *WORDS)
    assert code == 2
    assert "experiment.save(" in err
    assert ", kfold={…})" in err
    (run / "manifest.json").unlink()
    code, _, err = ask(run, *WORDS)
    assert code == 2
    assert "its seed and settings are not known" in err


def test_folds_that_a_manager_was_given_to_and_more_epochs_than_the_file_says(ask, here):
    write(here, "manager").check_returncode()
    run = runs("folds")[-1]
    words = [*WORDS, "--data", "lines:numbers", "--data-arguments", "{n: 15}"]
    code, out, err = ask(run, *words)
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 6 epochs of 3 folds\n")


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="processes share arrays by memfd_create")
def test_folds_in_processes_are_the_same(ask):
    (run,) = runs("folds")
    code, out, err = ask(run, *WORDS, "--n-jobs", "2")
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 12 epochs of 3 folds\n")


def test_a_trial_of_a_search_is_run_again_from_its_folder(ask, here):
    pytest.importorskip("optuna", reason="a search needs the package 'optuna', which is not installed")
    write(here, "search").check_returncode()
    (run,) = runs("search")
    words = [*WORDS, "--import", "delira.search"]
    code, _, err = ask(run, *words)
    assert code == 2
    assert "trial_0000" in err
    for trial in ("trial_0000", "trial_0001"):
        code, out, err = ask(run / "trials" / trial, *words)
        assert code == 0, err
        assert out.startswith("equal, number for number: 8 epochs of 2 folds\n")
        assert "no hashes" in out
    assert ask(runs("search")[-1], *words)[0] == 0
    (run / "trials" / "trial_0001" / "trial.json").unlink()
    assert "has not ended" in ask(run / "trials" / "trial_0001", *words)[2]


def test_what_a_file_cannot_name_is_told(ask):
    (run,) = runs("folds")
    file = run / FILE_NAME
    file.write_text(file.read_text().replace("$object: '__main__:distance'", "$repr: '<lambda>'"))
    code, _, err = ask(run, *WORDS)
    assert code == 2
    assert "settings.val_metrics.distance (<lambda>)" in err
    assert "at the top of a module" in err


def test_each_fold_searches_again_as_it_did(ask, here):
    pytest.importorskip("optuna", reason="a search needs the package 'optuna', which is not installed")
    write(here, "nested").check_returncode()
    (run,) = runs("nested")
    code, out, err = ask(run, *WORDS, "--import", "delira.search")
    assert code == 0, err
    assert out.startswith("equal, bit for bit: 8 epochs of 2 folds\n")


# ---- a framework, with generators and threads of its own

NETWORK = '''
"""A network that drops out, on data that are shuffled."""

import sys

import numpy as np
import torch

from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

    def forward(self, data):
        return {"pred": self.layers(data)}


def numbers(n=18):
    data = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    return BaseDataManager({"data": data, "label": data.sum(1, keepdims=True)}, 4)


if __name__ == "__main__":
    from delira.training import PyTorchExperiment

    torch.set_num_threads(int(sys.argv[1]))
    training = {
        "losses": {"mse": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": 0.01},
        "num_epochs": 2, "verbose": 0, "save_in_background": True,
    }
    made = PyTorchExperiment({"training": training}, Net, name="net", save_path="runs")
    made.kfold(numbers, num_splits=2, shuffle=True, random_seed=1, metrics={})
    made.run(numbers(), seed=3)
'''


@pytest.fixture
def framework(tmp_path, monkeypatch):
    """The two runs of a script for PyTorch, which lie in the working directory."""
    pytest.importorskip("torch", reason="the script needs the package 'torch', which is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(tmp_path, "3", script=NETWORK).check_returncode()
    yield runs("net")
    sys.modules.pop("lines", None)


def test_a_network_of_a_framework_is_equal_with_the_threads_of_the_run(framework, capsys):
    words = ["--import", "lines.py", "--import", "torch.nn.modules.loss", "--import", "torch.optim.adam", "--json"]
    for run, more, epochs in zip(framework, ([], ["--data", "lines:numbers"]), (4, 2), strict=True):
        assert cli.main(["rerun", str(run), *words, *more]) == 0
        told = json.loads(capsys.readouterr()[0])
        assert (told["epochs"], told["hashes"], told["changes"]) == (epochs, epochs, [])
        assert read_plain(Path(told["rerun"], "manifest.json"))["num_threads"] == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="processes share arrays by memfd_create")
def test_processes_compute_with_the_threads_of_the_run_though_they_share_the_cores(framework, capsys):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        words = ["--import", "lines.py", "--import", "torch.nn.modules.loss", "--import", "torch.optim.adam", "--json"]
        assert cli.main(["rerun", str(framework[0]), *words, "--n-jobs", "2"]) == 0
    finally:
        torch.set_num_threads(before)
    told = json.loads(capsys.readouterr()[0])
    assert told["changes"] == []
    assert read_plain(Path(told["rerun"], "manifest.json"))["num_threads"] == 3


FOREST = '''
"""An estimator that is fitted once."""

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from delira.data_loading import BaseDataManager
from delira.metrics import accuracy
from delira.training import SklearnExperiment


def load(n=30):
    features = np.random.default_rng(0).normal(size=(n, 3))
    return BaseDataManager({"data": features, "label": np.int64(features[:, 0] > 0)}, batch_size=10)


if __name__ == "__main__":
    made = SklearnExperiment.of(RandomForestClassifier(n_estimators=5), save_path="runs", name="forest")
    made.kfold(load, {"accuracy": accuracy}, num_splits=2, shuffle=True, random_seed=0)
'''


def test_an_estimator_is_equal_though_it_was_made_of_a_file(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    write(tmp_path, script=FOREST).check_returncode()
    try:
        assert cli.main(["rerun", "runs", "--import", "lines.py", "--json"]) == 0
    finally:
        sys.modules.pop("lines", None)
    told = json.loads(capsys.readouterr()[0])
    assert (told["epochs"], told["hashes"], told["predicted"], told["changes"]) == (2, 2, [0, 1], [])
