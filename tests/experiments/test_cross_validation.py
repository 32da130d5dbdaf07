"""Cross-validation: who trains, validates and tests, and what comes back."""

import collections
import copy
import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import model_selection

from delira.data_loading import BaseDataManager, RandomSampler
from delira.data_loading.dataset import AbstractDataset
from delira.errors import ConfigError, MissingKeyError
from delira.experiments.splits import SplitConfig, Splitter
from delira.training.callbacks import AbstractCallback
from delira.utils.files import sweep_partials, unsealed

pytestmark = [pytest.mark.forks, pytest.mark.turns]

N = 24
CLASSES = np.arange(N) % 4 == 0  # 6 of one class, 18 of the other
PATIENTS = np.array([f"patient {number // 3}" for number in range(N)])  # 8 of them, 3 samples each


def rmse(y_true, y_pred):
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def distance(y_true, y_pred):
    """A metric of one sample."""
    return float(np.abs(y_true - y_pred).max())


distance.over = "sample"
METRICS = {"rmse": rmse, "distance": distance}


@pytest.fixture
def data(manager):
    """Samples with classes and patients."""
    return manager(N, batch_size=5, more={"class": CLASSES.astype(np.int64), "block": PATIENTS})


def parts(split):
    return [set(), set(), set()] if split is None else [set(split.train.tolist()), set(split.val), set(split.test)]


def splits_of(dataset, seed=0, **settings):
    return list(Splitter(dataset, SplitConfig(**settings), seed))


def disjoint(*sets):
    return sum(map(len, sets)) == len(set.union(*sets))


# ---- who is where


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("split_type", ["random", "stratified"])
@pytest.mark.parametrize("groups_key", [None, "block"])
@pytest.mark.parametrize("num_splits", [2, 3])
def test_every_sample_is_tested_once_and_nothing_is_on_two_sides(data, shuffle, split_type, groups_key, num_splits):
    splits = splits_of(
        data.dataset, num_splits=num_splits, split_type=split_type, shuffle=shuffle, label_key="class",
        groups_key=groups_key, val_split=0.25,
    )  # fmt: skip
    assert len(splits) == num_splits
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(N))
    for split in splits:
        train, val, test = parts(split)
        assert train
        assert val
        assert disjoint(train, val, test)
        assert train | val | test == set(range(N))
        if groups_key is not None:
            assert disjoint(*({PATIENTS[index] for index in part} for part in (train, val, test)))
        assert all(part.dtype == np.int64 for part in (split.train, split.val, split.test))


def test_stratified_parts_have_their_share_of_each_class(data):
    for split in splits_of(data.dataset, num_splits=3, split_type="stratified", label_key="class", val_split=0.25):
        shares = [CLASSES[part].mean() for part in (split.train, split.val, split.test)]
        assert shares == [0.25, 0.25, 0.25]


@pytest.mark.parametrize("form", ["column", "one-hot", "float"])
def test_classes_may_be_columns_one_hot_rows_or_whole_floats(manager, form):
    classes = CLASSES.astype(np.int64)
    labels = {"column": classes[:, None], "one-hot": np.eye(2)[classes], "float": classes.astype(float)}[form]
    data = manager(N, more={"label": labels})
    for split in splits_of(data.dataset, num_splits=3, split_type="stratified"):
        assert CLASSES[split.test].mean() == 0.25


def test_val_split_is_the_part_of_the_training_samples_that_validates(data):
    for split in splits_of(data.dataset, num_splits=3, val_split=0.25):
        assert (len(split.train), len(split.val), len(split.test)) == (12, 4, 8)
    for split in splits_of(data.dataset, num_splits=3, val_split=None):
        assert split.val is None
        assert (len(split.train), len(split.test)) == (16, 8)


def test_without_shuffling_the_test_parts_are_consecutive_and_a_seed_is_allowed(data):
    splits = splits_of(data.dataset, num_splits=3, shuffle=False, random_seed=5)
    assert [split.test.tolist() for split in splits] == [list(range(8)), list(range(8, 16)), list(range(16, 24))]


