"""Labels are those of the samples: of every class of a wrapped dataset, and of views after set_labels."""

import numpy as np
import pytest

from delira.data_loading import (
    BaseDataManager,
    BaseLazyDataset,
    CachedDataset,
    ConcatDataset,
    DictDataset,
    GroupRandomSampler,
    PrevalenceRandomSampler,
    PrevalenceSequentialSampler,
    Subset,
    WeightedPrevalenceRandomSampler,
    WeightedRandomSampler,
    WrappedDataset,
)
from delira.errors import ConfigError


class Targets:
    """Like a dataset of torchvision: targets as they are stored, samples with a target transform."""

    def __init__(self, targets, target_transform=lambda target: target):
        self.targets, self.target_transform, self.read = targets, target_transform, 0

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        self.read += 1
        return np.zeros(2), self.target_transform(self.targets[index])


@pytest.mark.parametrize("place", [1, 100, 731, 997])
def test_a_target_transform_of_a_rare_class_is_seen(place):
    targets = [index % 3 for index in range(998)]
    targets[place] = 7
    inner = Targets(targets, lambda target: 0 if target == 7 else target)
    assert WrappedDataset(inner).labels().tolist() == [0 if one == 7 else one for one in targets]


def test_a_sample_of_each_class_is_enough_where_targets_are_right():
    inner = Targets([index % 40 for index in range(4000)])
    assert WrappedDataset(inner).labels()[41] == 1
    assert inner.read < 60


def test_targets_that_are_all_different_are_compared_one_by_one():
    values = np.linspace(0, 1, 200)
    inner = Targets(values, lambda target: min(target, 0.9))
    assert WrappedDataset(inner).labels().max() == 0.9


def squares():
    return BaseLazyDataset(range(6), lambda index: {"data": np.full(2, index), "label": index**2})


def views_of(dataset, tmp_path):
    yield "subset", dataset.get_subset([5, 0]), [5, 0]
    yield "subset of it", dataset.get_subset([5, 3, 0]).get_subset([0, 2]), [5, 0]
    yield "parts", ConcatDataset(dataset.get_subset([5]), dataset.get_subset([0])), [5, 0]
    yield "cached", CachedDataset(dataset, tmp_path), [*range(6)]
    yield "subset of cached", CachedDataset(dataset, tmp_path).get_subset([5, 0]), [5, 0]


def test_labels_that_views_have_read_do_not_survive_set_labels(tmp_path):
    dataset = squares()
    views = [*views_of(dataset, tmp_path)]
    for _, view, indices in views:
        assert view.labels().tolist() == [index**2 for index in indices]
    for factor in (10, 100):
        dataset.set_labels("label", np.arange(6) * factor)
        for name, view, indices in views:
            assert view.labels().tolist() == [index * factor for index in indices], name


def test_labels_set_again_on_a_view_reach_the_views_of_it():
    dataset = squares()
    view = dataset.get_subset([4, 2, 1])
    inner = view.get_subset([2, 0])
    assert inner.labels().tolist() == [1, 16]
    view.set_labels("label", [7, 8, 9])
    assert inner.labels().tolist() == [9, 7]
    view.set_labels("label", [0, 0, 1])
    assert inner.labels().tolist() == [1, 0]
    inner.set_labels("label", [5, 5])
    assert (inner.labels().tolist(), view.labels().tolist()) == ([5, 5], [0, 0, 1])


def test_a_view_of_users_own_class_reads_again_too():
    class Own(Subset):
        def __getitem__(self, index):
            return {**super().__getitem__(index), "extra": 1}

    view = Own(squares(), [3, 1])
    assert view.labels().tolist() == [9, 1]
    view.parent.set_labels("label", np.arange(6))
    assert view.labels("extra").tolist() == [1, 1]


def test_labels_are_read_once_where_nothing_was_set():
    dataset = DictDataset({"label": [1, 2, 3]})
    view = dataset.get_subset([2, 0])
    assert view.labels() is view.labels()


SAMPLERS = [
    (PrevalenceRandomSampler, {}),
    (PrevalenceSequentialSampler, {}),
    (WeightedPrevalenceRandomSampler, {}),
    (WeightedRandomSampler, {"weights": {0: 0, 1: 1}}),
    (WeightedRandomSampler, {"weights": "label"}),
    (GroupRandomSampler, {"key": "label"}),
]


@pytest.mark.parametrize(("cls", "settings"), SAMPLERS)
def test_a_sampler_follows_labels_that_are_set_after_it_was_built(cls, settings):
    def dataset(labels):
        made = DictDataset({"data": np.arange(8.0)})
        made.set_labels("label", labels)
        return made

    before, after = [0, 0, 0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 1, 0, 1, 0]
    new = BaseDataManager(dataset(after), 4, sampler_cls=cls, sampler_kwargs=settings)
    changed = BaseDataManager(data := dataset(before), 4, sampler_cls=cls, sampler_kwargs=settings)
    part = changed.get_subset([6, 1, 2, 3, 4])
    data.set_labels("label", after)
    new_part = new.get_subset([6, 1, 2, 3, 4])
    for one, other in ((changed, new), (part, new_part)):
        assert [batch["data"].tolist() for batch in one] == [batch["data"].tolist() for batch in other]
    finished = cls.from_dataset(data, **settings)
    list(BaseDataManager(data, 4, sampler=finished))
    manager = BaseDataManager(data, 4, sampler=finished)
    data.set_labels("label", before)
    with pytest.raises(ConfigError, match=f"the {cls.__name__} was built before set_labels changed the labels"):
        list(manager)


def test_a_sampler_of_given_labels_stays_as_it_is():
    data = DictDataset({"data": np.arange(4.0), "label": np.arange(4) % 2})
    finished = PrevalenceRandomSampler.from_dataset(data, labels=[0, 1, 1, 1])
    data.set_labels("label", [1, 1, 1, 0])
    assert len(list(BaseDataManager(data, 2, sampler=finished))) == 2
