"""Samplers: the order is a pure function of a generator; two ways to walk through it."""

import itertools
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import BaseDataManager, DictDataset
from delira.data_loading.sampler import (
    AbstractSampler,
    GroupRandomSampler,
    LambdaSampler,
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    RandomSampler,
    RandomSamplerNoReplacement,
    RandomSamplerWithReplacement,
    SequentialSampler,
    StoppingPrevalenceRandomSampler,
    StoppingPrevalenceSequentialSampler,
    WeightedPrevalenceRandomSampler,
    WeightedRandomSampler,
)
from delira.errors import ConfigError

CLASSES = [SequentialSampler, RandomSampler, RandomSamplerNoReplacement]


def rng(seed=0):
    return np.random.default_rng(seed)


def draw(indices, n):
    """A function for LambdaSampler that draws from both global generators."""
    return [random.choice(indices), *np.random.choice(indices, n - 1)]


#: every sampler -> what a manager would hand to its from_dataset
EVERY_SAMPLER = {
    SequentialSampler: {},
    RandomSampler: {},
    RandomSamplerWithReplacement: {"num_samples": 11},
    RandomSamplerNoReplacement: {},
    PrevalenceRandomSampler: {},
    PrevalenceSequentialSampler: {"shuffle_batch": False},
    StoppingPrevalenceRandomSampler: {},
    StoppingPrevalenceSequentialSampler: {},
    WeightedRandomSampler: {"weights": {0: 0.5, 1: 1, 2: 7}},
    WeightedPrevalenceRandomSampler: {"num_samples": 9},
    LambdaSampler: {"sampling_fn": draw},
    GroupRandomSampler: {"key": "label", "samples_per_group": 3},
}
every_sampler = pytest.mark.parametrize("cls", EVERY_SAMPLER, ids=lambda cls: cls.__name__)
some_labels = st.lists(st.integers(0, 2), min_size=1, max_size=40)


def dataset_of(labels):
    return DictDataset({"data": np.arange(len(labels)), "label": np.array(labels)})


def build(cls, labels, **kwargs):
    return cls.from_dataset(dataset_of(labels), **EVERY_SAMPLER[cls] | kwargs)


@every_sampler
@given(labels=some_labels, seed=st.integers(0, 99), batch_size=st.integers(1, 9))
def test_an_epoch_is_a_pure_function_of_the_generator(cls, labels, seed, batch_size):
    used, fresh = build(cls, labels), build(cls, labels, seed=5)
    list(used), used(2)
    for order in (
        lambda sampler, seed: sampler.order(rng(seed)),
        lambda s, seed: s.batched_order(rng(seed), batch_size),
    ):
        order(used, seed + 1)
        indices = order(used, seed)
        assert indices.dtype == np.int64
        assert indices.shape == (len(used),)
        assert set(indices.tolist()) <= set(range(len(labels)))
        assert indices.tolist() == order(fresh, seed).tolist()
    assert used.batched_order(rng(seed), 1).tolist() == used.order(rng(seed)).tolist()


