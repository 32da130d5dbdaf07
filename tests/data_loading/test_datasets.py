"""Datasets that load: lazy, cached, concatenated; and views on any of them."""

import copy
import io
import pathlib
import pickle
import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import (
    AbstractDataset,
    BaseCacheDataset,
    BaseLazyDataset,
    ConcatDataset,
    DictDataset,
    IterableDataset,
    Subset,
)
from delira.data_loading.dataset import BlankDataset
from delira.data_loading.sampler import PrevalenceRandomSampler
from delira.errors import ConfigError, DataError, MissingKeyError


class Loader:
    """A load_fn that counts its calls."""

    def __init__(self):
        self.loaded = []

    def __call__(self, item, factor=1):
        self.loaded.append(item)
        if item == "broken":
            raise FileNotFoundError("no such image")
        return {"data": np.full((2, 3), float(item) * factor, np.float32), "label": int(item) % 3}


class Squares(AbstractDataset):
    """A dataset that keeps nothing in ``data`` and never calls the constructor of its base class."""

    n_classes = 4

    def __init__(self, length=6):
        self.length = length
        self.names = [f"case {i}" for i in range(length)]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not 0 <= index < self.length:
            raise IndexError(index)
        return {"data": np.array([index**2]), "label": index % self.n_classes}


def test_a_dataset_without_getitem_cannot_be_made():
    with pytest.raises(TypeError, match="__getitem__"):
        AbstractDataset()


def test_the_base_class_counts_and_iterates_over_what_is_in_data():
    class Numbers(AbstractDataset):
        def __init__(self):
            super().__init__("somewhere", print)
            self.data = [3, 4, 5]

        def __getitem__(self, index):
            return {"data": np.array(self.data[index])}

    dataset = Numbers()
    assert len(dataset) == 3
    assert [int(sample["data"]) for sample in dataset] == [3, 4, 5]
    assert dataset.get_sample_from_index(1) == 4
    assert (dataset.data_path, dataset._load_fn) == ("somewhere", print)
    assert dataset.get_batch(np.array([0])) is None
    assert not dataset.is_deterministic()


def test_a_dataset_that_uses_make_dataset_without_writing_it_is_told_so():
    with pytest.raises(NotImplementedError, match="Squares has no _make_dataset; write it"):
        Squares()._make_dataset("path")


@pytest.mark.parametrize("items", [["1", "2"], ("1", "2"), {"1": 0, "2": 0}.keys(), np.array(["1", "2"])])
@pytest.mark.parametrize("cls", [BaseLazyDataset, BaseCacheDataset])
def test_any_iterable_of_items_is_loaded(cls, items):
    dataset = cls(items, Loader(), factor=10)
    assert [sample["data"][0, 0] for sample in dataset] == [10, 20]
    assert dataset[-1]["label"] == 2


@pytest.mark.parametrize("cls", [BaseLazyDataset, BaseCacheDataset])
@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_directory_is_loaded_in_sorted_order(tmp_path, monkeypatch, cls, kind):
    for name in "cab":
        (tmp_path / name).write_text(name)
    monkeypatch.setattr("os.listdir", lambda path: ["c", "a", "b"])
    dataset = cls(kind(tmp_path), lambda path: {"data": np.array(ord(pathlib.Path(path).read_text()))})
    assert [int(sample["data"]) for sample in dataset] == [97, 98, 99]


@pytest.mark.parametrize("cls", [BaseLazyDataset, BaseCacheDataset])
def test_a_path_that_is_no_directory_is_named(tmp_path, cls):
    with pytest.raises(ConfigError, match=r"data_path='.*nowhere' is no directory; pass a directory or a list"):
        cls(str(tmp_path / "nowhere"), Loader())


@pytest.mark.parametrize(("path", "got"), [(None, "NoneType"), (3, "int"), ({"data": []}, "dict")])
def test_what_holds_no_items_is_refused(path, got):
    with pytest.raises(ConfigError, match=f"a directory or a list of items to load, got a {got}.*DictDataset"):
        BaseLazyDataset(path, Loader())


def test_a_load_function_that_cannot_be_called_is_refused():
    with pytest.raises(ConfigError, match=r"BaseCacheDataset needs load_fn, a function.*, got None"):
        BaseCacheDataset(["1"], None)


