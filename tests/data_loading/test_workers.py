"""Worker processes make the batches that this process would make, whatever their number and start method."""

import copy
import gc
import json
import logging.handlers
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Mapping
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delira.data_loading import (
    AbstractDataset,
    BaseDataLoader,
    BaseDataManager,
    BaseLazyDataset,
    ConcatDataset,
    DictDataset,
    RandomSampler,
)
from delira.data_loading.workers import WorkerSettings
from delira.errors import ConfigError
from delira.utils.files import unsealed

pytestmark = pytest.mark.forks

METHODS = multiprocessing.get_all_start_methods()
PROC = Path("/proc")
RECORD = np.dtype([("x", "<f4"), ("name", "<U3")])


# ---- probes, which the other tests of workers use too


def same(left, right):
    """Whether two trees are equal bit for bit, in types, dtypes, shapes and the order of keys, too."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (np.ndarray, np.generic)):
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            return False
        if left.dtype.hasobject:
            return same(left.tolist(), right.tolist())
        return left.tobytes() == right.tobytes()
    return left == right


def descendants(ancestor=None):
    """Processes that this one started, and they, apart from the helpers of multiprocessing itself."""
    parents = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    found, new = set(), {ancestor or os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= new
    helpers = {forkserver._forkserver._forkserver_pid, multiprocessing.resource_tracker._resource_tracker._pid}
    return found - helpers


def open_files():
    """What this process has open."""
    if not PROC.is_dir():
        return []
    links = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:  # the folder itself
            continue
    return sorted(links)


def eventually(condition, seconds=5.0):
    """Whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not (done := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return done


def check_for_leaks(request):
    """Generator of a fixture: after a test no process and no file may be left that was not there before."""
    if "forkserver" in METHODS:
        forkserver.ensure_running()  # it stays, whoever starts it first
    processes, files, failed = descendants(), open_files(), request.session.testsfailed
    yield
    if request.session.testsfailed > failed:  # its traceback holds on to everything
        return
    if not descendants() <= processes or len(open_files()) > len(files):
        gc.collect()
    assert eventually(lambda: descendants() <= processes), "worker processes are left"
    assert eventually(lambda: len(open_files()) <= len(files)), f"of {open_files()} only these were open: {files}"


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield from check_for_leaks(request)


# ---- datasets and transforms; at the top, so that every start method finds them


class Everything(AbstractDataset):
    """Samples with entries of many kinds; draws from both global generators."""

    def __init__(self, length=10):
        super().__init__()
        self.data = range(length)

    def __getitem__(self, index):
        return {
            "z": np.random.rand(2, 12, 12).astype(np.float32) + random.random(),
            "label": index,
            "data": np.full((3, 96, 96), index, np.float32),
            "half": np.float16(index / 3),
            "flag": index % 2 == 0,
            "complex": 1j * index,
            "name": f"sample {index}",
            "raw": b"\0\1\2",
            "record": np.array((index, "abc"), RECORD),
            "empty": np.zeros((0, 3)),
            "nested": {"z": np.arange(3) + index, "a": {"deep": np.int8(index)}},
        }


class Noisy(AbstractDataset):
    """Small samples that differ each time they are read; notes in a file which were read."""

    def __init__(self, length=10, notes=None):
        super().__init__()
        self.data = range(length)
        self.notes = notes

    def __getitem__(self, index):
        if self.notes is not None:
            with open(self.notes, "a") as file:
                file.write(f"{index}\n")
        return {"data": np.array([np.random.rand(), random.random()]), "label": self.data[index]}

    def read(self):
        """Indices that were read so far."""
        return sorted(map(int, self.notes.read_text().split())) if self.notes.exists() else []


class NoisyBatches(DictDataset):
    """Arrays that are augmented batch by batch."""

    def get_batch(self, indices):
        return {key: values + np.random.rand() for key, values in super().get_batch(indices).items()}


class Noisier(Noisy):
    """The same in the shapes of the arrays."""

    def __getitem__(self, index):
        return {"data": np.random.rand(2, 2, 2), "label": index}


class NoisyLoader(BaseDataLoader):
    """A loader that augments, and knows its batch size."""

    def __call__(self, indices):
        batch = {key: values + random.random() for key, values in super().__call__(indices).items()}
        return {**batch, "size": self.batch_size}


class Scale:
    """A transform with a setting, and settings inside of settings."""

    def __init__(self, factor=1.0, inner=None, **more):
        self.factor = factor
        self.inner = inner
        self.more = more

    def __call__(self, batch):
        factor = self.factor * sum(self.more.values(), 1)
        batch["data"] = batch["data"] * factor
        return batch if self.inner is None else self.inner(batch)


def arrays(length=10):
    return {"data": np.arange(length * 8.0).reshape(length, 2, 2, 2), "label": np.arange(length)}


def awkward(batch, rng):
    """Leaves all kinds of arrays, the way transforms do."""
    data = batch["data"]
    data += rng.random()
    fixed = data + 1
    fixed.flags.writeable = False
    batch.update(
        fortran=np.asfortranarray(data),
        strided=data[:, :, ::2, ::-1],
        moved=np.moveaxis(data, 1, -1),
        broadcast=np.broadcast_to(np.float32(1), (300, 300)),
        fixed=fixed,
        small_fixed=fixed[0, 0, :2, :2],
        swapped=data.astype(">f4"),
        swapped_part=data.astype(">f4")[:, :, 1::2],
        scalar=np.float32(data.sum()),
        zero_d=np.array(3, np.uint16),
        objects=np.array([None, {"a": 1}], dtype=object),
        number=3,
        text="words",
        nothing=None,
        several=[np.arange(3), (1, 2.5)],
        inside={"part": data[:, :, ::-3], "list": [data[1:, :, 1:], (data.T, "x")]},
        **{f"large {number}": rng.random(2**14) for number in range(20)},
    )
    return batch


def noise(**batch):
    batch["data"] = batch["data"] + np.random.normal() + random.random()
    return batch


def draw(batch, rng):
    return batch | {"drawn": rng.random(3)}


def with_pid(batch):
    return batch | {"pid": os.getpid()}


def by_offset(item, offset=0):
    return {"data": np.array([float(item)]), "label": item + offset}


def makers():
    """Managers by what is special about them, each as a function of further settings."""
    return {
        "everything": lambda **kw: BaseDataManager(Everything(), 3, transforms=awkward, **kw),
        "batch of one": lambda **kw: BaseDataManager(Everything(3), 1, transforms=awkward, **kw),
        "plain arrays": lambda **kw: BaseDataManager(arrays(), 3, **kw),
        "drop_last": lambda **kw: BaseDataManager(arrays(), 3, transforms=noise, drop_last=True, **kw),
        "rng": lambda **kw: BaseDataManager(arrays(), 4, transforms=draw, **kw),
        "loader": lambda **kw: BaseDataManager(arrays(), 4, data_loader_cls=NoisyLoader, **kw),
        "augmented batches": lambda **kw: BaseDataManager(NoisyBatches(arrays()), 3, **kw),
        "concat": lambda **kw: BaseDataManager(ConcatDataset(NoisyBatches(arrays()), Noisier()), 3, **kw),
        "subset": lambda **kw: BaseDataManager(Noisy(30), 3, transforms=noise, **kw).get_subset([7, 3, 28, 3]),
        "sampler": lambda **kw: BaseDataManager(
            arrays(), 3, sampler_cls=RandomSampler, sampler_kwargs={"replacement": True}, **kw
        ),
        "lazy": lambda **kw: BaseDataManager(list(range(7)), 2, load_fn=by_offset, offset=5, **kw),
        "skip": lambda **kw: BaseDataManager(Noisy(), 3, transforms=noise, bad_samples="skip", **kw),
    }


every_maker = pytest.mark.parametrize("make", makers().values(), ids=list(makers()))
every_method = pytest.mark.parametrize("method", METHODS)


def batches(manager, epochs=(0, 1), **kw):
    """All batches of some epochs; the manager's workers have ended then."""
    try:
        return [list(manager.epoch(5, 1, epoch, shuffle=True, **kw)) for epoch in epochs]
    finally:
        manager.close()


def pids(manager, epoch=0):
    """The processes that made the batches of an epoch; the manager's transform notes them."""
    return {batch["pid"] for batch in manager.epoch(0, 0, epoch)}


# ---- the same batches


@every_maker
@pytest.mark.slow_cases("1|4")
@pytest.mark.parametrize("number", [2, 1, 4])
def test_batches_are_bit_identical_for_every_number_of_workers(make, number):
    expected = batches(make())
    assert len(expected[0]) > 1
    assert same(batches(make(n_process_augmentation=number)), expected)


@every_method
@pytest.mark.slow_cases("1|4")
@pytest.mark.parametrize("number", [2, 1, 4])
def test_batches_are_bit_identical_for_every_start_method(method, number):
    make = makers()["everything"]
    manager = make(n_process_augmentation=number, worker_settings={"start_method": method})
    assert same(batches(manager), batches(make()))


@pytest.mark.sampled("values")
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("name", ["loader", "subset", "lazy", "concat"])
def test_every_kind_of_manager_works_with_processes_that_inherit_nothing(name, method):
    make = makers()[name]
    manager = make(n_process_augmentation=1, worker_settings={"start_method": method})
    assert same(batches(manager), batches(make()))


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 8), st.booleans(), st.integers(1, 3), st.data())
def test_batches_are_the_same_from_every_start(length, batch_size, drop_last, prefetch, data):
    kw = {"batch_size": batch_size, "transforms": noise, "drop_last": drop_last and batch_size <= length}
    alone = BaseDataManager(Noisy(length), **kw)
    start = data.draw(st.integers(0, alone.n_batches), label="start")
    ahead = BaseDataManager(Noisy(length), n_process_augmentation=2, worker_settings={"prefetch": prefetch}, **kw)
    expected = batches(alone, (3,))[0][start:]
    assert same(batches(ahead, (3,), start=start), [expected])


