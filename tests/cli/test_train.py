"""``delira train``: the experiment of a file, whose data and classes only a script knows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from delira import cli
from delira.cli.vouching import may_be_named
from delira.errors import ConfigError
from delira.experiments.learning_curve import LearningCurve
from delira.experiments.result import KFoldResult
from delira.runs.folder import RunFolder

ROOT = Path(__file__).parents[2]

SCRIPT = '''
"""Lines through the origin."""

import numpy as np

from delira.data_loading import BaseDataManager
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error


class Line(ToyNetwork):
    """A network of the script's own."""


def error(y_true, y_pred):
    return float(np.abs(y_true - y_pred).mean())


def numbers(n=12, slope=2.0):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(n, 1))
    return BaseDataManager({"data": data, "label": slope * data}, 4)


def two(n=12):
    return numbers(n), numbers(n, 3.0)


def experiment():
    training = {
        "losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD, "optimizer_params": {"lr": 0.1},
        "num_epochs": 2, "verbose": 0,
    }
    params = {"model": {"n_features": 1}, "training": training}
    return ToyExperiment(params, Line, name="lines", save_path="runs")


if __name__ == "__main__":
    kfold = {"num_splits": 3, "metrics": {"error": error}, "shuffle": True, "random_seed": 1}
    experiment().save("folds.yml", data=numbers, data_arguments={"n": 15}, kfold=kfold)
    experiment().save("once.yml", data=two)
    sized = {**kfold, "sizes": [4, 1.0], "val_split": None}
    experiment().save("sizes.yml", data=numbers, data_arguments={"n": 15}, learning_curve=sized)
    experiment().save("nothing.yml")
