"""Settings that a search chose on the same data are told beside the scores that they have there."""

import warnings

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from test_tuning import SPLITS, experiment, tune

from delira.data_loading import BaseDataManager
from delira.experiments.parameters import Parameters
from delira.experiments.result import KFoldResult
from delira.search import Choice, Tune

pytest.importorskip("optuna")

SAID = "found these settings best on the same data"


def data(seed=7):
    return BaseDataManager(linear_problem(24, 3, seed), 4)


def told(path, managed, **asked):
    """Return what a cross-validation says of searches, having seen that it says it once, and as a warning, too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = experiment(toy_kit(), path).kfold(managed, **{**SPLITS, **asked})
    shown = [str(warning.message) for warning in caught if SAID in str(warning.message)]
    kept = [text for text in result.warnings if SAID in text]
    assert shown == kept == [text for text in KFoldResult.load(result.path).warnings if SAID in text]
    return kept


def test_settings_of_a_search_on_the_same_data_are_told(tmp_path):
    search = tune(toy_kit(), tmp_path)
    (said,) = told(tmp_path, data(), params=search.params)
    assert said.startswith(f"the search {search.path.name} ")


@pytest.mark.filterwarnings("ignore:samples carry 'patient'", "ignore:the search")
def test_it_is_told_beside_what_else_makes_scores_too_good(tmp_path):
    patients = BaseDataManager(linear_problem(24, 3, 7, patient=np.arange(24) // 2), 4)
    params = tune(toy_kit(), tmp_path, data=patients).params
    found = experiment(toy_kit(), tmp_path).kfold(patients, params=params, **SPLITS).warnings
    assert [any(said in text for text in found) for said in ("samples carry 'patient'", SAID)] == [True, True]


def test_the_same_values_from_a_file_are_told_too(tmp_path):
    file = tune(toy_kit(), tmp_path).params.save(tmp_path / "best.yml")
    assert len(told(tmp_path, data(), params=Parameters.load(file), num_epochs=4)) == 1


def test_other_data_other_settings_and_a_search_in_each_fold_are_not(tmp_path):
    search = tune(toy_kit(), tmp_path)
    other = next(trial for trial in search.trials if trial.number != search.best.number)
    assert told(tmp_path, data(8), params=search.params) == []
    assert told(tmp_path, data(), params=search.params_of(other)) == []
    assert told(tmp_path, data(), tune=Tune(n_trials=2, num_splits=2)) == []


def test_settings_of_the_call_go_before_those_of_the_parameters(tmp_path):
    search = tune(toy_kit(), tmp_path)
    found = search.params.training_settings()["optimizer_params"]
    assert told(tmp_path, data(), params=search.params, optimizer_params={**found, "lr": 0.0077}) == []
    assert len(told(tmp_path, data(), params={"fixed": {"training": toy_kit().settings}}, optimizer_params=found)) == 1


def test_options_that_are_arrays_are_compared_as_a_whole(tmp_path):
    weights = [np.arange(3), np.arange(4)]
    search = tune(toy_kit(), tmp_path, variable={"training": {"extra": {"weights": Choice(weights)}}})
    assert len(told(tmp_path, data(), params=search.params)) == 1
    for value in (np.arange(5), "balanced"):
        training = {"extra": {"weights": value}}
        experiment(toy_kit(), tmp_path, {"training": {}}, training=training).kfold(data(), **SPLITS)


@pytest.mark.parametrize(
    ("file", "text"),
    [("manifest.json", "{"), ("search.yml", "fixed: {}\nvariable: {}\n"), ("trials/trial_0000/trial.json", "[]")],
)
def test_a_search_that_cannot_be_read_ends_nothing(tmp_path, file, text):
    search = tune(toy_kit(), tmp_path, asked={"n_trials": 1})
    (search.path / file).write_text(text)
    assert told(tmp_path, data(), params=search.params) == []