def test_a_lazy_dataset_loads_on_access_and_a_cached_one_at_construction():
    lazy, cached = Loader(), Loader()
    lazy_dataset, cached_dataset = BaseLazyDataset(["1", "2"], lazy), BaseCacheDataset(["1", "2"], cached)
    assert (lazy.loaded, cached.loaded) == ([], ["1", "2"])
    for _ in range(2):
        lazy_dataset[1], cached_dataset[1]
    assert (lazy.loaded, cached.loaded) == (["2", "2"], ["1", "2"])
    assert lazy_dataset.get_sample_from_index(1) == "2"
    assert cached_dataset.get_sample_from_index(1) is cached_dataset[1]


def test_an_error_of_the_load_function_keeps_its_type_and_names_the_item():
    with pytest.raises(FileNotFoundError, match="no such image") as caught:
        BaseCacheDataset(["1", "broken"], Loader())
    assert "loaded item 1: 'broken'" in caught.value.__notes__[0]
    dataset = BaseLazyDataset(["1", "broken"], Loader())
    with pytest.raises(FileNotFoundError, match="no such image") as caught:
        dataset[1]
    assert "loaded item 1: 'broken'" in caught.value.__notes__[0]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_shown_on_a_terminal_only(monkeypatch, terminal):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    BaseCacheDataset(["1", "2"], Loader())
    assert ("Loading samples" in stream.getvalue()) is terminal


def test_a_subset_is_a_view_that_copies_and_loads_nothing():
    loader = Loader()
    dataset = BaseLazyDataset([str(i) for i in range(10)], loader)
    subset = dataset.get_subset([7, 2, 2])
    assert isinstance(subset, Subset)
    assert subset.parent is dataset
    assert (len(subset), subset.get_sample_from_index(0), subset.data) == (3, "7", ["7", "2", "2"])
    assert loader.loaded == []
    assert [sample["data"][0, 0] for sample in subset] == [7, 2, 2]
    assert subset[-1]["label"] == 2


def test_a_subset_of_a_subset_looks_at_the_first_dataset():
    dataset = Squares()
    inner = dataset.get_subset([5, 3, 1]).get_subset(np.array([2, 0]))
    assert inner.parent is dataset
    assert inner.indices.tolist() == [1, 5]


def test_attributes_of_the_parent_are_seen_through_a_subset():
    subset = Squares().get_subset([0])
    assert subset.n_classes == 4
    assert subset.names[5] == "case 5"
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        subset.colour  # noqa: B018


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_subset_can_be_copied_and_sent_to_another_process(duplicate):
    twin = duplicate(Squares().get_subset([4, 2]))
    assert type(twin) is Subset
    assert [int(sample["data"][0]) for sample in twin] == [16, 4]


@pytest.mark.parametrize(
    ("indices", "named"), [([0, -1, 2], "-1"), ([6], "6"), ([7, 0, -3], "7, -3"), (range(20), r"15, \.\.\.")]
)
def test_indices_outside_the_dataset_are_named(indices, named):
    with pytest.raises(IndexError, match=f"{named} are not in this Squares of 6 samples; allowed are 0 to 5"):
        Squares().get_subset(indices)


@pytest.mark.parametrize(
    ("indices", "match"),
    [
        (np.ones(6, bool), r"dtype bool; for a boolean mask pass np\.flatnonzero"),
        ([0.0, 1.0], "one list of integers, got an array of shape .2,. and dtype float64"),
        ([[0, 1]], r"shape \(1, 2\)"),
    ],
)
def test_indices_that_are_no_list_of_integers_are_refused(indices, match):
    with pytest.raises(ConfigError, match=match):
        Squares().get_subset(indices)


@pytest.mark.parametrize("indices", [[], (), np.array([]), range(0), iter([])])
def test_an_empty_subset_is_possible(indices):
    assert len(Squares().get_subset(indices)) == 0


def test_later_changes_of_the_index_array_do_not_reach_a_subset():
    indices = np.array([0, 1])
    subset = Squares().get_subset(indices)
    indices[:] = 5
    assert subset.indices.tolist() == [0, 1]


def test_train_test_split_is_scikit_learns_and_disjoint():
    dataset = Squares(20)
    train, test = dataset.train_test_split(test_size=4, random_state=0, stratify=dataset.labels())
    assert (len(train), len(test)) == (16, 4)
    assert sorted([*train.indices, *test.indices]) == list(range(20))
    assert sorted(test.labels()) == [0, 1, 2, 3]
    again = dataset.train_test_split(test_size=4, random_state=0, stratify=dataset.labels())
    assert again[1].indices.tolist() == test.indices.tolist()


