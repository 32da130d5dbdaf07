"""Nested cross-validation: searches that see the training part alone, and what is told of them."""

import json
import math
import os
import random
import signal

import numpy as np
import pytest
from problems import linear_problem
from small_backends import build_kit, toy_kit
from test_tuning import SPLITS, Fail, Full, experiment, run_killed

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, WorkerLostError
from delira.experiments.result import KFoldResult
from delira.report.chosen import agreement, chosen_section
from delira.runs.folder import RunFolder
from delira.search import SearchResult, Tune
from delira.training.callbacks import AbstractCallback

pytest.importorskip("optuna")

TUNE = Tune(n_trials=3, num_splits=2)
PATIENTS = np.arange(24) // 2


def data(n=24, **more):
    return BaseDataManager(linear_problem(n, 3, 7, **more), 4)


def nested(kit, path, **asked):
    return experiment(kit, path).kfold(asked.pop("data", data()), **{**SPLITS, "tune": TUNE, **asked})


class Seen(AbstractCallback):
    """Writes which samples each training sees, and in which folder."""

    def __init__(self, folder):
        self.folder = folder

    def at_iter_begin(self, trainer, *, data_dict, **facts):
        line = {"at": str(trainer.save_path), "numbers": np.asarray(data_dict["number"]).tolist()}
        with open(self.folder / "seen.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")


def test_no_search_sees_a_case_that_its_fold_is_tested_on(tmp_path):
    result = nested(toy_kit(), tmp_path / "runs", callbacks=[Seen(tmp_path)])
    lines = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    for fold in result.folds:
        tested = set(fold.test_indices.tolist())
        inner = [set(each["numbers"]) for each in lines if f"fold_{fold.fold:02d}/search" in each["at"]]
        assert inner
        assert not tested & set.union(*inner)


def test_groups_are_kept_together_in_both_loops(tmp_path):
    result = nested(
        toy_kit(), tmp_path, data=data(patient=PATIENTS), groups_key="patient", tune=Tune(n_trials=2, num_splits=3)
    )
    for fold in result.folds:
        outer = np.sort(np.concatenate([fold.train_indices, fold.val_indices]))
        for trial in SearchResult.load(fold.path / "search").trials:
            for inner in KFoldResult.load(trial.path).folds:
                parts = [
                    set(PATIENTS[outer[part]]) for part in (inner.train_indices, inner.val_indices, inner.test_indices)
                ]
                assert not parts[0] & parts[2]
                assert not parts[1] & parts[2]
                assert not set(PATIENTS[fold.test_indices]) & set.union(*parts)


def test_preprocessing_is_fitted_on_the_inner_training_part_alone(tmp_path):
    from sklearn.preprocessing import StandardScaler

    result = nested(toy_kit(), tmp_path, preprocessing={"data": StandardScaler()})
    fold = result.folds[0]
    trial = SearchResult.load(fold.path / "search").trials[0]
    outer = np.sort(np.concatenate([fold.train_indices, fold.val_indices]))
    values = linear_problem(24, 3, 7)["data"]
    for inner in KFoldResult.load(trial.path).folds:
        stored = (inner.path / "preprocessing.zip").exists()
        assert stored
        from delira.training import load_preprocessing

        fitted = load_preprocessing(inner.path)
        mean = fitted.transformers["data"].mean_
        assert np.allclose(mean, values[outer[inner.train_indices]].mean(axis=0))


@pytest.mark.slow_cases("torch")
def test_each_fold_is_trained_with_what_it_chose(kit, tmp_path):
    result = nested(kit, tmp_path)
    assert [each["fold"] for each in result.searched] == [0, 1, 2]
    for fold, told in zip(result.folds, result.searched, strict=True):
        best = SearchResult.load(fold.path / "search").best
        assert told["values"] == dict(best.values)
        assert told["scores"] == [*best.scores]
        chosen = fold.parameters.training_settings()["optimizer_params"]
        assert chosen["lr"] == best.values["training.optimizer_params.lr"]
        assert len(fold.history) == 3


@pytest.mark.slow_cases("torch")
def test_what_was_chosen_is_told_now_and_when_it_is_read_again(kit, tmp_path):
    result = nested(kit, tmp_path)
    stored = KFoldResult.load(result.path)
    assert stored.searched == result.searched
    for each in (result, stored):
        assert "Chosen by each fold's own search:" in str(each)
        assert "training.optimizer_params.lr: median" in str(each)
        assert "Settings that each fold chose" in each.to_html()
    assert "$space: Float" in result.info["settings"]


