"""The validation part of a fold: as far from its training part as the splitter says, and told of where it is odd."""

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit
from small_backends import build_kit

from delira.data_loading import BaseDataManager, DictDataset
from delira.errors import ConfigError
from delira.experiments.leakage import caveats_of_validation
from delira.experiments.splits import SplitConfig, Splitter
from delira.training import KFoldResult


def splitter_of(more, **config):
    n = len(next(iter(more.values())))
    dataset = DictDataset({"data": np.zeros((n, 3)), **more})
    return dataset, Splitter(dataset, SplitConfig(**config), seed=0)


def caveats(more, **config):
    dataset, splitter = splitter_of(more, **config)
    return caveats_of_validation(dataset, splitter, list(splitter))


@pytest.mark.parametrize("gap", [0, 1, 2, 5])
def test_the_gap_of_a_time_series_is_kept_before_the_validation_too(gap):
    _, splitter = splitter_of({"label": np.zeros(60)}, split_type=TimeSeriesSplit(3, gap=gap))
    for split in splitter:
        assert split.val.min() - split.train.max() - 1 == gap
        assert split.test.min() - split.val.max() - 1 == gap


def test_a_gap_that_leaves_nothing_to_train_on_is_refused():
    _, splitter = splitter_of({"label": np.zeros(12)}, split_type=TimeSeriesSplit(3, gap=2), val_split=0.5)
    with pytest.raises(ConfigError, match=r"leave none of the \d+ training samples of fold 0 to train on"):
        list(splitter)


UNEVEN = np.repeat(np.arange(10), [110, *[10] * 9])


def test_a_share_of_uneven_groups_is_told_with_the_samples_that_it_takes():
    more = {"label": np.zeros(200), "patient": UNEVEN}
    (told,) = caveats(more, num_splits=5, groups_key="patient")
    assert told.startswith("val_split=0.2 is a share of the groups 'patient', which are few or of uneven size")
    _, splitter = splitter_of(more, num_splits=5, groups_key="patient")
    for number, split in enumerate(splitter):
        n_val, n_all = len(split.val), len(split.val) + len(split.train)
        is_told = f"{number} ({n_val:,} of {n_all:,} samples)" in told
        assert is_told == (not 0.2 / 1.5 <= n_val / n_all <= 0.2 * 1.5)


def test_even_groups_have_no_caveat():
    assert (
        caveats({"label": np.zeros(200), "patient": np.repeat(np.arange(20), 10)}, num_splits=4, groups_key="patient")
        == []
    )


@pytest.mark.parametrize("labels", [np.arange(40) % 20 // 19, np.array([*["healthy"] * 38, "ill", "ill"])])
def test_a_class_that_the_validation_lacks_is_told(labels):
    (told,) = caveats({"label": labels}, num_splits=2, shuffle=True)
    _, splitter = splitter_of({"label": labels}, num_splits=2, shuffle=True)
    lacking = [number for number, split in enumerate(splitter) if len(set(labels[split.val])) < 2]
    assert lacking
    rare = labels[np.argmin([np.sum(labels == label) for label in labels])]
    assert all(f"{number} (class {rare})" in told for number in lacking)


@pytest.mark.parametrize("labels", [np.linspace(0, 1, 40), np.arange(40), np.arange(40) % 2, np.zeros(40, dtype=int)])
def test_what_has_all_its_classes_or_none_has_no_caveat(labels):
    assert caveats({"label": labels}, num_splits=2, shuffle=True) == []


def test_result_terminal_page_and_stored_run_tell_it(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"data": rng.normal(size=(200, 3)), "label": rng.normal(size=(200, 1)), "patient": UNEVEN}
    experiment = build_kit("toy").experiment(tmp_path)
    result = experiment.kfold(BaseDataManager(arrays, 20), num_splits=5, num_epochs=1, groups_key="patient")
    for each in (result, KFoldResult.load(result.path)):
        (told,) = each.warnings
        assert "which are few or of uneven size" in told
        assert f"Warning: {told}" in str(each)
        assert "which are few or of uneven size" in each.to_html()