def test_a_batch_keeps_the_layout_in_memory_that_its_transform_gave_it():
    # what is computed from it, a sum of float32 for one, depends on the order of its values in memory
    def moved(batch, rng):
        data = rng.random((4, 33, 47, 29), dtype=np.float32)
        return batch | {"last": np.moveaxis(data, 1, -1), "fortran": np.asfortranarray(data), "part": data[:, ::2]}

    alone, ahead = (next(iter(BaseDataManager(arrays(), 5, number, moved))) for number in (0, 1))
    for key in ("last", "fortran", "part"):
        assert alone[key].sum().tobytes() == ahead[key].sum().tobytes(), key


@pytest.mark.slow
def test_torch_is_seeded_in_a_process_that_has_not_imported_it_yet():
    torch = pytest.importorskip("torch")

    def drawn(batch):
        import torch

        return batch | {"drawn": torch.rand(3).numpy()}

    torch.rand(1)
    managers = [
        BaseDataManager(arrays(), 3, number, drawn, worker_settings={"start_method": method})
        for number, method in ((0, "fork"), (2, "fork"), (2, "spawn"))
    ]
    alone, *others = map(batches, managers)
    assert all(same(alone, other) for other in others)


def test_the_callers_generators_are_left_alone():
    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(1)
    batches(BaseDataManager(Noisy(), 3, 2, noise))
    assert (random.random(), np.random.rand()) == expected