def test_the_seed_decides_the_splits_and_each_iteration_gives_the_same(data):
    def fingerprint(seed, **settings):
        splitter = Splitter(data.dataset, SplitConfig(num_splits=3, shuffle=True, **settings), seed)
        first, second = ([[part.tolist() for part in (s.train, s.val, s.test)] for s in splitter] for _ in range(2))
        assert first == second
        return first

    assert fingerprint(1) == fingerprint(1)
    assert fingerprint(1) != fingerprint(2)


SPLITTERS = {
    "ShuffleSplit": model_selection.ShuffleSplit(2, test_size=0.25, random_state=0),
    "ShuffleSplit without a seed": model_selection.ShuffleSplit(2, test_size=0.25),
    "ShuffleSplit with a generator": model_selection.ShuffleSplit(2, random_state=np.random.RandomState(3)),
    "RepeatedStratifiedKFold": model_selection.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
    "TimeSeriesSplit": model_selection.TimeSeriesSplit(3),
    "GroupKFold": model_selection.GroupKFold(2),
    "LeaveOneGroupOut": model_selection.LeaveOneGroupOut(),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_splitters_of_scikit_learn_can_be_used(data, name):
    splitter = SPLITTERS[name]
    settings = {"split_type": splitter, "label_key": "class", "groups_key": "block" if "Group" in name else None}
    random_state = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    first = splits_of(data.dataset, **settings)
    assert (np.random.get_state()[1].tolist(), np.random.get_state()[2]) == random_state
    np.random.random()
    assert [parts(split) for split in splits_of(data.dataset, **settings)] == [parts(split) for split in first]
    assert len(first) == splitter.get_n_splits(np.zeros(N), CLASSES, PATIENTS)
    for split in first:
        train, val, test = parts(split)
        assert disjoint(train, val, test)
        if "Group" in name:
            assert disjoint(*({PATIENTS[index] for index in part} for part in (train, val, test)))
        if "Stratified" in name:
            assert CLASSES[split.val].mean() == pytest.approx(0.25, abs=0.13)


class OldestPatientsLast(model_selection.StratifiedKFold):
    """A splitter of one's own whose name does not say what it needs."""


class NeedsLabels(model_selection.KFold):
    def split(self, X, y=None, groups=None):
        if y is None:
            raise ValueError("y is needed")
        return super().split(X, y, groups)


def test_a_splitter_made_of_a_stratified_one_is_given_the_labels(data):
    (first, second) = splits_of(data.dataset, split_type=OldestPatientsLast(2), label_key="class")
    assert CLASSES[first.test].mean() == pytest.approx(CLASSES[second.test].mean(), abs=0.05)


def test_a_splitter_that_misses_labels_is_told_how_to_get_them(data):
    with pytest.raises(ValueError, match="y is needed") as caught:
        splits_of(data.dataset, split_type=NeedsLabels(2), label_key="class")
    (note,) = caught.value.__notes__
    assert "label_key='class'" in note


def test_in_a_time_series_validation_comes_after_training_and_testing_after_both(data):
    for split in splits_of(data.dataset, split_type=model_selection.TimeSeriesSplit(3), val_split=0.3):
        assert split.train.max() < split.val.min()
        assert split.val.max() < split.test.min()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split_type": "stratifed"}, "split_type must be one of .*; did you mean 'stratified'"),
        ({"split_type": model_selection.KFold}, "has no split method; pass a splitter object"),
        ({"num_splits": 1}, "num_splits must be an integer of at least 2, got 1"),
        ({"val_split": 1.5}, "val_split must be between 0 and 1"),
        ({"val_split": 0.001, "num_splits": 2, "split_type": "stratified", "label_key": "class"},
         "val_split=0.001 cannot divide the 12 training samples of fold 0"),
        ({"num_splits": 25}, "num_splits=25, but the dataset has only 24 samples"),
        ({"num_splits": 7, "split_type": "stratified", "label_key": "class"}, "class 1 has only 6 samples"),
        ({"num_splits": 9, "groups_key": "block"}, "num_splits=9, but 'block' has only 8 groups"),
        ({"num_splits": 2, "split_type": "stratified"}, "needs classes, but 'label' is continuous"),
        ({"num_splits": 2, "split_type": "stratified", "label_key": "data"}, r"'data' has shape \(3,\)"),
        ({"num_splits": 4, "split_type": model_selection.KFold(3)}, "num_splits=4, but KFold.* makes 3 splits"),
    ],
)  # fmt: skip
def test_impossible_splits_are_refused(data, settings, message):
    with pytest.raises(ConfigError, match=message):
        splits_of(data.dataset, **settings)


