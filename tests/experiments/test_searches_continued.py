"""Searches that go on: what must be the same, what is lost, and what was refused too late or not at all."""

import contextlib
import json
import shutil

import numpy as np
import pytest
from edited_files import read_plain
from problems import linear_problem
from small_backends import toy_kit
from test_tuning import LR, SPLITS, Fail, Full, experiment, rmse, rows, tune

from delira.cli.runs import list_runs
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import CheckpointError, ConfigError, DataError
from delira.experiments.experiment_file import read
from delira.search import Choice, Float, Int, SearchResult, Tune
from delira.training.callbacks import AbstractCallback

optuna = pytest.importorskip("optuna")

TUNE = Tune(n_trials=2, num_splits=2)
MOMENTUM = "training.optimizer_params.momentum"


def data(n=24, seed=7):
    return BaseDataManager(linear_problem(n, 3, seed), 4)


def nested(path, **asked):
    return experiment(toy_kit(), path).kfold(data(), **{**SPLITS, "tune": TUNE, **asked})


def worse(y_true, y_pred):
    return 1000 * rmse(y_true, y_pred)


class Break(AbstractCallback):
    """Raises KeyboardInterrupt in one epoch of one fold of one folder."""

    def __init__(self, part, epoch):
        self.part, self.epoch = part, epoch

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if self.part in str(trainer.save_path) and curr_epoch == self.epoch:
            raise KeyboardInterrupt


# ---- what must be the same


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"num_epochs": 6}, "search.num_epochs"),
        ({"num_epochs": 2}, "search.num_epochs"),
        ({"metrics": {"rmse": worse}}, "search.metrics"),
        ({"direction": "max", "val_score_mode": "max"}, "search.direction"),
        ({"sampler": "random"}, "search.sampler"),
        ({"pruner": "halving"}, "search.pruner"),
        ({"constraints": lambda params, metrics: 0}, "search"),
    ],
)
def test_what_decides_the_scores_is_compared(tmp_path, asked, named):
    first = tune(toy_kit(), tmp_path, asked={"n_trials": 2})
    with pytest.raises(ConfigError, match="search differ") as caught:
        tune(toy_kit(), tmp_path, asked={"n_trials": 3, "resume": first.path, **asked})
    assert named in str(caught.value)
    other = tune(toy_kit(), tmp_path, asked={"n_trials": 2, "resume": "auto", **asked})
    assert other.path != first.path


def test_other_code_of_a_constraint_is_another_search(tmp_path):
    first = tune(toy_kit(), tmp_path, asked={"n_trials": 2, "constraints": lambda params, metrics: 1.0})
    with pytest.raises(ConfigError, match="search differ"):
        tune(toy_kit(), tmp_path, asked={"constraints": lambda params, metrics: -1.0, "resume": first.path})


def test_a_nested_run_is_not_finished_by_folds_that_search_nothing(tmp_path):
    first = nested(tmp_path, folds=[0])
    plain = experiment(toy_kit(), tmp_path, {"training": {"optimizer_params": {"lr": 0.001, "momentum": 0.0}}})
    with pytest.raises(ConfigError, match="search: a search in the run, no search now"):
        plain.kfold(data(), **SPLITS, resume=first.path)
    _, plan = read(first.path, None)
    assert plan.kfold["tune"]["n_trials"] == 2
    arguments, _ = read(first.path, None)
    assert [*arguments["params"].spaces()] == ["training.optimizer_params.lr", "training.optimizer_params.momentum"]
    assert not {"optimizer_params"} & arguments["settings"].keys()


def test_more_trials_in_each_fold_are_another_cross_validation(tmp_path):
    first = nested(tmp_path)
    with pytest.raises(ConfigError, match=r"search.n_trials: 2 in the run, 3 now"):
        nested(tmp_path, tune=Tune(n_trials=3, num_splits=2), resume=first.path)


@pytest.mark.parametrize("pruner", ["halving", "median"])
def test_what_a_pruner_sees_first_does_not_decide(tmp_path, pruner):
    variable = {"training": {"num_epochs": Int(1, 110)}}

    def search(path, n_trials, **asked):
        manager = BaseDataManager(linear_problem(12, 3, 7), 4)
        asked |= {"n_trials": n_trials, "pruner": pruner}
        return tune(toy_kit(), path, variable=variable, data=manager, asked=asked)

    whole = search(tmp_path / "whole", 9)
    search(tmp_path / "parts", 6)
    assert rows(search(tmp_path / "parts", 9, resume="auto")) == rows(whole)


def test_pruners_that_settle_something_by_the_first_trials_are_refused():
    with pytest.raises(ConfigError, match="SuccessiveHalvingPruner guesses its min_resource"):
        Tune(n_trials=2, pruner=optuna.pruners.SuccessiveHalvingPruner())
    with pytest.raises(ConfigError, match="HyperbandPruner guesses its max_resource"):
        Tune(n_trials=2, pruner=optuna.pruners.HyperbandPruner())
    Tune(n_trials=2, pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=2))
    Tune(n_trials=2, pruner=optuna.pruners.HyperbandPruner(max_resource=9))


