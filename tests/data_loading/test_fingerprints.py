"""A fingerprint changes with the data and with nothing else."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from delira.data_loading import (
    AbstractDataset,
    BaseCacheDataset,
    BaseLazyDataset,
    ConcatDataset,
    DictDataset,
    IterableDataset,
)
from delira.data_loading._content import fingerprint_of


def load(path, scale=1):
    return {"data": np.array([os.path.getsize(path) * scale])}


def arrays(**changes):
    return {"data": np.arange(6.0).reshape(3, 2), "label": np.array([0, 1, 2])} | changes


def test_equal_arrays_have_equal_fingerprints_whatever_their_layout():
    expected = DictDataset(arrays()).fingerprint()
    assert len(expected) == 64
    assert DictDataset(arrays(data=np.asfortranarray(arrays()["data"]))).fingerprint() == expected
    assert DictDataset(dict(reversed(arrays().items()))).fingerprint() == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"data": np.arange(6.0, dtype=np.float32).reshape(3, 2)},
        {"data": np.arange(6.0).reshape(3, 2, 1)},
        {"data": np.array([[0, 1], [2, 3], [4, 5.5]])},
        {"label": np.array([0, 2, 1])},
        {"more": np.zeros(3)},
    ],
)
def test_other_types_shapes_values_and_keys_change_the_fingerprint(changes):
    assert DictDataset(arrays(**changes)).fingerprint() != DictDataset(arrays()).fingerprint()


def test_long_arrays_are_read_in_pieces(monkeypatch):
    whole = DictDataset(arrays()).fingerprint()
    monkeypatch.setattr("delira.data_loading._content._CHUNK", 16)
    assert DictDataset(arrays()).fingerprint() == whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ab"], ["a", "b"]),
        ([1], ["1"]),
        (np.array(["a", None], object), np.array(["a", "None"], object)),
        (np.array(1), np.array([1])),
        ({"a": {"b": 1}}, {"a": {"c": 1}}),
        (np.array("2020-01-01", "M8[D]"), np.array("2020-01-02", "M8[D]")),
        (np.zeros((0, 2)), np.zeros((0, 3))),
        (None, 0),
    ],
)
def test_different_content_is_told_apart(one, other):
    assert fingerprint_of(one) == fingerprint_of(one)
    assert fingerprint_of(one) != fingerprint_of(other)


def test_a_fingerprint_is_the_same_in_another_process():
    code = (
        "import numpy as np; from delira.data_loading import IterableDataset as D\n"
        "class Odd: pass\n"
        "print(D([{'data': np.arange(3), 'name': 'x', 'odd': Odd(), 'set': (1, 2.5, None)}]).fingerprint())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=pathlib.Path(__file__).parents[2],
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    }
    assert len(found) == 1


def test_all_cached_samples_count():
    def content(middle):
        samples = [{"data": np.zeros(2)}, {"data": np.full(2, middle)}, {"data": np.zeros(2)}]
        return [
            BaseCacheDataset(samples, lambda sample: sample).fingerprint(),
            IterableDataset(samples).fingerprint(),
        ]

    assert content(1.0) == content(1.0)
    assert not set(content(1.0)) & set(content(2.0))


def test_a_lazy_dataset_is_known_by_its_paths_and_file_sizes_but_not_their_times(tmp_path):
    file = tmp_path / "a.bin"
    folder = tmp_path / "case"
    folder.mkdir()
    for path in (file, folder / "image"):
        path.write_bytes(b"12345")

    def content(**kwargs):
        return BaseLazyDataset([str(file), folder], load, **kwargs).fingerprint()

    expected = content()
    os.utime(file, (0, 0))
    assert content() == expected
    assert content(scale=2) != expected
    (folder / "image").write_bytes(b"123456")
    assert content() != expected
    (folder / "image").write_bytes(b"12345")
    assert content() == expected
    file.write_bytes(b"1")
    assert content() != expected


def test_items_that_are_no_paths_are_known_by_themselves():
    assert BaseLazyDataset([1, 2], load).fingerprint() != BaseLazyDataset([1, 3], load).fingerprint()


def test_views_are_known_by_their_data_and_indices():
    dataset, other = DictDataset(arrays()), DictDataset(arrays(label=np.zeros(3)))
    assert dataset.get_subset([0, 1]).fingerprint() == DictDataset(arrays()).get_subset([0, 1]).fingerprint()
    assert dataset.get_subset([0, 1]).fingerprint() != dataset.get_subset([1, 0]).fingerprint()
    assert dataset.get_subset([0, 1]).fingerprint() != other.get_subset([0, 1]).fingerprint()
    assert ConcatDataset(dataset, other).fingerprint() != ConcatDataset(other, dataset).fingerprint()


def test_any_other_dataset_is_known_by_its_length_and_its_first_and_last_sample():
    class Own(AbstractDataset):
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            return {"data": np.array(self.values[index]), "noise": np.random.rand()}

    expected = Own([1, 2, 3]).fingerprint()
    assert Own([1, 2, 3]).fingerprint() == expected
    assert expected not in (Own([1, 2]).fingerprint(), Own([0, 2, 3]).fingerprint(), Own([]).fingerprint())