'''
WORDS = ["--import", "lines.py", "--import", "delira.testing.toy"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a script, and the files that it has written."""
    folder = tmp_path_factory.mktemp("train")
    (folder / "lines.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "lines.py"], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def ask(written, tmp_path, monkeypatch, capsys):
    """What the command says: exit code, standard output and error stream."""
    for file in written.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "lines", raising=False)

    def call(*words):
        try:
            code = cli.main(["train", *words])
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    yield call
    sys.modules.pop("lines", None)


def test_a_file_is_cross_validated_and_the_same_line_reads_it_again(ask):
    code, out, err = ask("folds.yml", *WORDS)
    assert code == 0, err
    assert "lines: 3 folds, 15 cases" in out
    (run,) = (folder for folder in Path("runs/lines").iterdir() if folder.is_dir())
    assert f"folder  {run.absolute()}" in out
    _, again, _ = ask("folds.yml", *WORDS, "--json")
    told = json.loads(again)
    assert (told["path"], told["folds"]) == (str(run.absolute()), [0, 1, 2])
    assert told["metrics"] == pytest.approx({"error": KFoldResult.load(run).summary()["error"]["mean"]})
    assert len([event for event in RunFolder(run).events() if event["event"] == "fold_started"]) == 3
    assert ask("folds.yml", *WORDS, "--resume", "new")[0] == 0
    assert len([folder for folder in Path("runs/lines").iterdir() if folder.is_dir()]) == 2


def test_a_learning_curve_is_run_and_read_again(ask):
    told = json.loads(ask("sizes.yml", *WORDS, "--json")[1])
    assert {*told["sizes"]} == {"4", "10"}
    code, out, err = ask("sizes.yml", *WORDS)
    assert code == 0, err
    assert "lines: 2 sizes, 3 folds" in out
    assert len([event for event in RunFolder(told["path"]).events() if event["event"] == "fold_started"]) == 6
    assert LearningCurve.load(told["path"]).sizes == [4, 10]
    code, _, err = ask("sizes.yml", *WORDS, "--only-folds", "1")
    assert code == 2
    assert "sizes.yml has a learning curve" in err


def test_some_folds_now_and_the_others_in_processes_later(ask):
    told = json.loads(ask("folds.yml", *WORDS, "--only-folds", "2", "--json")[1])
    assert told["folds"] == [2]
    if hasattr(os, "memfd_create"):
        whole = json.loads(ask("folds.yml", *WORDS, "--n-jobs", "2", "--json")[1])
        assert (whole["path"], whole["folds"]) == (told["path"], [0, 1, 2])
        assert "handed_out" in [event["event"] for event in RunFolder(told["path"]).events()]


def test_words_replace_parameters_as_in_scripts(ask):
    told = json.loads(ask("folds.yml", *WORDS, "--lr", "0.05", "--training.num_epochs", "1", "--json")[1])
    manifest = RunFolder(told["path"]).read_manifest()
    assert (manifest["settings"]["optimizer_params"]["lr"], manifest["num_epochs"]) == (0.05, 1)
    code, _, err = ask("folds.yml", *WORDS, "--rate", "0.05")
    assert code == 2
    assert "rate" in err
    code, _, err = ask("folds.yml", *WORDS, "--lr", "fast")
    assert code == 2
    assert "lr" in err


def manifest_of(told):
    return RunFolder(told["path"]).read_manifest()


def test_words_go_before_all_that_the_file_of_a_run_says(ask):
    first = json.loads(ask("folds.yml", *WORDS, "--json")[1])
    file = str(Path(first["path"]) / "experiment.yml")  # has its training twice: settings, and parameters
    again = json.loads(ask(file, *WORDS, "--json")[1])
    assert again["path"] == first["path"]
    words = ["--seed", "7", "--lr", "0.05", "--num_epochs", "3"]
    code, out, err = ask(file, *WORDS, *words, "--resume", "new", "--json")
    assert code == 0, err
    told = manifest_of(json.loads(out))
    assert (told["seed"], told["settings"]["optimizer_params"]["lr"], told["num_epochs"]) == (7, 0.05, 3)
    other = json.loads(ask(file, *WORDS, "--lr", "0.07", "--json")[1])  # no result of another rate is shown
    assert other["path"] != first["path"]
    assert manifest_of(other)["settings"]["optimizer_params"]["lr"] == 0.07


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  num_splits: 3", "  num_splits: 3\n  num_epochs: 1"),
        ("  num_splits: 3", "  num_splits: 3\n  n_epochs: 1"),
        ("  num_splits: 3", "  num_splits: 3\n  params: {training: {num_epochs: 1, optimizer_params: {lr: 0.3}}}"),
        ("  num_splits: 3", "  num_splits: 3\n  optimizer_params: {lr: 0.2}"),
        ("settings: {}", "settings: {num_epochs: 1, optimizer_params: {lr: 0.2}}"),
        ("      num_epochs: 2\n", ""),
    ],
)
def test_words_go_before_whatever_place_the_file_says_it_in(ask, old, new):
    file = Path("folds.yml")
    whole = file.read_text()
    assert old in whole
    file.write_text(whole.replace(old, new) if new else f"n_epochs: 1\n{whole.replace(old, new)}")
    code, out, err = ask("folds.yml", *WORDS, "--num_epochs", "3", "--json")
    assert code == 0, err
    told = manifest_of(json.loads(out))
    assert told["num_epochs"] == 3
    lr = told["settings"]["optimizer_params"]["lr"]  # what no word names stays what it is
    assert lr == next((rate for text, rate in (("lr: 0.3", 0.3), ("lr: 0.2", 0.2)) if text in new), 0.1)
    told = manifest_of(json.loads(ask("folds.yml", *WORDS, "--lr", "0.05", "--json")[1]))
    assert told["settings"]["optimizer_params"]["lr"] == 0.05
    assert told["num_epochs"] == (1 if "epochs: 1" in new or not new else 2)


def test_words_go_before_what_one_training_was_asked_for(ask):
    file = Path("once.yml")
    file.write_text(file.read_text() + "run: {num_epochs: 1, seed: 5}\n")
    told = json.loads(ask("once.yml", *WORDS, "--num_epochs", "3", "--seed", "6", "--json")[1])
    assert (told["epochs"], manifest_of(told)["seed"]) == (3, 6)


def test_one_training_is_run_with_its_validation_data(ask):
    code, out, err = ask("once.yml", *WORDS, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["epochs"] == 2
    assert "data: lines:two" in (Path(told["path"]) / "experiment.yml").read_text()
    assert {"mse", "val_mse"} <= told["metrics"].keys()
    code, _, err = ask("once.yml", *WORDS, "--only-folds", "1")
    assert code == 2
    assert "--only-folds is of a cross-validation, and once.yml has one training" in err


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["folds.yml"], "add --import SCRIPT.py"),
        (["nothing.yml", *WORDS], "nothing.yml names no data; write it by experiment.save(data=function)"),
        (["lines.py", *WORDS], "this is not readable as plain YAML"),
        (["gone.yml", *WORDS], "gone.yml"),
        (["folds.yml", *WORDS, "--only-folds", "one"], "--only-folds one: it is numbers of folds"),
        (["folds.yml", *WORDS, "--only-folds", "7"], "7"),
        (["folds.yml", *WORDS, "--n-jobs", "0"], "n_jobs"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line_and_nothing_is_trained(ask, words, match):
    code, out, err = ask(*words)
    assert (code, out) == (2 if "gone" not in match else code, "")
    assert code in (1, 2)
    assert match in err
    assert "Traceback" not in err
    assert not [*Path("runs").rglob("history.jsonl")] if Path("runs").exists() else True


def test_data_of_a_module_that_was_not_named_is_not_called(ask):
    text = Path("folds.yml").read_text().replace("__main__:numbers", "os:getcwd")
    Path("folds.yml").write_text(text)
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    assert "has its data from os:getcwd, which is called only if its module is named: add --import os" in err


@pytest.mark.parametrize("name", ["posix:system", "lines:system", "subprocess:Popen", "lines:Popen"])
def test_what_a_named_script_took_from_elsewhere_is_not_called(ask, name):
    script = Path("lines.py")
    script.write_text("from os import system\nfrom subprocess import Popen\n" + script.read_text())
    file, whole = Path("folds.yml"), Path("folds.yml").read_text()
    file.write_text(whole.replace("__main__:numbers", name).replace("n: 15", "args: [touch, called]"))
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    home, of = {"system": "posix", "Popen": "subprocess"}[name.partition(":")[2]], name.partition(":")[0]
    assert f"has its data from {name}, which " in err
    assert f"add --import {home}" in err
    assert (of == "lines") == (f"write 'data: {home}:" in err)
    call = f"callbacks:\n      - {{$call: '{name}', arguments: {{args: [touch, called]}}}}\n      num_epochs:"
    file.write_text(whole.replace("num_epochs:", call))
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    assert "the file names what is in no module of the command line" in err
    assert not Path("called").exists()


TOUCH = "{$object: 'subprocess:Popen'}"


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("model_cls: {$object: '__main__:Line'}", f"model_cls: {TOUCH}", "subprocess"),
        ("optimizer_cls: {$object: 'delira.testing.toy.optimizers:ToySGD'}", f"optimizer_cls: {TOUCH}", "subprocess"),
        ("num_epochs: 2", "optim_fn: {$object: 'posix:system'}\n      num_epochs: 2", "posix"),
        ("num_epochs: 2", "optim_fn: {$object: 'delira.cli.main:main'}\n      num_epochs: 2", "delira.cli.main"),
        ("num_epochs: 2", f"lr_scheduler_cls: {TOUCH}\n      num_epochs: 2", "subprocess"),
        ("num_epochs: 2", "logging_type: {$object: 'logging:FileHandler'}\n      num_epochs: 2", "logging"),
        ("num_splits: 3", f"num_splits: 3\n  train_kwargs: {{sampler_cls: {TOUCH}}}", "subprocess"),
        ("num_splits: 3", "num_splits: 3\n  test_kwargs: {transforms: {$object: 'posix:system'}}", "posix"),
    ],
)
def test_what_is_imported_anyway_is_not_called(ask, old, new, names):
    file, whole = Path("folds.yml"), Path("folds.yml").read_text()
    assert old in whole
    file.write_text(whole.replace(old, new).replace("n_features: 1", "args: [touch, called]"))
    code, _, err = ask("folds.yml", *WORDS)
    assert (code, Path("called").exists()) == (2, False)
    assert "the file names what is in no module of the command line" in err
    assert f"add --import {names}" in err


def test_a_model_of_a_file_is_a_network_or_an_estimator_before_it_is_called(ask):
    script = Path("lines.py")
    script.write_text(f"{script.read_text()}\n\nclass Calls:\n    def __init__(self, args):\n        open(*args)\n")
    file, whole = Path("folds.yml"), Path("folds.yml").read_text()
    evil = whole.replace("__main__:Line", "__main__:Calls").replace("n_features: 1", "args: [called, w]")
    sklearn = "delira.backends.sklearn.training:SklearnExperiment"
    estimators = evil.replace("delira.testing.toy.training:ToyExperiment", sklearn)
    for text, lacks in ((evil, "closure; subclass"), (estimators, "fit; give a class of estimators")):
        file.write_text(text)
        code, _, err = ask("folds.yml", *WORDS)
        assert (code, Path("called").exists()) == (1, False), err
        assert f"Calls has no {lacks}" in err


def test_a_folder_that_an_estimator_would_unpickle_is_refused_unless_somebody_vouches(ask):
    pipeline = pytest.importorskip("sklearn.pipeline", reason="is about estimators of scikit-learn")
    text = Path("folds.yml").read_text().replace("__main__:Line", f"{pipeline.__name__}:Pipeline")
    text = text.replace(
        "delira.testing.toy.training:ToyExperiment", "delira.backends.sklearn.training:SklearnExperiment"
    )
    Path("folds.yml").write_text(text.replace("n_features: 1", "memory: cache"))
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    assert "memory='cache', a folder of which scikit-learn would unpickle" in err
    _, _, err = ask("folds.yml", *WORDS, "--import", "sklearn.pipeline")
    assert "would unpickle" not in err


def test_what_stands_between_layers_may_be_named_and_what_reads_files_may_not():
    torch = pytest.importorskip("torch", reason="is about functions of PyTorch")
    assert all(map(may_be_named, (torch.relu, torch.tanh, torch.nn.functional.gelu, torch.float32)))
    assert not any(map(may_be_named, (torch.load, torch.hub.load, torch.compile)))


def test_a_class_that_a_script_took_from_another_package_gives_no_data(ask):
    script = Path("lines.py")
    script.write_text("from yaml import SafeLoader\n" + script.read_text())
    text = Path("folds.yml").read_text()
    Path("folds.yml").write_text(
        text.replace("__main__:numbers", "lines:SafeLoader").replace("n: 15", "stream: called")
    )
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    assert "a class of yaml.loader, which is called only if its module is named: add --import yaml.loader" in err


def test_a_module_of_the_present_folder_does_not_stand_in_for_a_package(ask, monkeypatch):
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(Path.cwd()))])
    Path("colorsys.py").write_text("open('called', 'w')")
    Path("own_numbers.py").write_text("from lines import numbers, Line, error")
    code, _, err = ask("folds.yml", "--import", "colorsys", *WORDS)
    assert (code, Path("called").exists()) == (0, False), err
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(Path.cwd())])
    assert ask("folds.yml", "--import", "own_numbers", *WORDS)[0] == 0
    assert sys.path[-1] == str(Path.cwd())


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "delira.cli.main:main"])
def test_functions_within_estimators_are_those_of_named_modules(ask, name):
    import sklearn.preprocessing  # noqa: F401 - a file finds what is imported already

    module, _, own = name.partition(":")
    home = {"os": "posix"}.get(module, module)
    text = (
        Path("folds.yml")
        .read_text()
        .replace("__main__:Line", "sklearn.preprocessing._function_transformer:FunctionTransformer")
    )
    text = text.replace(
        "delira.testing.toy.training:ToyExperiment", "delira.backends.sklearn.training:SklearnExperiment"
    )
    Path("folds.yml").write_text(text.replace("n_features: 1", f"func: {{$object: '{home}:{own}'}}"))
    code, _, err = ask("folds.yml", *WORDS)
    assert code == 2
    assert f"fixed.model.func; add --import {home}" in err


def test_what_a_file_cannot_name_is_refused_when_it_is_written(written, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(written))
    monkeypatch.chdir(tmp_path)
    import lines

    try:
        own = lines.experiment()
        with pytest.raises(ConfigError, match="data must be a function at the top of a module"):
            own.save("a.yml", data=lambda: None)
        with pytest.raises(ConfigError, match="data must be a function at the top of a module"):
            own.save("a.yml", data="numbers")
        with pytest.raises(ConfigError, match="kfold takes no 'num_split'; did you mean 'num_splits'"):
            own.save("a.yml", data=lines.numbers, kfold={"num_split": 3})
        with pytest.raises(ConfigError, match="data_arguments are those of data, which is not given"):
            own.save("a.yml", data_arguments={"n": 3})
        assert not Path("a.yml").exists()
    finally:
        sys.modules.pop("lines", None)