@pytest.mark.filterwarnings("ignore:WilcoxonPruner is experimental", "ignore:PatientPruner is experimental")
def test_a_wrapped_pruner_of_folds_is_one_of_folds():
    wrapped = optuna.pruners.PatientPruner(optuna.pruners.WilcoxonPruner(), patience=1)
    assert Tune(n_trials=2, pruner=wrapped, num_splits=5).prunes == "fold"
    with pytest.raises(ConfigError, match="can give up no trial of 3 folds"):
        Tune(n_trials=2, pruner=wrapped, num_splits=3)


# ---- what is lost


def test_a_trial_whose_file_is_damaged_is_scored_again(tmp_path, caplog):
    whole = tune(toy_kit(), tmp_path)
    (whole.trials[1].path / "trial.json").write_text("")
    stored = SearchResult.load(tmp_path)
    assert len(stored.trials) == 4
    assert "may have been the best" in stored.warnings[0]
    assert "may have been the best" in str(stored)
    again = tune(toy_kit(), tmp_path, asked={"resume": whole.path})
    assert rows(again) == rows(whole)
    assert "trial 1 is scored again from its folder" in caplog.text


def test_a_study_that_is_gone_or_damaged_is_told(tmp_path):
    whole = tune(toy_kit(), tmp_path)
    file = whole.path / "study.journal"
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"op_code":4', b'"op_code:4', 1))
    with pytest.raises(CheckpointError, match=r"study.journal is damaged"):
        tune(toy_kit(), tmp_path, asked={"n_trials": 6, "resume": whole.path})
    file.unlink()
    assert verify([str(whole.path)]).is_broken
    with pytest.raises(CheckpointError, match=r"does not know trial 0, which has its folder"):
        tune(toy_kit(), tmp_path, asked={"n_trials": 6, "resume": whole.path})


def test_a_study_of_another_search_is_not_gone_on_with(tmp_path):
    whole = tune(toy_kit(), tmp_path / "one")
    wider = {"training": {"optimizer_params": {**LR["optimizer_params"], "lr": Float(1e-3, 0.4, log=True)}}}
    other = tune(toy_kit(), tmp_path / "other", variable=wider)
    shutil.copy(other.path / "study.journal", whole.path / "study.journal")
    with pytest.raises(CheckpointError, match=r"of another search: its trial 0 has 'training.optimizer_params.lr'"):
        tune(toy_kit(), tmp_path / "one", asked={"n_trials": 6, "resume": whole.path})
    assert len(SearchResult.load(whole.path).trials) == 5


def test_a_search_goes_on_under_another_name(tmp_path):
    first = tune(toy_kit(), tmp_path, asked={"n_trials": 2})
    again = tune(toy_kit(), tmp_path, name="other", asked={"n_trials": 3, "resume": first.path})
    assert rows(again)[:2] == rows(first)


def test_fewer_trials_than_there_are_lose_none(tmp_path):
    whole = tune(toy_kit(), tmp_path)
    fewer = tune(toy_kit(), tmp_path, asked={"n_trials": 2, "resume": "auto"})
    assert rows(fewer) == rows(whole)
    assert fewer.best.number == whole.best.number


def test_changes_that_are_allowed_are_allowed_in_trials_and_in_folds(tmp_path):
    with contextlib.suppress(KeyboardInterrupt):
        tune(toy_kit(), tmp_path / "a", asked={"callbacks": [Break("trial_0002", 2)]})
    with pytest.warns(UserWarning, match="is continued with changes"):
        result = tune(
            toy_kit(), tmp_path / "a", data=BaseDataManager(linear_problem(24, 3, 7), 6),
            asked={"resume": next((tmp_path / "a").glob("*/*")), "allow_changes": True},
        )  # fmt: skip
    assert {trial.state for trial in result.trials} == {"finished"}


@pytest.mark.parametrize(
    ("constraints", "error"),
    [
        (lambda params, metrics: float("nan"), "DataError: its constraints are not numbers: nan"),
        (lambda params, metrics: metrics["f1"], "KeyError: 'f1'"),
    ],
)
def test_a_constraint_that_cannot_be_computed_fails_its_trial(tmp_path, constraints, error):
    def sometimes(params, metrics):
        is_small = params.training_settings()["optimizer_params"]["lr"] < 0.03
        return -1.0 if is_small else constraints(params, metrics)

    result = tune(toy_kit(), tmp_path, asked={"constraints": sometimes, "n_trials": 6, "sampler": "random"})
    failed = [trial for trial in result.trials if trial.state == "failed"]
    assert failed
    assert all(trial.error == error for trial in failed)
    assert result.best.state == "finished"


