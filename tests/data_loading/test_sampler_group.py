"""The sampler that draws from every group, e.g. patient, equally often."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import BaseDataManager, DictDataset
from delira.data_loading.sampler import GroupRandomSampler
from delira.errors import ConfigError, MissingKeyError

some_groups = st.lists(st.integers(0, 9), min_size=1, max_size=60).map(np.array)


def rng(seed=0):
    return np.random.default_rng(seed)


@given(groups=some_groups, per_group=st.integers(1, 12), seed=st.integers(0, 99))
def test_every_round_visits_every_group_once(groups, per_group, seed):
    sampler = GroupRandomSampler(groups, per_group)
    names = np.unique(groups)
    order = sampler.order(rng(seed))
    assert len(order) == len(sampler) == per_group * len(names)
    assert (np.sort(groups[order].reshape(per_group, -1), axis=1) == names).all()


@given(groups=some_groups, per_group=st.integers(1, 12), seed=st.integers(0, 99))
def test_a_group_repeats_a_sample_only_after_all_its_others(groups, per_group, seed):
    order = GroupRandomSampler(groups, per_group).order(rng(seed))
    for name in np.unique(groups):
        own, size = order[groups[order] == name], np.sum(groups == name)
        for start in range(0, per_group, size):
            assert len(np.unique(own[start : start + size])) == len(own[start : start + size])


@given(groups=some_groups)
def test_an_epoch_is_about_as_long_as_the_dataset(groups):
    assert len(groups) <= len(GroupRandomSampler(groups)) < len(groups) + len(np.unique(groups))


def test_rounds_and_samples_are_in_random_order():
    groups = np.repeat(["ann", "bob", "eve"], [50, 40, 60])
    order = GroupRandomSampler(groups, 30).order(rng())
    rounds = {tuple(group) for group in groups[order].reshape(30, 3)}
    assert len(rounds) == 6  # all orders of three
    assert len(set(order[groups[order] == "eve"].tolist())) == 30
    other = GroupRandomSampler(groups, 30).order(rng(1))
    assert set(order[groups[order] == "eve"].tolist()) != set(other[groups[other] == "eve"].tolist())


def test_groups_are_read_from_a_dataset_or_given_also_for_its_parts():
    patients = np.array(["ann"] * 7 + ["bob"] * 2 + ["eve"] * 3)
    for kwargs in ({"key": "patient"}, {"groups": patients}, {"groups": patients[:, None]}):
        manager = BaseDataManager(
            {"data": np.arange(12), "patient": patients},
            3,
            sampler_cls=GroupRandomSampler,
            sampler_kwargs={"samples_per_group": 4, **kwargs},
        )
        for part, names in ((manager, 3), (manager.get_subset(range(1, 9)), 2)):
            seen = np.concatenate([batch["data"] for batch in part.epoch(0, 0, 0)])
            assert np.unique(patients[seen], return_counts=True)[1].tolist() == [4] * names


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({}, ConfigError, "needs key, the entry that holds a sample's group, or groups; got neither"),
        ({"key": "case"}, MissingKeyError, "'case'.*'patient'"),
        ({"groups": [1, 2]}, ConfigError, "groups has 2 entries, but the dataset has 3 samples"),
        ({"key": "patient", "samples_per_group": 0}, ConfigError, "samples_per_group must be an integer of at least 1"),
        (
            {"key": "data"},
            ConfigError,
            r"GroupRandomSampler needs one group for each sample, got values of shape \(2,\)",
        ),
    ],
)
def test_wrong_arguments_are_refused(kwargs, error, match):
    dataset = DictDataset({"data": np.zeros((3, 2)), "patient": [1, 1, 2]})
    with pytest.raises(error, match=match):
        GroupRandomSampler.from_dataset(dataset, **kwargs)


def test_no_group_at_all_is_an_empty_epoch():
    assert list(GroupRandomSampler([])) == []
