"""What a dataset holds, at a glance."""

import os
import random
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.data_loading import AbstractDataset, BaseCacheDataset, BaseLazyDataset, ConcatDataset, DictDataset
from delira.data_loading.abstract_dataset import reads_cheaply
from delira.data_loading.array_dataset import WrappedDataset
from delira.data_loading.cached_dataset import CachedDataset
from delira.errors import ConfigError


def describe(dataset, *args, **kwargs):
    return dataset.describe(*args, **kwargs)


class Cases(AbstractDataset):
    """300 samples of which some cannot be read or have another shape; draws while it reads."""

    def __init__(self):
        super().__init__()
        self.read = []

    def __len__(self):
        return 300

    def __getitem__(self, index):
        self.read.append(index)
        np.random.random()
        random.random()
        if index % 50 == 7:
            raise OSError(f"broken header\nin file {index}")
        data = np.full((1, 4 + index % 5, 8), index, np.float32)
        if index % 100 == 3:
            data[0, 0, :3] = np.nan, np.inf, -np.inf
        sample = {"data": data, "label": np.array([float(index % 3)]), "number": index, "name": f"case {index}"}
        return sample | {"meta": {"site": "ab"[index % 2]}} | ({"extra": np.zeros(0)} if index % 2 else {})


def test_entries_are_described_by_shape_dtype_and_range():
    found = describe(DictDataset({"data": np.arange(24.0).reshape(4, 2, 3) - 3, "label": np.array([5, 2, 2, 5])}))
    assert (found.name, found.n_samples, found.n_read) == ("DictDataset", 4, 4)
    data, label = found.entries["data"], found.entries["label"]
    assert (data.shapes, data.dtypes) == ({(2, 3): 4}, {"float64": 4})
    assert (data.minimum, data.maximum, data.n_nonfinite) == (-3, 20, 0)
    assert (label.shapes, label.dtypes, label.minimum, label.maximum) == ({(): 4}, {"int64": 4}, 2, 5)
    assert found.classes == {"label": {2: 2, 5: 2}}


def test_shapes_and_values_that_differ_are_counted():
    found = describe(Cases(), limit=None)
    data = found.entries["data"]
    assert data.shapes == {(1, 4, 8): 60, (1, 5, 8): 60, (1, 6, 8): 54, (1, 7, 8): 60, (1, 8, 8): 60}
    assert [*data.shapes.values()] == sorted(data.shapes.values(), reverse=True)
    assert (data.n_nonfinite, data.nonfinite_samples) == (9, (3, 103, 203))
    assert (data.minimum, data.maximum) == (0, 299)  # of the finite ones
    assert found.entries["extra"].n_samples == 144  # half of them have it
    assert (found.entries["extra"].minimum, found.entries["extra"].maximum) == (None, None)
    assert found.entries["name"].dtypes == {"str": 294}
    assert found.entries["meta/site"].n_samples == 294


def test_samples_that_cannot_be_read_are_listed_and_not_raised():
    found = describe(Cases(), limit=None)
    assert [*found.failures] == [7, 57, 107, 157, 207, 257]
    assert found.failures[57] == "OSError: broken header\nin file 57"
    assert "  57: OSError: broken header in file 57" in str(found).splitlines()


def load_wrong(item):
    return {"list": [1, 2], "ragged": {"label": 0, "data": [[1, 2], [3]]}, "good": {"label": 1}}[item]


def test_what_is_no_sample_is_a_failure_too():
    found = describe(BaseLazyDataset(["good", "list", "ragged"], load_wrong))
    assert found.failures[1].startswith("DataError: sample 1 is a list, not a dict")
    assert found.failures[2].startswith("ValueError: entry 'data': setting an array element")


