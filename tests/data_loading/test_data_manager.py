"""The manager's settings: what it accepts, what it refuses, what a subset keeps."""

import numpy as np
import pytest

from delira.data_loading import (
    AbstractDataset,
    AbstractSampler,
    BaseCacheDataset,
    BaseDataLoader,
    BaseDataManager,
    BaseLazyDataset,
    DictDataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)
from delira.errors import ConfigError, DataError, MissingKeyError


class EveryOther(AbstractSampler):
    """Visits every other sample, from ``first`` on."""

    def __init__(self, indices, first=0):
        super().__init__(indices)
        self.first = first

    def __len__(self):
        return len(self.indices[self.first :: 2])

    def order(self, rng):
        return self.indices[self.first :: 2]


class Loader(BaseDataLoader):
    """A loader of the user's own."""

    def __call__(self, indices):
        return super().__call__(indices) | {"loaded_by": "me"}


def arrays(length=10):
    return {"data": np.arange(length * 2, dtype=np.float32).reshape(length, 2), "label": np.arange(length)}


def labels(iterator):
    return [batch["label"].tolist() for batch in iterator]


def load(item, offset=0):
    return {"label": int(item) + offset}


def identity(batch):
    return batch


def test_a_manager_is_iterable_and_sequential_by_default():
    manager = BaseDataManager(arrays(), 4)
    for _ in range(2):
        assert labels(manager) == labels(manager.get_batchgen()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (manager.n_samples, manager.n_batches, manager.batch_size) == (10, 3, 4)
    assert isinstance(manager.sampler, SequentialSampler)


def test_data_may_be_a_dataset_arrays_or_samples():
    dataset = DictDataset(arrays())
    samples = list(dataset)
    for data in (dataset, arrays(), samples, iter(samples)):
        assert labels(BaseDataManager(data, 10)) == [list(range(10))]
    assert BaseDataManager(dataset).dataset is dataset


@pytest.mark.parametrize(("from_disc", "cls"), [(True, BaseLazyDataset), (False, BaseCacheDataset)])
def test_paths_are_loaded_with_load_fn(tmp_path, from_disc, cls):
    manager = BaseDataManager(["1", "2"], 2, load_fn=load, from_disc=from_disc, offset=5)
    assert type(manager.dataset) is cls
    assert labels(manager) == [[6, 7]]
    (tmp_path / "a").touch()
    manager = BaseDataManager(str(tmp_path), load_fn=lambda path: {"label": len(path)}, from_disc=from_disc)
    assert manager.n_samples == 1


def test_items_that_are_dicts_may_be_loaded_too():
    manager = BaseDataManager([{"path": "3"}], load_fn=lambda item: load(item["path"]))
    assert labels(manager) == [[3]]


def test_a_dataset_class_may_be_named():
    class Own(AbstractDataset):
        def __init__(self, data_path, load_fn, extra=0):
            super().__init__(data_path, load_fn)
            self.data = [extra] * 3

        def __getitem__(self, index):
            return {"label": self.data[index]}

    assert labels(BaseDataManager("anywhere", 3, dataset_cls=Own, extra=7)) == [[7, 7, 7]]


@pytest.mark.parametrize(
    ("data", "kwargs", "match"),
    [
        (
            "folder",
            {},
            "data='folder' is a path, and nothing says how to load a sample from it; pass load_fn",
        ),
        (["a", "b"], {}, "cannot make a dataset of a list of str; accepted are .*with load_fn"),
        (None, {}, "cannot make a dataset of a NoneType"),
        (arrays(), {"load_fn": load}, "load_fn and dataset_cls are for a directory .*data is a dict"),
        (
            DictDataset(arrays()),
            {"dataset_cls": BaseLazyDataset},
            "data is a DictDataset and needs no loading",
        ),
        (arrays(), {"batchsize": 3}, "no such settings: 'batchsize'; did you mean 'batch_size'"),
        (arrays(), {"a": 1, "drop_lst": 1}, "'a'; known are .*; 'drop_lst'; did you mean 'drop_last'"),
        (arrays(), {"dataset_cls": dict}, "dataset_cls are for a directory"),
        (["a"], {"dataset_cls": lambda *args: 3}, "cannot make a dataset of a int"),
    ],
)
def test_unusable_data_are_refused(data, kwargs, match):
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(data, **kwargs)


@pytest.mark.parametrize("data", [[], {"data": []}, IterableDataset([])])
def test_no_data_are_refused(data):
    with pytest.raises(ConfigError, match=r"dataset \(.*\) is empty; check the path and the filter"):
        BaseDataManager(data)


WRONG = [
    ("batch_size", 0, "batch_size must be an integer of at least 1, got 0"),
    ("batch_size", -2, "got -2"),
    ("batch_size", 2.0, r"got 2\.0"),
    ("batch_size", True, "got True"),
    ("n_process_augmentation", -1, "n_process_augmentation must be an integer of at least 0, got -1"),
    ("n_process_augmentation", 1.5, r"got 1\.5"),
    ("transforms", [identity], "transforms must be a callable or None, got a list; .*Compose"),
    (
        "data_loader_cls",
        dict,
        "data_loader_cls must be BaseDataLoader or a subclass of it, got <class 'dict'>",
    ),
    ("data_loader_cls", BaseDataLoader(arrays()), "BaseDataLoader or a subclass of it, got <"),
    ("sampler", 3, "must be an AbstractSampler or a subclass of it, got 3"),
    ("sampler", dict, "must be an AbstractSampler or a subclass of it, got <class 'dict'>"),
    ("drop_last", 1, "drop_last must be True or False, got 1"),
]


@pytest.mark.parametrize(("name", "value", "match"), WRONG)
def test_wrong_settings_are_refused_at_every_door(name, value, match):
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(arrays(), **{name: value})
    manager = BaseDataManager(arrays(), 3)
    with pytest.raises(ConfigError, match=match):
        setattr(manager, name, value)
    with pytest.raises(ConfigError, match=match):
        manager.update_state_from_dict({"batch_size": 2, name: value})
    assert labels(manager)[0] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        (
            {"sampler": RandomSampler(10), "sampler_cls": RandomSampler},
            "either sampler or sampler_cls, got <",
        ),
        (
            {"sampler_cls": RandomSampler(10)},
            "sampler_cls must be a class, got <.*instance is passed as sampler",
        ),
        (
            {"sampler_kwargs": {"replacement": True}},
            "have no effect without sampler_cls; pass sampler_cls too",
        ),
        ({"sampler": RandomSampler(10), "sampler_kwargs": {"seed": 1}}, "have no effect without sampler_cls"),
        ({"sampler": SequentialSampler([])}, "an epoch of the SequentialSampler has no samples"),
        (
            {"sampler_cls": EveryOther, "sampler_kwargs": {"first": 10}},
            "an epoch of the EveryOther has no samples",
        ),
        ({"dataset": []}, r"dataset \(IterableDataset\) is empty"),
    ],
)
def test_contradictions_are_refused(kwargs, match):
    if "dataset" in kwargs:
        with pytest.raises(ConfigError, match=match):
            BaseDataManager(arrays()).dataset = kwargs["dataset"]
        return
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(arrays(), **kwargs)