def test_train_test_split_refuses_positional_arguments():
    with pytest.raises(ConfigError, match=r"keywords only, e\.g\. test_size=0\.2; got \(0\.3,\)"):
        Squares().train_test_split(0.3)


def test_labels_are_read_once_and_subsets_share_them():
    loader = Loader()
    dataset = BaseLazyDataset([str(i) for i in range(6)], loader)
    assert dataset.labels().tolist() == [0, 1, 2, 0, 1, 2]
    assert dataset.get_subset([5, 0]).labels("label").tolist() == [2, 0]
    assert dataset.get_subset([5, 4]).get_subset([1]).labels().tolist() == [1]
    assert len(loader.loaded) == 6


def test_labels_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        Squares().labels()[0] = 9


def test_labels_may_be_one_hot():
    dataset = IterableDataset([{"label": np.eye(3)[i]} for i in (2, 0)])
    assert dataset.labels().tolist() == [[0, 0, 1], [1, 0, 0]]


def test_labels_of_no_sample_are_empty():
    assert IterableDataset([]).labels().shape == (0,)


@pytest.mark.parametrize(
    "dataset",
    [Squares(), DictDataset({"data": [1], "label": [2]}), Squares().get_subset([3])],
    ids=["own", "arrays", "subset"],
)
def test_a_missing_label_is_named_with_the_keys_there_are(dataset):
    with pytest.raises(MissingKeyError, match=r"sample 0.*'target'.*\['data', 'label'\]"):
        dataset.labels("target")


def test_labels_of_different_shapes_are_named():
    dataset = IterableDataset([{"label": [1]}, {"label": [1, 2]}])
    with pytest.raises(DataError, match=r"entry 'label' of sample 1 has shape \(2,\), but \(1,\) was expected"):
        dataset.labels()


def test_labels_of_samples_that_are_no_dicts_are_refused():
    class Tuples(Squares):
        def __getitem__(self, index):
            return np.zeros(3), 1

    with pytest.raises(DataError, match="sample 0 is a tuple, not a dict"):
        Tuples().labels()


def test_a_dataset_may_keep_an_attribute_called_labels():
    dataset = Squares()
    dataset.labels = ["users", "own"]
    assert dataset.get_subset([3, 1]).labels().tolist() == [3, 1]
    assert ConcatDataset(dataset, dataset).labels().tolist() == [0, 1, 2, 3, 0, 1] * 2


def test_reading_labels_leaves_the_global_generators_alone():
    class Noisy(Squares):
        def __getitem__(self, index):
            return {"label": np.random.rand() + random.random()}

    random.seed(3), np.random.seed(3)
    expected = random.random(), np.random.rand()
    random.seed(3), np.random.seed(3)
    Noisy().labels()
    assert (random.random(), np.random.rand()) == expected


def test_a_class_that_changes_samples_changes_labels_and_batches_too():
    class Shifted(DictDataset):
        def __getitem__(self, index):
            return {key: value + 100 for key, value in super().__getitem__(index).items()}

    class ShiftedBySomethingElse:
        __getitem__ = Shifted.__getitem__

    class Mixed(ShiftedBySomethingElse, Shifted):
        pass

    for cls in (Shifted, Mixed):
        dataset = cls({"data": [1, 2], "label": [3, 4]})
        assert dataset.get_batch(np.array([0])) is None
        assert dataset.get_subset([0]).get_batch(np.array([0])) is None
        assert not dataset.is_deterministic()
        assert dataset.labels()[0] > 100


def without_loading(number=6):
    """A dataset that cannot load anything."""

    def load(item):
        raise AssertionError(f"{item} was loaded")

    return BaseLazyDataset([f"{index}.png" for index in range(number)], load)


def test_labels_that_were_set_are_never_loaded():
    dataset = without_loading()
    dataset.set_labels("label", [0, 1, 2, 0, 1, 2])
    dataset.set_labels("patient", np.array(list("aabbcc")))
    assert dataset.labels().tolist() == [0, 1, 2, 0, 1, 2]
    assert dataset.labels("patient").tolist() == list("aabbcc")
    train, test = dataset.train_test_split(test_size=3, stratify=dataset.labels(), random_state=0)
    assert sorted(train.labels()) == sorted(test.labels()) == [0, 1, 2]
    order = PrevalenceRandomSampler.from_dataset(dataset).order(np.random.default_rng(0))
    assert sorted(dataset.labels()[order]) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(AssertionError, match=r"0\.png was loaded"):
        dataset.labels("other")