class Missing(AbstractCallback):
    """Misses a file where the learning rate is large."""

    def at_training_begin(self, trainer, **facts):
        if trainer.config.optimizer.params["lr"] > 0.05:
            raise FileNotFoundError(2, "no such file", "weights.npy")


def test_a_file_that_one_trial_misses_ends_that_trial_alone(tmp_path):
    result = tune(toy_kit(), tmp_path, asked={"n_trials": 6, "sampler": "random", "callbacks": [Missing()]})
    assert {"finished", "failed"} == {trial.state for trial in result.trials}
    assert any("weights.npy" in trial.error for trial in result.trials)


def test_where_all_fail_several_processes_end_soon_too(tmp_path):
    with pytest.raises(Full):
        tune(toy_kit(), tmp_path, asked={"n_trials": 24, "n_jobs": 2, "callbacks": [Fail(0, 1)]})
    (run,) = tmp_path.glob("*/*")
    assert len([*run.glob("trials/*")]) < 24


def test_a_fold_keeps_what_it_chose_though_its_search_is_gone(tmp_path):
    first = nested(tmp_path)
    shutil.rmtree(first.folds[1].path / "search")
    again = nested(tmp_path, resume="auto")
    for one, other in zip(first.folds, again.folds, strict=True):
        assert one.parameters["variable"] == other.parameters["variable"]


# ---- what is refused


#: what an older version let pass: how its files differ, and why no such search begins, or goes on, any more
OF_BEFORE = {
    "direction": ({"direction": ["max"]}, {"direction": "max"}, "contradicts val_score_mode='min'"),
    "pruner": ({"pruner": "median"}, {"pruner": "median"}, "'median' can give up none of 2 trials"),
    "condition": ({}, {}, r"momentum has 5.0 in when={'lr': …}"),
}


def as_before(run, decided):
    """Edit the files of a search as if a condition that never holds, or this, had been taken."""
    manifest = read_plain(run / "manifest.json")
    manifest["search"].update(decided)
    manifest["directions"] = manifest["search"]["direction"]
    plans = [run / "search.yml", run / "experiment.yml"]
    plans[1].write_text(
        plans[1]
        .read_text()
        .replace("direction: [min]", f"direction: {manifest['directions']}")
        .replace("pruner: null", f"pruner: {json.dumps(manifest['search']['pruner'])}")
    )
    if not decided:
        manifest["search"]["spaces"][MOMENTUM]["when"] = {"lr": 5.0}
        for plan in plans:
            plan.write_text(plan.read_text().replace("0.5, 0.9]}", "0.5, 0.9], when: {lr: 5.0}}"))
            assert "when: {lr: 5.0}" in plan.read_text()
        for path in run.glob("trials/*/trial.json"):
            trial = read_plain(path)
            del trial["values"][MOMENTUM]
            path.write_text(json.dumps(trial))
    (run / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("what", [*OF_BEFORE])
def test_a_stored_search_that_would_be_refused_now_is_read(tmp_path, what):
    decided, asked, why = OF_BEFORE[what]
    run = tune(toy_kit(), tmp_path, asked={"n_trials": 2}).path
    as_before(run, decided)
    stored = SearchResult.load(run)
    assert [trial.state for trial in stored.trials] == ["finished", "finished"]
    assert not stored.problems
    pick = max if what == "direction" else min
    assert stored.best.scores == pick(trial.scores for trial in stored.trials)
    chosen = stored.params.training_settings()["optimizer_params"]
    assert chosen["lr"] == stored.best.values["training.optimizer_params.lr"]
    assert ("momentum" in chosen) == (what != "condition")
    assert f"trial {stored.best.number}" in str(stored)
    assert "<html" in stored.to_html()
    answer = verify([run])
    assert not answer.is_broken, answer.text
    (listed,) = list_runs(tmp_path).content["runs"]
    assert (listed["status"], listed["folds_done"], listed["folds"], listed["problems"]) == ("finished", 2, 2, [])
    assert listed["score"] == {"metric": "rmse", "value": stored.best.scores[0]}
    never = {"optimizer_params": {**LR["optimizer_params"], "momentum": Choice([0.0, 0.5, 0.9], when={"lr": 5.0})}}
    variable = {"training": never} if what == "condition" else None
    with pytest.raises(ConfigError, match=why):
        tune(toy_kit(), tmp_path, variable=variable, asked={"n_trials": 2, "resume": run, **asked})


@pytest.mark.parametrize(
    ("variable", "asked", "why"),
    [
        ({"training": {"num_epochs": Int(1, 6)}}, {"num_epochs": 2}, "'num_epochs' is a setting of the call"),
        ({"training": LR}, {"optimizer_params": {"lr": 0.1}}, "'optimizer_params' is a setting of the call"),
    ],
)
def test_a_setting_that_hides_what_is_searched_is_refused(tmp_path, variable, asked, why):
    with pytest.raises(ConfigError, match=why):
        tune(toy_kit(), tmp_path, variable=variable, asked=asked)


def test_a_setting_of_the_experiment_that_hides_what_is_searched_is_refused(tmp_path):
    searched = experiment(toy_kit(), tmp_path, batch_size=None, optimizer_params={"lr": 0.1})
    with pytest.raises(ConfigError, match="'optimizer_params' is a setting of the experiment"):
        searched.tune(data(), n_trials=2, **SPLITS)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"metric": ["rmse", "rmse"]}, "metric names one twice"),
        ({"num_splits": None, "val_split": None}, "val_split=None leaves none"),
    ],
)
def test_what_cannot_be_scored_is_refused(tmp_path, asked, why):
    with pytest.raises(ConfigError, match=why):
        tune(toy_kit(), tmp_path, asked=asked)