def test_an_entry_to_split_by_must_exist(data):
    with pytest.raises(MissingKeyError, match="has an entry 'klass'"):
        splits_of(data.dataset, num_splits=2, split_type="stratified", label_key="klass")


class Counting(AbstractDataset):
    """Counts how often a sample is read."""

    def __init__(self):
        super().__init__()
        self.reads = collections.Counter()

    def __len__(self):
        return N

    def __getitem__(self, index):
        self.reads[index] += 1
        return {"data": np.zeros(3), "label": np.zeros(1), "class": int(CLASSES[index]), "block": PATIENTS[index]}


@pytest.mark.parametrize(
    ("settings", "reads"),
    [({}, 0), ({"split_type": "stratified"}, 1), ({"groups_key": "block"}, 1)],
)
def test_samples_are_read_at_most_once_to_split_them(settings, reads):
    dataset = Counting()
    splitter = Splitter(dataset, SplitConfig(num_splits=2, label_key="class", **settings), 0)
    list(splitter)
    list(splitter)
    Splitter(dataset, SplitConfig(num_splits=2, label_key="class", **settings), 1)
    assert all(dataset.reads[index] == reads for index in range(N))


def test_labels_that_are_cheap_to_read_are_read_without_the_samples():
    class Cheap(Counting):
        def _read_labels(self, key):
            return CLASSES

    dataset = Cheap()
    list(Splitter(dataset, SplitConfig(num_splits=2, split_type="stratified"), 0))
    assert not dataset.reads


# ---- what comes back


def test_the_result_unpacks_as_outputs_and_metrics_by_fold(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path, training={"val_metrics": METRICS})
    result = experiment.kfold(data, num_splits=3)
    outputs, metrics = result
    assert outputs.keys() == metrics.keys() == {"0", "1", "2"}
    assert outputs["0"].keys() == {"pred"}
    assert (result[0].keys(), result[1].keys(), len(result)) == (outputs.keys(), metrics.keys(), 2)
    labels = data.dataset.data["label"]
    for fold in result.folds:
        predictions = outputs[str(fold.fold)]["pred"]
        assert predictions.shape == (8, 1)
        expected = [rmse(labels[fold.test_indices], predictions)]
        np.testing.assert_allclose(metrics[str(fold.fold)]["rmse"], expected, rtol=kit.rtol)
        expected = np.abs(labels[fold.test_indices] - predictions)[:, 0]
        np.testing.assert_allclose(metrics[str(fold.fold)]["distance"], expected, rtol=kit.rtol)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("scored", [False, True])
def test_out_of_fold_predictions_are_those_of_networks_trained_by_hand_on_the_rest(kit, tmp_path, data, scored):
    settings = {"val_score_key": "rmse"} if scored else {}
    training = {"val_metrics": {"rmse": rmse}, "num_epochs": 3}
    experiment = kit.experiment(tmp_path, {"dropout": 0.2}, training=training, **settings)
    result = experiment.kfold(data, num_splits=3, shuffle=True, random_seed=5)
    arrays = data.dataset.data
    assert result.oof.mask.all()
    for fold in result.folds:
        train, val = data.get_subset(fold.train_indices), data.get_subset(fold.val_indices)
        by_hand = experiment.run(train, val, fold=fold.fold, seed=5)
        rows = fold.test_indices
        expected = arrays["data"][rows] @ kit.read(by_hand)
        np.testing.assert_allclose(result.oof.predictions["pred"][rows], expected, rtol=kit.rtol)
        assert (result.oof.fold[rows] == fold.fold).all()
        assert (result.oof.counts[rows] == 1).all()
        assert kit.same(result.oof.targets["label"][rows], arrays["label"][rows])
        predicted, tested = experiment.test(by_hand, data.get_subset(rows))
        assert kit.same(predicted["pred"], fold.predictions["pred"])
        assert kit.same(tested["rmse"], fold.metrics["rmse"])
        if scored:
            assert fold.best_score == min(record["val_rmse"] for record in fold.history)