def test_views_see_labels_that_were_set_on_what_they_look_at():
    dataset, other = without_loading(), without_loading(2)
    dataset.set_labels("label", range(6))
    other.set_labels("label", [6, 7])
    subset = dataset.get_subset([5, 4, 0])
    both = ConcatDataset(subset, other)
    assert subset.labels().tolist() == [5, 4, 0]
    assert subset.get_subset([2, 0]).labels().tolist() == [0, 5]
    assert both.labels().tolist() == [5, 4, 0, 6, 7]
    assert both.get_subset([4, 1]).labels().tolist() == [7, 4]


def test_labels_may_be_set_on_a_view_and_hold_for_views_of_it():
    dataset = without_loading()
    dataset.set_labels("label", range(6))
    subset = dataset.get_subset([5, 4, 0])
    subset.set_labels("label", [50, 40, 0])
    subset.set_labels("site", [1, 2, 3])
    inner = subset.get_subset([1, 1])
    assert inner.parent is dataset
    assert (inner.labels().tolist(), inner.labels("site").tolist()) == ([40, 40], [2, 2])
    assert inner.get_subset([0]).labels("site").tolist() == [2]
    assert dataset.labels().tolist() == list(range(6))
    with pytest.raises(AssertionError, match="was loaded"):
        dataset.get_subset([1, 0]).labels("site")


def test_labels_that_were_set_can_be_set_again_and_go_before_those_in_the_samples():
    dataset = DictDataset({"data": [1, 2], "label": [3, 4]})
    assert dataset.labels().tolist() == [3, 4]
    for values in ([5, 6], [7, 8]):
        dataset.set_labels("label", values)
        assert dataset.labels().tolist() == values
    assert dataset[0]["label"] == 3


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_labels_that_were_set_are_copied_with_the_dataset(duplicate):
    dataset = Squares()
    dataset.set_labels("site", range(6))
    twin = duplicate(dataset)
    assert twin.labels("site").tolist() == list(range(6))
    twin.set_labels("site", [9] * 6)
    assert dataset.labels("site").tolist() == list(range(6))


def test_later_changes_of_the_users_array_do_not_reach_labels():
    values, dataset = np.zeros(6), Squares()
    dataset.set_labels("label", values)
    values[:] = 1
    assert dataset.labels().max() == 0
    with pytest.raises(ValueError, match="read-only"):
        dataset.labels()[0] = 9


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (
            range(5),
            r"set_labels\('label'\) was given values of shape \(5,\), but the dataset \(Squares\) has 6 samples",
        ),
        (np.zeros((7, 2)), r"values of shape \(7, 2\)"),
        (3, r"values of shape \(\)"),
        ({0: 1}, r"values of shape \(\)"),
        ((number for number in range(6)), r"values of shape \(\)"),
        ([[1]] * 5 + [[1, 2]], r"the values of set_labels\('label'\) make no array"),
    ],
)
def test_labels_for_another_number_of_samples_are_refused(values, match):
    with pytest.raises(DataError, match=match):
        Squares().set_labels("label", values)


def test_labels_that_were_set_do_not_outlive_a_change_of_length():
    dataset = IterableDataset([{"label": 0}, {"label": 1}])
    dataset.set_labels("label", [0, 1])
    dataset.data.append({"label": 2})
    with pytest.raises(DataError, match=r"values of shape \(2,\), but the dataset \(IterableDataset\) has 3 samples"):
        dataset.labels()


def test_labels_that_were_set_are_part_of_the_fingerprint():
    dataset, twin = Squares(), Squares()
    expected = dataset.fingerprint()
    dataset.set_labels("label", range(6))
    assert dataset.fingerprint() != expected
    assert dataset.get_subset([0]).fingerprint() != twin.get_subset([0]).fingerprint()
    twin.set_labels("label", range(6))
    assert dataset.fingerprint() == twin.fingerprint()
    twin.set_labels("label", range(1, 7))
    assert dataset.fingerprint() != twin.fingerprint()


def test_a_dataset_describes_itself():
    assert "6" in str(Squares().describe())


def test_a_blank_dataset_reads_a_list_with_the_getitem_of_another_class():
    loader = Loader()
    dataset = BlankDataset(["4", "5", "6"], BaseLazyDataset.__getitem__, _load_fn=loader, _load_kwargs={"factor": 2})
    assert loader.loaded == []
    assert [sample["data"][0, 0] for sample in dataset] == [8, 10, 12]
    assert dataset.get_sample_from_index(1) == "5"
    assert dataset.get_subset([2]).labels().tolist() == [0]
    with pytest.raises(FileNotFoundError, match="no such image") as caught:
        BlankDataset(["broken"], BaseLazyDataset.__getitem__, _load_fn=loader, _load_kwargs={})[0]
    assert "loaded item 0: 'broken'" in caught.value.__notes__[0]


