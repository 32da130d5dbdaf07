"""Batches of workers are those without workers, bit for bit, whatever is changed between two epochs or within one."""

import collections
import logging
import random
import types
import warnings

import numpy as np
import pytest

from delira.data_loading import BaseDataManager, BaseLazyDataset, IterableDataset, PerSampleTransform
from delira.data_loading.workers.outline import Outline, StepWatch

pytestmark = pytest.mark.forks

OFFSETS = {"now": 0}
SETTINGS = types.ModuleType("settings_of_the_user")
SETTINGS.OFFSET = 0


class Shift:
    offset = 0

    def __init__(self):
        self.strength = 0
        self.steps = [0]
        self.small = np.zeros(2)
        self.large = np.zeros(2**15)
        self.names = [f"{number}" for number in range(500)]

    def __call__(self, batch):
        total = self.strength + self.offset + self.steps[0] + self.small[0] + self.large[77] + OFFSETS["now"]
        total += SETTINGS.OFFSET + int(self.names[250] == "changed") * 100 + getattr(self, "new", 0) + self.more()
        return {**batch, "data": batch["data"] + total}

    @staticmethod
    def more():
        return 0


def reset():
    Shift.offset = OFFSETS["now"] = SETTINGS.OFFSET = 0
    Shift.more = staticmethod(lambda: 0)


@pytest.fixture(autouse=True)
def _reset():
    reset()
    yield
    reset()


def attribute(manager):
    manager.transforms.strength = 100


def new_attribute(manager):
    manager.transforms.new = 100


def class_attribute(manager):
    Shift.offset = 100


def method(manager):
    Shift.more = staticmethod(lambda: 100)


def entry_of_a_list(manager):
    manager.transforms.steps[0] = 100


def small_array(manager):
    manager.transforms.small[0] = 100


def global_dict(manager):
    OFFSETS["now"] = 100


def global_of_a_module(manager):
    SETTINGS.OFFSET = 100


def another_transform(manager):
    manager.transforms = manager.transforms.__class__()
    manager.transforms.strength = 100


def large_array(manager):
    manager.transforms.large[77] = 100


def long_list(manager):
    manager.transforms.names[250] = "changed"


def item_of_a_long_dataset(manager):
    manager.dataset.data[5] = 100


def sample_in_place(manager):
    manager.dataset.data[5]["data"][:] = 100


def array_in_place(manager):
    manager.dataset.data["data"][5] = 100


def in_a_closure(manager):
    manager.dataset._load_fn.__closure__[0].cell_contents[5] = 100


def lazy():
    table = [float(index) for index in range(300)]
    return BaseLazyDataset(range(8), lambda index: {"data": np.full(2, table[index])})


DATA = {
    item_of_a_long_dataset: lambda: BaseLazyDataset(range(300), lambda item: {"data": np.full(2, float(item))}),
    sample_in_place: lambda: IterableDataset([{"data": np.full(2, float(index)), "label": 1} for index in range(300)]),
    in_a_closure: lazy,
}
AT_ONCE = [
    attribute,
    new_attribute,
    class_attribute,
    method,
    entry_of_a_list,
    small_array,
    global_dict,
    global_of_a_module,
]
BETWEEN = [*AT_ONCE, another_transform, large_array, long_list, array_in_place, *DATA]


