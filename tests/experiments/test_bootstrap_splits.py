"""Bootstrap samples as folds: what is drawn, what is never on two sides, and what the fold of all cases counts in."""

import csv
from pathlib import Path

import numpy as np
import pytest
from problems import linear_problem
from small_backends import build_kit, toy_kit
from test_tuning import experiment, rmse

import delira
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments.splits import SplitConfig, Splitter
from delira.metrics import accuracy
from delira.runs.stored_run import read_run
from delira.training import KFoldResult, Parameters, SklearnExperiment

N = 24
BOOTSTRAP = {"split_type": "bootstrap632+", "num_splits": 4, "random_seed": 5}


def data(n=N, groups=None):
    arrays = linear_problem(n, 3, 7)
    if groups is not None:
        arrays["patient"] = groups
    return BaseDataManager(arrays, 4)


def kfold(path, manager=None, **asked):
    training = {"num_epochs": 2, "val_metrics": {"rmse": rmse}}
    made = experiment(toy_kit(), path, {"training": {}}, training=training)
    return made.kfold(data() if manager is None else manager, **{**BOOTSTRAP, **asked})


def parts(groups=None, **asked):
    return [*Splitter(data(groups=groups).dataset, SplitConfig(**{**BOOTSTRAP, **asked}), 5)]


# ---- what is drawn


def test_each_fold_trains_on_as_many_as_there_are_and_tests_those_that_were_not_drawn():
    *drawn, every = parts(val_split=None, num_splits=50)
    assert len(drawn) == 50
    for split in drawn:
        assert len(split.train) == N
        assert np.array_equal(split.test, np.setdiff1d(np.arange(N), split.train))
        assert len(split.test) > 0
    assert np.array_equal(every.train, np.arange(N))
    assert np.array_equal(every.test, np.arange(N))
    left_out = np.mean([len(split.test) / N for split in drawn])
    assert left_out == pytest.approx((1 - 1 / N) ** N, abs=0.03)


def test_the_same_seed_draws_the_same_and_more_folds_begin_with_those_of_fewer():
    few, many = parts(num_splits=3), parts(num_splits=6)
    for one, other in zip(few[:-1], many, strict=False):
        assert np.array_equal(one.train, other.train)
        assert np.array_equal(one.val, other.val)
    assert any(not np.array_equal(*pair) for pair in [(few[0].test, few[1].test), (few[1].test, few[2].test)])


def test_a_case_that_was_drawn_twice_is_not_validated_on_and_trained_on():
    for split in parts(val_split=0.3):
        assert not np.intersect1d(split.train, split.val).size
        assert len(np.unique(split.val)) == len(split.val)


def test_groups_are_drawn_as_a_whole():
    groups = np.repeat(np.arange(8), 3)
    *drawn, _ = parts(groups, groups_key="patient", val_split=0.3)
    for split in drawn:
        of = [set(groups[part]) for part in (split.train, split.val, split.test)]
        assert not any((of[0] & of[1], of[0] & of[2], of[1] & of[2]))
        counts = np.bincount(split.train, minlength=N)
        assert all(len({*counts[groups == group]}) == 1 for group in range(8))