def test_few_samples_from_all_over_the_dataset_are_looked_at():
    dataset = Cases()
    found = describe(dataset)
    assert found.n_read == len(dataset.read) == len(set(dataset.read)) == 100
    assert min(np.bincount(np.array(dataset.read) // 50)) > 5
    assert len({index % 3 for index in dataset.read}) == 3  # classes that take turns are all seen
    assert str(found).splitlines()[0] == "Cases: 300 samples, 100 looked at (limit=None: all)"
    again = Cases()
    describe(again)
    assert again.read == dataset.read


@settings(max_examples=50)
@given(length=st.integers(1, 40), limit=st.integers(1, 50))
def test_never_more_than_the_limit_is_read(length, limit):
    found = describe(DictDataset({"data": np.arange(length)}), limit=limit)
    assert found.n_read == found.entries["data"].n_samples == min(limit, length)


@pytest.mark.parametrize("limit", [0, -1, 2.5, True])
def test_an_impossible_limit_is_refused(limit):
    with pytest.raises(ConfigError, match="limit must be an integer of at least 1"):
        describe(DictDataset({"data": np.zeros(3)}), limit=limit)


def test_random_generators_stay_as_they_are_and_decide_nothing():
    np.random.seed(1)
    random.seed(2)
    before = np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()
    describe(Cases())
    assert (np.random.get_state()[1].tolist(), np.random.get_state()[2], random.getstate()) == before
    dataset = BaseLazyDataset(range(5), lambda item: {"data": np.random.normal(size=3)})
    first = describe(dataset)
    np.random.seed(9)
    assert describe(dataset) == first


# ---- classes


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        (np.array([1, 0, 1, 1]), {0: 1, 1: 3}),
        (np.array([[1.0], [0.0], [1.0], [1.0]], np.float32), {0: 1, 1: 3}),
        (np.array([True, False, True, True]), {False: 1, True: 3}),
        (np.array(["cat", "ant", "cat", "cat"]), {"ant": 1, "cat": 3}),
        (np.array([4, 3, 2, 1]), {1: 1, 2: 1, 3: 1, 4: 1}),  # it is called label, so these are classes
    ],
)
def test_classes_are_counted_whatever_they_are_written_as(values, counts):
    found = describe(DictDataset({"label": values}))
    assert found.classes == {"label": counts}
    assert [*found.classes["label"]] == [*counts]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(4),  # the number of a sample
        np.repeat(np.arange(31), 2),  # too many
        np.array([0.5, 1.0, 1.0, 2.0]),
        np.zeros((4, 2), int),
        np.array([np.nan, 1, 1, 1]),
        np.array([1j, 1j]),
    ],
)
def test_other_entries_are_no_classes(values):
    assert describe(DictDataset({"what": values})).classes == {}


def test_another_entry_may_be_the_label():
    dataset = DictDataset({"diagnosis": np.arange(40), "label": np.arange(40) / 3})
    assert describe(dataset).classes == {}
    assert describe(dataset, label_key="diagnosis").classes["diagnosis"] == dict.fromkeys(range(40), 1)


def test_classes_of_all_samples_are_counted_where_that_loads_none():
    labels = np.arange(1000) % 4
    assert sum(describe(DictDataset({"label": labels})).classes["label"].values()) == 1000
    dataset = Cases()
    assert sum(describe(dataset).classes["label"].values()) == 97  # of those that were looked at
    dataset.set_labels("label", np.arange(300) % 2)
    assert describe(dataset).classes["label"] == {0: 150, 1: 150}
    assert len(dataset.read) == 200


@pytest.mark.parametrize(
    ("make", "cheap"),
    [
        (lambda: DictDataset({"label": np.arange(4)}), True),
        (lambda: DictDataset({"label": np.arange(4)}).get_subset([1, 2]), True),
        (lambda: BaseCacheDataset(range(4), load), True),
        (lambda: BaseLazyDataset(range(4), load), False),
        (lambda: BaseLazyDataset(range(4), load).get_subset([1]), False),
        (lambda: ConcatDataset(DictDataset({"label": np.arange(4)}), BaseCacheDataset(range(4), load)), True),
        (lambda: ConcatDataset(DictDataset({"label": np.arange(4)}), BaseLazyDataset(range(4), load)), False),
        (lambda: Changed({"label": np.arange(4)}), False),
        (lambda: Fast({"label": np.arange(4)}), True),
        (lambda: known(BaseLazyDataset(range(4), load)), True),
        (lambda: WrappedDataset(Foreign()), False),
        (lambda: WrappedDataset(Columns()), True),
    ],
)
def test_it_is_known_which_labels_are_cheap(make, cheap):
    assert reads_cheaply(make(), "label") is cheap


def load(item):
    return {"label": item}