def manager_of(change, number):
    data = DATA.get(change, lambda: {"data": np.arange(16.0).reshape(8, 2)})()
    return BaseDataManager(data, max(2, len(data) // 4) if hasattr(data, "labels") else 2, number, Shift())


def contents(batches):
    return [batch["data"].tolist() for batch in batches]


@pytest.mark.parametrize("change", BETWEEN, ids=lambda change: change.__name__)
def test_what_is_changed_between_epochs_reaches_the_workers(change):
    seen = []
    for number in (0, 2):
        reset()
        manager = manager_of(change, number)
        first = contents(manager)
        change(manager)
        seen.append(contents(manager))
        manager.close()
        assert seen[-1] != first
    assert seen[0] == seen[1]


def with_a_change_in_it(manager, change, after=2):
    seen = []
    for number, batch in enumerate(manager):
        seen.append(batch["data"].tolist())
        if number + 1 == after:
            change(manager)
    manager.close()
    return seen


@pytest.mark.parametrize("change", AT_ONCE, ids=lambda change: change.__name__)
def test_what_is_changed_within_an_epoch_reaches_the_next_batch(change):
    seen = []
    for number in (0, 2):
        reset()
        seen.append(with_a_change_in_it(manager_of(change, number), change))
    assert seen[0] == seen[1]
    assert np.array(seen[0])[:, 0, 0].tolist() == [0, 4, 108, 112]


class Plain:
    level = 0

    def __call__(self, batch):
        return {**batch, "data": batch["data"] + self.level}


def test_an_attribute_that_hides_that_of_the_class_is_seen_at_the_next_batch():
    def harder(manager):
        manager.transforms.level = 100

    seen = []
    for number in (0, 2):
        manager = BaseDataManager({"data": np.zeros((8, 1))}, 2, number, Plain())
        seen.append(with_a_change_in_it(manager, harder))
    assert seen[0] == seen[1]
    assert np.array(seen[0])[:, 0, 0].tolist() == [0, 0, 100, 100]


class Numbers(collections.deque):
    """Keeps its entries where attributes do not show them."""


def test_an_object_that_keeps_more_than_attributes_is_known_by_itself():
    seen = []
    for number in (0, 2):
        transform = Plain()
        transform.numbers = Numbers([0])
        manager = BaseDataManager({"data": np.zeros((8, 1))}, 2, number, lambda batch, t=transform: added(batch, t))
        first = contents(manager)
        transform.numbers = Numbers([100])
        seen.append(contents(manager))
        manager.close()
        assert seen[-1] != first
    assert seen[0] == seen[1]


def added(batch, transform):
    return {**batch, "data": batch["data"] + transform.numbers[0]}


def test_a_variable_of_a_closure_that_is_changed_within_an_epoch_is_seen():
    def make():
        level = 0

        def transform(batch):
            return {**batch, "data": batch["data"] + level}

        def harder(manager):
            nonlocal level
            level = 100

        return transform, harder

    seen = []
    for number in (0, 2):
        transform, harder = make()
        manager = BaseDataManager({"data": np.zeros((8, 1))}, 2, number, transform)
        seen.append(with_a_change_in_it(manager, harder))
    assert seen[0] == seen[1]
    assert np.array(seen[0])[:, 0, 0].tolist() == [0, 0, 100, 100]


def test_a_dataset_that_is_changed_within_an_epoch_is_seen_too():
    class Own(BaseLazyDataset):
        level = 0

        def __getitem__(self, index):
            return {"data": np.full(2, float(index + self.level))}

    def harder(manager):
        manager.dataset.level = 100

    seen = [with_a_change_in_it(BaseDataManager(Own(range(8), print), 2, number), harder) for number in (0, 2)]
    assert seen[0] == seen[1]
    assert seen[0][2][0][0] == 104


def test_what_is_changed_in_every_step_ends_in_this_process_with_the_same_batches(caplog):
    seen = []
    for number in (0, 2):
        manager = BaseDataManager({"data": np.arange(40.0).reshape(20, 2)}, 2, number, Shift())
        epoch = []
        with caplog.at_level(logging.WARNING, "delira"):
            for step, batch in enumerate(manager):
                epoch.append(batch["data"].tolist())
                manager.transforms.strength = 100 * step
        manager.close()
        seen.append(epoch)
    assert seen[0] == seen[1]
    assert [record.message for record in caplog.records if "again and again within an epoch" in record.message]
    assert len(caplog.records) == 1


def test_workers_are_kept_where_nothing_was_changed():
    def with_pid(batch):
        import os

        return {**batch, "pid": np.full(len(batch["data"]), os.getpid())}

    manager = BaseDataManager({"data": np.arange(16.0).reshape(8, 2)}, 2, 2, with_pid)
    pids = [{int(batch["pid"][0]) for batch in manager} for _ in range(3)]
    manager.dataset.labels("data")  # kept in the dataset, and no change of it
    pids.append({int(batch["pid"][0]) for batch in manager})
    manager.close()
    assert pids[0] == pids[1] == pids[2] == pids[3]


def test_equal_objects_are_no_change_and_what_is_watched_is_little():
    transform = Shift()
    watch = StepWatch(transform, 40)
    for _ in range(2):
        transform.strength = float("0")
        assert watch.has_changed()
        transform.strength = int("0")
        assert not watch.has_changed()
    many = types.SimpleNamespace(parts=[Shift() for _ in range(90)])
    assert len(StepWatch(many, 40)._checks) + len(StepWatch(many, 40)._arrays) < 50


def test_an_outline_looks_at_large_arrays_in_blocks_and_never_at_files(tmp_path):
    large = np.zeros(2**25, np.float32)  # 128 MiB, which are zero pages until they are written
    before = Outline(large)
    large[:] = 1
    assert before != Outline(large)
    days = np.array(["2020-01-01"] * 9000, dtype="M8[D]")
    before = Outline(days, np.array(["ab", "c"]))
    days[5000] += 1
    assert before != Outline(days, np.array(["ab", "c"]))
    np.save(tmp_path / "a.npy", np.zeros(10))
    mapped = np.asarray(np.load(tmp_path / "a.npy", mmap_mode="r"))
    assert Outline(mapped)._parts[0][0] == "itself"


# ------------------------------------------------------------------ generators of one's own


class Noise:
    def __init__(self, generator):
        self.generator = generator

    def __call__(self, batch):
        draw = getattr(self.generator, "normal", None) or self.generator.gauss
        return {**batch, "data": batch["data"] + draw(0, 1)}


RNG = np.random.default_rng(0)


def with_a_global(batch):
    return {**batch, "data": batch["data"] + RNG.normal()}


def in_closure(rng):
    return lambda batch: {**batch, "data": batch["data"] + rng.normal()}


def epoch_of(transforms, data=None):
    manager = BaseDataManager(data or {"data": np.zeros((8, 2))}, 2, 2, transforms)
    try:
        return [float(batch["data"][0, 0]) for batch in manager]
    finally:
        manager.close()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Noise(np.random.default_rng(0)), r"Noise\.generator"),
        (lambda: Noise(np.random.RandomState(0)), r"Noise\.generator"),
        (lambda: Noise(random.Random(0)), r"Noise\.generator"),
        (lambda: with_a_global, r"with_a_global\.RNG"),
        (lambda: in_closure(np.random.default_rng(0)), r"<lambda>\.rng"),
    ],
)
def test_a_transform_whose_own_generator_gives_batches_the_same_noise_is_warned_of(make, name):
    with pytest.warns(UserWarning, match=rf"a generator that is kept between them \(.*{name}.*same noise") as caught:
        noise = epoch_of(make())
    assert len(set(noise)) < 4  # two workers, each with a copy
    assert len(caught) == 1