def test_a_sampler_may_be_a_class_or_an_instance():
    odd = [[1, 3, 5, 7, 9]]
    named = BaseDataManager(arrays(), 5, sampler_cls=EveryOther, sampler_kwargs={"first": 1})
    assert labels(named) == labels(BaseDataManager(arrays(), 5, sampler=EveryOther(10, 1))) == odd
    assert (named.n_samples, named.n_batches) == (5, 1)
    manager = BaseDataManager(arrays(), 5)
    manager.sampler = EveryOther(10, first=1)
    assert labels(manager) == odd
    manager.sampler = EveryOther
    assert labels(manager) == [[0, 2, 4, 6, 8]]
    manager.sampler = None
    assert manager.n_samples == 10


def test_the_arguments_of_the_sampler_are_copied():
    kwargs = {"first": 1}
    manager = BaseDataManager(arrays(), 5, sampler_cls=EveryOther, sampler_kwargs=kwargs)
    kwargs["first"] = 0
    assert labels(manager.get_subset(range(10))) == [[1, 3, 5, 7, 9]]


def test_drop_last_leaves_out_the_smaller_batch():
    manager = BaseDataManager(arrays(), 4, drop_last=True)
    assert (manager.n_batches, manager.n_samples) == (2, 10)
    assert labels(manager) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    manager.batch_size = 5
    assert manager.n_batches == 2