def test_a_sample_that_is_tested_several_times_has_the_last_of_its_predictions(kit, tmp_path, data):
    splitter = model_selection.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    result = kit.experiment(tmp_path).kfold(data, METRICS, num_epochs=1, split_type=splitter, label_key="class")
    assert len(result.folds) == 4
    assert (result.oof.counts == 2).all()
    for fold in result.folds[2:]:
        np.testing.assert_array_equal(result.oof.predictions["pred"][fold.test_indices], fold.predictions["pred"])
    assert [len(folds) for folds in result.rounds.folds] == [2, 2]


def test_samples_that_are_never_tested_have_no_prediction(kit, tmp_path, data):
    splitter = model_selection.ShuffleSplit(1, test_size=0.25, random_state=0)
    result = kit.experiment(tmp_path).kfold(data, METRICS, num_epochs=1, split_type=splitter)
    (fold,) = result.folds
    assert set(np.flatnonzero(result.oof.mask)) == set(fold.test_indices)
    assert np.isnan(result.oof.predictions["pred"][~result.oof.mask]).all()
    assert not np.isnan(result.oof.predictions["pred"][result.oof.mask]).any()


def test_metrics_are_those_of_the_validation_unless_others_are_given(kit, tmp_path, data):
    experiment = kit.experiment(
        tmp_path, training={"val_metrics": {"rmse": rmse}, "metric_keys": {"rmse": ("label", "pred")}}
    )
    assert experiment.kfold(data, num_splits=2)[1]["0"].keys() == {"rmse"}
    result = experiment.kfold(data, {"zero": rmse}, num_splits=2, metric_keys={"zero": ("label", "label")})
    assert result[1]["1"] == {"zero": np.zeros(1)}
    with pytest.raises(ConfigError, match="metric_keys names the metric 'zeroo', which does not exist"):
        experiment.kfold(data, {"zero": rmse}, num_splits=2, metric_keys={"zeroo": ("label", "label")})


def test_the_number_of_splits_is_ten_with_a_warning_if_it_is_not_given(kit, tmp_path, data):
    with pytest.warns(UserWarning, match="num_splits was not given; 10 is used"):
        result = kit.experiment(tmp_path).kfold(data, METRICS, num_epochs=0)
    assert len(result.folds) == 10


@pytest.mark.sampled("values")
@pytest.mark.parametrize("kind", ["run", "kfold"])
def test_that_nothing_is_trained_is_told_once(kit, tmp_path, data, caplog, kind):
    experiment, told = kit.experiment(tmp_path), "num_epochs is 0: nothing is trained"
    for epochs, count in ((1, 0), (0, 1)):
        caplog.clear()
        if kind == "run":
            experiment.run(data, num_epochs=epochs)
        else:
            experiment.kfold(data, METRICS, num_epochs=epochs, num_splits=2)
        assert sum(told in record.getMessage() for record in caplog.records) == count


def test_num_epochs_of_the_call_goes_first(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path, training={"num_epochs": 3})
    assert [len(fold.history) for fold in experiment.kfold(data, METRICS, 1, 2).folds] == [1, 1]
    assert [len(fold.history) for fold in experiment.kfold(data, METRICS, num_splits=2).folds] == [3, 3]


