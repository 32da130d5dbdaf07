"""Datasets in memory: a dict of arrays, a list of samples."""

import numpy as np
import pytest

from delira.data_loading import AbstractDataset, DictDataset, IterableDataset
from delira.data_loading.array_dataset import as_dataset
from delira.errors import ConfigError, DataError, MissingKeyError


def test_a_dict_dataset_does_not_copy_its_arrays():
    data = np.zeros((5, 2), np.float32)
    dataset = DictDataset({"data": data, "label": [0, 1, 2, 3, 4]})
    assert len(dataset) == 5
    assert dataset.data["data"] is data
    assert dataset[3]["label"] == 3
    assert dataset.get_sample_from_index(-1)["label"] == 4
    data[2] = 7
    assert dataset[2]["data"].tolist() == [7, 7]


def test_a_batch_is_a_copy_with_the_types_of_the_arrays():
    data = np.arange(10, dtype=np.float32).reshape(5, 2)
    batch = DictDataset({"data": data, "label": np.arange(5, dtype=np.int8)}).get_batch(np.array([4, 0, 4]))
    assert batch["data"].dtype == np.float32
    assert batch["label"].tolist() == [4, 0, 4]
    batch["data"][:] = -1
    assert data.min() == 0


def test_a_tensor_is_taken_as_an_array():
    torch = pytest.importorskip("torch")
    dataset = DictDataset({"data": torch.arange(6.0).reshape(3, 2)})
    assert dataset.get_batch(np.array([1]))["data"].tolist() == [[2, 3]]


def test_labels_of_a_dict_dataset_are_the_array():
    labels = np.array([3, 1, 2])
    assert np.shares_memory(DictDataset({"label": labels}).labels(), labels)


def test_different_lengths_are_named():
    with pytest.raises(DataError, match=r"equal lengths \(first axes\), got 'data': 3, 'label': 2"):
        DictDataset({"data": np.zeros((3, 2)), "label": [0, 1]})


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({}, "needs a dict of arrays, got {}"),
        ([1, 2], "needs a dict of arrays, got a list"),
        ({"data": 3.0}, "value of 'data' has no first axis that counts samples: got a float"),
        ({"data": {"inner": [1]}}, "value of 'data' has no first axis that counts samples: got a dict"),
    ],
)
def test_what_is_no_dict_of_arrays_is_refused(arrays, match):
    with pytest.raises(DataError, match=match):
        DictDataset(arrays)


def test_values_that_make_no_array_are_named():
    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        DictDataset({"data": [[1], [1, 2]]})
    assert "values of 'data'" in caught.value.__notes__[0]


def test_an_iterable_of_samples_is_read_to_its_end():
    dataset = IterableDataset({"data": np.array(i)} for i in range(3))
    assert len(dataset) == 3
    assert dataset[-1]["data"] == 2
    assert dataset.get_sample_from_index(0) is dataset[0]


def test_the_first_sample_with_other_keys_is_named():
    samples = [{"data": 1, "label": 1}, {"label": 1, "data": 1}, {"data": 1}, {}]
    with pytest.raises(
        MissingKeyError, match=r"sample 2 has the keys \['data'\], but sample 0 has \['data', 'label'\]"
    ):
        IterableDataset(samples)


def test_a_sample_that_is_no_dict_is_named():
    with pytest.raises(DataError, match="sample 1 is a tuple, not a dict"):
        IterableDataset([{"data": 1}, (1, 2)])


def test_data_in_memory_become_a_dataset():
    dataset = DictDataset({"data": [1]})
    assert as_dataset(dataset) is dataset
    assert isinstance(as_dataset({"data": [1]}), DictDataset)
    assert isinstance(as_dataset([{"data": 1}]), IterableDataset)
    assert len(as_dataset({"data": i} for i in range(4))) == 4
    assert isinstance(as_dataset([]), AbstractDataset)


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (None, "a NoneType"),
        ("folder", "'folder'"),
        (["a.png"], "a list of str"),
        (np.zeros((3, 2)), "a ndarray of ndarray"),
    ],
)
def test_anything_else_is_refused_with_a_list_of_what_is_accepted(data, got):
    with pytest.raises(
        ConfigError, match=f"of {got}; accepted are a dataset .*, a dict of arrays, an iterable of dicts"
    ):
        as_dataset(data)
