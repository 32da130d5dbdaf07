"""Parameters of a script are replaced from its command line; what is misspelt or of another kind is refused."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from delira.training import Parameters

ROOT = Path(__file__).parents[2]


@pytest.fixture
def params() -> Parameters:
    training = {
        "num_epochs": 3, "optimizer_cls": dict, "optimizer_params": {"lr": 0.1, "betas": (0.9, 0.999)}, "mode": "max",
        "compile": False, "clip": None, "sizes": [1, 2],
    }  # fmt: skip
    return Parameters({"model": {"n_features": 8, "width": 4}, "training": training}, {"model": {"width": 6}})


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["--training.lr", "1e-4"], "fixed.training.optimizer_params.lr", 1e-4),
        (["--lr=1"], "fixed.training.optimizer_params.lr", 1.0),
        (["--lr", "-1e-4"], "fixed.training.optimizer_params.lr", -1e-4),
        (["--training.optimizer_params.lr", "2e-3"], "fixed.training.optimizer_params.lr", 2e-3),
        (["--fixed.training.optimizer_params.lr", ".5"], "fixed.training.optimizer_params.lr", 0.5),
        (["--model.n_features=64"], "fixed.model.n_features", 64),
        (["--model.fixed.n_features=64"], "fixed.model.n_features", 64),
        (["--width", "7"], "variable.model.width", 7),
        (["--fixed.model.width", "7"], "fixed.model.width", 7),
        (["--betas", "[0.5, 0.9]"], "fixed.training.optimizer_params.betas", (0.5, 0.9)),
        (["--sizes=[3]"], "fixed.training.sizes", [3]),
        (["--compile", "true"], "fixed.training.compile", True),
        (["--mode", "1e-4"], "fixed.training.mode", "1e-4"),
        (["--clip", "0.5"], "fixed.training.clip", 0.5),
        (["--clip", "{norm: 1}"], "fixed.training.clip", {"norm": 1}),
    ],
)
@pytest.mark.parametrize("hierarchy", ["variability", "training"])
def test_a_parameter_is_named_by_as_much_of_its_path_as_is_needed(params, words, path, value, hierarchy):
    before = params.deepcopy()
    if hierarchy == "training":
        params.permute_training_on_top()
    params.update_from_argparse(arguments=words)
    params.permute_variability_on_top()
    assert params[path] == value
    assert isinstance(params[path], type(value))  # 1 is no 1.0
    before[path] = value
    assert params == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--training.rl", "1"], "there is no parameter 'training.rl'; did you mean"),
        (["--num_epochs", "1.5"], "--num_epochs 1.5 is a number; it must be a whole number, as the present value 3"),
        (["--num_epochs", "many"], "--num_epochs many is a text; it must be a whole number"),
        (["--lr", "fast"], "it must be a number, as the present value 0.1"),
        (["--lr", "true"], "is true or false; it must be a number"),
        (["--compile", "1"], "must be true or false"),
        (["--betas", "0.5"], "must be a list like [1, 2], as the present value [0.9, 0.999]"),
        (["--lr"], "--lr needs a value"),
        (["--fixed.training.optimizer_cls", "Adam"], "cannot be written as text; change it in the script"),
        (["--training.new", "3"], "there is no parameter 'training.new'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(params, capsys, words, message):
    before = params.deepcopy()
    with pytest.raises(SystemExit) as caught:
        params.update_from_argparse(arguments=words)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert params == before


def test_a_name_of_several_parameters_is_refused_with_their_paths(capsys):
    params = Parameters({"training": {"a": {"lr": 1}, "b": {"lr": 2}}})
    with pytest.raises(SystemExit):
        params.update_from_argparse(arguments=["--lr", "3"])
    assert "--lr may be any of --training.a.lr, --training.b.lr" in capsys.readouterr().err


def test_new_parameters_are_taken_where_that_is_asked_for(params, capsys):
    words = ["--training.new", "3", "--variable.model.depth=2", "--training.optimizer_params.eps", "1e-3"]
    params.update_from_argparse(add_unknown_items=True, arguments=words)
    assert (params.fixed.training.new, params.variable.model.depth) == (3, 2)
    assert params.fixed.training.optimizer_params.eps == 1e-3
    params.permute_training_on_top().update_from_argparse(add_unknown_items=True, arguments=["--model.x", "1"])
    assert params.model.fixed.x == 1
    with pytest.raises(SystemExit):
        params.update_from_argparse(add_unknown_items=True, arguments=["--other", "3"])
    assert "there is no parameter 'other'" in capsys.readouterr().err


def test_a_script_may_have_arguments_of_its_own(params):
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--fast", action="store_true")
    options = params.update_from_argparse(parser, arguments=["x.csv", "--lr", "1", "--folds", "3", "--fast"])
    assert options == argparse.Namespace(data="x.csv", folds=3, fast=True)
    assert params.nested_get("lr") == 1.0


def test_help_lists_every_parameter_with_its_value(params):
    text = params.create_argparser("train.py").format_help()
    for line in ("--training.optimizer_params.lr FLOAT", "now 0.1", "--model.n_features INT", "now [0.9, 0.999]"):
        assert line in text
    assert "optimizer_cls" not in text


@pytest.mark.parametrize(
    ("training", "example"),
    [
        ({"num_epochs": 3, "optimizer_params": {"lr": 0.1}}, "(--lr)"),
        ({"num_epochs": 3, "optimizer_params": {"learning_rate": 0.1}}, "(--learning_rate)"),
        ({"a": {"lr": 0.1}, "b": {"lr": 0.2}, "num_epochs": 3}, "(--num_epochs)"),
        ({"num_epochs": 3, "folds": 0.5}, "(--num_epochs)"),
        ({}, "which one is meant;"),
    ],
)
def test_help_gives_a_parameter_of_the_script_itself_as_an_example(training, example, capsys):
    params, parser = Parameters({"training": training}), argparse.ArgumentParser()
    parser.add_argument("--folds", type=int)
    with pytest.raises(SystemExit):
        params.update_from_argparse(parser, arguments=["--help"])
    assert example in " ".join(capsys.readouterr().out.split())
    if example.startswith("("):
        params.update_from_argparse(arguments=[example.strip("()"), "7"])


def test_help_with_a_percent_sign_and_odd_names():
    params = Parameters({"training": {"label": "50 %", "mAP@0.5": 1, 3: 4, "": 5}})
    assert "now 50 %" in params.create_argparser().format_help()


def test_a_script_answers_help_and_takes_parameters(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "from delira.training import Parameters\n"
        "params = Parameters({'training': {'optimizer_params': {'lr': 0.1}}})\n"
        "params.update_from_argparse()\n"
        "print(params.nested_get('lr'))\n"
    )

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(script), *words]
        return subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)

    assert run("--training.lr", "1e-4").stdout == "0.0001\n"
    assert "usage: train.py [-h] [--NAME VALUE ...]" in run("--help").stdout
    wrong = run("--ir", "1")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("train.py: there is no parameter 'ir'; ")


SCRIPT = """
import argparse
import own
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.parameters import mistakes_in_one_line
from delira.experiments.splits import SplitConfig

