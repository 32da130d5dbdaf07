"""The typed keywords are the settings, and type checkers refuse what is none."""

import dataclasses
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import delira
from delira.contract import CompileConfig, UpdateConfig
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.keywords import ExperimentKeywords, KFoldKeywords, PredictionKeywords, RunKeywords
from delira.experiments.run_request import RUN_NAMES
from delira.experiments.splits import SplitConfig
from delira.settings.config import PART_CLASSES, PARTS, PLAIN, SETTINGS, TrainerConfig, read_settings
from delira.settings.signatures import TrainerKeywords, TrialKeywords
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, ToyTrainer

ROOT = Path(delira.__file__).parents[1]
#: other spellings -> the keyword whose type they have
ALIASES = {
    "lr_sched_cls": "lr_scheduler_cls", "lr_sched_params": "lr_scheduler_params", "optim_builder": "optim_fn",
    "checkpoint_freq": "save_freq", "compile": "compiled", "reduce_types": "logging_reductions",
}  # fmt: skip
#: texts that mean something; a wrong one is refused by what reads the settings
CHOICES = ("on_save_error", "nonfinite", "nonfinite_predictions", "val_score_mode", "reduce_mode", "micro_batches")
#: arguments that functions name themselves, and spellings that are on their way out
OWN = {
    TrainerKeywords: {"losses", "criterions"},
    ExperimentKeywords: {"n_epochs", "key_mapping", "criterions"},
    RunKeywords: {"criterions"},
    KFoldKeywords: {"num_epochs", "num_splits", "metrics", "metric_keys", "fold", "criterions"},
    TrialKeywords: {
        "losses", "loss_keys", "criterions", "optimizer_cls", "optimizer_params", "optim_fn", "optim_builder",
        "metrics", "train_metrics", "val_metrics", "metric_keys", "verbose", "val_inference", "val_tta",
    },
}  # fmt: skip
FURTHER = {
    TrainerKeywords: (),
    ExperimentKeywords: RUN_NAMES,
    RunKeywords: RUN_NAMES,
    KFoldKeywords: (*RUN_NAMES, *(field.name for field in dataclasses.fields(SplitConfig))),
    TrialKeywords: ("fold", "start_epoch", "resume_from"),
}


def types() -> dict[str, object]:
    """The type of every flat keyword, by the dataclass that has it."""
    found = {field.name: field.type for field in dataclasses.fields(TrainerConfig) if field.name in PLAIN}
    for name, (part, field) in PARTS.items():
        found[name] = next(one.type for one in dataclasses.fields(PART_CLASSES[part]) if one.name == field)
    found |= {alias: found[name] for alias, name in ALIASES.items()}
    found |= {field.name: field.type for field in dataclasses.fields(SplitConfig)}
    return found | {"mixed_precision": bool | str}


def texts(hint: object) -> set[str]:
    """The texts of a type that lists them."""
    parts = [hint, *typing.get_args(hint)]
    return {text for part in parts if typing.get_origin(part) is typing.Literal for text in typing.get_args(part)}


@pytest.mark.parametrize("cls", OWN)
def test_the_keywords_are_those_that_are_understood(cls):
    assert set(typing.get_type_hints(cls)) == {*SETTINGS, *FURTHER[cls]} - OWN[cls]


@pytest.mark.parametrize("cls", OWN)
def test_a_keyword_has_the_type_of_its_field(cls):
    hints, known = typing.get_type_hints(cls), types()
    stated = {name: hint for name, hint in hints.items() if name in known and name not in CHOICES}
    wrong = {name: hint for name, hint in stated.items() if hint not in (known[name], known[name] | None)}
    assert wrong == {}  # whether None is allowed besides, the test of calls with it says
    assert set(PART_CLASSES.values()) >= {UpdateConfig, CompileConfig}  # those of the contract, too


@pytest.mark.parametrize("name", CHOICES)
def test_the_texts_that_are_listed_are_those_that_mean_something(name):
    listed = texts(typing.get_type_hints(RunKeywords)[name])
    assert listed
    for text in listed:
        read_settings({name: text})
    with pytest.raises(ConfigError, match=name) as caught:
        read_settings({name: "mystery"})
    if name != "micro_batches":  # a number, of which "auto" is the exception
        assert listed == set(re.findall(r"'(\w+)'", str(caught.value))) - {"mystery"}


class OwnClosure(ToyNetwork):
    """Learns without losses: a call without settings is a good one."""

    @staticmethod
    def closure(model, data_dict, optimizers, **further):
        return {}, {"loss": 0.0}, {}


ROWS = np.zeros((8, 3), np.float32)


def data() -> BaseDataManager:
    return BaseDataManager({"data": ROWS, "label": ROWS[:, :1]}, 4, n_process_augmentation=0)


def experiment(folder: Path, **settings: object) -> ToyExperiment:
    settings = {"optimizer_cls": ToySGD, "save_path": folder, **settings}
    return ToyExperiment({}, OwnClosure, n_epochs=1, **settings)


def trial(folder: Path, **settings: object) -> None:
    estimator = pytest.importorskip("sklearn.linear_model").SGDRegressor()
    delira.Trial(estimator, verbose=0, **settings).with_train_data(ROWS, ROWS[:, 0]).run(1)


#: keywords -> a call that uses them up
CALLS = {
    ExperimentKeywords: lambda folder, **given: experiment(folder, **given).run(data()),
    RunKeywords: lambda folder, **given: experiment(folder).run(data(), **given),
    KFoldKeywords: lambda folder, **given: experiment(folder).kfold(data(), num_splits=2, **given),
    TrainerKeywords: lambda folder, **given: ToyTrainer(OwnClosure(), folder, **given).train(1, data()),
    TrialKeywords: trial,
    PredictionKeywords: lambda folder, **given: experiment(folder).test(OwnClosure(), data(), **given),
}
#: typed as anything, though not everything is taken
LOOSE = {"split_type"}


