"""Samplers that balance classes: in every batch the numbers of the classes differ by one at most."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import BaseDataManager, BaseLazyDataset, DictDataset
from delira.data_loading.sampler import (
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    StoppingPrevalenceRandomSampler,
    StoppingPrevalenceSequentialSampler,
)
from delira.errors import ConfigError, MissingKeyError

RANDOM = [PrevalenceRandomSampler, StoppingPrevalenceRandomSampler]
STOPPING = [StoppingPrevalenceRandomSampler, StoppingPrevalenceSequentialSampler]
CLASSES = [PrevalenceRandomSampler, PrevalenceSequentialSampler, *STOPPING]
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)

some_labels = st.lists(st.integers(-1, 4), min_size=1, max_size=60).map(np.array)


def rng(seed=0):
    return np.random.default_rng(seed)


def pieces(order, size):
    return [order[start : start + size] for start in range(0, len(order), size)]


def spread(labels, indices):
    """Most frequent class minus rarest class among some samples, counting classes that are not there."""
    counts = [np.sum(labels[indices] == name) for name in np.unique(labels)]
    return max(counts) - min(counts)


@every_class
@given(labels=some_labels, batch_size=st.integers(1, 20), seed=st.integers(0, 99), shuffle=st.booleans())
def test_every_batch_is_balanced_also_the_last_one(cls, labels, batch_size, seed, shuffle):
    sampler = cls(labels, shuffle_batch=shuffle)
    batches = pieces(sampler.batched_order(rng(seed), batch_size), batch_size)
    assert all(spread(labels, batch) <= 1 for batch in batches)
    called = [sampler(batch_size) for _ in batches]
    assert all(spread(labels, batch) <= 1 for batch in called)


@every_class
@given(labels=some_labels, start=st.integers(0, 40), length=st.integers(1, 20), seed=st.integers(0, 99))
def test_any_piece_of_an_order_is_balanced(cls, labels, start, length, seed):
    order = cls(labels).order(rng(seed))
    assert spread(labels, order) <= 1
    assert spread(labels, order[start : start + length]) <= 1


@every_class
@given(labels=some_labels, batch_size=st.integers(1, 20), seed=st.integers(0, 99))
def test_no_sample_repeats_before_its_class_is_used_up(cls, labels, batch_size, seed):
    sampler = cls(labels)
    order = sampler.order(rng(seed))
    for name in np.unique(labels):
        size = np.sum(labels == name)
        for turn in pieces(order[labels[order] == name], size):
            assert len(set(turn.tolist())) == len(turn)
    counts = np.bincount(sampler.batched_order(rng(seed), batch_size), minlength=len(labels))
    assert all(np.ptp(counts[labels == name]) <= 1 for name in np.unique(labels))


@given(labels=some_labels)
def test_the_length_of_an_epoch(labels):
    sizes = np.unique(labels, return_counts=True)[1]
    for cls in CLASSES:
        expected = len(sizes) * sizes.min() if cls in STOPPING else len(labels)
        assert len(cls(labels)) == len(list(cls(labels))) == expected


@pytest.mark.parametrize("cls", STOPPING)
def test_a_stopping_sampler_uses_the_smallest_class_up(cls):
    labels = np.array([5, 5, 9, 5, 9, 5, 7, 7, 7])
    order = cls(labels).batched_order(rng(), 4)
    assert {2, 4} <= set(order.tolist())
    assert np.unique(labels[order], return_counts=True)[1].tolist() == [2, 2, 2]


@given(labels=some_labels, batch_size=st.integers(1, 20), seed=st.integers(0, 99))
def test_shuffling_changes_the_order_in_a_batch_and_nothing_else(labels, batch_size, seed):
    shuffled = PrevalenceRandomSampler(labels).batched_order(rng(seed), batch_size)
    plain = PrevalenceRandomSampler(labels, shuffle_batch=False).batched_order(rng(seed), batch_size)
    for one, other in zip(pieces(shuffled, batch_size), pieces(plain, batch_size), strict=True):
        assert sorted(one) == sorted(other)


def test_without_shuffling_the_classes_take_turns():
    labels = np.repeat([0, 1, 2], 20)
    plain = labels[PrevalenceRandomSampler(labels, shuffle_batch=False).batched_order(rng(), 30)]
    assert (plain[3:] == plain[:-3]).all()
    shuffled = labels[PrevalenceRandomSampler(labels).batched_order(rng(), 30)]
    assert (shuffled[3:] != shuffled[:-3]).any()


def test_a_sequential_sampler_goes_through_each_class_in_order_and_starts_again():
    labels = [0, 0, 0, 1, 0, 1]
    assert list(PrevalenceSequentialSampler(labels)) == [0, 3, 1, 5, 2, 3]
    assert list(StoppingPrevalenceSequentialSampler(labels)) == [0, 3, 1, 5]
    assert list(PrevalenceSequentialSampler([1, 0] * 300)) == [index ^ 1 for index in range(600)]
    unshuffled = PrevalenceSequentialSampler(labels, shuffle_batch=False)
    assert [unshuffled(4).tolist(), unshuffled(4).tolist()] == [[0, 3, 1, 5], [2, 3]]


@pytest.mark.parametrize("cls", RANDOM)
def test_a_random_sampler_draws_another_part_of_a_frequent_class_each_epoch(cls):
    labels = np.array([0] * 90 + [1] * 10)
    sampler = cls(labels)
    first, second = ({index for index in sampler if labels[index] == 0} for _ in range(2))
    assert first != second
    # that 200 epochs of at least 10 of 90 samples miss one of them has a chance below 1e-8
    assert set().union(*(sampler for _ in range(200))) == set(range(100))
    rare = [[index for index in sampler if labels[index] == 1][:10] for _ in range(2)]
    assert rare[0] != rare[1]
    assert sorted(rare[0]) == sorted(rare[1]) == list(range(90, 100))


@pytest.mark.parametrize("cls", RANDOM)
def test_no_class_is_always_first(cls):
    labels = np.repeat([0, 1, 2], 5)
    firsts = [labels[cls(labels).order(rng(seed))[0]] for seed in range(30)]
    assert set(firsts) == {0, 1, 2}


def test_batches_have_exactly_the_size_that_was_asked_for():
    # defect 34: 10 asked for, 3 classes -> 12
    sampler = PrevalenceRandomSampler(np.arange(60) % 3)
    assert [len(sampler(10)) for _ in range(6)] == [10] * 6


@every_class
def test_a_batch_size_that_the_number_of_classes_does_not_divide_comes_to_an_end(cls):
    # defect 33: an endless loop
    sampler = cls(np.arange(60) % 3)
    assert [len(sampler(7)) for _ in range(9)] == [7] * 8 + [4]
    with pytest.raises(StopIteration):
        sampler(7)


@every_class
def test_a_block_of_one_class_at_the_beginning_fills_no_batch(cls):
    # defect 31: positions in the list of a class were taken for indices, so every batch was of class 0
    labels = np.array([0] * 10 + [1] * 10)
    sampler = cls(labels)  # defect 32: some could not even be constructed
    assert all(sorted(labels[sampler(4)]) == [0, 0, 1, 1] for _ in range(5))


@every_class
def test_one_class_alone_and_no_sample_at_all_are_possible(cls):
    assert sorted(cls([3, 3, 3])) == [0, 1, 2]
    assert len(cls([])) == 0
    assert cls([]).batched_order(rng(), 4).tolist() == []


@every_class
@pytest.mark.parametrize(
    "labels",
    [
        np.array([[2], [0], [1], [0]]),
        np.array([2.0, 0.0, 1.0, 0.0], np.float32),
        np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]),
        np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]], bool),
        np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]], np.float64),
        ["c", "a", "b", "a"],
        np.array(["c", "a", "b", "a"], object),
        [(2,), (0,), (1,), (0,)],
    ],
    ids=["column", "floats", "one-hot", "one-hot bool", "one-hot floats", "strings", "objects", "tuples"],
)
def test_classes_are_understood_in_many_forms(cls, labels):
    expected = cls([2, 0, 1, 0]).batched_order(rng(), 3).tolist()
    assert cls(labels).batched_order(rng(), 3).tolist() == expected
    from_dataset = cls.from_dataset(DictDataset({"label": labels}))
    assert from_dataset.batched_order(rng(), 3).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        (7, r"PrevalenceRandomSampler needs one class for each sample, got array\(7\); pass a list"),
        (np.zeros((5, 28, 28)), r"got values of shape \(28, 28\); choose another entry by key"),
        (np.ones((5, 2)), r"got values of shape \(2,\)"),
        ([0.5, 1.0], "got continuous or missing values"),
        ([1.0, np.nan], "got continuous or missing values"),
        ([1.0, np.inf], "got continuous or missing values"),
        (np.array(["a", 1, None], object), "cannot tell the class of each sample .*; use numbers or strings"),
    ],
)
def test_what_is_no_class_is_refused(labels, match):
    with pytest.raises(ConfigError, match=match):
        PrevalenceRandomSampler(labels)


def test_other_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="shuffle_batch must be True or False, got 4"):
        PrevalenceRandomSampler([0, 1], 4)
    with pytest.raises(MissingKeyError, match=r"'target'.*'label'"):
        PrevalenceRandomSampler.from_dataset(DictDataset({"label": [0, 1]}), key="target")


# ------------------------------------------------------------------ where the labels come from


class Loader:
    """Loads samples of three classes and counts."""

    def __init__(self):
        self.loaded = []

    def __call__(self, item):
        self.loaded.append(item)
        return {"data": np.full(3, item), "label": item % 3, "other": item % 2}


def test_labels_are_read_once_for_all_samplers_and_subsets():
    loader = Loader()
    dataset = BaseLazyDataset(range(12), loader)
    for cls in CLASSES:
        cls.from_dataset(dataset)
        cls.from_dataset(dataset.get_subset([5, 3, 1]))
    assert loader.loaded == list(range(12))


def test_labels_of_the_user_are_taken_without_reading():
    loader = Loader()
    dataset = BaseLazyDataset(range(12), loader)
    labels = np.array([0] * 9 + [1] * 3)
    order = PrevalenceRandomSampler.from_dataset(dataset, labels=labels).order(rng())
    assert np.bincount(labels[order]).tolist() == [6, 6]
    assert loader.loaded == []


def test_the_entry_that_is_read_can_be_named():
    order = PrevalenceRandomSampler.from_dataset(BaseLazyDataset(range(9), Loader()), key="other").order(rng())
    assert abs(np.sum(order % 2 == 0) - np.sum(order % 2 == 1)) == 1


@every_class
@pytest.mark.parametrize("kwargs", [{}, {"labels": np.repeat([0, 1], [40, 20])}], ids=["read", "given"])
def test_the_folds_of_a_cross_validation_take_their_part_of_the_labels(cls, kwargs):
    labels = np.repeat([0, 1], [40, 20])
    manager = BaseDataManager(
        {"data": np.arange(60), "label": labels}, 6, sampler_cls=cls, sampler_kwargs=kwargs | {"seed": 1}
    )
    for seed in range(3):
        fold = np.sort(rng(seed).choice(60, 50, replace=False))
        train = manager.get_subset(fold)
        inner = train.get_subset(np.arange(0, 50, 2))
        for part, allowed in ((train, fold), (inner, fold[::2])):
            batches = [batch["data"] for batch in part.epoch(seed, 0, 0)]
            assert all(spread(labels, batch) <= 1 for batch in batches)
            assert set(np.concatenate(batches)) <= set(allowed)


def test_labels_of_a_subset_itself_are_taken_too():
    subset = DictDataset({"data": np.arange(6)}).get_subset([5, 1, 4])
    assert sorted(StoppingPrevalenceRandomSampler.from_dataset(subset, labels=[0, 1, 1])) in ([0, 1], [0, 2])


def test_labels_as_many_as_the_subset_has_are_its_own():
    turned = DictDataset({"data": np.arange(4)}).get_subset([3, 2, 1, 0])
    sampler = PrevalenceSequentialSampler.from_dataset(turned, labels=[0, 0, 0, 1])
    assert list(sampler) == [0, 3, 1, 3]


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([0, 1, 0], r"labels has 3 entries, but the dataset has 2 samples \(a subset of 4\); pass one for each"),
        (1, "labels is a single value, but the dataset has 2 samples"),
    ],
)
def test_more_or_fewer_labels_than_samples_are_refused(labels, match):
    dataset = DictDataset({"data": np.arange(4)})
    with pytest.raises(ConfigError, match=match):
        PrevalenceRandomSampler.from_dataset(dataset.get_subset([0, 1]), labels=labels)
    with pytest.raises(ConfigError, match=r"labels has 5 entries, but the dataset has 4 samples; pass one"):
        PrevalenceRandomSampler.from_dataset(dataset, labels=[0, 1, 2, 3, 4])
