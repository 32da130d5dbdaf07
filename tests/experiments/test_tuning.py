"""Searches: which trials there are, what is scored, who is given up, and that nothing that happens changes them."""

import glob
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from executors import EXECUTORS, executor_called
from problems import linear_problem
from small_backends import toy_kit

from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.experiments.parameters import Parameters
from delira.experiments.result import KFoldResult
from delira.runs.folder import RunFolder
from delira.search import Choice, Float, SearchResult
from delira.training.callbacks import AbstractCallback
from delira.utils import files

optuna = pytest.importorskip("optuna")

ROOT = Path(__file__).parents[2]
LR = {"optimizer_params": {"lr": Float(1e-3, 0.3, log=True), "momentum": Choice([0.0, 0.5, 0.9])}}
SPLITS = {"num_splits": 3, "shuffle": True, "random_seed": 5}


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


class Full(Exception):
    """An error of the user's own."""


class Fail(AbstractCallback):
    """Raises where the learning rate is in an interval."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def at_training_begin(self, trainer, **facts):
        if self.low <= trainer.config.optimizer.params["lr"] <= self.high:
            raise Full("no place left")


class Slow(AbstractCallback):
    """Gives kills the time to fall into trials."""

    only_watches = True

    def at_epoch_end(self, trainer, **facts):
        time.sleep(0.04)


def experiment(kit, path, variable=None, **more):
    training = {**kit.settings, "num_epochs": 3, "val_metrics": {"rmse": rmse}, **more.pop("training", {})}
    params = Parameters({"model": {"n_features": 3}, "training": training}, variable or {"training": LR})
    options = {"val_score_key": "rmse", "val_score_mode": "min", **more}
    return kit.experiment_cls(params, kit.network, save_path=path, **options)


def tune(kit, path, *, data=None, asked=None, **more):
    data = BaseDataManager(linear_problem(24, 3, 7), 4) if data is None else data
    return experiment(kit, path, **more).tune(data, **{"n_trials": 5, **SPLITS, **(asked or {})})


def rows(result):
    """All that is the same in two searches that are the same."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in result.table()]


# ---- what comes out


@pytest.mark.slow_cases("torch")
def test_each_trial_is_the_cross_validation_with_its_values(kit, tmp_path):
    result = tune(kit, tmp_path / "search")
    assert [trial.number for trial in result.trials] == [0, 1, 2, 3, 4]
    for trial in result.trials[:2]:
        params = result.params_of(trial)
        alone = experiment(kit, tmp_path / "alone").kfold(
            BaseDataManager(linear_problem(24, 3, 7), 4), params=params, **SPLITS
        )
        means = [fold.means()["rmse"] for fold in alone.folds]
        assert trial.scores == (float(np.mean(means)),)
        assert trial.fold_scores == tuple((mean,) for mean in means)
        stored = KFoldResult.load(trial.path)
        assert [fold.means()["rmse"] for fold in stored.folds] == means


@pytest.mark.slow_cases("torch")
def test_the_best_trial_gives_the_parameters(kit, tmp_path):
    result = tune(kit, tmp_path)
    assert result.best.scores[0] == min(trial.scores[0] for trial in result.trials)
    chosen = result.params.training_settings()["optimizer_params"]
    assert chosen["lr"] == result.best.values["training.optimizer_params.lr"]
    assert not result.params.spaces()
    assert f"trial {result.best.number}" in str(result)
    again = experiment(kit, tmp_path / "run")
    again.run(*(BaseDataManager(linear_problem(24, 3, seed), 4) for seed in (7, 8)), params=result.params)
    assert again.last_trainer.config.optimizer.params == chosen


@pytest.mark.slow_cases("torch")
def test_without_folds_a_trial_is_scored_by_its_validation(kit, tmp_path):
    result = tune(kit, tmp_path, asked={"num_splits": None, "val_split": 0.25})
    for trial in result.trials:
        (fold,) = KFoldResult.load(trial.path).folds
        assert len(fold.val_indices) == 6
        assert fold.val_indices.tolist() == fold.test_indices.tolist()
        best = min(epoch["val_rmse"] for epoch in fold.history)
        assert trial.scores[0] == pytest.approx(best)


