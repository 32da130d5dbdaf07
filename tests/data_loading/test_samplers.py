"""Samplers: the order is a pure function of a generator; two ways to walk through it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import AbstractSampler, DictDataset, RandomSampler, SequentialSampler
from delira.errors import ConfigError

CLASSES = [SequentialSampler, RandomSampler]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("cls", CLASSES)
@given(length=st.integers(0, 50), seed=st.integers(0, 2**40))
def test_an_epoch_visits_every_index_once(cls, length, seed):
    order = cls(length).order(rng(seed))
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(length))


@pytest.mark.parametrize("cls", [*CLASSES, lambda indices: RandomSampler(indices, replacement=True)])
@given(indices=st.lists(st.integers(0, 1000), max_size=30), seed=st.integers(0, 99), n=st.integers(1, 7))
def test_the_order_depends_on_the_generator_alone(cls, indices, seed, n):
    used, fresh = cls(indices), cls(indices)
    expected = fresh.order(rng(seed)).tolist()
    list(used)
    if indices:
        used(n)
    used.order(rng(seed + 1))
    assert used.order(rng(seed)).tolist() == expected
    assert len(expected) == len(used)
    assert set(expected) <= set(indices)


def test_a_sequential_sampler_keeps_the_order_given():
    assert list(SequentialSampler([5, 3, 3, 8])) == [5, 3, 3, 8]
    assert list(SequentialSampler(3)) == list(SequentialSampler(np.int64(3))) == [0, 1, 2]


@pytest.mark.parametrize("cls", CLASSES)
@given(length=st.integers(1, 40), n=st.integers(1, 50))
def test_calling_hands_out_an_epoch_piece_by_piece_and_stops_once(cls, length, n):
    sampler = cls(length)
    for _ in range(2):
        pieces = [sampler(n).tolist() for _ in range(-(-length // n))]
        assert sorted(itertools.chain(*pieces)) == list(range(length))
        assert all(len(piece) == n for piece in pieces[:-1])
        with pytest.raises(StopIteration):
            sampler(n)


def test_iterating_does_not_disturb_calling():
    sampler = SequentialSampler(5)
    assert sampler(2).tolist() == [0, 1]
    assert list(sampler) == [0, 1, 2, 3, 4]
    assert all(type(index) is int for index in sampler)
    assert sampler(3).tolist() == [2, 3, 4]


def test_each_iteration_has_an_order_of_its_own_that_the_seed_decides():
    one, twin, other = RandomSampler(50), RandomSampler(50), RandomSampler(50, seed=1)
    first = list(one)
    assert first == list(twin)
    assert list(one) == list(twin) != first
    assert list(other) != first


def test_an_empty_sampler_stops_at_once():
    with pytest.raises(StopIteration):
        SequentialSampler([])(1)


def test_a_random_sampler_visits_each_index_once_unless_told_otherwise():
    assert sorted(RandomSampler(100).order(rng())) == list(range(100))
    drawn = RandomSampler([4, 7], replacement=True, num_samples=200).order(rng())
    assert drawn.shape == (200,)
    assert set(drawn.tolist()) == {4, 7}


def test_num_samples_is_the_length_of_an_epoch():
    sampler = RandomSampler(10, num_samples=4)
    assert len(sampler) == 4
    assert len(set(sampler.order(rng()).tolist())) == 4


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        (
            {"indices": 3, "num_samples": 4},
            "num_samples=4 is more than the 3 indices there are; pass replacement=True",
        ),
        (
            {"indices": [], "num_samples": 4, "replacement": True},
            "more than the 0 indices.*pass some indices",
        ),
        ({"indices": 3, "num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
        ({"indices": 3, "replacement": 10}, "replacement must be True or False, got 10"),
        ({"indices": 3, "seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"indices": -1}, "number of indices of RandomSampler must be an integer of at least 0, got -1"),
        ({"indices": True}, "number of indices of RandomSampler must be an integer"),
        ({"indices": [0, -2]}, "RandomSampler got the index -2; indices count from 0"),
        ({"indices": [0.5]}, "indices of RandomSampler must be one list of integers"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, match):
    with pytest.raises(ConfigError, match=match):
        RandomSampler(**kwargs)


def test_a_call_needs_a_positive_number():
    with pytest.raises(ConfigError, match="n_indices must be an integer of at least 1, got 0"):
        SequentialSampler(3)(0)


def test_a_sampler_is_built_over_a_dataset():
    dataset = DictDataset({"data": np.zeros(7)})
    sampler = RandomSampler.from_dataset(dataset, replacement=True, num_samples=3)
    assert (len(sampler), sampler.replacement) == (3, True)
    assert list(SequentialSampler.from_dataset(dataset.get_subset([6, 5]))) == [0, 1]


def test_samplers_leave_the_global_generator_alone():
    np.random.seed(0)
    expected = np.random.rand()
    np.random.seed(0)
    list(RandomSampler(10)), RandomSampler(10)(3), RandomSampler(10).order(rng())
    assert np.random.rand() == expected


def test_a_sampler_needs_an_order():
    with pytest.raises(TypeError, match="order"):
        AbstractSampler(3)