def test_a_dataset_with_a_generator_of_its_own_is_warned_of():
    class Own(IterableDataset):
        rng = np.random.default_rng(0)

        def __getitem__(self, index):
            return {"data": self.rng.normal(size=2)}

    with pytest.warns(UserWarning, match=r"Own\.rng"):
        epoch_of(None, Own([{"data": 0}] * 8))


class Reseeded:
    """Keeps a generator that it lets be set, as transforms of MONAI do."""

    def __init__(self):
        self.generator = np.random.RandomState()

    def set_random_state(self, seed):
        self.generator = np.random.RandomState(seed)

    def __call__(self, sample):
        return {"data": sample["data"] + self.generator.normal()}


class Unused(Noise):
    def __call__(self, batch):
        return batch


def with_rng(batch, rng):
    return {**batch, "data": batch["data"] + rng.normal()}


def with_the_global_one(batch):
    return {**batch, "data": batch["data"] + np.random.normal() + random.random()}


@pytest.mark.parametrize(
    "transform",
    [with_rng, with_the_global_one, PerSampleTransform(Reseeded()), Unused(np.random.default_rng(0))],
    ids=["rng", "global", "set by delira", "not drawn from"],
)
def test_generators_that_are_seeded_for_each_batch_are_not_warned_of(transform):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epoch_of(transform)