@pytest.mark.slow_cases("torch")
def test_a_search_is_read_from_its_folder_without_what_it_names(kit, tmp_path):
    result = tune(kit, tmp_path)
    stored = SearchResult.load(tmp_path)
    assert rows(stored) == rows(result)
    assert stored.best.number == result.best.number
    assert stored.params.spaces() == {}
    assert stored.params["variable"] == result.params["variable"]
    with pytest.raises(ConfigError, match=r"is no search; KFoldResult.load reads"):
        SearchResult.load(result.best.path)


@pytest.mark.slow_cases("torch")
def test_the_same_seed_makes_the_same_search(kit, tmp_path):
    one, other = (tune(kit, tmp_path / name) for name in ("one", "other"))
    assert rows(one) == rows(other)
    third = tune(kit, tmp_path / "third", asked={"random_seed": 6})
    assert rows(third) != rows(one)


def test_two_processes_try_the_same_settings_where_proposals_do_not_hang_on_results(tmp_path):
    asked = {"sampler": "random", "n_trials": 6, "num_threads": None}
    here = tune(toy_kit(), tmp_path / "here", asked=asked)
    there = tune(toy_kit(), tmp_path / "there", asked={**asked, "n_jobs": 2})
    assert rows(here) == rows(there)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", EXECUTORS)
def test_every_executor_tries_the_same_settings(tmp_path, name):
    asked = {"sampler": "random", "n_trials": 4}
    here = tune(toy_kit(), tmp_path / "here", asked=asked)
    with executor_called(name, tmp_path) as executor:
        there = tune(toy_kit(), tmp_path / "there", asked={**asked, "executor": executor})
    assert rows(there) == rows(here)


def test_a_grid_tries_each_combination_once(tmp_path):
    variable = {"training": {"optimizer_params": {"lr": Choice([0.01, 0.1]), "momentum": Choice([0.0, 0.5])}}}
    result = tune(toy_kit(), tmp_path, variable=variable, asked={"sampler": "grid", "n_trials": None})
    tried = [tuple(trial.values.values()) for trial in result.trials]
    assert tried == [(0.01, 0.0), (0.01, 0.5), (0.1, 0.0), (0.1, 0.5)]


def test_several_metrics_give_the_trials_that_no_other_beats(tmp_path):
    def worst(y_true, y_pred):
        return float(np.abs(y_true - y_pred).max())

    asked = {"metric": ["rmse", "worst"], "direction": ["min", "max"], "sampler": "nsga2", "n_trials": 6}
    result = tune(toy_kit(), tmp_path, training={"val_metrics": {"rmse": rmse, "worst": worst}}, asked=asked)
    for trial in result.trials:
        beaten = [o for o in result.trials if o.scores[0] < trial.scores[0] and o.scores[1] > trial.scores[1]]
        assert (trial in result.best_trials) == (not beaten)
    with pytest.raises(Exception, match=r"choose one of result.best_trials"):
        result.params  # noqa: B018


def test_a_trial_that_breaks_a_constraint_is_not_the_best(tmp_path):
    def slow_enough(params, metrics):
        assert set(metrics) == {"rmse"}
        return params.training_settings()["optimizer_params"]["lr"] - 0.05

    result = tune(toy_kit(), tmp_path, asked={"constraints": slow_enough, "n_trials": 8})
    assert any(trial.constraints[0] > 0 for trial in result.trials)
    assert result.best.values["training.optimizer_params.lr"] <= 0.05


@pytest.mark.parametrize("keep", ["best", "all", "none"])
def test_weights_stay_of_the_trials_that_are_asked_for(tmp_path, keep):
    result = tune(toy_kit(), tmp_path, asked={"keep_checkpoints": keep})
    having = [trial.number for trial in result.trials if any(trial.path.glob("fold_*/checkpoints/checkpoint_*"))]
    assert having == {"best": [result.best.number], "all": [0, 1, 2, 3, 4], "none": []}[keep]
    answer = verify([str(result.path)])
    assert not answer.is_broken, answer.text
    again = tune(toy_kit(), tmp_path, asked={"keep_checkpoints": keep, "n_trials": 6, "resume": "auto"})
    assert rows(again)[:5] == rows(result)


# ---- who is given up


def test_a_trial_is_given_up_between_epochs(tmp_path):
    asked = {"pruner": "median", "n_trials": 14, "num_splits": None}
    result = tune(toy_kit(), tmp_path, asked=asked)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned
    assert all(trial.epochs < 3 or len(trial.fold_scores) == 0 for trial in pruned)
    assert result.best.state == "finished"


