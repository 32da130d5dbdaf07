"""A learning curve is a cross-validation of each size: parts lie within each other, and every size tests the same."""

import inspect

import numpy as np
import pytest
from problems import linear_problem
from sklearn.model_selection import TimeSeriesSplit
from small_backends import toy_kit
from test_tuning import experiment, rmse

import delira
from delira.cli.report import write_report
from delira.cli.runs import list_runs
from delira.cli.verify import verify
from delira.data_loading import BaseDataManager
from delira.errors import ConfigError
from delira.experiments import kfold_call
from delira.experiments.experiment import BaseExperiment
from delira.experiments.splits import SplitConfig, Splitter
from delira.experiments.training_sizes import nested_splits
from delira.runs.stored_run import read_run
from delira.search import SearchResult
from delira.training import KFoldResult, LearningCurve

N = 30
SPLITS = {"num_splits": 3, "shuffle": True, "random_seed": 5}


def data(n=N, **more):
    return BaseDataManager({**linear_problem(n, 3, 7), **more}, 4)


def made(path, kit=None):
    training = {"num_epochs": 2, "val_metrics": {"rmse": rmse}}
    return experiment(kit or toy_kit(), path, {"training": {}}, training=training)


def curve(path, sizes=(6, 10, 1.0), manager=None, **asked):
    return made(path).learning_curve(data() if manager is None else manager, sizes, **{**SPLITS, **asked})


def parts(sizes, manager=None, **asked):
    config = SplitConfig(**{"val_split": None, **SPLITS, **asked})
    splitter = Splitter((data() if manager is None else manager).dataset, config, 5)
    splits, cases = nested_splits(splitter, sizes)
    n_folds = len(splits) // len(cases)
    return [splits[place * n_folds : (place + 1) * n_folds] for place in range(len(cases))], [*splitter], cases


def learned(split):
    return {*split.train.tolist(), *([] if split.val is None else split.val.tolist())}


# ---- which cases


@pytest.mark.parametrize("val_split", [None, 0.25])
def test_each_fold_learns_from_cases_within_those_of_the_next_size_and_tests_the_same(val_split):
    by_size, folds, cases = parts((4, 0.5, 20), val_split=val_split)
    assert cases == [4, 10, 20]
    for fold in range(3):
        own = [learned(splits[fold]) for splits in by_size]
        assert [len(each) for each in own] == cases
        assert own[0] < own[1] < own[2]
        assert all(np.array_equal(splits[fold].test, folds[fold].test) for splits in by_size)


@pytest.mark.parametrize("asked", [{"val_split": 0.25}, {"val_split": None}, {"val_split": 0.2, "shuffle": False}])
def test_all_cases_are_divided_as_by_kfold(asked):
    by_size, folds, _ = parts((0.5, 1.0), **asked)
    for one, other in zip(by_size[-1], folds, strict=True):
        assert np.array_equal(one.train, other.train)
        assert (one.val is None and other.val is None) or np.array_equal(one.val, other.val)


def test_folds_draw_their_cases_apart_and_again_the_same():
    by_size, _, _ = parts((8,))
    again, _, _ = parts((8,))
    other, _, _ = parts((4, 8))
    for one, two, three in zip(by_size[0], again[0], other[1], strict=True):
        assert np.array_equal(one.train, two.train)
        assert np.array_equal(one.train, three.train)
    common = learned(by_size[0][0]) & learned(by_size[0][1])
    assert len(common) < 8


def test_classes_keep_their_shares():
    label = np.array([0] * 36 + [1] * 18 + [2] * 6)
    by_size, _, _ = parts((10, 20, 30), data(60, label=label), split_type="stratified")
    for size, splits in zip((10, 20, 30), by_size, strict=True):
        for split in splits:
            counts = np.bincount(label[split.train], minlength=3)
            assert np.abs(counts - size * np.array([0.6, 0.3, 0.1])).max() <= 1


def test_groups_are_whole_and_as_many_as_come_nearest():
    groups = np.repeat(np.arange(10), 3)
    by_size, _, cases = parts((7, 12), data(patient=groups), groups_key="patient")
    assert cases == [7, 12]
    for small, large in zip(*by_size, strict=True):
        assert [len(small.train), len(large.train)] == [6, 12]
        assert all(len(split.train) == 3 * len(np.unique(groups[split.train])) for split in (small, large))
        assert learned(small) < learned(large)


def test_of_a_series_in_time_the_latest_are_taken():
    asked = {"split_type": TimeSeriesSplit(3), "num_splits": None, "shuffle": False}
    by_size, folds, _ = parts((3, 5), **asked)
    for place, size in enumerate((3, 5)):
        for split, fold in zip(by_size[place], folds, strict=True):
            assert split.train.tolist() == fold.train[-size:].tolist()


def test_a_share_is_one_of_the_training_part_of_each_fold():
    asked = {"split_type": TimeSeriesSplit(3), "num_splits": None, "shuffle": False}
    by_size, folds, cases = parts((0.5, 1.0), **asked)
    assert cases == [4, 9]  # of the smallest
    assert [len(split.train) for split in by_size[1]] == [len(fold.train) for fold in folds] == [9, 16, 23]
    assert [len(split.train) for split in by_size[0]] == [4, 8, 12]