@every_sampler
@given(labels=some_labels, n=st.integers(1, 50))
def test_both_ways_of_walking_yield_exactly_one_epoch(cls, labels, n):
    sampler = build(cls, labels)
    for _ in range(2):
        pieces = [sampler(n) for _ in range(-(-len(sampler) // n))]
        assert all(len(piece) == n for piece in pieces[:-1])
        assert sum(map(len, pieces)) == len(sampler)
        with pytest.raises(StopIteration):
            sampler(n)
        indices = list(sampler)
        assert len(indices) == len(sampler)
        assert all(type(index) is int for index in indices)


@every_sampler
def test_the_seed_decides_on_the_epochs_of_a_walk(cls):
    labels = [0, 1, 2] * 10
    one, twin, other = build(cls, labels), build(cls, labels), build(cls, labels, seed=1)
    walked = [list(one), list(one), one(7).tolist()]
    assert walked == [list(twin), list(twin), twin(7).tolist()]
    is_random = cls not in (SequentialSampler, PrevalenceSequentialSampler, StoppingPrevalenceSequentialSampler)
    assert (list(other) != walked[0]) == (walked[1] != walked[0]) == is_random


@pytest.mark.parametrize(
    "cls",
    [*CLASSES, StoppingPrevalenceRandomSampler, StoppingPrevalenceSequentialSampler],
    ids=lambda cls: cls.__name__,
)
@given(labels=some_labels, n=st.integers(1, 9))
def test_an_index_is_visited_at_most_once_an_epoch_where_that_is_promised(cls, labels, n):
    sampler = build(cls, labels)
    for order in (list(sampler), sampler.order(rng(n)).tolist(), sampler.batched_order(rng(n), n).tolist()):
        assert len(set(order)) == len(order)


@every_sampler
def test_a_sampler_can_be_pickled(cls):
    sampler = build(cls, [0, 1, 1, 2, 0, 1])
    twin = pickle.loads(pickle.dumps(sampler))
    assert twin.batched_order(rng(), 4).tolist() == sampler.batched_order(rng(), 4).tolist()


@every_sampler
def test_no_sampler_disturbs_the_global_generators(cls):
    def after(use):
        random.seed(0), np.random.seed(0)
        use()
        return random.random(), np.random.rand()

    sampler = build(cls, [0, 1, 1, 2, 0, 1])
    untouched = after(lambda: None)
    assert (
        after(lambda: (list(sampler), sampler(3), sampler.order(rng()), sampler.batched_order(rng(), 3))) == untouched
    )


@every_sampler
def test_a_manager_takes_every_sampler_as_class_and_as_instance(cls):
    labels = [0, 1, 1, 2, 0, 1, 1, 0, 0, 2, 1]
    by_class = BaseDataManager(dataset_of(labels), 4, sampler_cls=cls, sampler_kwargs=EVERY_SAMPLER[cls])
    by_instance = BaseDataManager(dataset_of(labels), 4, sampler=build(cls, labels))
    for epoch in range(2):
        batches = [batch["data"].tolist() for batch in by_class.epoch(3, 1, epoch)]
        assert batches == [batch["data"].tolist() for batch in by_instance.epoch(3, 1, epoch)]
        assert list(map(len, batches[:-1])) == [4] * (by_class.n_batches - 1)
        assert sum(map(len, batches)) == by_class.n_samples == len(build(cls, labels))


@every_sampler
def test_an_iteration_that_was_broken_off_leaves_no_trace_in_a_manager(cls):
    # defect 36 of the old library: the next pass silently lacked samples
    labels = [0, 1, 1, 2, 0, 1]
    manager = BaseDataManager(dataset_of(labels), 2, sampler=build(cls, labels))
    expected = [batch["data"].tolist() for batch in manager.epoch(0, 0, 0)]
    next(manager.epoch(0, 0, 0))
    manager.sampler(2)
    assert [batch["data"].tolist() for batch in manager.epoch(0, 0, 0)] == expected


@every_sampler
def test_subsets_keep_the_arguments_of_the_sampler(cls):
    # defect 37: LambdaSampler raised TypeError there, weights were dropped
    labels = np.array([0, 1, 2] * 6)
    manager = BaseDataManager(dataset_of(labels), 4, sampler_cls=cls, sampler_kwargs=EVERY_SAMPLER[cls])
    chosen = [1, 4, 6, 9, 12, 13, 17, 2]
    subset = manager.get_subset(chosen).get_subset(range(7))
    seen = np.concatenate([batch["data"] for batch in subset.epoch(0, 0, 0)]).tolist()
    alone = build(cls, labels[chosen[:7]])
    assert len(seen) == len(alone)
    assert set(seen) <= set(chosen[:7])


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


def test_an_empty_sampler_stops_at_once():
    with pytest.raises(StopIteration):
        SequentialSampler([])(1)


def test_a_random_sampler_visits_each_index_once_unless_told_otherwise():
    assert sorted(RandomSampler(100).order(rng())) == list(range(100))
    drawn = RandomSampler([4, 7], replacement=True, num_samples=200).order(rng())
    assert drawn.shape == (200,)
    assert set(drawn.tolist()) == {4, 7}


def test_the_name_of_a_random_sampler_says_whether_it_repeats():
    drawn = RandomSamplerWithReplacement([4, 7], num_samples=200).order(rng())
    assert sorted(set(drawn.tolist())) == [4, 7]
    assert len(drawn) == 200
    assert len(set(RandomSamplerNoReplacement(9, num_samples=5).order(rng()).tolist())) == 5
    with pytest.raises(ConfigError, match="num_samples=10 is more than the 9 indices"):
        RandomSamplerNoReplacement(9, num_samples=10)


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


def test_a_sampler_needs_an_order():
    with pytest.raises(TypeError, match="order"):
        AbstractSampler(3)


def test_the_first_call_of_an_epoch_decides_for_which_batch_size_its_order_is_made():
    class Sized(SequentialSampler):
        def batched_order(self, rng, batch_size):
            return self.indices[::-1] if batch_size > 1 else self.indices

    sampler = Sized(4)
    assert list(sampler) == [0, 1, 2, 3]
    assert [sampler(2).tolist(), sampler(1).tolist(), sampler(5).tolist()] == [[3, 2], [1], [0]]
    with pytest.raises(StopIteration):
        sampler(1)
    assert sampler(1).tolist() == [0]