@pytest.mark.filterwarnings("ignore:WilcoxonPruner is experimental")
def test_a_trial_is_given_up_between_folds_in_an_order_of_its_own(tmp_path):
    asked = {"pruner": "wilcoxon", "n_trials": 10, "num_splits": 6, "sampler": "random"}
    result = tune(toy_kit(), tmp_path, asked=asked)
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned
    assert all(4 <= len(trial.fold_scores) < 6 for trial in pruned)
    orders = set()
    for trial in result.trials:
        begun = [each["fold"] for each in RunFolder(trial.path).events() if each["event"] == "fold_started"]
        orders.add(tuple(begun[:4]))
    assert len(orders) > 3


def test_pruned_searches_are_the_same_each_time(tmp_path):
    asked = {"pruner": "halving", "n_trials": 10}
    one, other = (tune(toy_kit(), tmp_path / name, asked=asked) for name in ("one", "other"))
    assert {trial.state for trial in one.trials} == {"finished", "pruned"}
    assert rows(one) == rows(other)


class Killed(BaseException):
    """Ends a search as a kill does: nothing of the library takes it for an error of a trial."""


PRUNED = {
    "median": {"n_trials": 14},
    "percentile": {"n_trials": 14},
    "halving": {"n_trials": 14},
    "wilcoxon": {"n_trials": 10, "num_splits": 6, "sampler": "random"},
}


@pytest.mark.slow_cases("value")
@pytest.mark.parametrize("where", ["before the trial is written", "before the value is written"])
@pytest.mark.parametrize("pruner", [*PRUNED])
def test_a_kill_after_a_verdict_changes_no_trial(tmp_path, monkeypatch, pruner, where):
    """Each trial that is given up is killed once there, and goes on from a checkpoint of before."""
    options = {"asked": {"pruner": pruner, **PRUNED[pruner]}, "training": {"num_epochs": 6, "save_freq": 1}}
    quiet = tune(toy_kit(), tmp_path / "quiet", **options)
    pruned = [trial.number for trial in quiet.trials if trial.state == "pruned"]
    killed = []

    def kill_once(number):
        if number in pruned and number not in killed:
            killed.append(number)
            raise Killed

    if where == "before the trial is written":
        publish = files.publish_text

        def published(path, text, **more):
            if path.name == "trial.json" and json.loads(text)["state"] == "pruned":
                kill_once(json.loads(text)["number"])
            return publish(path, text, **more)

        monkeypatch.setattr(files, "publish_text", published)
    else:
        setter = optuna.storages.JournalStorage.set_trial_intermediate_value

        def set_value(storage, trial_id, step, value):
            if any(name.startswith("said_of_step_") for name in storage.get_trial(trial_id).system_attrs):
                kill_once(storage.get_trial(trial_id).number)
            return setter(storage, trial_id, step, value)

        monkeypatch.setattr(optuna.storages.JournalStorage, "set_trial_intermediate_value", set_value)
    options["asked"]["resume"] = "auto"
    for _ in pruned:
        with pytest.raises(Killed):
            tune(toy_kit(), tmp_path / "killed", **options)
    assert rows(tune(toy_kit(), tmp_path / "killed", **options)) == rows(quiet)
    assert killed == pruned != []


# ---- what goes wrong


def test_a_trial_that_fails_is_told_and_the_others_go_on(tmp_path, caplog):
    result = tune(toy_kit(), tmp_path, asked={"n_trials": 8, "callbacks": [Fail(0.02, 0.05)]})
    failed = [trial for trial in result.trials if trial.state == "failed"]
    assert failed
    assert all(trial.error == "Full: no place left" for trial in failed)
    assert len([trial for trial in result.trials if trial.state == "finished"]) == 8 - len(failed)
    assert "failed, and the search goes on" in caplog.text


def test_where_all_trials_fail_the_error_arrives_with_its_own_type(tmp_path):
    with pytest.raises(Full, match="no place left") as caught:
        tune(toy_kit(), tmp_path, asked={"n_trials": 8, "callbacks": [Fail(0, 1)]})
    assert any("3 trials failed before any had ended" in note for note in caught.value.__notes__)


