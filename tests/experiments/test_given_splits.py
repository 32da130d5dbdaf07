"""Splits that are shared: a file brings back the same cases, whatever their order, and refuses others."""

import json

import numpy as np
import pytest
from problems import linear_problem
from small_backends import toy_kit
from test_tuning import experiment

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.experiment_file import read

NAMES = [f"case {number:02d}" for number in range(24)]


def data(n=24, seed=7, order=None, named=False):
    arrays = linear_problem(n, 3, seed)
    if order is not None:
        arrays = {name: values[order] for name, values in arrays.items()}
    manager = BaseDataManager(arrays, 4)
    if named:
        manager.dataset.case_names = [NAMES[number] for number in (range(n) if order is None else order)]
    return manager


def kfold(path, manager, **asked):
    training = {"num_epochs": 1, "val_metrics": {}}
    return experiment(toy_kit(), path, {"training": {}}, training=training, val_score_key=None).kfold(manager, **asked)


@pytest.fixture
def first(tmp_path):
    return kfold(tmp_path / "first", data(), num_splits=3, shuffle=True, random_seed=1, val_split=0.25)


def parts(result):
    return [
        (fold.train_indices.tolist(), fold.val_indices.tolist(), fold.test_indices.tolist()) for fold in result.folds
    ]


def test_a_file_brings_back_the_same_splits(first, tmp_path):
    file = first.save_splits(tmp_path / "splits.json")
    again = kfold(tmp_path / "again", data(), splits=file)
    assert parts(again) == parts(first)
    assert again.info["split_type"] == "given"
    assert parts(kfold(tmp_path / "third", data(), splits=str(file), num_splits=3)) == parts(first)


def test_another_result_is_as_good_as_its_file(first, tmp_path):
    assert parts(kfold(tmp_path / "again", data(), splits=first)) == parts(first)


def test_cases_are_known_by_their_names_whatever_their_order(tmp_path):
    first = kfold(tmp_path / "first", data(named=True), num_splits=3, shuffle=True, random_seed=1)
    file = first.save_splits(tmp_path / "splits.json")
    order = np.random.default_rng(0).permutation(24)
    again = kfold(tmp_path / "again", data(order=order, named=True), splits=file)
    for one, other in zip(first.folds, again.folds, strict=True):
        assert {NAMES[index] for index in one.test_indices} == {NAMES[order[index]] for index in other.test_indices}
    with pytest.raises(ConfigError, match="divides cases that the dataset has not: case 20, case 21"):
        kfold(tmp_path / "fewer", data(20, named=True), splits=file)


def test_other_numbers_of_samples_are_refused(first, tmp_path):
    file = first.save_splits(tmp_path / "splits.json")
    with pytest.raises(ConfigError, match="divides 24 samples, the dataset has 20"):
        kfold(tmp_path / "again", data(20), splits=file)


def test_other_data_without_names_are_warned_of(first, tmp_path):
    file = first.save_splits(tmp_path / "splits.json")
    with pytest.warns(UserWarning, match="was written for other data"):
        kfold(tmp_path / "again", data(seed=8), splits=file)


def test_lists_of_indices_are_splits(tmp_path):
    halves = np.arange(24).reshape(2, 12)
    given = [(halves[0], halves[1]), (halves[1].tolist(), halves[0].tolist())]
    result = kfold(tmp_path / "two", data(), splits=given, val_split=None)
    assert [fold.test_indices.tolist() for fold in result.folds] == [halves[1].tolist(), halves[0].tolist()]
    assert result.folds[0].val_indices is None
    with_val = kfold(tmp_path / "three", data(), splits=[([0, 1, 2], [3], [4, 5])])
    assert parts(with_val) == [([0, 1, 2], [3], [4, 5])]


def test_training_parts_without_validation_are_divided(tmp_path):
    halves = np.arange(24).reshape(2, 12)
    result = kfold(tmp_path, data(), splits=[(halves[0], halves[1])], val_split=0.25)
    assert len(result.folds[0].val_indices) == 3
    assert not {*result.folds[0].val_indices} & {*result.folds[0].train_indices}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"splits": "nowhere.json"}, "there is no such file"),
        ({"splits": 3}, "splits must be a file"),
        ({"splits": [(1, 2, 3, 4)]}, "splits must be a file"),
        ({"splits": []}, "splits must be a file"),
        ({"splits": [([0, 1], [])]}, "a part of splits must be a list of indices"),
        ({"splits": [([0, 1], [99])]}, "99"),
        ({"splits": [([0, 1], [1, 2])], "val_split": None}, "sample 1 is in the training and the test part"),
        ({"splits": [([0, 1], [2])], "shuffle": True}, "leave split_type and shuffle out"),
        ({"splits": [([0, 1], [2])], "num_splits": 3, "val_split": None}, "num_splits=3, but splits= has 1"),
    ],
)
def test_what_are_no_splits_is_refused(tmp_path, asked, why):
    with pytest.raises((ConfigError, IndexError), match=why):
        kfold(tmp_path, data(), **asked)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "other"}, "has no splits"),
        ({"format": 2}, "has the format 2"),
        ({"folds": [{"train": [0]}]}, "cannot be read as splits"),
        ({"folds": [{"train": [0], "val": None, "test": [50]}]}, "cannot be read as splits"),
    ],
)
def test_a_file_that_says_something_else_is_refused(first, tmp_path, change, why):
    file = first.save_splits(tmp_path / "splits.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ConfigError, match=why):
        kfold(tmp_path / "again", data(), splits=file)


def test_folds_that_are_missing_cannot_be_shared(tmp_path):
    some = kfold(tmp_path / "some", data(), num_splits=3, folds=[0, 1])
    with pytest.raises(ConfigError, match="has 2 of 3 folds"):
        some.save_splits(tmp_path / "splits.json")


def test_a_search_uses_given_splits(tmp_path):
    pytest.importorskip("optuna")
    halves = np.arange(24).reshape(2, 12)
    given = [(halves[0], halves[1]), (halves[1], halves[0])]
    result = experiment(toy_kit(), tmp_path).tune(data(), n_trials=2, splits=given, val_split=0.25)
    assert [len(trial.fold_scores) for trial in result.trials] == [2, 2]


def test_names_that_several_cases_have_say_nothing_of_a_case(tmp_path):
    manager = data()
    manager.dataset.case_names = [f"patient {number // 2}" for number in range(24)]
    first = kfold(tmp_path / "first", manager, num_splits=3, shuffle=True, random_seed=1)
    for splits in (first, first.save_splits(tmp_path / "splits.json")):
        assert parts(kfold(tmp_path / "again", manager, splits=splits)) == parts(first)


def test_the_plan_of_a_run_has_splits_that_others_can_read(first, tmp_path, monkeypatch):
    file = first.save_splits(tmp_path / "splits.json")
    monkeypatch.chdir(tmp_path)
    for given in (first, "splits.json", [(np.arange(12), np.arange(12, 24)), (np.arange(12, 24), np.arange(12))]):
        result = kfold(tmp_path / "again", data(), splits=given, val_split=None)
        plan = read(result.path, None)[1].kfold["splits"]
        assert plan == str(file) if given == "splits.json" else all(len(part) == 3 for part in plan)