def test_more_workers_than_batches_are_not_started():
    manager = BaseDataManager(arrays(), 5, 8, with_pid)
    before = descendants()
    iterator = manager.epoch(0, 0, 0)
    assert len({batch["pid"] for batch in iterator} - {os.getpid()}) <= 2
    assert len(descendants() - before) == 2


def test_workers_are_other_processes_and_share_the_work():
    manager = BaseDataManager(arrays(12), 1, 2, with_pid)
    assert len(pids(manager)) == 2
    assert os.getpid() not in pids(manager)


# ---- position


@pytest.mark.parametrize("number", [0, 2])
def test_starting_later_loads_nothing_earlier(tmp_path, number):
    dataset = Noisy(12, tmp_path / "notes")
    assert len(list(BaseDataManager(dataset, 2, number).epoch(0, 0, 0, 4))) == 2
    assert dataset.read() == [8, 9, 10, 11]


def test_the_position_can_be_set_in_both_directions(tmp_path):
    expected = batches(BaseDataManager(Noisy(20), 2, transforms=noise), (0,))[0]
    dataset = Noisy(20, tmp_path / "notes")
    manager = BaseDataManager(dataset, 2, 2, noise, worker_settings={"prefetch": 1})
    iterator = manager.epoch(5, 1, 0, shuffle=True)
    got = []
    for position in (0, 7, 8, 1, 2, 1, 9, 0):
        iterator.seek(position)
        assert iterator.position == position
        got.append((position, next(iterator)))
        assert iterator.position == position + 1
    assert all(same(batch, expected[position]) for position, batch in got)
    iterator.seek(8)
    assert same(list(iterator), expected[8:])
    untouched = {int(index) for batch in expected[5:7] for index in batch["label"]}
    assert not untouched & set(dataset.read())


def test_a_position_outside_the_epoch_is_refused():
    iterator = BaseDataManager(arrays(), 4, 2).epoch(0, 0, 0)
    for position in (-1, 4, 1.5):
        with pytest.raises(ConfigError, match=str(position)):
            iterator.seek(position)
    assert len(list(iterator)) == 3


