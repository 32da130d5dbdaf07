"""Samplers that draw some samples more often than others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from delira.data_loading import BaseDataManager, DictDataset
from delira.data_loading.sampler import WeightedPrevalenceRandomSampler, WeightedRandomSampler
from delira.errors import ConfigError, MissingKeyError


def rng(seed=0):
    return np.random.default_rng(seed)


def fits(drawn, chances):
    """Whether the frequencies of 0, 1, ... among the drawn indices fit their chances."""
    counts = np.bincount(drawn, minlength=len(chances))
    chances = np.asarray(chances, float) / np.sum(chances)
    possible = chances > 0
    return counts[~possible].sum() == 0 and chisquare(counts[possible], chances[possible] * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("weights", "chances"),
    [
        ([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]),
        ([0.0, 0.5, 0.0, 1e-2], [0, 50, 0, 1]),
        ([1e308, 1.5e308, 1e308], [2, 3, 2]),
        ([1e-320, 3e-320], [1, 3]),
        (np.array([True, False, True]), [1, 0, 1]),
        (None, [1, 1, 1, 1, 1]),
    ],
)
def test_indices_are_drawn_in_proportion_to_their_weights(weights, chances):
    drawn = WeightedRandomSampler(len(chances), weights, num_samples=20_000).order(rng())
    assert fits(drawn, chances)
    assert not fits(drawn, [1, 5, 6, 7, 8][: len(chances)])


def test_weights_belong_to_the_indices():
    order = WeightedRandomSampler([30, 10, 20], [1, 0, 2], num_samples=300).order(rng())
    assert set(order.tolist()) == {20, 30}
    assert np.sum(order == 20) > np.sum(order == 30)


def test_without_replacement_heavy_indices_come_first():
    sampler = WeightedRandomSampler(4, [1, 2, 3, 4], replacement=False)
    orders = np.array([sampler.order(rng(seed)) for seed in range(4000)])
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    assert fits(orders[:, 0], [1, 2, 3, 4])
    after_3 = orders[orders[:, 0] == 3][:, 1]
    assert fits(after_3, [1, 2, 3])


@given(
    weights=st.lists(st.sampled_from([0, 1e-300, 1, 3.5, 1e300]), min_size=1, max_size=20).filter(any),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_without_replacement_no_index_comes_twice(weights, seed, data):
    # 1e-300 next to 1e300 is as good as 0
    drawable = np.flatnonzero(np.array(weights) > max(weights) * 1e-320)
    count = data.draw(st.one_of(st.none(), st.integers(1, len(drawable))))
    sampler = WeightedRandomSampler(len(weights), weights, count, replacement=False)
    order = sampler.order(rng(seed)).tolist()
    assert len(order) == len(sampler) == (count or len(drawable)) == len(set(order))
    assert set(order) <= set(drawable.tolist())


def test_the_length_of_an_epoch():
    assert len(WeightedRandomSampler(5)) == len(list(WeightedRandomSampler(5))) == 5
    assert len(WeightedRandomSampler(5, num_samples=8)) == len(list(WeightedRandomSampler(5, num_samples=8))) == 8
    assert list(WeightedRandomSampler(0)) == list(WeightedRandomSampler(0, [])) == []


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"weights": [1, 2]}, "weights has 2 entries, but there are 3 indices; pass one for each"),
        ({"weights": [1, -1, 2]}, "weight 1 is -1.0; weights must be finite and not negative"),
        ({"weights": [1, 1, np.nan]}, "weight 2 is nan"),
        ({"weights": [np.inf, 1, 1]}, "weight 0 is inf"),
        ({"weights": [0, 0, 0]}, "all 3 weights are 0, so there is nothing to draw"),
        ({"weights": 2.0}, r"one number for each index, got shape \(\) and dtype float64"),
        ({"weights": ["a", "b", "c"]}, r"got shape \(3,\) and dtype <U1"),
        ({"weights": np.ones((3, 2))}, r"got shape \(3, 2\)"),
        ({"replacement": 1}, "replacement must be True or False, got 1"),
        ({"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
        (
            {"num_samples": 4, "replacement": False},
            "more than the 3 indices with a weight above 0; pass replacement=True",
        ),
        (
            {"num_samples": 3, "weights": [1, 0, 1], "replacement": False},
            "num_samples=3 is more than the 2 indices with a",
        ),
        ({"indices": [], "num_samples": 3}, "more than the 0 indices there are; pass some indices"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, match):
    with pytest.raises(ConfigError, match=match):
        WeightedRandomSampler(**{"indices": 3} | kwargs)


# ------------------------------------------------------------------ where the weights come from


def dataset(**entries):
    return DictDataset(
        {"label": np.array([0, 1, 1, 2]), "importance": np.array([[1.0], [0.0], [0.0], [3.0]]), **entries}
    )


@pytest.mark.parametrize(
    "kwargs",
    [
        {"weights": [1, 0, 0, 3]},
        {"weights": {0: 1, 1: 0, 2: 3, 9: 100}},
        {"weights": {"a": 1, "b": 0, "c": 3}, "key": "name"},
        {"weights": {0: 1, 1: 0, 2: 3}, "key": "one_hot"},
        {"weights": {5: 1, 6: 0, 7: 3}, "labels": [5, 6, 6, 7]},
        {"weights": "importance"},
    ],
    ids=["array", "of classes", "of names", "of one-hot rows", "of given labels", "entry"],
)
def test_weights_of_a_dataset_are_given_in_many_forms(kwargs):
    data = dataset(name=["a", "b", "b", "c"], one_hot=np.eye(3)[[0, 1, 1, 2]])
    expected = WeightedRandomSampler(4, [1, 0, 0, 3], num_samples=50).order(rng()).tolist()
    assert WeightedRandomSampler.from_dataset(data, num_samples=50, **kwargs).order(rng()).tolist() == expected
    manager = BaseDataManager(data, 4, sampler_cls=WeightedRandomSampler, sampler_kwargs=kwargs)
    part = manager.get_subset([1, 2, 3]).get_subset([2, 1])
    assert part.sampler.order(rng()).tolist() == [0, 0]  # sample 3: the only one with a weight


def test_without_weights_a_dataset_is_drawn_from_evenly():
    order = WeightedRandomSampler.from_dataset(dataset(), num_samples=4000).order(rng())
    assert fits(order, [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        (
            {"weights": {0: 1, 2: 1}},
            ConfigError,
            r"weights has no weight for class 1, only for \[0, 2\]; a weight may be 0",
        ),
        ({"weights": {}}, ConfigError, r"no weight for class 0, 1, 2, only for \[\]"),
        ({"weights": [1, 2, 3]}, ConfigError, "weights has 3 entries, but the dataset has 4 samples"),
        ({"weights": "label"}, None, None),
        ({"weights": "weight"}, MissingKeyError, "'weight'.*'importance'"),
        ({"weights": {0: 1}, "key": "class"}, MissingKeyError, "'class'"),
        ({"weights": {0: 1}, "labels": [0, 0]}, ConfigError, "labels has 2 entries, but the dataset has 4 samples"),
    ],
)
def test_what_does_not_fit_the_dataset_is_refused(kwargs, error, match):
    if error is None:
        assert len(WeightedRandomSampler.from_dataset(dataset(), **kwargs)) == 4
        return
    with pytest.raises(error, match=match):
        WeightedRandomSampler.from_dataset(dataset(), **kwargs)


def test_many_missing_classes_are_not_all_listed():
    with pytest.raises(ConfigError, match=r"class 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\., only"):
        WeightedRandomSampler.from_dataset(DictDataset({"label": range(500)}), weights={})


def test_a_part_without_any_weight_is_refused():
    manager = BaseDataManager(dataset(), 2, sampler_cls=WeightedRandomSampler, sampler_kwargs={"weights": [1, 0, 0, 3]})
    with pytest.raises(ConfigError, match="all 2 weights are 0"):
        manager.get_subset([1, 2])


# ------------------------------------------------------------------ classes with equal chances


def test_each_class_is_drawn_with_the_same_chance():
    # defect 35: np.float, which numpy has no longer
    labels = np.repeat(["a", "b", "c"], [50, 5, 1])
    order = WeightedPrevalenceRandomSampler(labels, num_samples=9000).order(rng())
    assert fits(np.unique(labels[order], return_inverse=True)[1], [1, 1, 1])
    assert fits(order[order < 50], np.ones(50))
    assert len(WeightedPrevalenceRandomSampler(labels)) == 56


def test_classes_with_equal_chances_are_read_from_a_dataset_or_given():
    data = dataset()
    expected = WeightedPrevalenceRandomSampler([0, 1, 1, 2]).order(rng()).tolist()
    assert WeightedPrevalenceRandomSampler.from_dataset(data).order(rng()).tolist() == expected
    given_ones = WeightedPrevalenceRandomSampler.from_dataset(data, labels=[[0], [1], [1], [2]])
    assert given_ones.order(rng()).tolist() == expected
    manager = BaseDataManager(
        data,
        2,
        sampler_cls=WeightedPrevalenceRandomSampler,
        sampler_kwargs={"labels": [0, 1, 1, 2], "num_samples": 3000},
    )
    seen = manager.get_subset([1, 2, 3]).sampler.order(rng())
    assert fits(seen, [1, 1, 2])