def test_a_fold_knows_how_it_came_about(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path, training={"val_metrics": METRICS}, val_score_key="rmse", name="digits")
    result = experiment.kfold(data, num_splits=2)
    for number, fold in enumerate(result.folds):
        assert fold.fold == number
        assert fold.path == result.path / f"fold_{number:02d}"
        lines = (fold.path / "history.jsonl").read_text().splitlines()
        assert fold.history == [unsealed(json.loads(line)) for line in lines]
        assert {"mse", "val_mse", "val_rmse", "val_distance", "lr"} <= fold.history[0].keys()
        assert fold.best_score == fold.history[fold.best_epoch - 1]["val_rmse"]
        assert fold.parameters == experiment.params
        stored = np.load(fold.path / "predictions.npz")
        assert kit.same(stored["indices"], fold.test_indices)
        assert kit.same(stored["predictions/pred"], fold.predictions["pred"])
    assert "digits: 2 folds, 24 cases, seed 0" in str(result)
    assert not list(sweep_partials(result.path) or result.path.rglob("*.partial-*"))


def test_without_validation_data_the_score_is_ignored_with_one_warning(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path, val_score_key="rmse", training={"val_metrics": {"rmse": rmse}})
    with pytest.warns(UserWarning, match="val_score_key='rmse' is ignored: there are no validation data") as caught:
        result = experiment.kfold(data, num_splits=3, val_split=None)
    assert len(caught) == 1
    assert [(fold.val_indices, fold.best_epoch) for fold in result.folds] == [(None, None)] * 3
    assert all("val_rmse" not in record for fold in result.folds for record in fold.history)


# ---- data of the parts


def test_transforms_act_only_where_they_belong(kit, tmp_path, data):
    seen = {"train": set(), "test": set()}

    def noting(part):
        def transform(batch):
            seen[part].update(batch["number"].tolist())
            return batch

        return transform

    result = kit.experiment(tmp_path).kfold(
        data, METRICS, split_type=model_selection.ShuffleSplit(1, random_state=0),
        train_kwargs={"transforms": noting("train")}, test_kwargs={"transforms": noting("test")},
    )  # fmt: skip
    (fold,) = result.folds
    assert seen["train"] == set(fold.train_indices)
    assert seen["test"] == set(fold.val_indices) | set(fold.test_indices)
    assert data.transforms is None


def test_a_transform_of_the_manager_holds_for_all_parts_unless_it_is_replaced(kit, tmp_path, manager):
    def shifted(batch):
        return batch | {"label": batch["label"] + 100}

    data = manager(N, transforms=shifted)
    experiment = kit.experiment(tmp_path)
    with_shift = experiment.kfold(data, {"rmse": rmse}, num_epochs=0, num_splits=2)
    without = experiment.kfold(data, {"rmse": rmse}, num_epochs=0, num_splits=2, test_kwargs={"transforms": None})
    assert all(fold.metrics["rmse"] > 50 for fold in with_shift.folds)
    assert all(fold.metrics["rmse"] < 50 for fold in without.folds)


def test_every_sample_is_tested_once_whatever_sampler_and_drop_last_say(kit, tmp_path, manager):
    data = manager(N, 5, sampler_cls=RandomSampler, sampler_kwargs={"replacement": True}, drop_last=True)
    result = kit.experiment(tmp_path).kfold(data, METRICS, num_epochs=1, num_splits=2)
    labels = data.dataset.data["label"]
    for fold in result.folds:
        assert kit.same(fold.targets["label"], labels[fold.test_indices])


def test_kfold_changes_neither_the_manager_nor_the_experiment(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path)
    before = copy.deepcopy(experiment.params), copy.deepcopy(experiment.settings), dict(vars(data))
    change = {"fixed": {"training": {"optimizer_params": {"lr": 0.01}}}}
    experiment.kfold(data, METRICS, 1, 2, params=change, train_kwargs={"batch_size": 2}, test_kwargs={"batch_size": 7})
    assert (experiment.params, experiment.settings, dict(vars(data))) == before
    assert len(experiment.kfold(data, METRICS, num_splits=2).folds[0].history) == 2


def test_only_a_manager_can_be_divided(kit, tmp_path, data):
    with pytest.raises(ConfigError, match="kfold divides the data itself, so it needs a BaseDataManager, got list"):
        kit.experiment(tmp_path).kfold(list(data), METRICS, num_splits=2)