def test_a_sampler_that_raises_when_it_is_counted_leaves_the_manager_as_it_was(monkeypatch):
    manager = BaseDataManager(arrays(), 4, sampler=EveryOther(range(10)), drop_last=True)
    monkeypatch.setattr(EveryOther, "__len__", lambda self: self.unknown)
    with pytest.raises(AttributeError, match="unknown"):
        manager.batch_size = 2
    assert manager.batch_size == 4


def test_drop_last_that_leaves_no_batch_is_refused_with_both_numbers():
    match = "no batch of 10 samples with batch_size=11; use a smaller batch_size"
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(arrays(), 11, drop_last=True)
    manager = BaseDataManager(arrays(), 11)
    with pytest.raises(ConfigError, match=match):
        manager.drop_last = True
    manager = BaseDataManager(arrays(), 10, drop_last=True)
    with pytest.raises(ConfigError, match=match):
        manager.batch_size = 11
    with pytest.raises(ConfigError, match="no batch of 3 samples with batch_size=10"):
        manager.get_subset([0, 1, 2])
    with pytest.raises(ConfigError, match="no batch of 5 samples with batch_size=10"):
        manager.sampler = EveryOther
    assert labels(manager) == [list(range(10))]


def test_a_subset_keeps_every_setting():
    manager = BaseDataManager(
        arrays(),
        2,
        transforms=identity,
        sampler_cls=EveryOther,
        sampler_kwargs={"first": 1},
        data_loader_cls=Loader,
        drop_last=True,
    )
    subset = manager.get_subset([9, 8, 7, 6, 5, 4])
    assert labels(subset) == [[8, 6]]
    assert subset.dataset.parent is manager.dataset
    assert (subset.batch_size, subset.transforms, subset.drop_last) == (2, identity, True)
    assert subset.data_loader_cls is Loader
    assert next(iter(subset))["loaded_by"] == "me"
    assert subset.get_subset([0, 1, 2, 3]).sampler.first == 1
    assert labels(manager) == [[1, 3], [5, 7]]


def test_a_subset_is_independent_of_its_manager():
    manager = BaseDataManager(arrays(), 2)
    subset = manager.get_subset([3, 4])
    subset.batch_size = 1
    subset.transforms = identity
    assert (manager.batch_size, manager.transforms) == (2, None)


def test_a_finished_sampler_has_no_subset():
    manager = BaseDataManager(arrays(), 2, sampler=RandomSampler(10))
    with pytest.raises(ConfigError, match="given a finished RandomSampler; pass sampler_cls=RandomSampler"):
        manager.get_subset([0, 1])


def test_subclasses_with_another_signature_survive_get_subset():
    class Own(BaseDataManager):
        def __init__(self, size, colour):
            super().__init__(arrays(size), 2)
            self.colour = colour

    train, test = Own(10, "red").train_test_split(test_size=3, random_state=0)
    assert (type(train), train.colour, train.n_samples, test.n_samples) == (Own, "red", 7, 3)
    assert not set(train.dataset.indices) & set(test.dataset.indices)


def test_indices_outside_the_data_are_named():
    with pytest.raises(IndexError, match="indices 10 are not in this DictDataset of 10 samples"):
        BaseDataManager(arrays()).get_subset([10])