class Foreign:
    """A dataset of another library."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"data": np.zeros(2), "label": index}


class Columns(Foreign):
    """One that keeps columns, as Hugging Face's datasets do."""

    format = types.MappingProxyType({"type": None})
    column_names = ("label",)

    def __getitem__(self, index):
        return np.arange(4) if index == "label" else super().__getitem__(index)


def test_a_cache_is_not_filled_to_count_classes(tmp_path):
    images = BaseLazyDataset(range(150), load)
    cached = CachedDataset(images, tmp_path)
    assert not reads_cheaply(cached, "label")
    assert describe(cached, limit=3).n_read == 3
    assert len(list(tmp_path.rglob("*.sample"))) == 3
    images.set_labels("label", np.arange(150) % 2)
    assert describe(cached, limit=3).classes == {"label": {0: 75, 1: 75}}


class Changed(DictDataset):
    def __getitem__(self, index):
        return {"label": 2 * self.data["label"][index]}


class Fast(Changed):
    def labels(self, key="label"):
        return 2 * self.data[key]


def known(dataset):
    dataset.labels("label")
    return dataset


# ---- files


def load_npy(path):
    return {"data": np.load(path)}


def test_missing_files_are_counted_and_ten_of_them_listed(tmp_path):
    paths = [tmp_path / f"{number:02}.npy" for number in range(20)]
    for path in paths[:8]:
        np.save(path, np.zeros(3))
    found = describe(BaseLazyDataset(paths, load_npy), limit=2)
    assert (found.n_files, found.missing_files) == (20, tuple(os.fspath(path) for path in paths[8:]))
    assert found.failures
    assert all("No such file" in reason for reason in found.failures.values())
    text = str(found)
    assert "12 of 20 files are missing or may not be read:" in text
    assert "17.npy" in text
    assert "18.npy\n" not in text
    assert text.endswith("  and 2 more")


def test_without_missing_files_nothing_is_said(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros(3))
    found = describe(BaseLazyDataset(tmp_path, load_npy))
    assert (found.n_files, found.missing_files, found.failures) == (1, (), {})
    assert "missing" not in str(found)
    assert "cannot be read" not in str(found)


# ---- as text


def test_the_text_is_a_table():
    text = str(describe(DictDataset({"data": np.zeros((3, 1, 4), np.float32), "label": np.array([2, 0, 2])})))
    assert text.splitlines() == [
        "DictDataset: 3 samples",
        "",
        "entry  samples  shape   dtype    values",
        "data         3  (1, 4)  float32  0",
        "label        3  ()      int64    0 to 2",
        "",
        "label: 2 classes in 3 samples",
        "  0: 1, 2: 2",
    ]


def test_the_text_fits_into_80_columns(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / ("a" * 60) / ("b" * 60)

    class Long(AbstractDataset):
        def __len__(self):
            return 60

        def __getitem__(self, index):
            if index % 9 == 0:
                raise OSError(f"cannot read {folder / str(index)}: " + "the reason is long " * 30)
            entry = np.full((3, 20 + index, 20, 20, 2)[: 1 + index % 5], np.nan)
            return {"label": int(rng.integers(10**6)), "an entry with " + "a long name " * 9: entry, "data": entry}

        def _files(self):
            return [folder / str(index) for index in range(60)]

    Long.__name__ = "Long" * 30
    lines = str(describe(Long())).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[0].endswith("…")
    assert sum(line.startswith("  0: OSError") for line in lines) == 1


def test_a_notebook_shows_the_text_and_nothing_that_it_could_execute():
    found = describe(DictDataset({"<script>": np.zeros(2)}))
    assert found._repr_html_().startswith("<pre>DictDataset: 2 samples")
    assert "<script>" not in found._repr_html_()
    assert repr(found) == str(found)


def test_every_dataset_has_it():
    dataset = DictDataset({"label": np.array([1, 1, 0])})
    assert dataset.describe() == describe(dataset)
    assert describe(dataset.get_subset([0, 1])).classes == {"label": {1: 2}}
    assert describe(dataset.get_subset([0])).name == "Subset"


def test_an_empty_dataset_is_described(tmp_path):
    assert str(describe(BaseLazyDataset([], load))) == "BaseLazyDataset: 0 samples"