def test_validation_parts_that_were_decided_before_stay_and_count():
    given = [(np.arange(12), np.arange(12, 16), np.arange(16, 20)), (np.arange(8, 20), np.arange(4), np.arange(4, 8))]
    by_size, _, cases = parts((6, 1.0), splits=given, num_splits=None, shuffle=False)
    assert cases == [6, 16]
    for size, splits in zip(cases, by_size, strict=True):
        for split, (train, val, test) in zip(splits, given, strict=True):
            assert len(learned(split)) == size
            assert {*split.train} <= {*train}
            assert np.array_equal(split.val, val)
            assert np.array_equal(split.test, test)


# ---- what is run


@pytest.mark.slow_cases("torch")
def test_each_fold_is_the_one_of_a_cross_validation_with_these_parts(kit, tmp_path):
    asked = {**SPLITS, "val_split": 0.25}
    found = made(tmp_path / "curve", kit).learning_curve(data(), (8, 1.0), **asked)
    every = found.result.folds
    given = [(fold.train_indices, fold.val_indices, fold.test_indices) for fold in every]
    alone = made(tmp_path / "alone", kit).kfold(data(), splits=given, random_seed=5)
    for one, other in zip(every, alone.folds, strict=True):
        assert one.history == other.history
        assert np.array_equal(one.predictions["pred"], other.predictions["pred"])


def test_a_size_is_a_cross_validation_of_its_own(tmp_path):
    found = curve(tmp_path)
    assert found.sizes == [6, 10, 20]
    assert found.n_folds == 3
    for size in found.sizes:
        result = found.at(size)
        assert [fold.fold for fold in result.folds] == [0, 1, 2]
        assert result.info["num_splits"] == 3
        assert result.oof.mask.all()
        assert all(len(fold.train_indices) + len(fold.val_indices) == size for fold in result.folds)
    assert not found.warnings


def test_it_is_read_back(tmp_path):
    found = curve(tmp_path)
    again = LearningCurve.load(found.path, {"rmse": rmse})
    assert again.sizes == found.sizes
    assert str(again) == str(found)
    for size in found.sizes:
        assert again.at(size).summary() == found.at(size).summary()
    assert LearningCurve.load(tmp_path).path == found.path


def test_it_is_the_same_elsewhere_and_when_it_goes_on(tmp_path):
    whole = curve(tmp_path / "whole")
    beside = curve(tmp_path / "beside", n_jobs=2)
    again = curve(tmp_path / "whole", resume=whole.path)
    for other in (beside, again):
        for one, two in zip(whole.result.folds, other.result.folds, strict=True):
            assert np.array_equal(one.predictions["pred"], two.predictions["pred"])
    assert again.path == whole.path
    with pytest.raises(ConfigError, match="sizes"):
        curve(tmp_path / "whole", (6, 12, 1.0), resume=whole.path)


def test_of_one_that_was_broken_off_the_sizes_that_there_are_can_be_read(tmp_path):
    found = curve(tmp_path)
    for number in range(4, 9):
        (found.path / f"fold_{number:02d}" / "result.zip").unlink()
    part = LearningCurve.load(found.path, {"rmse": rmse})
    assert [*part.points] == [6, 10]
    assert [fold.fold for fold in part.at(10).folds] == [0]
    assert any("fold 4 has finished" in text for text in part.warnings)
    with pytest.raises(ConfigError, match="the curve has no size 20; it has 6, 10"):
        part.at(20)


def test_commands_know_it(tmp_path):
    found = curve(tmp_path)
    assert read_run(found.path).kind == "learning_curve"
    largest = found.at(20).summary()["rmse"]["mean"]
    assert read_run(found.path).metrics["rmse"] == pytest.approx(largest)
    assert not verify([found.path]).is_broken
    (listed,) = list_runs(tmp_path).content["runs"]
    assert (listed["kind"], listed["folds_done"], listed["folds"]) == ("learning_curve", 9, 9)
    answer = write_report([found.path], export=tmp_path / "files")
    assert "Over the number of training cases" in (found.path / "report" / "report.html").read_text()
    assert answer.content["sizes"] == [6, 10, 20]
    assert (tmp_path / "files" / "learning_curve.png").stat().st_size > 1000


def test_a_mean_over_sizes_is_nowhere_offered(tmp_path):
    found = curve(tmp_path)
    with pytest.raises(ConfigError, match=r"is a learning curve, which LearningCurve\.load reads"):
        KFoldResult.load(found.path)
    with pytest.raises(ConfigError, match="is no search"):
        SearchResult.load(found.path)
    alone = made(tmp_path / "alone").kfold(data(), **SPLITS)
    with pytest.raises(ConfigError, match=r"is no learning curve; KFoldResult\.load reads"):
        LearningCurve.load(alone.path)
    with pytest.raises(ConfigError, match=r"what experiment\.learning_curve ran"):
        LearningCurve(alone)