def test_what_was_searched_is_told_beside_it(tmp_path):
    result = nested(toy_kit(), tmp_path)
    rates = [each["values"]["training.optimizer_params.lr"] for each in result.searched]
    share = 100 * math.log(max(rates) / min(rates)) / math.log(0.3 / 1e-3)
    stored = KFoldResult.load(result.path)
    assert stored.info["search"] == result.info["search"]
    for each in (result, stored):
        of_rates, of_momenta = agreement(each)
        assert of_rates.endswith(f"{share:.0f} % of the space's width on its log scale")
        assert "median" not in of_momenta
        assert of_momenta.endswith("of 3 options")
        notes = chosen_section(each).notes
        assert {of_rates, of_momenta} <= {*notes}
        assert (
            "Each fold tried 3 trials, proposed by tpe; each was scored by the test parts of 2 inner folds, 20 % of "
            "whose training parts were held out for validation." in notes
        )


def test_a_finished_one_is_read_with_what_its_folds_chose(tmp_path):
    first = nested(toy_kit(), tmp_path)
    n_events = len(RunFolder(first.path).events())
    again = nested(toy_kit(), tmp_path, resume="auto")
    assert len(RunFolder(first.path).events()) == n_events
    assert again.searched == first.searched
    for one, other in zip(first.folds, again.folds, strict=True):
        assert (
            one.parameters.training_settings()["optimizer_params"]
            == other.parameters.training_settings()["optimizer_params"]
        )


def test_processes_choose_what_one_does(tmp_path):
    here = nested(toy_kit(), tmp_path / "here")
    there = nested(toy_kit(), tmp_path / "there", n_jobs=2)
    assert there.searched == here.searched
    assert [fold.means() for fold in there.folds] == [fold.means() for fold in here.folds]


def test_each_fold_searches_with_random_numbers_of_its_own(tmp_path):
    result = nested(toy_kit(), tmp_path, tune=Tune(n_trials=2, num_splits=2, sampler="random"))
    tried = [tuple(SearchResult.load(fold.path / "search").trials[0].values.values()) for fold in result.folds]
    assert len({*tried}) == 3


def test_a_search_that_fails_in_a_fold_says_where(tmp_path):
    with pytest.raises(Full, match="no place left") as caught:
        nested(toy_kit(), tmp_path, callbacks=[Fail(0, 1)])
    assert "in the search of fold 0" in caught.value.__notes__


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"tune": 3}, "tune must be a delira.search.Tune or its fields"),
        ({"tune": {"n_trial": 3}}, "tune has no.*did you mean 'n_trials'"),
        ({"params": {"training": {"num_epochs": 2}}}, "params= are those of all folds"),
        ({"tune": Tune(n_trials=2, metric="f1")}, "tune cannot look at 'f1'"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, asked, why):
    with pytest.raises(ConfigError, match=why):
        nested(toy_kit(), tmp_path, **asked)


def test_a_splitter_that_cannot_divide_again_needs_another_one_for_the_search(tmp_path):
    from sklearn.model_selection import RepeatedKFold, TimeSeriesSplit

    outer = {"split_type": RepeatedKFold(n_splits=3, n_repeats=1, random_state=0), "num_splits": None, "shuffle": False}
    with pytest.raises(ConfigError, match=r"say it by Tune\(split_type=…\)"):
        nested(toy_kit(), tmp_path, **outer)
    result = nested(toy_kit(), tmp_path, **outer, tune=Tune(n_trials=2, num_splits=2, split_type="random"))
    assert len(result.searched) == 3
    in_time = nested(toy_kit(), tmp_path / "time", split_type=TimeSeriesSplit(3), num_splits=None, shuffle=False)
    for trial in SearchResult.load(in_time.folds[2].path / "search").trials:
        for inner in KFoldResult.load(trial.path).folds:
            assert inner.train_indices.max() < inner.test_indices.min()


def test_another_search_is_another_cross_validation(tmp_path):
    first = nested(toy_kit(), tmp_path)
    with pytest.raises(ConfigError, match=r"its search differ"):
        nested(toy_kit(), tmp_path, tune=Tune(n_trials=3, num_splits=3), resume=first.path)