parser = argparse.ArgumentParser()
parser.add_argument("case")
case = parser.parse_args().case

class Dataset:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        SplitConfig(num_splits=1)

with mistakes_in_one_line(parser):
    if case == "script":
        SplitConfig(num_splits=1)
    elif case == "own":
        own.fail()
    elif case == "through own":
        own.split()
    elif case == "through delira":
        list(BaseDataManager(own.Dataset(), 2, n_process_augmentation=0))
    elif case == "dataset of the script":
        list(BaseDataManager(Dataset(), 2, n_process_augmentation=0))
    elif case == "in a worker":
        list(BaseDataManager(own.Dataset(), 2, n_process_augmentation=1))
    elif case == "wrapped":
        from delira.data_loading.array_dataset import WrappedDataset
        len(WrappedDataset(own.Broken()))
    elif case == "raised here":
        raise ConfigError("from the script")
    elif case == "other":
        {}["x"]
"""
OWN = """
from delira.errors import ConfigError
from delira.experiments.splits import SplitConfig

def fail():
    raise ConfigError("mine")

def split():
    SplitConfig(num_splits=1)

class Dataset:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        split()

class Broken:
    def __len__(self):
        return len(None)

    def __getitem__(self, index):
        return {"data": index}
"""


@pytest.mark.sampled("half")
@pytest.mark.parametrize(
    ("case", "is_short"),
    [("script", True), ("own", False), ("through own", False), ("through delira", False), ("raised here", False),
     ("other", False), ("dataset of the script", False), ("in a worker", False), ("wrapped", False)],
)  # fmt: skip
def test_a_mistake_in_the_options_is_one_line_and_errors_of_own_code_are_whole(tmp_path, case, is_short):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "own.py").write_text(OWN)
    command = [sys.executable, str(tmp_path / "train.py"), case]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    if is_short:
        assert done.stderr == "train.py: num_splits must be an integer of at least 2, got 1\n"
        assert done.returncode == 2
    else:
        assert "Traceback" in done.stderr
        assert ("ConfigError" in done.stderr) == (case != "other")
        assert done.returncode == 1