def test_a_score_that_is_no_number_is_no_success(tmp_path):
    def odd(y_true, y_pred):
        return float("nan")

    with pytest.raises(DataError, match="its score is not finite: odd nan"):
        tune(
            toy_kit(), tmp_path, training={"val_metrics": {"odd": odd}}, val_score_key=None, val_score_mode="auto",
            asked={"metric": "odd", "direction": "max"},
        )  # fmt: skip
    stored = SearchResult.load(tmp_path)
    assert [trial.state for trial in stored.trials] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"metric": "f1"}, "tune cannot look at 'f1'.*rmse"),
        ({"direction": "up"}, "direction must be"),
        ({"n_trials": None}, "n_trials is not given"),
        ({"sampler": "grid"}, "infinitely many values"),
        ({"folds": [1]}, "folds"),
        ({"direction": "max"}, "direction='max' for 'rmse' contradicts val_score_mode='min' of the experiment"),
        ({"n_trials": 6, "pruner": "median", "val_freq": 4}, "val_freq=4 with num_epochs=3 validates none"),
        ({"num_splits": 30}, "only 24 samples"),
        ({"n_jobs": 0}, "n_jobs must be a number of trials from 1"),
        ({"executor": "here", "n_jobs": 2}, "executor='here' runs one trial after the other; for n_jobs=2"),
        ({"takeover_after": 0}, "tune.*takeover_after"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_trained(tmp_path, asked, why):
    with pytest.raises(ConfigError, match=why):
        tune(toy_kit(), tmp_path, asked=asked)
    assert not [*tmp_path.rglob("trial_*")]


def test_a_search_of_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing is to be searched.*Float"):
        tune(toy_kit(), tmp_path, variable={"training": {"seed": 3}})


def test_a_metric_of_which_nobody_knows_what_is_good_needs_a_direction(tmp_path):
    training = {"val_metrics": {"oddity": lambda y_true, y_pred: 1.0}}
    with pytest.raises(ConfigError, match="large values of 'oddity' are good: say direction="):
        tune(
            toy_kit(),
            tmp_path,
            training=training,
            val_score_key=None,
            val_score_mode="auto",
            asked={"metric": "oddity"},
        )


# ---- going on


def test_a_search_goes_on_for_more_trials(tmp_path):
    whole = tune(toy_kit(), tmp_path / "whole", asked={"n_trials": 6})
    tune(toy_kit(), tmp_path / "parts", asked={"n_trials": 3})
    again = tune(toy_kit(), tmp_path / "parts", asked={"n_trials": 6, "resume": "auto"})
    assert rows(again) == rows(whole)
    assert len([*(tmp_path / "parts").glob("*/*")]) == 1


def test_a_study_of_other_parameters_is_not_continued(tmp_path):
    first = tune(toy_kit(), tmp_path)
    other = {"training": {"optimizer_params": {"lr": Float(1e-3, 0.5, log=True), "momentum": Choice([0.0, 0.5, 0.9])}}}
    with pytest.raises(ConfigError, match=r"search.spaces.training.optimizer_params.lr") as caught:
        tune(toy_kit(), tmp_path, variable=other, asked={"resume": first.path})
    assert "begin a new one" in str(caught.value)


def test_a_search_is_not_continued_as_a_cross_validation(tmp_path):
    first = tune(toy_kit(), tmp_path)
    data = BaseDataManager(linear_problem(24, 3, 7), 4)
    with pytest.raises(ConfigError, match=r"holds a tune and cannot be continued by a kfold; call experiment.tune"):
        experiment(toy_kit(), tmp_path, {"training": {}}).kfold(data, **SPLITS, resume=first.path)


def test_without_folds_a_score_is_that_of_the_part_that_was_held_out(tmp_path):
    found = tune(toy_kit(), tmp_path, asked={"n_trials": 2, "num_splits": None})
    assert [row["score_of"] for row in found.table()] == ["held-out part"] * 2
    assert [len(trial.fold_scores) for trial in found.trials] == [1, 1]


SCRIPT = """
import sys
from delira.search import Choice, Float
from small_backends import toy_kit
from test_tuning import Slow, rows, tune
import json

asked = json.loads(sys.argv[2])
grid = {"training": {"optimizer_params": {"lr": Float(0.01, 0.12, step=0.01), "momentum": Choice([0.0, 0.5])}}}
variable = grid if asked.pop("variable", "") == "grid" else None
settings = {"num_epochs": 6, "save_freq": 1, "callbacks": [Slow()]}
result = tune(toy_kit(), sys.argv[1], asked=asked, training=settings, variable=variable)
print(json.dumps(rows(result)))
"""


def run_killed(folder, asked, generator, n_kills, script=SCRIPT):
    """Run a search whose processes are killed at random, until it has ended; returns what it prints and the kills."""
    places = os.pathsep.join(map(str, (ROOT / "tests", Path(__file__).parent, ROOT)))
    options = {"env": {**os.environ, "PYTHONPATH": places}, "text": True, "start_new_session": True}
    command = [sys.executable, "-c", script, str(folder), json.dumps({**asked, "resume": "auto"})]
    killed = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
        n_seen = n_begun(folder)
        while killed < n_kills and process.poll() is None:
            if n_begun(folder) == n_seen:  # it starts, or there is nobody at work
                time.sleep(0.01)
                continue
            time.sleep(generator.uniform(0.0, 0.3))
            n_seen = n_begun(folder)
            killed += kill(process, generator)
        said, _ = process.communicate(timeout=300)
        if process.returncode == 0:
            return json.loads(said), killed
        assert process.returncode == -signal.SIGKILL


def n_begun(folder):
    """How often a trial has begun, or gone on, in a search or in those inside of folds."""
    # those of pathlib stumble over folders that go in this moment
    ledgers = [found for inner in ("", "fold_*/search/") for found in glob.glob(f"{folder}/*/*/{inner}ledger.jsonl")]
    return sum(Path(file).read_text().count('"trial_started"') for file in ledgers)


def kill(process, generator):
    """Kill the program with all of its processes, or one of those that it has begun; returns whether one was there."""
    if process.poll() is not None:
        return False
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        if children and generator.random() < 0.5:
            generator.choice(children).kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return True


def finished(folder):
    """Numbers of the trials that the ledger says have ended, in that order."""
    (run,) = folder.glob("*/*")
    return [each["trial"] for each in RunFolder(run).events() if each["event"] == "trial_finished"]


@pytest.mark.slow_cases("30|halving|wilcoxon")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("n_kills", [3, 30])
@pytest.mark.parametrize("pruner", ["median", "halving", "wilcoxon"])
def test_a_search_that_is_killed_has_the_trials_of_one_that_is_not(tmp_path, n_kills, pruner):
    asked = {"n_trials": 6 if n_kills == 3 else 40, "pruner": pruner, "num_splits": 6 if pruner == "wilcoxon" else 3}
    quiet, _ = run_killed(tmp_path / "quiet", asked, random.Random(0), 0)
    found, killed = run_killed(tmp_path / "killed", asked, random.Random(n_kills), n_kills)
    assert killed == n_kills
    assert found == quiet
    assert finished(tmp_path / "killed") == [*range(len(quiet))]
    assert not [*(tmp_path / "killed").rglob("*.lease")]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_several_processes_that_are_killed_try_the_settings_that_one_tries(tmp_path, sampler):
    asked = {"n_trials": 24, "sampler": sampler, "n_jobs": 2, "variable": sampler}
    quiet, _ = run_killed(tmp_path / "quiet", {**asked, "n_jobs": None}, random.Random(0), 0)
    found, killed = run_killed(tmp_path / "killed", asked, random.Random(1), 30)
    assert killed == 30
    assert found == quiet
    assert sorted(finished(tmp_path / "killed")) == [*range(24)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_of_several_processes_that_are_killed_each_trial_is_recorded_and_runs_again(tmp_path):
    asked = {"n_trials": 24, "sampler": "tpe", "n_jobs": 2}
    found, killed = run_killed(tmp_path / "killed", asked, random.Random(2), 30)
    assert killed == 30
    assert [row["trial"] for row in found] == [*range(24)]
    assert sorted(finished(tmp_path / "killed")) == [*range(24)]
    result = SearchResult.load(tmp_path / "killed")
    again = experiment(toy_kit(), tmp_path / "again", training={"num_epochs": 6, "save_freq": 1})
    for trial in result.trials:
        params = again.params.with_values(dict(trial.values))
        alone = again.kfold(BaseDataManager(linear_problem(24, 3, 7), 4), params=params, **SPLITS)
        assert trial.scores == (float(np.mean([fold.means()["rmse"] for fold in alone.folds])),)
