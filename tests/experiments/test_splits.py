"""Settings of the splits that would change nothing, or fail late, are refused before the first fold."""

import numpy as np
import pytest
from small_backends import build_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, MissingKeyError
from delira.experiments.splits import SplitConfig, Splitter
from delira.training.callbacks import AbstractCallback


class Steps(AbstractCallback):
    count = 0

    def at_iter_begin(self, trainer, **facts):
        type(self).count += 1


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("label_key", 5, "label_key must name an entry of the samples, got 5"),
        ("label_key", "", "label_key must name an entry of the samples, got ''"),
        ("label_key", None, "label_key must name an entry of the samples, got None"),
        ("label_key", ["label"], r"label_key must name an entry of the samples, got \['label'\]"),
        ("groups_key", [], r"groups_key must name an entry, or be '' for no groups, got \[\]"),
        ("groups_key", 0, "groups_key must name an entry, or be '' for no groups, got 0"),
        ("groups_key", False, "groups_key must name an entry"),
        ("val_split", "x", "val_split must be between 0 and 1 .* got 'x'"),
        ("val_split", True, "val_split must be between 0 and 1 .* got True"),
        ("val_split", float("nan"), "val_split must be between 0 and 1 .* got nan"),
        ("val_split", [0.2], "val_split must be between 0 and 1"),
        ("num_splits", "3", "num_splits must be an integer of at least 2, got '3'"),
        ("num_splits", True, "num_splits must be an integer of at least 2, got True"),
        ("shuffle", "no", "shuffle must be True or False, got 'no'"),
        ("shuffle", 3, "shuffle must be True or False, got 3"),
        ("random_seed", "x", "random_seed must be a non-negative integer, got 'x'"),
        ("random_seed", -1, "random_seed must be a non-negative integer, got -1"),
        ("random_seed", 1.5, "random_seed must be a non-negative integer, got 1.5"),
        ("check_duplicates", 1, "check_duplicates must be True or False, got 1"),
    ],
)
def test_a_wrong_value_is_refused_by_name(setting, value, message):
    with pytest.raises(ConfigError, match=message):
        SplitConfig(**{setting: value})


def test_an_integer_of_numpy_is_an_integer():
    assert SplitConfig(num_splits=np.int64(3)).num_splits == 3


@pytest.mark.parametrize("key", ["lable", "number.of", "patient"])
def test_a_label_key_that_no_sample_has_is_refused_before_the_first_step(tmp_path, manager, key):
    kit = build_kit("toy")
    if key == "number.of":  # the entry it leads into is there
        kit.experiment(tmp_path, training={"num_epochs": 1}).kfold(manager(12), num_splits=2, label_key=key)
        return
    experiment = kit.experiment(tmp_path, training={"num_epochs": 1, "callbacks": [Steps()]})
    guess = ".*did you mean 'label'" if key == "lable" else ""
    with pytest.raises(MissingKeyError, match=f"label_key='{key}' names no entry of the samples, .*'label'{guess}"):
        experiment.kfold(manager(12), num_splits=2, label_key=key)
    assert Steps.count == 0


def test_a_label_key_may_be_given_by_set_labels_or_made_by_a_transform(tmp_path, manager):
    kit, data = build_kit("toy"), manager(12)
    data.dataset.set_labels("site", np.arange(12) % 2)
    kit.experiment(tmp_path, training={"num_epochs": 1}).kfold(data, num_splits=2, label_key="site")
    made = BaseDataManager(manager(12).dataset, 4, transforms=lambda batch: {**batch, "sign": np.sign(batch["label"])})
    result = kit.experiment(tmp_path, training={"num_epochs": 1}).kfold(made, num_splits=2, label_key="sign")
    assert set(np.unique(result.folds[0].targets["sign"])) <= {-1, 0, 1}


@pytest.mark.parametrize("part", [0.7, 0.4, 0.15, 0.05])
def test_a_grouped_and_stratified_validation_part_comes_close_to_the_share_that_was_asked_for(part):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), rng.integers(1, 4, size=120))
    classes = (rng.random(120) < 0.4).astype(np.int64)[groups]
    dataset = BaseDataManager({"data": np.zeros((len(groups), 1)), "label": classes, "patient": groups}).dataset
    config = SplitConfig(num_splits=3, split_type="stratified", groups_key="patient", val_split=part, shuffle=True)
    for split in Splitter(dataset, config, 0):
        sides = [set(groups[indices]) for indices in (split.train, split.val, split.test)]
        assert len(set.union(*sides)) == sum(map(len, sides)) == 120
        assert len(split.val) / (len(split.val) + len(split.train)) == pytest.approx(part, abs=0.05)
        assert classes[split.val].mean() == pytest.approx(classes.mean(), abs=0.15)