def test_a_misspelt_option_is_refused_with_a_guess(kit, tmp_path, data):
    with pytest.raises(ConfigError, match="unknown training setting 'num_split'; did you mean"):
        kit.experiment(tmp_path).kfold(data, METRICS, num_split=2)


def test_each_fold_has_callbacks_of_its_own_and_the_result_shows_them(kit, tmp_path, data):
    class CountEpochs(AbstractCallback):
        count = 0

        def at_epoch_end(self, trainer, **facts):
            self.count += 1

    mine = CountEpochs()
    result = kit.experiment(tmp_path).kfold(data, METRICS, 3, 2, callbacks=[mine])
    assert mine.count == 0
    assert [callback.count for fold in result.folds for callback in fold.callbacks] == [3, 3]


def test_a_fold_shows_its_parameters_as_they_were_given_whatever_the_network_did_to_them(kit, tmp_path, data):
    class Greedy(kit.network):
        def __init__(self, n_features, dropout=0.0, layers=()):
            super().__init__(n_features, dropout)
            layers.append("changed")

    result = kit.experiment(tmp_path, {"layers": [1]}, Greedy).kfold(data, METRICS, 0, 2)
    assert [fold.parameters.nested_get("layers") for fold in result.folds] == [[1], [1]]


# ---- one seed


@pytest.fixture
def noisy(kit):
    """A network that draws from every generator, and not only when it is trained."""

    class Noisy(kit.network):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = 1 + 0.01 * np.random.random()

        def __call__(self, *args, **kwargs):
            noise = 0.01 * (np.random.random() + random.random() + kit.draw()) * self.scale
            return {name: value + noise for name, value in super().__call__(*args, **kwargs).items()}

    return Noisy


def test_kfold_leaves_the_callers_generators_as_they_were(kit, tmp_path, data, noisy):
    experiment = kit.experiment(tmp_path, {"dropout": 0.3}, noisy, training={"compiled": False})
    with kit.undisturbed():
        experiment.kfold(data, METRICS, 1, 2, shuffle=True)
        experiment.kfold(data, METRICS, 1, split_type=model_selection.ShuffleSplit(2))


def test_the_same_seed_gives_the_same_bits_whatever_the_global_state(kit, tmp_path, data, noisy):
    training = {"val_metrics": METRICS, "compiled": False}
    experiment = kit.experiment(tmp_path, {"dropout": 0.3}, noisy, training=training)

    def bits(seed, **kw):
        result = experiment.kfold(data, num_epochs=1, **{"num_splits": 2, "shuffle": True, "random_seed": seed, **kw})
        return result.table(), [fold.history for fold in result.folds], result.oof.predictions["pred"].tobytes()

    first = bits(3)
    for seed in (np.random.seed, random.seed, kit.backend.generators.seed):
        seed(99)
    assert bits(3) == first
    assert bits(4) != first
    splitter = model_selection.ShuffleSplit(2, test_size=0.5)  # its own randomness is seeded as well
    assert bits(3, num_splits=None, split_type=splitter) == bits(3, num_splits=None, split_type=splitter)


def test_the_folds_of_a_cross_validation_begin_with_different_weights(kit, tmp_path, data):
    result = kit.experiment(tmp_path).kfold(data, METRICS, 0, 2)
    arrays, (first, second) = data.dataset.data, result.folds
    weights = [
        np.linalg.lstsq(arrays["data"][f.test_indices], f.predictions["pred"], rcond=None)[0] for f in (first, second)
    ]
    assert not np.allclose(*weights)


@pytest.mark.sampled("values")
@pytest.mark.parametrize("seed", [{}, {"seed": 1}])
def test_random_seed_decides_the_splits_even_if_the_training_has_a_seed(kit, tmp_path, data, seed):
    def tested(random_seed, **training):
        experiment = kit.experiment(tmp_path, training={**seed, **training})
        result = experiment.kfold(data, METRICS, 0, 2, shuffle=True, random_seed=random_seed)
        return [fold.test_indices.tolist() for fold in result.folds], result.folds[0].predictions["pred"].tobytes()

    assert tested(1) == tested(1)
    assert tested(1)[0] != tested(2)[0]
    assert tested(1, seed=8)[0] == tested(1, seed=9)[0]
    assert tested(1, seed=8)[1] != tested(1, seed=9)[1]
    if seed:
        assert tested(None)[0] == tested(1)[0]  # no seed of its own: that of the training


