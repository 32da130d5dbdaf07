"""The sampler that cuts the epochs of another one into batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import BaseDataLoader
from delira.data_loading.sampler import BatchSampler, PrevalenceRandomSampler, RandomSampler, SequentialSampler
from delira.errors import ConfigError


@given(length=st.integers(0, 40), batch_size=st.integers(1, 12), drop_last=st.booleans())
def test_an_epoch_is_cut_into_batches(length, batch_size, drop_last):
    batches = BatchSampler(SequentialSampler(length), batch_size, drop_last)
    made = list(batches)
    kept = length // batch_size * batch_size if drop_last else length
    assert [index for batch in made for index in batch] == list(range(kept))
    assert all(len(batch) == batch_size for batch in made[:-1])
    assert len(made) == len(batches)


def test_each_iteration_is_an_epoch_of_its_own():
    batches = BatchSampler(RandomSampler(50), 10)
    broken_off = iter(batches)
    next(broken_off)
    first, second = list(batches), list(batches)
    assert first != second
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(second)) == list(range(50))
    assert len(list(broken_off)) == 4


def test_batches_are_balanced_by_a_sampler_that_balances():
    labels = np.repeat([0, 1, 2], [30, 20, 10])
    for batch in BatchSampler(PrevalenceRandomSampler(labels), 6):
        assert np.bincount(labels[batch]).tolist() == [2, 2, 2]


def test_a_loader_takes_the_batches():
    loader = BaseDataLoader({"data": np.arange(7)})
    loaded = [loader(batch)["data"].tolist() for batch in BatchSampler(SequentialSampler(7), 3)]
    assert loaded == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((range(3), 2), r"sampler must be an AbstractSampler, got range\(0, 3\)"),
        ((SequentialSampler(3), 0), "batch_size must be an integer of at least 1, got 0"),
        ((SequentialSampler(3), 2, 1), "drop_last must be True or False, got 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(ConfigError, match=match):
        BatchSampler(*arguments)