def test_two_groups_leave_one_to_test():
    for split in parts(np.repeat([0, 1], N // 2), groups_key="patient", val_split=None)[:-1]:
        assert len(split.test) == N // 2


# ---- what is run


def test_a_run_is_read_back_with_its_estimate(tmp_path):
    result = kfold(tmp_path)
    assert [fold.fold for fold in result.folds] == [0, 1, 2, 3]
    assert result.apparent.fold == 4
    assert len(result.apparent.test_indices) == N
    again = KFoldResult.load(result.path)
    assert again.apparent.fold == 4
    assert again.info["num_splits"] == 4
    wanted = result.bootstrap632()["rmse"]
    assert KFoldResult.load(result.path, {"rmse": rmse}).bootstrap632()["rmse"] == wanted
    assert np.isfinite(wanted.value)
    assert not any("same samples" in text or "two sides" in text for text in result.warnings)


def test_a_comparison_says_what_of_a_bootstrap_it_compares(tmp_path):
    made = experiment(
        toy_kit(), tmp_path, {"training": {}}, training={"num_epochs": 4}, name="longer", val_score_key=None
    )
    found = delira.compare([kfold(tmp_path), made.kfold(data(), **BOOTSTRAP)], metric="rmse")
    assert sum("tested on the cases outside them, and no .632+ estimates" in each for each in found.caveats) == 2


def test_the_ledger_counts_it_in_no_mean(tmp_path):
    result = kfold(tmp_path)
    assert read_run(result.path).metrics["rmse"] == pytest.approx(result.summary()["rmse"]["mean"])
    assert not verify([result.path]).is_broken


def test_it_is_the_same_elsewhere_and_in_parts(tmp_path):
    whole = kfold(tmp_path / "whole")
    first = kfold(tmp_path / "parts", folds=[1, 2])
    assert first.apparent is None
    assert any("folds 0, 3, 4 are missing" in text for text in first.warnings)
    later = kfold(tmp_path / "parts", resume=first.path)
    beside = kfold(tmp_path / "beside", n_jobs=2)
    for other in (later, beside):
        for one, two in zip([*whole.folds, whole.apparent], [*other.folds, other.apparent], strict=True):
            assert np.array_equal(one.predictions["pred"], two.predictions["pred"])


def test_samples_that_are_identical_are_not_found_on_both_sides_of_the_fold_of_all(tmp_path):
    assert "duplicates" not in kfold(tmp_path, check_duplicates=True).info


def test_samples_of_delira_give_what_ipred_gives_within_its_spread(tmp_path):
    neighbors = pytest.importorskip("sklearn.neighbors")
    with open(Path(__file__).parents[1] / "report/references/bootstrap632_data.csv") as file:
        rows = [*csv.DictReader(file)]
    with open(Path(__file__).parents[1] / "report/references/bootstrap632_of_r.csv") as file:
        of_r = {row["name"]: float(row["value"]) for row in csv.DictReader(file)}
    arrays = {
        "data": np.array([[float(row["a"]), float(row["b"])] for row in rows]),
        "label": np.array([int(row["label"]) for row in rows]),
    }
    made = SklearnExperiment(Parameters(), neighbors.NearestCentroid, num_epochs=1, save_path=tmp_path)
    asked = {**BOOTSTRAP, "num_splits": 50, "val_split": None}
    result = made.kfold(BaseDataManager(arrays, 40), {"accuracy": accuracy}, **asked)
    apart = 1 - result.bootstrap632()["accuracy"].value - of_r["means, 50 samples, mean of 200"]
    assert abs(apart) < 3 * of_r["means, 50 samples, sd of 200"]


def test_an_ensemble_has_the_networks_of_the_samples(tmp_path):
    result = kfold(tmp_path)
    names = [member.name for member in delira.load_ensemble(result.path).members]
    assert names == [f"fold_{number:02d}" for number in range(4)]
    assert len(result.ensemble().members) == 4
    whole = delira.load_network(result.path / "fold_04")  # which can be had by its name
    assert np.array_equal(whole.weight, result.apparent.load_network().weight)


@pytest.mark.parametrize("keep", [False, "labels"])
def test_what_was_not_kept_is_said_and_its_numbers_are_shown(tmp_path, keep):
    linear_model, metrics = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.metrics")
    label = np.random.default_rng(1).integers(2, size=40)
    arrays = {"data": label[:, None] + np.random.default_rng(0).normal(size=(40, 2)), "label": label}

    def auc(y_true, y_pred):
        return metrics.roc_auc_score(y_true, y_pred[:, 1])

    made = SklearnExperiment(Parameters(), linear_model.LogisticRegression, num_epochs=1, save_path=tmp_path)
    asked = {**BOOTSTRAP, "keep_predictions": keep, "val_split": None}
    result = made.kfold(BaseDataManager(arrays, 40), {"auc": auc, "accuracy": accuracy}, **asked)
    found = result.bootstrap632()["auc"]
    assert np.isnan(found.value)
    assert "there is no value without information" in found.note
    assert found.out_of_bag == pytest.approx(result.summary()["auc"]["mean"])
    assert "it cannot be computed of draws" in str(result).replace("\n", " ")
    assert ".632+" in result.to_html()


def test_a_sample_that_lacks_a_class_is_told(tmp_path):
    label = np.array([0] * 22 + [1] * 2)[:, None]
    told = kfold(tmp_path, BaseDataManager({**linear_problem(N, 3, 7), "label": label}, 4)).warnings
    assert any("the training part lacks a class in fold" in text for text in told)


# ---- what is refused


def test_settings_that_cannot_be():
    with pytest.raises(ConfigError, match="shuffle says nothing to split_type='bootstrap632"):
        SplitConfig(**BOOTSTRAP, shuffle=True)
    with pytest.raises(ConfigError, match="at least two; there is 1"):
        parts(np.zeros(N, int), groups_key="patient")
    with pytest.warns(UserWarning, match="num_splits was not given; 50 is used"):
        assert len(parts(num_splits=None)) == 51
    with pytest.raises(ConfigError, match=r"did you mean 'bootstrap632\+'"):
        SplitConfig(split_type="bootstrap632")


def test_nothing_is_searched_on_samples_that_share_cases(tmp_path):
    made = experiment(build_kit("toy"), tmp_path)
    for call in (
        lambda: made.tune(data(), n_trials=2, **BOOTSTRAP),
        lambda: made.kfold(data(), **BOOTSTRAP, tune={"n_trials": 2, "num_splits": 2}),
    ):
        with pytest.raises(ConfigError, match="searches none: a case is drawn several times"):
            call()
    assert not any(tmp_path.rglob("fold_*"))


def test_its_splits_are_not_shared_as_a_file(tmp_path):
    with pytest.raises(ConfigError, match="a bootstrap draws cases several times"):
        kfold(tmp_path).save_splits(tmp_path / "splits.json")


def test_a_splitter_of_ones_own_may_not_test_what_it_trains_on(tmp_path):
    every = np.arange(N)
    with pytest.raises(ConfigError, match="sample"):
        kfold(tmp_path, split_type="random", num_splits=None, splits=[(every, every)], val_split=None)


def test_they_are_drawn_again_for_a_comparison_with_the_same_seed(tmp_path):
    one, other = kfold(tmp_path / "one"), kfold(tmp_path / "other", num_epochs=1)
    for first, second in zip(one.folds, other.folds, strict=True):
        assert np.array_equal(first.train_indices, second.train_indices)
