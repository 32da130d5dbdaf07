"""The loader: indices in, one batch out; what does not fit is named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import AbstractDataset, BaseDataLoader, DictDataset, PrevalenceRandomSampler, RandomSampler
from delira.errors import ConfigError, DataError, MissingKeyError


class Made(AbstractDataset):
    """A dataset whose samples are made by a function."""

    def __init__(self, make, length=6):
        super().__init__()
        self.data = range(length)
        self.make = make

    def __getitem__(self, index):
        return self.make(self.data[index])


def test_samples_are_stacked_and_scalars_become_vectors():
    batch = BaseDataLoader(Made(lambda i: {"data": np.full((2, 3), i, np.float32), "label": i, "name": f"n{i}"}))(
        [4, 1]
    )
    assert batch["data"].shape == (2, 2, 3)
    assert batch["data"].dtype == np.float32
    assert batch["label"].tolist() == [4, 1]
    assert batch["label"].dtype == np.int64
    assert batch["name"].tolist() == ["n4", "n1"]


@given(indices=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_a_batch_is_the_same_from_arrays_and_from_samples(indices):
    arrays = {"data": np.random.default_rng(0).random((10, 2, 2)), "label": np.arange(10)}
    at_once = BaseDataLoader(arrays)(indices)
    one_by_one = BaseDataLoader([{key: values[i] for key, values in arrays.items()} for i in range(10)])(indices)
    assert at_once.keys() == one_by_one.keys()
    for key, values in at_once.items():
        np.testing.assert_array_equal(values, one_by_one[key], strict=True)


def test_nested_entries_are_stacked_entry_by_entry():
    batch = BaseDataLoader([{"data": {"left": [i], "right": i}} for i in range(3)])([2, 0])
    assert batch["data"]["left"].tolist() == [[2], [0]]
    assert batch["data"]["right"].tolist() == [2, 0]


def test_entries_that_are_no_numbers_are_kept_as_objects():
    batch = BaseDataLoader([{"meta": None}, {"meta": None}])([0, 1])
    assert batch["meta"].shape == (2,)


def test_a_sample_with_other_keys_is_named():
    loader = BaseDataLoader(Made(lambda i: {"data": i} if i == 4 else {"data": i, "label": i}))
    with pytest.raises(
        MissingKeyError,
        match=r"sample 4 has the keys \['data'\], but \['data', 'label'\] were expected .*sample 2",
    ):
        loader([2, 4])
    nested = BaseDataLoader([{"data": {"a": 1}}, {"data": {"b": 1}}])
    with pytest.raises(MissingKeyError, match=r"entry 'data' of sample 1 has the keys \['b'\], but \['a'\]"):
        nested([0, 1])


def test_a_sample_of_another_shape_is_named():
    loader = BaseDataLoader(Made(lambda i: {"data": np.zeros((2, 4 if i == 5 else 3)), "label": i}))
    with pytest.raises(DataError, match=r"entry 'data' of sample 5 has shape \(2, 4\), but \(2, 3\).*sample 1"):
        loader([1, 5])


def test_a_shape_that_could_be_broadcast_is_not():
    loader = BaseDataLoader(Made(lambda i: {"data": np.zeros(1 if i else 3)}))
    with pytest.raises(DataError, match=r"sample 1 has shape \(1,\), but \(3,\)"):
        loader([0, 1])


def test_a_sample_that_is_no_dict_is_named():
    with pytest.raises(DataError, match="sample 3 is a tuple, not a dict"):
        BaseDataLoader(Made(lambda i: (i, i) if i == 3 else {"data": i}))([0, 3])


def test_an_entry_that_makes_no_array_is_named():
    with pytest.raises(DataError, match=r"entry 'data' of sample 2 makes no array: .*inhomogeneous"):
        BaseDataLoader(Made(lambda i: {"data": [[1], [1, 2]]}))([2])


def test_an_error_of_the_dataset_keeps_its_type_and_names_the_sample():
    def make(index):
        raise OSError(f"disk {index} on fire")

    with pytest.raises(OSError, match="disk 3 on fire") as caught:
        BaseDataLoader(Made(make))([3])
    assert caught.value.__notes__ == ["while sample 3 of Made was loaded"]


def test_a_dataset_cannot_end_an_epoch_by_accident():
    loader = BaseDataLoader(Made(lambda i: {"data": next(iter([]))}))
    with pytest.raises(DataError, match=r"loading sample 1 of Made raised StopIteration; call next\(iterator, default"):
        loader([1])


def test_datasets_are_asked_for_python_integers():
    seen = []
    BaseDataLoader(Made(lambda i: seen.append(i) or {"data": i}))(np.array([1, 2]))
    assert [type(index) for index in seen] == [int, int]


@pytest.mark.parametrize("indices", [[], np.array([], np.int64)])
def test_a_batch_of_nothing_is_refused(indices):
    with pytest.raises(ConfigError, match="a batch needs at least one index"):
        BaseDataLoader({"data": np.zeros(3)})(indices)


def test_iterating_yields_all_batches_and_again_the_same():
    loader = BaseDataLoader({"data": np.arange(7)}, batch_size=3)
    assert len(loader) == loader.num_batches == 3
    for _ in range(2):
        assert [batch["data"].tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(list(BaseDataLoader({"data": np.arange(7)}, 3, num_batches=2))) == 2


def test_seed_and_sampler_decide_the_order_of_an_iteration():
    def order(seed):
        loader = BaseDataLoader({"data": np.arange(30)}, 30, seed=seed, sampler=RandomSampler(30))
        return next(iter(loader))["data"].tolist()

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(30))


def test_iterating_seeds_what_a_dataset_draws_and_leaves_the_callers_generator_alone():
    loader = BaseDataLoader(Made(lambda i: {"data": np.random.rand()}), 2)
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    first = [batch["data"].tolist() for batch in loader]
    assert np.random.rand() == expected
    assert first == [batch["data"].tolist() for batch in loader]
    assert first[0] != first[1]


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"num_batches": 3, "batch_size": 2}, "num_batches=3 is more than the 2 batches that 3 samples"),
        ({"seed": -1}, "seed must be a non-negative integer"),
        ({"sampler": 3}, "sampler must be an AbstractSampler or a subclass of it, got 3"),
        ({"dataset": "folder"}, "cannot make a dataset of 'folder'; accepted are"),
    ],
)
def test_wrong_arguments_are_refused(kwargs, match):
    with pytest.raises(ConfigError, match=match):
        BaseDataLoader(**({"dataset": DictDataset({"data": np.zeros(3)})} | kwargs))


def test_a_sampler_may_be_named_by_its_class():
    arrays = {"data": np.arange(12.0), "label": np.arange(12) % 3}
    loader = BaseDataLoader(arrays, 3, sampler_cls=PrevalenceRandomSampler, sampler_kwargs={"shuffle_batch": False})
    assert isinstance(loader.sampler, PrevalenceRandomSampler)
    assert all(sorted(batch["label"].tolist()) == [0, 1, 2] for batch in loader)
    with pytest.raises(ConfigError, match=r"takes no 'shufle_batch'; did you mean 'shuffle_batch'\?"):
        BaseDataLoader(arrays, 3, sampler_cls=PrevalenceRandomSampler, sampler_kwargs={"shufle_batch": True})