def test_several_metrics_choose_nothing_in_a_fold(tmp_path):
    with pytest.raises(ConfigError, match="each fold chooses by one metric"):
        nested(tmp_path, tune=Tune(n_trials=2, num_splits=2, metric=["rmse", "mse"]))
    assert not [*tmp_path.rglob("trial_*")]


def test_outer_splits_are_not_those_of_the_search_in_a_fold(tmp_path):
    given = [(np.arange(8, 24), np.arange(8)), (np.arange(16), np.arange(16, 24))]
    options = {"num_splits": None, "shuffle": False, "splits": given}
    result = nested(tmp_path, **options)
    assert len(result.searched) == 2


def test_a_splitter_says_how_many_folds_a_trial_has(tmp_path):
    from sklearn.model_selection import KFold

    result = experiment(toy_kit(), tmp_path).tune(data(), n_trials=2, split_type=KFold(4))
    assert [len(trial.fold_scores) for trial in result.trials] == [4, 4]


def test_without_a_trial_that_keeps_the_constraints_there_is_no_best(tmp_path):
    result = tune(toy_kit(), tmp_path, asked={"constraints": lambda params, metrics: 1.0})
    with pytest.raises(DataError, match="each that has finished breaks a constraint"):
        result.params  # noqa: B018


def test_data_are_loaded_once(tmp_path):
    calls = []

    def load():
        calls.append(1)
        return data()

    tune(toy_kit(), tmp_path, data=load, asked={"n_trials": 3})
    assert len(calls) == 1


def test_a_search_is_listed_as_whole(tmp_path):
    tune(toy_kit(), tmp_path, asked={"n_trials": 2})
    answer = list_runs(tmp_path)
    (listed,) = answer.content["runs"]
    assert (listed["kind"], listed["folds_done"], listed["folds"], listed["problems"]) == ("tune", 2, 2, [])
    assert listed["part"] == "trial"
    assert [line.split()[:3] for line in answer.text.splitlines()[:2]] == [
        ["status", "done", "score"],
        ["finished", "2/2", "trials"],
    ]
    next(tmp_path.glob("*/*/ledger.jsonl")).unlink()
    assert "in its folder: trials: 2, of them with trial.json: 2" in " ".join(list_runs(tmp_path).text.split())


def test_options_that_are_dictionaries_have_readable_names():
    assert Choice([{"lr": 0.1}, {"lr": 0.2}]).labels == ["{'lr': 0.1}", "{'lr': 0.2}"]
    with pytest.raises(ConfigError, match="logarithmic scale and a step"):
        Float(1, 4, log=True, step=1)


def test_a_result_of_other_cases_gives_no_splits(tmp_path):
    def plain(path, manager, **asked):
        return experiment(toy_kit(), path, {"training": {}}).kfold(manager, **asked)

    first = plain(tmp_path / "first", data(), num_splits=3)
    with pytest.raises(ConfigError, match="the result divides 24 samples, the dataset has 30"):
        plain(tmp_path / "more", data(30), splits=first)
    with pytest.warns(UserWarning, match="was written for other data"):
        plain(tmp_path / "other", data(seed=8), splits=first)
    some = plain(tmp_path / "some", data(), num_splits=3, folds=[1])
    with pytest.raises(ConfigError, match="has 1 of 3 folds"):
        plain(tmp_path / "again", data(), splits=some)
    with pytest.raises(ConfigError, match="names a sample twice"):
        plain(tmp_path / "twice", data(), splits=[([0, 1, 2, 2], [9], [4, 5])])


def test_a_pruned_trial_counts_the_time_that_it_took(tmp_path):
    result = tune(toy_kit(), tmp_path, asked={"pruner": "median", "n_trials": 14, "num_splits": None})
    assert all(trial.seconds > 0 for trial in result.trials if trial.state == "pruned")
