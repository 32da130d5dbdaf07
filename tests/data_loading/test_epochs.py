"""One epoch of a manager: a pure function of seed, fold, epoch and batch."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import (
    AbstractDataset,
    BaseDataLoader,
    BaseDataManager,
    ConcatDataset,
    DictDataset,
    RandomSampler,
)
from delira.errors import ConfigError, DataError

COUNTERS = st.tuples(st.integers(0, 2**40), st.integers(0, 9), st.integers(0, 99))


class Noisy(AbstractDataset):
    """A dataset that draws from both global generators."""

    def __init__(self, length=7):
        super().__init__()
        self.data = range(length)

    def __getitem__(self, index):
        return {"data": np.array([np.random.rand(), random.random()]), "label": self.data[index]}


class NoisyBatches(DictDataset):
    """An array-backed dataset that augments whole batches."""

    def get_batch(self, indices):
        return {key: values + np.random.rand() for key, values in super().get_batch(indices).items()}


class NoisyLoader(BaseDataLoader):
    """A loader that augments."""

    def __call__(self, indices):
        return {key: values + random.random() for key, values in super().__call__(indices).items()}


def arrays(length=10):
    return {"data": np.arange(length * 8.0).reshape(length, 2, 2, 2), "label": np.arange(length)}


def noise(**batch):
    batch["data"] = batch["data"] + np.random.normal() + random.random()
    return batch


def noise_of_its_own(batch, rng):
    return batch | {"data": batch["data"] + rng.normal()}


def managers():
    return [
        BaseDataManager(arrays(), 3),
        BaseDataManager(arrays(), 3, transforms=noise, drop_last=True),
        BaseDataManager(arrays(), 4, transforms=noise_of_its_own),
        BaseDataManager(arrays(), 4, data_loader_cls=NoisyLoader),
        BaseDataManager(Noisy(), 3),
        BaseDataManager(NoisyBatches(arrays()), 3),
        BaseDataManager(ConcatDataset(NoisyBatches(arrays()), NoisyBatches(arrays())), 3),
        BaseDataManager(arrays(), 3, sampler_cls=RandomSampler, sampler_kwargs={"replacement": True}),
    ]


every_manager = pytest.mark.parametrize("manager", managers(), ids=range(len(managers())))
noisy_manager = pytest.mark.parametrize("manager", managers()[1:7], ids=range(1, 7))


def content(batches):
    return [{key: values.tolist() for key, values in batch.items()} for batch in batches]


@every_manager
@given(counters=COUNTERS, shuffle=st.booleans())
def test_equal_counters_give_equal_batches(manager, counters, shuffle):
    first = content(manager.epoch(*counters, shuffle=shuffle))
    assert content(manager.epoch(*counters, shuffle=shuffle)) == first
    assert len(first) == manager.n_batches


@every_manager
@given(counters=COUNTERS, data=st.data())
def test_starting_later_equals_skipping(manager, counters, data):
    start = data.draw(st.integers(0, manager.n_batches))
    whole = content(manager.epoch(*counters, shuffle=True))
    late = manager.epoch(*counters, start, shuffle=True)
    assert (late.position, len(late)) == (start, manager.n_batches)
    assert content(late) == whole[start:]


@every_manager
def test_interleaved_epochs_of_one_manager_do_not_disturb_each_other(manager):
    alone = [content(manager.epoch(1, 0, epoch, shuffle=True)) for epoch in (0, 1)]
    left, right = (manager.epoch(1, 0, epoch, shuffle=True) for epoch in (0, 1))
    pairs = list(zip(left, right, strict=True))
    assert [content(batches) for batches in zip(*pairs, strict=True)] == alone


@every_manager
def test_an_abandoned_epoch_leaves_no_trace(manager):
    expected = content(manager)
    next(iter(manager))
    assert content(manager) == expected
    assert manager.batch_size in (3, 4)


@every_manager
def test_the_callers_generators_are_left_alone(manager):
    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(1)
    list(manager.epoch(3, 0, 0, shuffle=True))
    assert (random.random(), np.random.rand()) == expected


@noisy_manager
def test_what_is_drawn_differs_from_batch_to_batch_epoch_to_epoch_fold_to_fold_and_seed_to_seed(manager):
    drawn = [
        batch["data"].reshape(-1)[0] - np.floor(batch["data"].reshape(-1)[0])
        for counters in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
        for batch in manager.epoch(*counters)
    ]
    assert len(set(drawn)) == len(drawn) > 8


@given(COUNTERS, st.integers(1, 12), st.integers(1, 30))
def test_a_shuffled_epoch_visits_every_sample_once(counters, batch_size, length):
    manager = BaseDataManager(arrays(length), batch_size)
    epoch = manager.epoch(*counters, shuffle=True)
    seen = np.concatenate([batch["label"] for batch in epoch])
    assert sorted(seen.tolist()) == list(range(length))
    assert seen.tolist() == epoch.order.tolist()
    assert epoch.n_samples == length


def test_orders_differ_between_epochs_folds_and_seeds():
    manager = BaseDataManager(arrays(20), 20)
    counters = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    orders = {tuple(manager.epoch(*c, shuffle=True).order.tolist()) for c in counters}
    assert len(orders) == 4


def test_only_an_unnamed_order_is_shuffled():
    unnamed, named = BaseDataManager(arrays(), 10), BaseDataManager(arrays(), 10, sampler_cls=RandomSampler)
    assert unnamed.epoch(0, 0, 0).order.tolist() == list(range(10))
    expected = unnamed.epoch(0, 0, 0, shuffle=True).order.tolist()
    assert expected != list(range(10))
    for shuffle in (True, False):
        assert named.epoch(0, 0, 0, shuffle=shuffle).order.tolist() == expected


def test_get_batchgen_is_an_epoch_of_its_seed():
    manager = BaseDataManager(arrays(), 3, sampler_cls=RandomSampler)
    assert content(manager.get_batchgen(5)) == content(manager.epoch(5, 0, 0))
    assert content(manager.get_batchgen()) == content(manager) != content(manager.get_batchgen(2))


def test_an_iterator_knows_where_it_is_and_stays_at_its_end():
    epoch = BaseDataManager(arrays(), 4).epoch(0, 0, 0)
    assert iter(epoch) is epoch
    assert (epoch.position, len(epoch), epoch.n_samples) == (0, 3, 10)
    next(epoch)
    assert epoch.position == 1
    assert len(list(epoch)) == 2
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(epoch)
    assert (epoch.position, len(epoch)) == (3, 3)


def test_samples_that_drop_last_leaves_out_are_not_counted():
    epoch = BaseDataManager(arrays(), 4, drop_last=True).epoch(0, 0, 0)
    assert (len(epoch), epoch.n_samples, epoch.order.tolist()) == (2, 8, list(range(8)))


def test_a_closed_iterator_yields_nothing_more():
    epoch = BaseDataManager(arrays(), 4).epoch(0, 0, 0)
    next(epoch)
    epoch.close()
    epoch.close()
    assert list(epoch) == []
    assert (epoch.position, len(epoch)) == (1, 3)


def test_changed_settings_do_not_reach_a_running_epoch():
    manager = BaseDataManager(arrays(), 5)
    epoch = manager.epoch(0, 0, 0)
    manager.batch_size, manager.transforms, manager.drop_last = 2, noise, True
    assert [batch["label"].tolist() for batch in epoch] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_earlier_batches_are_not_loaded():
    loaded = []
    manager = BaseDataManager(list(range(6)), 2, load_fn=lambda i: loaded.append(i) or {"data": i})
    epoch = manager.epoch(0, 0, 0, 2)
    assert loaded == []
    assert len(list(epoch)) == 1
    assert loaded == [4, 5]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((-1, 0, 0), "seed must be a non-negative integer, got -1"),
        ((0, -1, 0), "fold must be an integer of at least 0, got -1"),
        ((0, 0, 1.5), r"epoch must be an integer of at least 0, got 1\.5"),
        ((0, 0, 0, -1), "start must be an integer of at least 0, got -1"),
        ((0, 0, 0, 4), "start=4 is beyond the 3 batches of the epoch"),
    ],
)
def test_wrong_counters_are_refused(arguments, match):
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(arrays(), 4).epoch(*arguments)


def test_a_batch_that_cannot_be_loaded_can_be_asked_for_again():
    broken = [True]

    def load(item):
        if broken and item == 3:
            raise OSError("network share away")
        return {"data": item}

    epoch = BaseDataManager(list(range(6)), 2, load_fn=load).epoch(0, 0, 0)
    next(epoch)
    with pytest.raises(OSError, match="share away"):
        next(epoch)
    assert epoch.position == 1
    broken.clear()
    assert next(epoch)["data"].tolist() == [2, 3]


def test_a_transform_with_keywords_is_called_the_way_batchgenerators_does():
    def transform(rng, **batch):
        return {"keys": sorted(batch), "number": isinstance(rng, np.random.Generator), **batch}

    batch = next(iter(BaseDataManager(arrays(), 2, transforms=transform)))
    assert batch["keys"] == ["data", "label"]
    assert batch["number"] is True


def test_a_transform_may_be_any_callable():
    class Builtin:
        __call__ = dict  # a class without a signature

    assert content(BaseDataManager(arrays(), 5, transforms=Builtin())) == content(BaseDataManager(arrays(), 5))
    assert content(BaseDataManager(arrays(), 5, transforms=dict)) == content(BaseDataManager(arrays(), 5))


def test_the_generator_of_a_transform_does_not_depend_on_what_was_drawn_in_loading():
    def draw(batch, rng):
        return batch | {"drawn": rng.random()}

    few, many = ([b["drawn"] for b in BaseDataManager(d, 4, transforms=draw)] for d in (arrays(8), Noisy(8)))
    assert few == many
    assert len(set(few)) == 2


@pytest.mark.parametrize(
    ("transform", "match"),
    [
        (lambda batch: None, r"<lambda> made a NoneType of batch 1; it must return a dict"),
        (lambda batch: [batch], "<lambda> made a list of batch 1"),
        (lambda batch: {"data": 1}, r"<lambda> lost the keys \['label'\] of batch 1, it returned \['data'\]"),
        (lambda batch: batch.pop("label") is None or batch, r"lost the keys \['label'\] of batch 1"),
    ],
)
def test_a_transform_must_return_a_whole_batch(transform, match):
    with pytest.raises(DataError, match=match):
        next(iter(BaseDataManager(arrays(), 4, transforms=transform)))


def test_an_error_of_a_transform_keeps_its_type_and_names_the_batch():
    class Fussy:
        def __call__(self, **batch):
            if 9 in batch["label"]:
                raise ZeroDivisionError("nine")
            return batch

    with pytest.raises(ZeroDivisionError, match="nine") as caught:
        list(BaseDataManager(arrays(), 4, transforms=Fussy()))
    assert caught.value.__notes__ == [
        "while transform Fussy worked on batch 3 with the keys ['data', 'label']",
        "while batch 3 (fold 0, seed 1; samples 8, 9) was made",
    ]


def test_a_transform_or_dataset_cannot_end_an_epoch_by_accident():
    class Exhausted(DictDataset):
        def get_batch(self, indices):
            raise StopIteration

    for manager in (
        BaseDataManager(arrays(), 4, transforms=lambda batch: next(iter([]))),
        BaseDataManager(Exhausted(arrays()), 4),
    ):
        with pytest.raises(DataError, match="making batch 1 raised StopIteration"):
            list(manager)


def test_a_transform_that_works_in_place_does_not_change_the_data():
    def blank(batch):
        batch["data"][:] = 0
        return batch

    cached = BaseDataManager([1.0, 2.0], 2, load_fn=lambda x: {"data": np.array([x])}, from_disc=False)
    for manager in (BaseDataManager(arrays(), 4), cached):
        expected = content(manager)
        manager.transforms = blank
        list(manager)
        manager.transforms = None
        assert content(manager) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
def test_batchgenerators_transforms_are_reproducible():
    transforms = pytest.importorskip("batchgenerators.transforms.abstract_transforms")
    noise_transforms = pytest.importorskip("batchgenerators.transforms.noise_transforms")
    spatial_transforms = pytest.importorskip("batchgenerators.transforms.spatial_transforms")
    compose = transforms.Compose(
        [noise_transforms.GaussianNoiseTransform((0, 1)), spatial_transforms.MirrorTransform(axes=(0, 1))]
    )
    data = {"data": np.random.default_rng(0).random((9, 1, 8, 8)), "label": np.arange(9)}
    manager = BaseDataManager(data, 4, transforms=compose)
    first = content(manager.epoch(1, 0, 0, shuffle=True))
    np.random.rand(), random.random()
    assert content(manager.epoch(1, 0, 0, shuffle=True)) == first
    assert content(manager.epoch(1, 0, 0, 2, shuffle=True)) == first[2:]
    assert content(manager.epoch(1, 0, 1, shuffle=True)) != first
    assert [sample for batch in first for sample in batch["data"]] != data["data"].tolist()