def digest(kit, path):
    """Everything that a cross-validation computes, as text; also called in another process."""
    rng = np.random.default_rng(0)
    arrays = {"data": rng.normal(size=(N, 3)), "label": rng.normal(size=(N, 1)), "class": CLASSES.astype(np.int64)}
    experiment = kit.experiment(path, {"dropout": 0.3}, training={"val_metrics": METRICS}, val_score_key="rmse")
    result = experiment.kfold(
        BaseDataManager(arrays, 5), num_splits=3, split_type="stratified", label_key="class", shuffle=True,
        random_seed=11,
    )  # fmt: skip
    bits = hashlib.sha256(result.oof.predictions["pred"].tobytes()).hexdigest()
    return json.dumps([result.table(), bits, [fold.history for fold in result.folds]])


@pytest.mark.left_to_full("torch")
def test_another_process_computes_the_same_bits(kit, tmp_path):
    here = digest(kit, tmp_path / "here")
    tests = Path(__file__).resolve().parents[1]
    script = (
        f"import sys; sys.path[:0] = [{str(tests)!r}, {str(tests / 'experiments')!r}]\n"
        "import small_backends, test_cross_validation\n"
        f"print(test_cross_validation.digest(small_backends.build_kit({kit.name!r}), {str(tmp_path / 'there')!r}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(here)


# ---- going on


class Interrupted(Exception):
    """Whatever ends a run before its time."""


class InterruptFold:
    """Ends a cross-validation inside an epoch of one fold."""

    def __init__(self, fold, epoch):
        self.fold, self.epoch = fold, epoch

    def at_iter_end(self, trainer, *, curr_epoch, **facts):
        if (trainer.fold, curr_epoch) == (self.fold, self.epoch):
            raise Interrupted(f"in fold {self.fold}")


@pytest.mark.sampled("values")
@pytest.mark.parametrize("how", ["auto", "path"])
def test_a_broken_cross_validation_is_continued_and_equals_an_unbroken_one(kit, tmp_path, data, how):
    settings = {"num_splits": 3, "shuffle": True, "random_seed": 5}
    training = {"val_metrics": METRICS, "num_epochs": 3, "save_freq": 1}
    experiment = kit.experiment(tmp_path, {"dropout": 0.3}, training=training, val_score_key="rmse")
    with pytest.raises(Interrupted, match="in fold 1"):
        experiment.kfold(data, callbacks=[InterruptFold(1, 2)], **settings)
    (folder,) = experiment.save_path.iterdir()
    steps = []

    class Note:
        def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
            steps.append((trainer.fold, curr_epoch))

    resume = "auto" if how == "auto" else folder
    resumed = experiment.kfold(data, resume=resume, callbacks=[Note()], **settings)
    assert resumed.path == folder
    assert steps == [(1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    unbroken = experiment.kfold(data, **settings)
    assert unbroken.path != folder
    assert resumed.table() == unbroken.table()
    assert kit.same(resumed.oof.predictions, unbroken.oof.predictions)
    assert [fold.history for fold in resumed.folds] == [fold.history for fold in unbroken.folds]


def test_another_cross_validation_is_not_continued(kit, tmp_path, data):
    experiment = kit.experiment(tmp_path, training={"val_metrics": METRICS})
    first = experiment.kfold(data, num_splits=2, num_epochs=1)
    with pytest.raises(ConfigError, match="cannot be continued: its splits differ from what is asked for now"):
        experiment.kfold(data, num_splits=3, num_epochs=1, resume=first.path)
    with pytest.raises(ConfigError, match="is no run folder"):
        experiment.kfold(data, num_splits=3, num_epochs=1, resume=tmp_path / "nowhere")
    assert experiment.kfold(data, num_splits=2, num_epochs=1, resume="auto").path == first.path  # finished: as stored
    assert experiment.kfold(data, num_splits=2, num_epochs=1).path != first.path