@pytest.mark.slow
def test_the_nested_example_of_scikit_learn_is_reproduced(tmp_path):
    """Non-nested and nested scores of its page on iris: a grid over C and gamma, the same splits in both loops."""
    pytest.importorskip("skops")
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
    from sklearn.svm import SVC

    from delira.metrics import accuracy
    from delira.search import Choice
    from delira.training import Parameters, SklearnExperiment

    x, y = load_iris(return_X_y=True)
    grid = {"C": [1, 10, 100], "gamma": [0.01, 0.1]}
    params = Parameters(
        {"training": {"val_metrics": {"accuracy": accuracy}}},
        {"model": {"kernel": Choice(["rbf"]), **{name: Choice(values) for name, values in grid.items()}}},
    )
    splits = KFold(4, shuffle=True, random_state=0)
    search = GridSearchCV(SVC(kernel="rbf"), grid, cv=splits)
    data = BaseDataManager({"data": x, "label": y}, 150)
    experiment = SklearnExperiment(params, SVC, name="iris", save_path=tmp_path)
    asked = {"sampler": "grid", "val_split": None, "split_type": splits, "metric": "accuracy"}

    non_nested = experiment.tune(data, **asked)
    assert non_nested.best.scores == pytest.approx([search.fit(x, y).best_score_], abs=1e-12)

    nested = experiment.kfold(data, split_type=splits, val_split=None, tune=Tune(**asked))
    found = [fold.means()["accuracy"] for fold in nested.folds]
    assert found == pytest.approx([37 / 38, 34 / 38, 1.0, 34 / 37])
    assert found == pytest.approx([*cross_val_score(search, x, y, cv=splits)], abs=1e-12)


# ---- killed


SCRIPT = """
import json
import sys

from delira.data_loading import BaseDataManager
from delira.experiments import folds
from delira.search import SearchResult, Tune
from problems import linear_problem
from small_backends import build_kit, toy_kit
from test_tuning import SPLITS, Slow, experiment, rows

folds._MOST_LOSSES = 99  # kills at random may hit a process three times before it does anything
asked = json.loads(sys.argv[2])
settings = {"num_epochs": 6, "save_freq": 1, "callbacks": [Slow()]}
call = {name: asked[name] for name in ("resume", "n_jobs", "executor") if name in asked}
tune = Tune(n_trials=asked["n_trials"], num_splits=2, pruner=asked["pruner"])
data = BaseDataManager(linear_problem(24, 3, 7), 4)
result = experiment(toy_kit(), sys.argv[1], training=settings).kfold(data, **SPLITS, tune=tune, **call)
tables = [rows(SearchResult.load(fold.path / "search")) for fold in result.folds]
scores = [fold.means() for fold in result.folds]
histories = [fold.history for fold in result.folds]
print(json.dumps({"scores": scores, "searched": result.searched, "tables": tables, "histories": histories}))
"""

#: kills the process in each fold once, right before or right after the ledger says what its search has chosen
EXACTLY = """
import os, pathlib, signal, sys
from delira.runs.folder import RunFolder

log, (_, folder, _) = RunFolder.log, sys.argv

def kill_once(moment, number):
    marker = pathlib.Path(folder).parent / f"{moment}_{number}"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)

def log_or_die(run, event, **facts):
    if event == "searched":
        kill_once("before", facts["fold"])
    log(run, event, **facts)
    if event == "searched":
        kill_once("after", facts["fold"])

RunFolder.log = log_or_die
"""