@pytest.mark.parametrize("cls", CALLS, ids=lambda cls: cls.__name__)
def test_a_keyword_takes_none_if_its_type_says_so(cls, tmp_path):
    hints = typing.get_type_hints(cls)
    takes = {name for name, hint in hints.items() if hint is typing.Any or type(None) in typing.get_args(hint)} - LOOSE
    CALLS[cls](tmp_path, **dict.fromkeys(takes - ALIASES.keys()))
    CALLS[cls](tmp_path, **dict.fromkeys(takes & ALIASES.keys()))  # two spellings of one setting are refused
    for name in hints.keys() - takes:
        with pytest.raises(ConfigError, match=name):
            CALLS[cls](tmp_path, **{name: None})


GOOD = """
import torch

from delira import Trial
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment, PyTorchNetworkTrainer


class Net(AbstractPyTorchNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def only_here(self) -> int:
        return 1


experiment = PyTorchExperiment({}, Net, num_epochs=3, val_score_mode="highest", gradient_clip_norm=1.0)
experiment.kfold([], num_splits=5, random_seed=0, shuffle=True, val_split=None, nonfinite="skip")
number: int = experiment.run([], num_epochs=3, seed=1).only_here()
PyTorchNetworkTrainer(Net(), None, losses={"l1": torch.nn.L1Loss()}, save_freq=None)
Trial(Net(), None, torch.nn.L1Loss(), ["loss"], seed=1, compiled=False)
experiment.kfold([], seed=None, gpu_ids=None, reduce_mode=None, val_score_mode=None, optimizer_params=None)
PyTorchExperiment({}, Net, num_epochs=None, losses=None, metrics=None, metric_keys=None, verbose=None)
trainer = PyTorchNetworkTrainer(Net(), None, seed=None, deterministic=None, micro_batches=None, train_metrics=None)
trainer.train(1, [], val_score_mode="max", reduce_mode=None)
Trial(Net(), seed=None, log_freq=None, nonfinite=None, extra=None)
experiment.test(Net(), [], {"l1": torch.nn.L1Loss()}, convert_fn=None, key_mapping={"x": "data"})
"""
WRONG = (
    "PyTorchExperiment({}, Net, num_epohcs=3)",
    'PyTorchExperiment({}, Net, val_score_mode="highst")',
    "PyTorchExperiment({}, Net, fold=None)",
    "experiment.kfold([], randm_seed=0)",
    "experiment.kfold([], fold=1)",
    'experiment.kfold([], val_split="a fifth")',
    "experiment.kfold([], shuffle=None)",
    'experiment.kfold([], val_score_mode="highst")',
    "experiment.run([], num_epohcs=3)",
    'experiment.run([], nonfinite="skp")',
    'experiment.run([], val_score_mode="highst")',
    "experiment.run([]).not_there()",
    "experiment.test(Net(), [], metrcs={})",
    "experiment.test(Net(), [], key_mapping=3)",
    "PyTorchNetworkTrainer(Net(), None, save_frq=1)",
    'PyTorchNetworkTrainer(Net(), None, val_score_mode="highst")',
    'trainer.train(1, [], val_score_mode="highst")',
    'trainer.train(1, [], reduce_mode="avrage")',
    "Trial(Net(), sed=1)",
    'Trial(Net(), val_score_mode="highst")',
    "Trial(Net(), losses={})",
)


def complaints(checker: str, path: Path) -> set[int]:
    """Lines of a file that a type checker complains of."""
    if checker == "mypy":
        settings = path.with_name("mypy.ini")
        settings.write_text("[mypy]\n", encoding="utf-8")  # not those of this project
        command = ["-m", "mypy", "--config-file", str(settings), "--cache-dir", str(ROOT / ".mypy_cache"), str(path)]
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        # the folder may be that of the run before, whose answer is kept in the cache
        return {int(line) for line in re.findall(rf"{path.name}:(\d+): error:", done.stdout)}
    settings = path.with_name("pyright.json")
    settings.write_text(json.dumps({"include": [str(path)], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}))
    command = ["-m", "basedpyright", "--outputjson", "-p", str(settings), "--pythonpath", sys.executable]
    done = subprocess.run([sys.executable, *command], cwd=path.parent, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_a_type_checker_reports_misspelt_keywords_and_nothing_else(checker, tmp_path):
    pytest.importorskip("torch", reason="the file that is checked uses torch, which is not installed")
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"needs the package {checker!r}, see requirements")
    path, first = tmp_path / "script.py", GOOD.count("\n") + 1
    path.write_text(GOOD + "\n".join(WRONG) + "\n", encoding="utf-8")
    assert complaints(checker, path) == set(range(first, first + len(WRONG)))


@pytest.mark.parametrize(
    ("call", "cls", "own"),
    [
        (delira.training.BaseNetworkTrainer, TrainerKeywords, {"losses"}),
        (delira.training.BaseExperiment.run, RunKeywords, {"losses"}),
        (delira.training.BaseExperiment.kfold, KFoldKeywords, {"num_splits", "metrics", "metric_keys"}),
        (delira.Trial, TrialKeywords, {"metrics", "verbose"}),
    ],
)
def test_notebooks_complete_the_same_keywords(call, cls, own):
    shown = inspect.signature(call).parameters
    of_runs = {*ALIASES, *RUN_NAMES, "mixed_precision_kwargs"}  # other spellings, and what a run is told otherwise
    assert set(typing.get_type_hints(cls)) - of_runs <= {*shown}
    assert {*SETTINGS} & {*shown} <= {*typing.get_type_hints(cls), *own}