def test_a_finished_sampler_of_other_data_is_refused():
    manager = BaseDataManager(arrays(), sampler=RandomSampler(12))
    with pytest.raises(ConfigError, match="RandomSampler asks for samples 0 to 11, but the dataset has 10"):
        iter(manager)


@pytest.mark.parametrize(("order", "got"), [([0], r"shape \(1,\) and dtype int64"), ([0.0, 1.0], "dtype float64")])
def test_an_order_that_does_not_keep_its_promise_is_refused(order, got):
    class Wrong(SequentialSampler):
        def order(self, rng):
            return order

    with pytest.raises(ConfigError, match=rf"Wrong\.order must return 2 integers \(its length\), got .*{got}"):
        iter(BaseDataManager(arrays(2), sampler_cls=Wrong))


def test_several_settings_change_at_once_without_touching_the_dict():
    manager = BaseDataManager(arrays(), 2)
    state = {
        "batch_size": 5,
        "sampler": EveryOther,
        "sampling_kwargs": {"first": 1},
        "data_loader_cls": Loader,
    }
    before = dict(state)
    manager.update_state_from_dict(state)
    assert state == before
    assert labels(manager) == [[1, 3, 5, 7, 9]]
    manager.update_state_from_dict({"sampler_kwargs": {"first": 0}})
    assert labels(manager) == [[0, 2, 4, 6, 8]]
    manager.update_state_from_dict({"sampler_cls": None, "drop_last": True, "batch_size": 4, "transforms": identity})
    assert labels(manager) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert manager.transforms is identity


def test_settings_are_checked_together_and_all_or_none_is_changed():
    manager = BaseDataManager(arrays(), 4, drop_last=True)
    manager.update_state_from_dict({"batch_size": 20, "drop_last": False})
    with pytest.raises(ConfigError, match="no batch of 10 samples with batch_size=20"):
        manager.update_state_from_dict({"drop_last": True})
    with pytest.raises(ConfigError, match="transforms must be a callable"):
        manager.update_state_from_dict({"batch_size": 2, "sampler": EveryOther, "transforms": 3})
    assert (manager.batch_size, manager.n_samples, manager.drop_last) == (20, 10, False)


@pytest.mark.parametrize(
    ("state", "error", "match"),
    [
        ({"batchsize": 3}, MissingKeyError, "'batchsize'; did you mean 'batch_size'"),
        ({"batch_size": 3, "dataset": 1}, KeyError, "no such settings: 'dataset'"),
        ({"sampler_kwargs": {}, "sampling_kwargs": {}}, ConfigError, "two names of one setting"),
        ({"sampler": EveryOther, "sampler_cls": EveryOther}, ConfigError, "either sampler or sampler_cls"),
        ({"sampler_kwargs": {"first": 1}}, ConfigError, "have no effect without sampler_cls"),
    ],
)
def test_unknown_and_contradictory_updates_are_refused(state, error, match):
    manager = BaseDataManager(arrays(), 2)
    with pytest.raises(error, match=match):
        manager.update_state_from_dict(state)
    assert manager.batch_size == 2


def test_a_new_dataset_gets_a_new_sampler():
    manager = BaseDataManager(arrays(), 5, sampler_cls=EveryOther, sampler_kwargs={"first": 1})
    manager.dataset = arrays(4)
    assert labels(manager) == [[1, 3]]


def test_data_loaded_for_nothing_but_their_length_are_not_loaded():
    loaded = []
    manager = BaseDataManager([1, 2, 3], 2, load_fn=lambda item: loaded.append(item) or load(item))
    manager.get_subset([0, 2]).epoch(0, 0, 0, 1, shuffle=True)
    assert (manager.n_batches, manager.n_samples, loaded) == (2, 3, [])


def test_a_sample_that_does_not_fit_is_named():
    manager = BaseDataManager([{"label": 1}, {"label": [1, 2]}], 2)
    with pytest.raises(DataError, match=r"entry 'label' of sample 1 has shape \(2,\)"):
        list(manager)