class DieOncePerTrial(AbstractCallback):
    """Kills its process once in each trial, in the second epoch of the first fold."""

    def __init__(self, folder):
        self.folder = folder

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        place = trainer.save_path.relative_to(self.folder).parts
        marker = self.folder / "_".join(place[-4:])
        if "search" in place and trainer.fold == 0 and curr_epoch == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def told(folder, event):
    """Numbers of the folds of which the ledger says this, in order."""
    (run,) = folder.glob("*/*")
    return sorted(each["fold"] for each in RunFolder(run).events() if each["event"] == event)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("where", "pruner"), [({}, None), ({}, "median"), ({"executor": "processes", "n_jobs": 2}, "median")]
)
def test_nested_searches_that_are_killed_choose_what_others_choose(tmp_path, where, pruner):
    asked = {"n_trials": 8 if pruner else 4, "pruner": pruner}
    quiet, _ = run_killed(tmp_path / "quiet", asked, random.Random(0), 0, SCRIPT)
    found, killed = run_killed(tmp_path / "killed", {**asked, **where}, random.Random(8), 8, SCRIPT)
    assert killed == 8
    assert found == quiet
    assert [len(table) for table in quiet["tables"]] == [asked["n_trials"]] * 3
    assert told(tmp_path / "killed", "searched") == told(tmp_path / "killed", "fold_finished") == [0, 1, 2]
    assert not [*(tmp_path / "killed").rglob("*.lease")]
    answer = verify([tmp_path / "killed"])
    assert not answer.is_broken, answer.text


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kill_beside_the_line_of_what_was_chosen_changes_nothing(tmp_path):
    asked = {"n_trials": 3, "pruner": None}
    quiet, _ = run_killed(tmp_path / "quiet", asked, random.Random(0), 0, SCRIPT)
    found, _ = run_killed(tmp_path / "killed", asked, random.Random(0), 0, EXACTLY + SCRIPT)
    assert len([*tmp_path.glob("before_*"), *tmp_path.glob("after_*")]) == 6
    assert found == quiet
    assert told(tmp_path / "killed", "searched") == told(tmp_path / "killed", "fold_finished") == [0, 1, 2]


@pytest.mark.slow
def test_a_fold_that_is_lost_in_each_of_its_trials_goes_on(tmp_path):
    """It is lost more often than a fold may be that makes no progress, each time after a further epoch of a trial."""
    asked = {"tune": Tune(n_trials=4, num_splits=2), "folds": [0]}
    training = {"training": {"save_freq": 1}}
    lossy = experiment(toy_kit(), tmp_path / "lossy", **training).kfold(
        data(), **SPLITS, **asked, n_jobs=2, callbacks=[DieOncePerTrial(tmp_path)]
    )
    quiet = experiment(toy_kit(), tmp_path / "quiet", **training).kfold(data(), **SPLITS, **asked)
    assert told(tmp_path / "lossy", "fold_lost") == [0, 0, 0, 0]
    assert lossy.searched == quiet.searched
    assert [fold.means() for fold in lossy.folds] == [fold.means() for fold in quiet.folds]


def threads_in(result):
    """Numbers of threads that the manifests of a run and of all in it tell: its own, and those of searches."""
    manifests = sorted(result.path.rglob("manifest.json"))
    return [json.loads(file.read_text())["num_threads"] for file in manifests]


def test_the_searches_of_folds_compute_with_the_threads_of_the_run(tmp_path):
    torch = pytest.importorskip("torch", reason="is about threads of PyTorch")
    asked = {"resources": {"cpus": 1}, "tune": Tune(n_trials=2, num_splits=2), "num_epochs": 1}
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as in a program on a machine of two cores
    try:
        here = nested(build_kit("torch"), tmp_path / "here", **asked)
        some = nested(build_kit("torch"), tmp_path / "some", **asked, n_jobs=2, folds=[2])
        rest = nested(build_kit("torch"), tmp_path / "some", **asked, resume=some.path)
        again = nested(build_kit("torch"), tmp_path / "some", **asked, resume=some.path, n_jobs=2)
    finally:
        torch.set_num_threads(before)
    assert {*threads_in(here)} == {*threads_in(again)} == {1}
    assert len(threads_in(here)) == len(threads_in(again)) > 3
    assert again.searched == rest.searched == here.searched


class Die(AbstractCallback):
    """Ends the process that trains, as long as there is no file ``mended``."""

    only_watches = True

    def __init__(self, folder):
        self.folder = folder

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if curr_epoch == 2 and not (self.folder / "mended").exists():
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_search_of_a_fold_that_a_process_began_goes_on_here(tmp_path):
    torch = pytest.importorskip("torch", reason="is about threads of PyTorch")
    asked = {"resources": {"cpus": 1}, "tune": Tune(n_trials=2, num_splits=2), "folds": [0]}
    kit, before = build_kit("torch"), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(WorkerLostError):
            nested(kit, tmp_path, **asked, executor="processes", n_jobs=1, callbacks=[Die(tmp_path)])
        (tmp_path / "mended").touch()
        (run,) = (tmp_path / "UnnamedExperiment").iterdir()
        on = nested(kit, tmp_path, **asked, resume=run, callbacks=[Die(tmp_path)])
    finally:
        torch.set_num_threads(before)
    assert {*threads_in(on)} == {1}