def test_the_position_stays_where_a_batch_cannot_be_made(tmp_path):
    gone = tmp_path / "gone"

    def load(item):
        if item == 5 and not gone.exists():
            raise OSError("network share away")
        return {"data": item}

    manager = BaseDataManager(list(range(12)), 2, 2, load_fn=load)
    iterator = manager.epoch(0, 0, 0)
    assert [next(iterator)["data"].tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    for _ in range(2):
        with pytest.raises(OSError, match="share away"):
            next(iterator)
        assert iterator.position == 2
    gone.touch()
    assert next(iterator)["data"].tolist() == [4, 5]
    assert [batch["data"].tolist() for batch in iterator] == [[6, 7], [8, 9], [10, 11]]


def test_a_batch_that_cannot_be_made_can_be_passed_over():
    def load(item):
        if item == 5:
            raise OSError("unreadable")
        return {"data": item}

    iterator = BaseDataManager(list(range(12)), 2, 2, load_fn=load).epoch(0, 0, 0)
    got = []
    while iterator.position < len(iterator):
        try:
            got.append(next(iterator)["data"].tolist())
        except OSError:
            iterator.seek(iterator.position + 1)
    assert got == [[0, 1], [2, 3], [6, 7], [8, 9], [10, 11]]


# ---- several iterations at once


@pytest.mark.parametrize("number", [1, 2])
def test_interleaved_iterations_of_one_manager_do_not_disturb_each_other(number):
    expected = batches(BaseDataManager(Noisy(), 3, transforms=noise))
    manager = BaseDataManager(Noisy(), 3, number, noise)
    pairs = list(zip(*(manager.epoch(5, 1, epoch, shuffle=True) for epoch in (0, 1)), strict=True))
    assert same([list(column) for column in zip(*pairs, strict=True)], expected)


def test_iterations_inside_of_an_iteration():
    manager = BaseDataManager(Noisy(6), 2, 2, noise)
    expected = list(BaseDataManager(Noisy(6), 2, transforms=noise))
    outer = []
    for batch in manager:
        outer.append(batch)
        assert same(list(manager), expected)
    assert same(outer, expected)


def test_a_broken_off_iteration_leaves_no_trace():
    expected = batches(BaseDataManager(Noisy(), 1, transforms=noise))
    manager = BaseDataManager(Noisy(), 1, 2, noise)
    for stop in (0, 1, 3):
        for number, _ in enumerate(manager.epoch(9, 0, 0)):
            if number == stop:
                break
    assert same(batches(manager), expected)


def test_threads_with_managers_of_their_own():
    expected = batches(BaseDataManager(Noisy(12), 2, transforms=noise))
    got = {}

    def iterate(name):
        got[name] = batches(BaseDataManager(Noisy(12), 2, 2, noise))

    threads = [threading.Thread(target=iterate, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == list(range(4))
    assert all(same(result, expected) for result in got.values())


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_of_a_manager_at_work_has_workers_of_its_own(how):
    expected = batches(BaseDataManager(Noisy(), 3, transforms=with_numbers))
    manager = BaseDataManager(Noisy(), 3, 2, with_numbers)
    running = manager.epoch(5, 1, 0, shuffle=True)
    got = [next(running)]
    other = how(manager)
    assert same(batches(other), expected)
    other.close()
    del other
    assert same([*got, *running], expected[0])
    assert same(batches(manager), expected)


def with_numbers(batch, rng):
    return batch | {"number": rng.integers(100, size=2)}


def test_a_subset_of_a_manager_at_work_has_workers_of_its_own():
    manager = BaseDataManager(arrays(), 2, 2, with_pid)
    whole = manager.epoch(0, 0, 0)
    next(whole)
    subset = manager.get_subset([9, 8, 7, 6])
    got = list(subset)
    assert [batch["label"].tolist() for batch in got] == [[9, 8], [7, 6]]
    assert not {batch["pid"] for batch in got} & {batch["pid"] for batch in whole}


# ---- workers are kept


@pytest.mark.slow_cases("spawn")
@every_method
def test_workers_are_kept_from_one_epoch_to_the_next(method):
    manager = BaseDataManager(Noisy(), 1, 2, with_pid, worker_settings={"start_method": method})
    first = pids(manager)
    assert [pids(manager, epoch) for epoch in (1, 2)] == [first, first]
    assert first <= descendants()
    for _ in manager:
        break
    assert pids(manager) == first
    manager.close()
    manager.close()
    assert eventually(lambda: not first & descendants())
    assert not pids(manager) & first


class WithState(Scale):
    """A transform that keeps a generator, as those of several libraries do."""

    def __init__(self):
        super().__init__()
        self.R = np.random.RandomState(3)
        self.rng = np.random.default_rng(3)

    def __call__(self, batch):
        return with_pid(batch)


class FromTensors(AbstractDataset):
    """A dataset over tensors."""

    def __init__(self, tensors):
        super().__init__()
        self.data = tensors

    def __getitem__(self, index):
        return {"data": self.data[index].numpy(), "label": index}


class FromFrame(AbstractDataset):
    """A dataset over a table."""

    def __init__(self, frame):
        super().__init__()
        self.data = frame

    def __getitem__(self, index):
        return {"data": self.data.iloc[index]["value"], "label": index}


def test_workers_are_kept_if_a_transform_has_generators():
    manager = BaseDataManager(Noisy(), 1, 2, WithState())
    assert pids(manager, 0) == pids(manager, 1)


def test_workers_are_kept_over_a_dataset_of_tensors():
    torch = pytest.importorskip("torch")
    manager = BaseDataManager(FromTensors(torch.rand(10, 50)), 1, 2, with_pid)
    assert pids(manager, 0) == pids(manager, 1)


def test_workers_are_kept_over_a_table():
    pandas = pytest.importorskip("pandas")
    manager = BaseDataManager(FromFrame(pandas.DataFrame({"value": np.arange(10.0)})), 1, 2, with_pid)
    assert pids(manager, 0) == pids(manager, 1)


class Lazy(Mapping):
    """Reads an entry when it is asked for, as files of arrays do."""

    def __init__(self):
        self.is_open = True
        self.reads = 0

    def __len__(self):
        if not self.is_open:
            raise ValueError("the file is closed")
        return 3

    def __iter__(self):
        return iter(range(len(self)))

    def __getitem__(self, key):
        self.reads += len(self)
        return np.full(2**15, key)


def a_file(folder):
    return open(folder / "file", "w")


def an_archive(folder):
    np.savez(folder / "arrays.npz", data=np.ones((200, 200)), label=np.ones(3))
    return np.load(folder / "arrays.npz")


def a_logger(folder):
    logger = logging.getLogger("test of workers")
    logger.parent = None
    logger.addHandler(logging.handlers.MemoryHandler(1000))
    return logger


def a_closed_file(folder):
    lazy = Lazy()
    lazy.is_open = False
    return lazy


THINGS = {
    "archive": an_archive,
    "logger": a_logger,
    "closed": a_closed_file,
    "lock": lambda folder: threading.Lock(),
    "file": a_file,
    "generator": lambda folder: (number for number in range(3)),
    "module": lambda folder: np,
    "memory map": lambda folder: np.memmap(folder / "map", np.float32, "w+", shape=(10, 10)),
    "itself": lambda folder: None,
    "nan": lambda folder: float("nan"),
}


@pytest.mark.parametrize("name", THINGS)
def test_workers_are_kept_whatever_a_dataset_holds(tmp_path, name):
    dataset = Noisy()
    dataset.thing = dataset if name == "itself" else THINGS[name](tmp_path)
    manager = BaseDataManager(dataset, 1, 2, with_pid)
    first = pids(manager, 0)
    if name == "logger":
        dataset.thing.warning("logged by this process")
    assert pids(manager, 1) == first
    if hasattr(dataset.thing, "close"):
        dataset.thing.close()
    assert pids(manager, 2) == first or name in ("archive", "file")


def test_what_a_dataset_reads_when_asked_is_not_read_to_look_for_changes():
    dataset = Noisy()
    dataset.lazy = Lazy()
    manager = BaseDataManager(dataset, 1, 2, with_pid)
    assert pids(manager, 0) == pids(manager, 1)
    assert dataset.lazy.reads == 0


def test_an_idle_worker_that_died_is_replaced():
    manager = BaseDataManager(Noisy(), 1, 2, with_pid)
    first = pids(manager)
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    assert eventually(lambda: not is_running(killed))
    second = pids(manager)
    assert len(second) == 2
    assert killed not in second
    assert pids(manager) == second


def is_running(pid):
    """Whether a process has not ended; its parent may not have heard of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Local:
    """A transform that cannot be pickled, as a lock or an open file make it."""

    def __init__(self, **settings):
        self.settings = settings
        self.lock = threading.Lock()
        self.parts = [Scale()]
        self.inner = Scale()

    def __call__(self, batch):
        with self.lock:
            batch["data"] = batch["data"] * self.settings.get("factor", 1)
        return self.inner(self.parts[0](batch))

    def method(self, batch):
        return self(batch)


def new_transform(manager, transform):
    manager.transforms = Scale(3.0)


def own_attribute(manager, transform):
    transform.factor = 3.0


def inner_attribute(manager, transform):
    transform.inner.factor = 3.0


def entry_of_a_dict(manager, transform):
    transform.more["extra"] = 5.0


def data_in_place(manager, transform):
    manager.dataset.data["data"] = manager.dataset.data["data"] + 1


def new_dataset(manager, transform):
    manager.dataset = {"data": np.ones((10, 2)), "label": np.arange(10)}


def new_batch_size(manager, transform):
    manager.batch_size = 4


def new_loader(manager, transform):
    manager.data_loader_cls = NoisyLoader


def skip(manager, transform):
    manager.bad_samples = "skip"


def several(manager, transform):
    manager.update_state_from_dict({"batch_size": 3, "transforms": Scale(2.0)})


CHANGES = [
    *(new_transform, own_attribute, inner_attribute, entry_of_a_dict, data_in_place, new_dataset, new_batch_size),
    *(new_loader, skip, several),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.slow_cases("NoisyLoader")
@pytest.mark.parametrize("loader", [BaseDataLoader, NoisyLoader])
def test_what_was_changed_reaches_the_workers(change, loader):
    results = []
    for number in (0, 2):
        transform = Scale(2.0, inner=Scale(7.0), more=1.0)
        manager = BaseDataManager(arrays(), 2, number, transform, data_loader_cls=loader)
        list(manager)
        change(manager, transform)
        results.append(batches(manager))
    assert same(*results)


class Steps:
    """Transforms one after the other; a step may be anything."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def __call__(self, batch):
        for step in self.steps:
            batch = step(batch)
        return batch


def settings_of_what_cannot_be_pickled(transform):
    transform.settings["factor"] = 3.0


def part_of_what_cannot_be_pickled(transform):
    transform.parts[0].factor = 3.0


def inside_of_what_cannot_be_pickled(transform):
    transform.inner.factor = 3.0


def another_part_of_what_cannot_be_pickled(transform):
    transform.parts[0] = Scale(5.0)


@pytest.mark.parametrize(
    "change",
    [
        settings_of_what_cannot_be_pickled,
        part_of_what_cannot_be_pickled,
        inside_of_what_cannot_be_pickled,
        another_part_of_what_cannot_be_pickled,
    ],
)
@pytest.mark.slow_cases("method|step")
@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: t.method, lambda t: Steps(t)], ids=["it", "method", "step"])
def test_changes_reach_the_workers_though_the_transform_cannot_be_pickled(change, wrap):
    results = []
    for number in (0, 2):
        transform = Local()
        manager = BaseDataManager(arrays(), 2, number, wrap(transform))
        list(manager)
        change(transform)
        results.append(batches(manager))
    assert same(*results)


@pytest.mark.parametrize("kind", [Scale, type("Unknown", (Scale,), {})], ids=["known", "not found by its name"])
def test_changes_reach_the_workers_through_a_method_and_a_class_that_cannot_be_found(kind):
    results = []
    for number in (0, 2):
        transform, inner = kind(2.0), kind(2.0)
        manager = BaseDataManager(arrays(), 2, number, Steps(transform.__call__, Steps(inner)))
        list(manager)
        transform.factor = inner.factor = 7.0
        results.append(batches(manager))
    assert same(*results)


def test_changes_of_a_load_function_with_attributes_reach_the_workers():
    results = []
    for number in (0, 2):
        loading = Loading(1.0)
        manager = BaseDataManager(BaseLazyDataset(list(range(6)), loading.load), 2, number)
        list(manager)
        loading.factor = 5.0
        results.append(batches(manager))
    assert same(*results)


class Loading:
    """Has a method that loads."""

    def __init__(self, factor):
        self.factor = factor

    def load(self, item):
        return {"data": item * self.factor}


@pytest.mark.parametrize(("before", "after"), [(2, 2.0), (1, True), (0.0, -0.0), ((1, 2), [1, 2])])
def test_a_change_to_what_is_equal_reaches_the_workers(before, after):
    results = []
    for number in (0, 2):
        transform = Scale()
        manager = BaseDataManager({"data": np.arange(-4, 6), "label": np.arange(10)}, 2, number, transform)
        transform.factor = np.array(before) if isinstance(before, tuple) else before
        list(manager)
        transform.factor = np.array(after, float) if isinstance(after, list) else after
        results.append(batches(manager))
    assert same(*results)


def test_a_change_inside_of_a_small_tensor_reaches_the_workers():
    torch = pytest.importorskip("torch")
    results = []
    for number in (0, 2):
        factor = torch.tensor(2.0)
        manager = BaseDataManager(arrays(), 2, number, lambda b, factor=factor: b | {"data": b["data"] * factor.item()})
        list(manager)
        factor.mul_(3)
        results.append(batches(manager))
    assert same(*results)


def test_a_running_epoch_is_not_reached_by_changes():
    manager = BaseDataManager(arrays(), 2, 2)
    running = manager.epoch(0, 0, 0)
    got = [next(running)]
    manager.batch_size, manager.transforms, manager.n_process_augmentation = 5, Scale(3.0), 1
    assert same([*got, *running], list(BaseDataManager(arrays(), 2)))
    assert same(batches(manager), batches(BaseDataManager(arrays(), 5, transforms=Scale(3.0))))


# ---- settings


def test_settings_have_defaults_and_may_be_a_dict():
    manager = BaseDataManager(arrays())
    assert manager.worker_settings == WorkerSettings()
    manager.worker_settings = {"time_limit": None, "prefetch": 5}
    assert manager.worker_settings == WorkerSettings(time_limit=None, prefetch=5)
    assert manager.get_subset([1, 2]).worker_settings.prefetch == 5
    manager.update_state_from_dict({"worker_settings": WorkerSettings(replacements=0)})
    assert manager.worker_settings == WorkerSettings(replacements=0)
    manager.worker_settings = None
    assert manager.worker_settings == WorkerSettings()


WRONG = [
    ({"time_limt": 3}, "worker_settings has no 'time_limt'.*did you mean 'time_limit'"),
    ({"start_method": "frok"}, "start_method must be one of .*'frok'.*did you mean 'fork'"),
    ({"start_method": 3}, "start_method must be one of .*got 3"),
    ({"time_limit": 0}, "time_limit must be a number of seconds above 0, or None for no limit, got 0"),
    ({"time_limit": -1.5}, r"time_limit must .* got -1\.5"),
    ({"time_limit": float("nan")}, "time_limit must .* got nan"),
    ({"time_limit": True}, "time_limit must .* got True"),
    ({"time_limit": "5"}, "time_limit must .* got '5'"),
    ({"prefetch": 0}, "prefetch must be an integer of at least 1, got 0"),
    ({"prefetch": 1.5}, r"prefetch must .* got 1\.5"),
    ({"replacements": -1}, "replacements must be an integer of at least 0, got -1"),
    (["fork"], r"worker_settings must be a WorkerSettings or a dict of its settings, got \['fork'\]"),
    ("fork", "worker_settings must be .*got 'fork'"),
]


@pytest.mark.parametrize(("given", "match"), WRONG)
def test_wrong_settings_are_refused_at_every_door(given, match):
    with pytest.raises(ConfigError, match=match):
        BaseDataManager(arrays(), worker_settings=given)
    manager = BaseDataManager(arrays(), worker_settings={"prefetch": 7})
    with pytest.raises(ConfigError, match=match):
        manager.worker_settings = given
    with pytest.raises(ConfigError, match=match):
        manager.update_state_from_dict({"worker_settings": given})
    assert manager.worker_settings.prefetch == 7


@pytest.mark.parametrize("given", ["ignore", None, True])
def test_a_wrong_way_with_bad_samples_is_refused(given):
    with pytest.raises(ConfigError, match=f"bad_samples must be 'raise' or 'skip', got {given!r}"):
        BaseDataManager(arrays(), bad_samples=given)


def test_settings_decide_how_workers_run():
    manager = BaseDataManager(arrays(20), 1, 2, with_pid)
    first = pids(manager)
    manager.worker_settings = {"prefetch": 3}
    assert not pids(manager) & first
    manager.n_process_augmentation = 1
    assert len(pids(manager)) == 1
    manager.n_process_augmentation = 0
    assert pids(manager) == {os.getpid()}


@pytest.mark.parametrize("prefetch", [1, 3])
def test_workers_run_ahead_as_far_as_they_are_told(tmp_path, prefetch):
    dataset = Noisy(40, tmp_path / "notes")
    iterator = BaseDataManager(dataset, 1, 2, worker_settings={"prefetch": prefetch}).epoch(0, 0, 0)
    next(iterator)
    expected = list(range(2 * prefetch))
    assert eventually(lambda: dataset.read() == expected)
    time.sleep(0.05)
    assert dataset.read() == expected


# ---- what cannot be sent to another process


class Holds:
    """A part of a dataset."""

    def __init__(self, what):
        self.what = what


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize(
    ("put", "place"),
    [
        (lambda dataset, thing: setattr(dataset, "file", thing), r"dataset\.file"),
        (lambda dataset, thing: setattr(dataset, "part", Holds(Holds(thing))), r"dataset\.part\.what\.what"),
        (lambda dataset, thing: setattr(dataset, "table", {"key": thing}), r"dataset\.table\W+key"),
        (lambda dataset, thing: setattr(dataset, "items", [1, thing]), r"dataset\.items"),
    ],
    ids=["attribute", "nested", "in a dict", "in a list"],
)
def test_a_dataset_that_cannot_be_sent_is_refused_with_the_attribute(tmp_path, method, put, place):
    before = descendants()
    with open(tmp_path / "open", "w") as file:
        for thing in (file, threading.Lock()):
            dataset = Noisy()
            put(dataset, thing)
            manager = BaseDataManager(dataset, 2, 2, worker_settings={"start_method": method})
            with pytest.raises(ConfigError, match=f"(?s)start_method='{method}'.*{place}.*cannot be pickled.*getstate"):
                next(iter(manager))
    assert descendants() == before


def test_a_transform_that_cannot_be_sent_is_refused_with_the_attribute():
    manager = BaseDataManager(Noisy(), 2, 2, Local(), worker_settings={"start_method": "spawn"})
    with pytest.raises(ConfigError, match=r"transform\.lock \(a lock\) cannot be pickled"):
        next(iter(manager))


def test_the_same_dataset_works_where_workers_inherit_it(tmp_path):
    dataset = Noisy()
    dataset.lock = threading.Lock()
    assert same(batches(BaseDataManager(dataset, 2, 2, Local())), batches(BaseDataManager(dataset, 2, 0, Local())))


class FailsToArrive:
    """Can be sent, but not received."""

    def __reduce__(self):
        return int, ("not a number",)


@pytest.mark.slow
def test_what_cannot_be_received_is_an_error_with_its_traceback():
    from delira.errors import WorkerError

    dataset = Noisy()
    dataset.part = FailsToArrive()
    manager = BaseDataManager(dataset, 2, 2, worker_settings={"start_method": "spawn"})
    began = time.monotonic()
    with pytest.raises(WorkerError, match="could not start") as caught:
        next(iter(manager))
    assert "not a number" in str(caught.value.__cause__)
    assert time.monotonic() - began < 20
    del dataset.part
    assert len(list(manager)) == 5


# ---- torch in the workers


def test_torch_that_computed_before_does_not_stop_the_workers():
    torch = pytest.importorskip("torch")

    def convolve(batch):
        image = torch.nn.functional.conv2d(torch.ones(1, 3, 64, 64), torch.ones(8, 3, 5, 5))
        product = torch.ones(300, 300) @ torch.ones(300, 300)
        return batch | {"data": (image.sum() + product.sum()).item()}

    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        expected = convolve({})["data"]
        assert [batch["data"] for batch in BaseDataManager(arrays(), 2, 2, convolve)] == [expected] * 5
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(threads)


def test_numpy_that_computed_before_does_not_stop_the_workers():
    def multiply(batch):
        return batch | {"data": np.linalg.svd(np.eye(100) @ np.ones((100, 100)))[1].max().round(6)}

    expected = multiply({})["data"]
    assert [batch["data"] for batch in BaseDataManager(arrays(), 2, 2, multiply)] == [expected] * 5


# ---- training


def history(folder):
    """What a run wrote down, without times."""
    lines = [unsealed(json.loads(line)) for line in next(folder.rglob("history.jsonl")).read_text().splitlines()]
    return [{key: value for key, value in line.items() if "time" not in key and "second" not in key} for line in lines]


@pytest.mark.slow_cases("toy")
def test_training_with_workers_is_bit_identical(kit, tmp_path, manager):
    results = []
    before = descendants()
    for number in (0, 2):
        train, val = (manager(n, n_process_augmentation=number, transforms=noise) for n in (10, 7))
        experiment = kit.experiment(tmp_path / str(number), training={"num_epochs": 3})
        network = experiment.run(train, val)
        assert descendants() == before
        results.append((kit.read(network), history(tmp_path / str(number))))
    assert same(*results)
    assert len(results[0][1]) == 3


@pytest.mark.slow_cases("toy")
def test_cross_validation_with_workers_is_bit_identical(kit, tmp_path, manager):
    before = descendants()
    scores = []
    for number in (0, 2):
        data = manager(12, n_process_augmentation=number, transforms=noise)
        experiment = kit.experiment(tmp_path / str(number), training={"num_epochs": 2})
        result = experiment.kfold(data, {"mse": squares}, num_splits=3, val_split=None)
        assert descendants() == before
        scores.append([fold.metrics for fold in result.folds])
        assert len(result.folds) == 3
    assert same(*scores)


def squares(y_true, y_pred):
    return float(np.mean((y_true - y_pred) ** 2))


def test_an_error_in_training_leaves_no_worker(kit, tmp_path, manager):
    class Break:
        def at_iter_end(self, trainer, **facts):
            raise ZeroDivisionError("in the middle")

    before = descendants()
    data = manager(n_process_augmentation=2, transforms=noise)
    with pytest.raises(ZeroDivisionError, match="in the middle"):
        kit.experiment(tmp_path, callbacks=[Break()]).run(data)
    assert eventually(lambda: descendants() == before)


def test_prediction_with_workers_is_bit_identical(kit, tmp_path, manager):
    results = [
        kit.trainer(tmp_path / str(number)).predict(manager(n_process_augmentation=number, transforms=noise))
        for number in (0, 2)
    ]
    assert kit.same(*results)