def test_page_table_and_data_frame_have_each_size(tmp_path):
    found = curve(tmp_path)
    page, rows = found.to_html(), found.table().rows
    assert [row[1] for row in rows] == ["6", "10", "20"]
    assert all(row[2] in page for row in rows)
    assert found.to_html(tmp_path / "page.html").read_text().count("<svg") == 1
    frame = found.to_dataframe()
    assert len(frame) == 9
    means = frame.groupby("size")["value"].mean()
    assert means[10] == pytest.approx(found.at(10).summary()["rmse"]["mean"])
    (axes,) = found.plot().axes
    assert axes.get_xlabel() == "training cases"
    assert len(axes.lines) >= 3
    assert [*found] == [*found.points.values()]


def test_a_training_part_without_a_class_is_told(tmp_path):
    label = np.array([0] * 24 + [1] * 6)
    found = curve(tmp_path, (4, 20), data(label=label[:, None]))
    assert any(text.startswith("4 cases: the training part lacks a class in fold") for text in found.warnings)
    assert "Warning: 4 cases: the training part lacks a class" in str(found)
    (told,) = [text for text in found.at(4).warnings if "training part lacks a class" in text]
    assert told.startswith("the training part")
    again = LearningCurve.load(found.path, {"rmse": rmse})
    assert told in again.at(4).warnings
    for result in (found.at(20), again.at(20)):
        assert not any("training part lacks a class" in text for text in result.warnings)


def test_an_interval_that_there_is_not_is_not_drawn(tmp_path):
    found = curve(tmp_path, metrics={"rmse": rmse, "none": lambda true, pred: float("nan")}, keep_predictions=False)
    assert all(row[4] == "–" for row in found.table().rows)
    for axes in found.plot().axes:
        assert not axes.collections  # the bars
    assert [row[0] for row in curve(tmp_path / "none", metrics={}).table().rows] == ["no metrics were computed"]


def test_its_networks_are_no_ensemble(tmp_path):
    found = curve(tmp_path)
    with pytest.raises(ConfigError, match=r"is a learning curve, whose networks learned from different numbers"):
        delira.load_ensemble(found.path)
    with pytest.raises(ConfigError, match="the folds of all sizes of a learning curve"):
        made(tmp_path / "other").kfold(data(), splits=found.result)
    assert made(tmp_path / "other").kfold(data(), splits=found.at(10)).info["num_splits"] == 3


def test_warnings_point_at_the_caller(tmp_path):
    with pytest.warns(UserWarning, match="patient_id") as told:
        curve(tmp_path, manager=data(patient_id=np.repeat(np.arange(10), 3)))
    assert {warning.filename for warning in told} == {__file__}


# ---- what is refused


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((), "sizes must be a list of numbers of training cases"),
        (5, "sizes must be a list"),
        ("all", "sizes must be a list"),
        ((0, 5), "sizes must be a list"),
        ((0.0, 0.5), "sizes must be a list"),
        ((1.5,), "sizes must be a list"),
        ((True, 5), "sizes must be a list"),
        ((float("nan"),), "sizes must be a list"),
        ((5, 21), "a training part has 20 cases, which 21 is more than"),
        ((5, 0.25), r"of 20 cases two of them are the same, \[5, 5\]"),
        ((0.5, 1), "1 is one case, and beside shares 1.0 may be meant"),
    ],
)
def test_sizes_that_cannot_be(sizes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        curve(tmp_path, sizes)
    assert not any(tmp_path.rglob("fold_*"))


def test_other_arguments_that_cannot_be(tmp_path):
    with pytest.raises(ConfigError, match="learning_curve takes no folds=: it needs all of them"):
        curve(tmp_path, folds=[1])
    with pytest.raises(ConfigError, match="learning_curve takes no tune=: search first"):
        curve(tmp_path, tune={"n_trials": 2})
    with pytest.raises(ConfigError, match="a bootstrap draws as many as there are"):
        curve(tmp_path, split_type="bootstrap632+", shuffle=False)
    with pytest.raises(ConfigError, match="groups are not divided, so that two of them are the same cases in fold 0"):
        curve(tmp_path, (4, 5, 20), data(patient=np.repeat(np.arange(6), 5)), groups_key="patient")
    given = [(np.arange(12), np.arange(12, 16), np.arange(16, 20))]
    with pytest.raises(ConfigError, match="and 4 of 4 leave none to train on"):
        curve(tmp_path, (4, 1.0), splits=given, num_splits=None, shuffle=False)
    with pytest.raises(ConfigError, match=r"num_split.*did you mean 'num_splits'"):
        made(tmp_path).learning_curve(data(), num_split=3)


def test_it_takes_what_kfold_takes():
    own = dict(inspect.signature(BaseExperiment.kfold).parameters)
    defaults = kfold_call.arguments_of(None, {}, False)
    for name, default in defaults.items():
        if name not in ("options", "data"):
            assert own[name].default == default