def test_every_keyword_of_a_blank_dataset_is_an_attribute():
    dataset = BlankDataset([1, 2], lambda self, index: {"data": self.data[index] * self.scale}, scale=10, n_classes=3)
    assert [sample["data"] for sample in dataset] == [10, 20]
    assert dataset.n_classes == dataset.get_subset([0]).n_classes == 3
    with pytest.raises(ConfigError, match=r"old_getitem must be a function of \(dataset, index\), got None"):
        BlankDataset([1], None)


def parts():
    return [
        DictDataset({"data": np.arange(4.0), "label": [0, 1, 2, 3]}),
        DictDataset({"data": np.arange(4.0, 6.0), "label": [4, 5]}),
        DictDataset({"data": np.arange(6.0, 9.0), "label": [6, 7, 8]}),
    ]


@pytest.mark.parametrize("dataset", [ConcatDataset(*parts()), ConcatDataset(parts())], ids=["several", "one list"])
def test_a_concatenated_dataset_runs_through_its_parts_in_order(dataset):
    assert len(dataset) == 9
    assert [int(sample["label"]) for sample in dataset] == list(range(9))
    assert dataset[-1]["label"] == 8
    assert dataset[-9]["label"] == 0
    assert dataset.labels().tolist() == list(range(9))
    assert dataset.labels().dtype == np.int64


@pytest.mark.parametrize("index", [9, -10])
def test_an_index_beyond_a_concatenated_dataset_is_an_error(index):
    dataset = ConcatDataset(parts())
    for read in (lambda: dataset[index], lambda: dataset.get_batch(np.array([0, index]))):
        with pytest.raises(IndexError, match=f"index {index} is not in this ConcatDataset of 9 samples"):
            read()


def test_a_subset_of_a_concatenated_dataset_loads_nothing():
    loader = Loader()
    dataset = ConcatDataset(BaseLazyDataset(["0", "1"], loader), BaseLazyDataset(["2", "3"], loader))
    subset = dataset.get_subset([3, 0])
    assert [subset.get_sample_from_index(i) for i in range(2)] == ["3", "0"]
    assert loader.loaded == []
    assert [sample["label"] for sample in subset] == [0, 0]
    assert subset.get_batch(np.array([0])) is None


@given(st.lists(st.integers(-9, 8), min_size=1, max_size=20))
def test_a_batch_of_a_concatenated_dataset_equals_its_samples(indices):
    dataset = ConcatDataset(parts())
    batch = dataset.get_batch(np.array(indices))
    assert batch["data"].tolist() == [dataset[i]["data"] for i in indices]
    assert batch["label"].dtype == np.int64


def test_parts_that_do_not_fit_have_no_common_batch():
    other_keys = ConcatDataset(parts()[0], DictDataset({"data": [1.0]}))
    other_shapes = ConcatDataset(parts()[0], DictDataset({"data": [[1.0]], "label": [1]}))
    for dataset in (other_keys, other_shapes):
        assert dataset.get_batch(np.array([0, 4])) is None
    with pytest.raises(DataError, match=r"'data' has shape \(1,\) in part 1 of a .*, but \(\) in part 0"):
        other_shapes.labels("data")


def test_empty_parts_change_nothing():
    empty = IterableDataset([])
    assert ConcatDataset(empty, parts()[0], empty).labels().dtype == np.int64
    assert len(ConcatDataset()) == len(ConcatDataset([])) == 0
    assert ConcatDataset(empty).labels().shape == (0,)


def test_concatenating_what_is_no_dataset_is_refused():
    with pytest.raises(ConfigError, match="number 1 is a dict; wrap arrays in DictDataset"):
        ConcatDataset(parts()[0], {"data": [1]})


def test_only_what_certainly_draws_nothing_is_called_deterministic():
    cached = BaseCacheDataset(["1"], Loader())
    assert cached.is_deterministic()
    assert IterableDataset([]).is_deterministic()
    assert ConcatDataset(parts()).get_subset([0]).is_deterministic()
    assert not ConcatDataset(parts()[0], Squares()).is_deterministic()
    assert not BaseLazyDataset(["1"], Loader()).get_subset([0]).is_deterministic()
