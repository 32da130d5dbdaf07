"""Preprocess once: what is kept is what came out, whoever made it and whatever happened to the disk since."""

import hashlib
import multiprocessing
import os
import pathlib
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from delira.data_loading import (
    AbstractDataset,
    BaseDataManager,
    BaseLazyDataset,
    ConcatDataset,
    DictDataset,
    IterableDataset,
)
from delira.data_loading.array_dataset import WrappedDataset
from delira.data_loading.cached_dataset import CachedDataset
from delira.data_loading.mapped_dataset import MappedDataset
from delira.errors import ConfigError, DataError, MissingKeyError

ROOT = pathlib.Path(__file__).parents[2]
LONG_AGO = (10**9, 10**9)


def load(path, log, scale=1):
    """Read a file of bytes, and leave a file in the folder ``log``."""
    os.close(tempfile.mkstemp(prefix=f"{pathlib.Path(path).stem} ", dir=log)[0])
    values = np.fromfile(path, np.uint8)
    return {"data": values.astype(np.float32) * scale, "label": int(values[0]) % 3, "name": pathlib.Path(path).name}


class Place(tuple):
    """A path that is a tuple as well: of a folder and a name."""

    def __fspath__(self):
        return os.path.join(*self)


class Folder:
    """Six files of bytes, a dataset that loads them, and how often it did."""

    def __init__(self, path):
        self.path = path
        self.files = [path / "raw" / f"{i}.bin" for i in range(6)]

    def fill(self):
        for name in ("log", "raw"):
            (self.path / name).mkdir()
        for i, file in enumerate(self.files):
            self.write(file, bytes([i, 10, 20, 30][: 3 + i % 2]))
        return self

    def write(self, file, content):
        file.write_bytes(content)
        os.utime(file, LONG_AGO)

    def dataset(self, files=None, **kwargs):
        return BaseLazyDataset(list(map(str, files or self.files)), load, log=str(self.path / "log"), **kwargs)

    def cached(self, version=None, **kwargs):
        return CachedDataset(self.dataset(**kwargs), self.path / "cache", version=version)

    def loaded(self):
        """Names of the files that were loaded since the last time."""
        logs = sorted((self.path / "log").iterdir())
        for log in logs:
            log.unlink()
        return [log.name[0] for log in logs]

    def files_of_cache(self):
        """Endings of the files beside the samples, locks and all."""
        return [file.name.partition(".")[2] for file in (self.path / "cache").rglob("*/*/*") if file.is_file()]

    def kept(self):
        return sorted(file for file in (self.path / "cache").rglob("*.sample*"))


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path).fill()


def same(sample, other):
    assert sample.keys() == other.keys()
    for key, value in other.items():
        if isinstance(value, dict):
            same(sample[key], value)
        else:
            np.testing.assert_array_equal(sample[key], np.asarray(value), strict=True)


def in_memory(sample):
    return IterableDataset([sample])


# ---- what is kept


def test_a_sample_is_made_once_and_read_ever_after(folder):
    cached = folder.cached()
    assert len(cached) == 6
    for _ in range(2):
        same(cached[4], folder.dataset()[4])
    assert folder.loaded() == ["4"] * 3
    for again in (folder.cached(), pickle.loads(pickle.dumps(cached))):
        same(again[4], cached[4])
    assert folder.loaded() == []


def test_samples_of_any_shape_serve_managers_and_subsets(folder):
    cached = folder.cached()
    subset = cached.get_subset([5, 3, 1])
    batch = next(iter(BaseDataManager(subset, 3)))
    assert batch["data"][:, 0].tolist() == [5, 3, 1]
    assert batch["name"].tolist() == ["5.bin", "3.bin", "1.bin"]
    assert {sample["data"].shape for sample in cached} == {(3,), (4,)}
    assert cached[-1]["label"] == 2
    assert subset.get_sample_from_index(0) == str(folder.files[5])
    assert cached._files() == list(map(str, folder.files))
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"index {index} is not in this CachedDataset of 6 samples"):
            cached[index]


ENTRIES = st.dictionaries(
    st.text(max_size=4),
    st_numpy.arrays(
        st.one_of(st_numpy.scalar_dtypes(), st_numpy.unicode_string_dtypes(), st_numpy.byte_string_dtypes()),
        st_numpy.array_shapes(min_dims=0, min_side=0, max_dims=3),
    ),
    max_size=3,
)


@pytest.mark.slow
@given(ENTRIES, ENTRIES)
@settings(max_examples=50)
def test_arrays_of_every_type_and_shape_come_back(outer, inner):
    sample = {**outer, "inner": inner}
    with tempfile.TemporaryDirectory() as path:
        for _ in range(2):
            same(CachedDataset(in_memory(sample), path)[0], sample)


@pytest.mark.parametrize("value", [3, 2.5, True, 1j, "näme", b"bytes", [1, 2], np.float16(2), np.datetime64(1, "D")])
def test_values_that_are_no_arrays_come_back_as_arrays(value, tmp_path):
    same(CachedDataset(in_memory({"value": value}), tmp_path)[0], {"value": np.asarray(value)})


def test_layouts_in_memory_do_not_matter(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    sample = {"fortran": np.asfortranarray(array), "steps": array[::2, ::-1], "swapped": array.astype(">f4")}
    same(CachedDataset(in_memory(sample), tmp_path)[0], sample)


def test_tensors_come_back_as_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    cached = CachedDataset(in_memory({"data": torch.ones(2, requires_grad=True)}), tmp_path)
    assert cached[0]["data"].tolist() == [1, 1]


@pytest.mark.parametrize("size", [10, 2**18])
def test_a_sample_may_be_changed_and_the_cache_stays_as_it_is(size, tmp_path):
    cached = CachedDataset({"data": np.ones((1, size))}, tmp_path)
    for _ in range(2):
        sample = cached[0]
        assert sample["data"].sum() == size
        sample["data"] *= 7


@pytest.mark.parametrize(
    ("sample", "match"),
    [
        ({"data": 1, "mask": None}, "entry 'mask' of sample 0 is None, which cannot be cached; .*leave it out"),
        ({"more": {"mask": None}}, "entry 'more/mask' of sample 0 is None"),
        ({"data": np.array([None, 1])}, "entry 'data' of sample 0 is a ndarray of dtype object"),
        ({"data": object()}, "entry 'data' of sample 0 is a object, which"),
        ({"data": np.zeros(2, "i4,i4")}, "entry 'data' of sample 0 is a ndarray of dtype .*i4"),
        ({3: np.zeros(2)}, "sample 0 has an entry named 3"),
        ({"more": {3: 1}}, "entry 'more' of sample 0 has an entry named 3; .*names that are strings"),
    ],
)
def test_what_cannot_be_kept_without_pickle_is_refused(sample, match, tmp_path):
    with pytest.raises(DataError, match=match):
        CachedDataset(in_memory(sample), tmp_path)[0]
    assert not list(tmp_path.rglob("*.sample*"))


def test_what_is_no_sample_is_refused(tmp_path):
    class Tuples(AbstractDataset):
        def __init__(self):
            self.data = [1]

        def __getitem__(self, index):
            return (1, 2)

    with pytest.raises(DataError, match="sample 0 is a tuple, not a dict"):
        CachedDataset(Tuples(), tmp_path)[0]


def test_ragged_lists_are_named(tmp_path):
    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        CachedDataset(in_memory({"boxes": [[1], [1, 2]]}), tmp_path)[0]
    assert "entry 'boxes' of sample 0" in caught.value.__notes__[0]


def test_an_error_of_the_preprocessing_keeps_its_type_and_nothing_is_kept(folder):
    os.remove(folder.files[2])
    with pytest.raises(FileNotFoundError, match=r"2\.bin") as caught:
        folder.cached().build()
    named = f"({folder.files[2]}) was made for the cache in"
    assert any(note.startswith("while sample 2 of ") and named in note for note in caught.value.__notes__)
    assert len(folder.kept()) == 2


def test_a_large_sample_does_not_stay_in_memory(tmp_path):
    if not os.path.exists("/proc/self/status"):
        pytest.skip("needs the /proc of Linux")
    code = """
import numpy as np, re
from delira.data_loading import AbstractDataset
from delira.data_loading.cached_dataset import CachedDataset
class Large(AbstractDataset):
    def __init__(self): self.data = [0]
    def __getitem__(self, index): return {"data": np.ones(2**23)}
def anonymous(): return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
cached = CachedDataset(Large(), "cache")
cached.build()
before = anonymous()
sample = cached[0]
assert sample["data"].sum() == 2**23
print(anonymous() - before)
"""
    assert float(run(code, tmp_path)) < 16  # MiB, of 64


def run(code, cwd, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- randomness


class Noisy(AbstractDataset):
    def __init__(self, n=3):
        self.data = list(range(n))

    def __getitem__(self, index):
        return {"data": np.random.rand(2) + random.random()}


def test_random_preprocessing_is_frozen_and_the_same_whoever_does_it(tmp_path):
    first, second = CachedDataset(Noisy(), tmp_path / "a"), CachedDataset(Noisy(), tmp_path / "b")
    np.random.seed(1), random.seed(1)
    forward = [first[i]["data"].tolist() for i in range(3)]
    assert (np.random.rand(), random.random()) == (np.random.RandomState(1).rand(), random.Random(1).random())
    assert [second[i]["data"].tolist() for i in (2, 1, 0)] == forward[::-1]
    assert forward[0] != forward[1]
    assert [first[i]["data"].tolist() for i in range(3)] == forward
    assert first.is_deterministic()


# ---- stale entries: files


def test_a_file_of_other_content_is_loaded_again(folder):
    folder.cached().build()
    folder.loaded()
    folder.files[2].write_bytes(bytes([9, 9, 9]))
    os.utime(folder.files[2], (10**9 + 1, 10**9 + 1))
    cached = folder.cached()
    assert cached[2]["data"].tolist() == [9, 9, 9]
    cached.build()
    assert folder.loaded() == ["2"]
    assert len(folder.kept()) == 6


def test_a_file_changed_right_after_it_was_cached_is_loaded_again(folder):
    folder.files[2].write_bytes(bytes([1, 1, 1]))
    folder.cached()[2]
    status = os.stat(folder.files[2])
    folder.files[2].write_bytes(bytes([2, 2, 2]))
    os.utime(folder.files[2], ns=(status.st_atime_ns, status.st_mtime_ns))  # within one tick of the clock
    assert folder.cached()[2]["data"].tolist() == [2, 2, 2]


def test_a_file_of_equal_size_and_time_is_loaded_again(folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading._content._SETTLED", 0)
    assert folder.cached()[2]["data"].tolist() == [2, 10, 20]
    time.sleep(0.05)  # a few ticks of the clock of the file system
    with open(folder.files[2], "r+b") as file:
        file.write(bytes([2, 10, 21]))
    os.utime(folder.files[2], LONG_AGO)
    assert folder.cached()[2]["data"].tolist() == [2, 10, 21]


def test_a_file_that_was_only_touched_or_copied_is_not_loaded_again(folder):
    folder.cached().build()
    folder.loaded()
    for number, file in enumerate(folder.files):
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
        os.utime(file, (10**9 + number,) * 2)
    folder.cached().build()
    assert folder.loaded() == []


def test_contents_are_hashed_once(folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading._content._SETTLED", 2 * 10**8)
    time.sleep(0.3)
    folder.cached().build()
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr("hashlib.file_digest", lambda file, name: hashed.append(file.name) or digest(file, name))
    folder.cached().build()
    assert hashed == []
    with open(folder.path / "cache" / "sources.jsonl", "a") as file:
        file.write('{"path": "not finis')
    os.utime(folder.files[1], (time.time() + 60,) * 2)
    folder.write(folder.files[3], bytes([7]))
    time.sleep(0.3)
    for _ in range(2):
        folder.cached().build()
    # one changed a moment ago cannot be told yet from one changed again
    assert hashed == [str(folder.files[i]) for i in (1, 3, 1)]


def test_all_files_of_an_item_count_and_folders_with_what_is_in_them(tmp_path):
    (tmp_path / "case" / "deep").mkdir(parents=True)
    for name in ("image", "case/a", "case/deep/b", "tuple"):
        (tmp_path / name).write_bytes(b"1")
    calls = tmp_path / "calls"
    calls.mkdir()

    def read(item):
        os.close(tempfile.mkstemp(dir=calls)[0])
        return {"data": 1}

    def n_loaded():
        item = (str(tmp_path / "image"), {"folder": tmp_path / "case"}, Place((str(tmp_path), "tuple")), "no file")
        CachedDataset(BaseLazyDataset([item], read), tmp_path / "cache")[0]
        return len(os.listdir(calls))

    assert n_loaded() == n_loaded() == 1
    for number, name in enumerate(("image", "case/a", "case/deep/b", "tuple", "case/new")):
        (tmp_path / name).write_bytes(b"2")
        assert n_loaded() == n_loaded() == 2 + number


def test_a_source_that_is_gone_is_not_served(folder):
    folder.cached().build()
    os.remove(folder.files[0])
    with pytest.raises(FileNotFoundError, match=r"0\.bin"):
        folder.cached()[0]


def test_more_items_or_another_order_make_nothing_again(folder):
    folder.cached(files=folder.files[1:]).build()
    folder.loaded()
    cached = folder.cached(files=folder.files[::-1])
    cached.build()
    assert folder.loaded() == ["0"]
    assert [int(sample["data"][0]) for sample in cached] == [5, 4, 3, 2, 1, 0]


def test_views_share_what_is_kept(folder):
    folder.cached().build()
    folder.loaded()
    dataset = folder.dataset()
    both = ConcatDataset(dataset.get_subset([4, 0]), folder.dataset(files=folder.files[2:3]))
    cached = CachedDataset(both.get_subset([2, 0]), folder.path / "cache")
    assert [str(sample["name"]) for sample in cached] == ["2.bin", "4.bin"]
    assert folder.loaded() == []


def test_datasets_of_other_kinds_are_made_again_when_their_data_change(tmp_path):
    class Own(AbstractDataset):
        def __init__(self, values):
            self.values = values  # not in data

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            return {"data": self.values[index]}

    class Torch:
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            return self.values[index], index

    kinds = {
        "own": Own,
        "torch": lambda values: WrappedDataset(Torch(values)),
        "mapped": lambda values: MappedDataset({"data": values}),
        "dict": lambda values: DictDataset({"data": values}),
        "samples": lambda values: IterableDataset([{"data": value} for value in values]),
    }
    for name, make in kinds.items():
        for values in ([1, 2, 3], [1, 5, 3], [5, 1, 3], [2, 3]):
            cached = CachedDataset(make(values), tmp_path / name)
            assert [int(sample["data"]) for sample in cached] == values, name


def test_equal_items_of_a_dataset_that_uses_the_index_are_told_apart(tmp_path):
    class Numbered(AbstractDataset):
        def __init__(self):
            self.data = ["same", "same"]

        def __getitem__(self, index):
            return {"data": index}

    assert [int(sample["data"]) for sample in CachedDataset(Numbered(), tmp_path)] == [0, 1]


def test_a_hugging_face_dataset_is_known_by_its_own_fingerprint(tmp_path):
    datasets = pytest.importorskip("datasets")

    def doubled(batch):
        return {"data": [value * 2 for value in batch["data"]]}

    for values in ([1, 2, 3], [1, 5, 3]):
        inner = datasets.Dataset.from_dict({"data": values})
        for _ in range(2):
            assert [int(sample["data"]) for sample in CachedDataset(WrappedDataset(inner), tmp_path)] == values
            other = CachedDataset(WrappedDataset(inner.with_transform(doubled)), tmp_path)
            assert [int(sample["data"]) for sample in other] == [value * 2 for value in values]
    assert len(list(tmp_path.rglob("*.sample"))) == 12


# ---- stale entries: preprocessing


def test_two_preprocessings_share_a_folder_and_what_is_no_longer_wanted_can_be_removed(folder):
    one, two = folder.cached(), folder.cached(scale=2)
    for _ in range(2):
        assert (one[3]["data"][1], two[3]["data"][1]) == (10, 20)
    assert folder.loaded() == ["3", "3"]
    one.build()
    two.build()
    note = folder.path / "cache" / "note.txt"
    note.write_text("mine")
    fewer = folder.cached(files=folder.files[:4])
    assert fewer.prune() == 6 + 2
    assert note.exists()
    folder.loaded()
    fewer.build()
    assert folder.loaded() == []


# ---- damage


def damage(folder, change):
    """Cache sample 3, change its file, and read it in what might be another process."""
    folder.cached()[3]
    folder.loaded()
    (file,) = folder.kept()
    content = bytearray(file.read_bytes())
    file.write_bytes(bytes(change(content)))
    return file


def flipped(content, position):
    content[position] ^= 1
    return content


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda content: content[:-70], "damaged: it has .* bytes instead of"),
        (lambda content: content[:10], "damaged: it ends after 10 bytes"),
        (lambda content: b"", "damaged: it ends after 0 bytes"),
        (lambda content: content + b"x", "damaged: it has .* bytes instead of"),
        (lambda content: flipped(content, 0), "damaged: its header is damaged"),
        (lambda content: flipped(content, 80), "damaged: its header is damaged"),
        (lambda content: content.replace(np.float32(20).tobytes(), np.float32(21).tobytes()), "entry 'data' is wrong"),
    ],
)
def test_a_damaged_file_is_named_and_made_again(change, match, folder):
    damaged_file = damage(folder, change)
    with pytest.warns(UserWarning, match=match) as warned:
        sample = folder.cached()[3]
    assert len(warned) == 1
    assert str(damaged_file) in str(warned[0].message)
    assert sample["data"].tolist() == [3, 10, 20, 30]
    assert folder.loaded() == ["3"]
    same(folder.cached()[3], sample)
    assert folder.loaded() == []


@given(st.integers(0, 10**6))
@settings(max_examples=50)
def test_whatever_bit_is_wrong_the_sample_is_right(position):
    expected = {"data": np.arange(9.0), "label": 3, "inner": {"name": "x"}}
    with tempfile.TemporaryDirectory() as path:
        CachedDataset(in_memory(expected), path)[0]
        (file,) = pathlib.Path(path).rglob("*.sample")
        content = bytearray(file.read_bytes())
        file.write_bytes(flipped(content, position % len(content)))
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            same(CachedDataset(in_memory(expected), path)[0], expected)


def test_damage_is_seen_in_a_process_that_had_checked_the_file_before(folder):
    cached = folder.cached()
    cached[3]
    (file,) = folder.kept()
    file.write_bytes(file.read_bytes()[:-70])
    with pytest.warns(UserWarning, match="damaged"):
        assert cached[3]["data"].tolist() == [3, 10, 20, 30]
    content = file.read_bytes()
    file.write_bytes(content.replace(np.float32(20).tobytes(), np.float32(21).tobytes()))
    with pytest.warns(UserWarning, match="entry 'data' is wrong"):
        assert cached[3]["data"].tolist() == [3, 10, 20, 30]
    file.unlink()
    assert cached[3]["data"].tolist() == [3, 10, 20, 30]


def test_a_process_does_not_believe_what_another_one_has_checked(folder):
    cached = folder.cached()
    cached[3]
    (file,) = folder.kept()
    status = os.stat(file)
    file.write_bytes(file.read_bytes().replace(np.float32(20).tobytes(), np.float32(21).tobytes()))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a failing disk does it
    with pytest.warns(UserWarning, match="entry 'data' is wrong"):
        assert pickle.loads(pickle.dumps(cached))[3]["data"].tolist() == [3, 10, 20, 30]


# ---- several processes


def read_all(cached, start, queue, order):
    start.wait(60)
    queue.put([cached[int(i)]["data"].tolist() for i in order])


@pytest.mark.slow_cases("spawn")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_make_each_sample_once(method, folder):
    context = multiprocessing.get_context(method)
    queue, start = context.Queue(), context.Event()
    cached = folder.cached()
    orders = [np.random.default_rng(seed).permutation(6) for seed in range(3)]
    processes = [context.Process(target=read_all, args=(cached, start, queue, order)) for order in orders]
    for process in processes:
        process.start()
    start.set()
    expected = [load(file, folder.path / "log")["data"].tolist() for file in folder.files]
    folder_loaded = [queue.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(map(str, folder_loaded)) == sorted(str([expected[i] for i in order]) for order in orders)
    assert folder.loaded() == [str(i) for i in range(6) for _ in range(2)]  # here, and in one of the processes
    assert folder.files_of_cache() == ["sample"] * 6


def slow(item, log):
    os.close(tempfile.mkstemp(prefix=f"{os.getpid()} ", dir=log)[0])
    time.sleep(0.1)
    return {"data": item}


def build(cached, start):
    start.wait(60)
    cached.build()


def test_building_is_shared(tmp_path):
    (tmp_path / "log").mkdir()
    cached = CachedDataset(BaseLazyDataset(range(12), slow, log=str(tmp_path / "log")), tmp_path / "cache")
    context = multiprocessing.get_context("fork")
    start = context.Event()
    processes = [context.Process(target=build, args=(cached, start)) for _ in range(2)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join()
    makers = [name.split()[0] for name in os.listdir(tmp_path / "log")]
    assert len(makers) == 12
    assert min(map(makers.count, makers)) >= 3
    assert len(set(makers)) == 2
    assert [int(sample["data"]) for sample in cached] == list(range(12))


STOPPING = """
import os, sys, time
sys.path[:0] = [{tests!r}, {root!r}]
import numpy as np
import pathlib
from test_cached_dataset import Folder
cached = Folder(pathlib.Path({path!r})).cached()
def stop(*args):
    print("here", flush=True)
    {then}
real, {where} = {where}, stop
cached[3]
"""


def stopping(folder, where, then="time.sleep(60)"):
    """Start a process that makes sample 3 and stops in a function of that name."""
    paths = {"tests": str(pathlib.Path(__file__).parent), "root": str(ROOT), "path": str(folder.path)}
    code = STOPPING.format(where=where, then=then, **paths)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("where", ["os.replace", "np.fromfile"])
def test_a_process_that_is_killed_while_it_makes_a_sample_leaves_nothing_that_confuses(where, folder):
    with stopping(folder, where) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert len(folder.kept()) == (where == "os.replace")  # half a file
    cached = folder.cached()
    assert cached[3]["data"].tolist() == [3, 10, 20, 30]
    assert [file.suffix for file in folder.kept()] == [".sample"]


def test_a_process_that_holds_a_lock_for_ever_stops_nobody(folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading.cached_dataset._PATIENCE", 0.3)
    with stopping(folder, "np.fromfile") as process:
        process.send_signal(signal.SIGSTOP)
        cached = folder.cached()
        with pytest.warns(UserWarning, match=r"another process has held .*lock for 0.3 seconds; sample 3 is made in"):
            sample = cached[3]
        same(sample, folder.dataset()[3])
        folder.loaded()
        for again in (cached, folder.cached()):
            same(again[3], sample)  # kept: no second warning, no second wait
        assert folder.loaded() == []
        process.kill()
    assert folder.cached().prune() == 1  # what is left of the lock
    same(folder.cached()[3], sample)
    assert folder.files_of_cache() == ["sample"]


@pytest.mark.parametrize("where", ["np.fromfile", "os.replace"])
def test_building_ends_with_all_samples_whoever_is_stopped(where, folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading.cached_dataset._PATIENCE", 0.3)
    with stopping(folder, where) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.warns(UserWarning, match="another process has held .* sample 3 is made"):
            folder.cached().build()
        assert {"0", "1", "2", "4", "5"} <= set(folder.loaded())
        folder.cached().build()
        assert folder.loaded() == []
        process.kill()


@pytest.mark.slow
def test_who_goes_on_after_others_lost_patience_ends_as_usual(folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading.cached_dataset._PATIENCE", 0.1)
    with stopping(folder, "np.fromfile", "time.sleep(1); return real(*args)") as process:
        with pytest.warns(UserWarning, match="another process has held"):
            sample = folder.cached()[3]
        assert process.wait(60) == 0
    same(folder.cached()[3], sample)
    assert folder.files_of_cache() == ["sample"]


def test_a_sample_does_not_wait_for_another_one(folder, monkeypatch):
    monkeypatch.setattr("delira.data_loading.cached_dataset._PATIENCE", 0.5)
    files = [folder.path / "raw" / f"{number}.bin" for number in range(5000)]
    cached = folder.cached(files=files)
    near = next(i for i in range(6, 5000) if cached._place(i).file.parent == cached._place(3).file.parent)
    folder.write(files[near], bytes([1, 2, 3]))
    with stopping(folder, "np.fromfile") as process:
        process.send_signal(signal.SIGSTOP)
        try:
            assert cached[near]["data"].tolist() == [1, 2, 3]  # to lose patience would be a warning
        finally:
            process.kill()
    assert len(folder.kept()) == 1


# ---- disks


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing(tmp_path):
    def full(queue):
        limit_files()
        cached = CachedDataset({"data": np.zeros((3, 2**17))}, tmp_path / "cache")
        try:
            cached[1]
        except OSError as error:
            queue.put((str(error), error.__notes__[0]))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=full, args=(queue,))
    process.start()
    text, note = queue.get(timeout=60)
    process.join()
    assert "File too large" in text
    assert "while sample 1 was written to" in note
    assert not list((tmp_path / "cache").rglob("*.sample*"))
    assert CachedDataset({"data": np.zeros((3, 2**17))}, tmp_path / "cache")[1]["data"].shape == (2**17,)


def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "deeper", "/proc/nothing/here"):
        with pytest.raises(ConfigError, match=r"cannot be the folder of a CachedDataset \(.*choose another path"):
            CachedDataset({"data": [1]}, path)


def test_a_complete_cache_can_be_read_where_nothing_can_be_written():
    def read_only(folder, queue):
        if os.geteuid() == 0:  # root may write anywhere
            os.setgid(65534)
            os.setuid(65534)
        cached = folder.cached()
        queue.put(cached[2]["data"].tolist())
        try:
            cached[4]
        except OSError as error:
            queue.put((type(error).__name__, error.__notes__[0]))

    with tempfile.TemporaryDirectory() as path:  # not tmp_path, which only its owner may enter
        folder = Folder(pathlib.Path(path)).fill()
        folder.cached(files=folder.files[:3]).build()
        paths = [folder.path, *folder.path.rglob("*")]
        for path in paths:
            path.chmod(0o777 if path.name == "log" else 0o555)
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=read_only, args=(folder, queue))
        process.start()
        try:
            assert queue.get(timeout=60) == [2, 10, 20]
            name, note = queue.get(timeout=60)
        finally:
            process.join()
            for path in paths:
                path.chmod(0o755)
    assert name == "PermissionError"
    assert "while sample 4 was written to" in note


# ---- labels and fingerprints


def test_labels_are_those_of_the_samples_and_read_once(folder):
    cached = folder.cached()
    assert cached.labels().tolist() == [0, 1, 2, 0, 1, 2]
    assert cached.labels("name").tolist() == [f"{i}.bin" for i in range(6)]
    assert cached.get_subset([5, 0]).labels().tolist() == [2, 0]
    assert folder.loaded() == list("012345")
    assert folder.cached().labels().tolist() == [0, 1, 2, 0, 1, 2]
    assert folder.loaded() == []
    with pytest.raises(MissingKeyError, match=r"sample 0 has no entry 'mask'.*'data', 'label', 'name'"):
        cached.labels("mask")


def test_labels_that_the_dataset_knows_are_not_read_from_samples(folder, tmp_path):
    dataset = folder.dataset()
    dataset.set_labels("patient", [5, 4, 3, 2, 1, 0])
    subset = CachedDataset(dataset.get_subset([1, 0]), folder.path / "cache")
    assert subset.labels("patient").tolist() == [4, 5]

    class Targets:
        targets = (2, 1, 0)

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.zeros(2), self.targets[index]

    arrays = {"data": np.zeros((3, 2)), "label": [2, 1, 0]}
    for other in (MappedDataset(arrays), DictDataset(arrays), WrappedDataset(Targets())):
        assert CachedDataset(other, tmp_path / "other").labels().tolist() == [2, 1, 0]
    assert folder.loaded() == []
    assert not list(tmp_path.rglob("*.sample"))


def test_labels_are_read_without_the_rest_of_large_samples(tmp_path):
    data = np.random.default_rng(0).random((2, 2**18))
    cached = CachedDataset([{"data": row, "label": i, "more": {"x": 1}} for i, row in enumerate(data)], tmp_path)
    cached.build()
    for file in tmp_path.rglob("*.sample"):
        content = bytearray(file.read_bytes())
        position = content.find(data[0, 5].tobytes())
        if position >= 0:
            file.write_bytes(flipped(content, position))
    twin = pickle.loads(pickle.dumps(cached))
    assert twin.labels().tolist() == [0, 1]  # the damage is elsewhere
    with pytest.warns(UserWarning, match="the checksum of entry 'data' is wrong"):
        assert twin[0]["data"][5] == data[0, 5]
    with pytest.raises(DataError, match="entry 'more' of sample 0 is a dict"):
        twin.labels("more")


def test_labels_of_many_mapped_samples_need_few_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr("delira.data_loading.cached_dataset._MAPPED_FROM", 0)
    cached = CachedDataset([{"label": i} for i in range(200)], tmp_path)
    cached.build()

    def read(queue):
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        queue.put(cached.labels().tolist())

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=read, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == list(range(200))
    process.join()


def test_damaged_labels_are_made_again(tmp_path):
    cached = CachedDataset([{"name": "first"}, {"name": "second"}], tmp_path)
    cached.build()
    for file in tmp_path.rglob("*.sample"):
        content = bytearray(file.read_bytes())
        if (position := content.find("first".encode("utf-32-le"))) >= 0:
            file.write_bytes(flipped(content, position))
    with pytest.warns(UserWarning, match="the checksum of entry 'name' is wrong"):
        assert cached.labels("name").tolist() == ["first", "second"]


def test_a_fingerprint_is_that_of_the_data_and_the_preprocessing(folder, tmp_path):
    one = folder.cached().fingerprint()
    assert CachedDataset(folder.dataset(), tmp_path / "elsewhere").fingerprint() == one
    assert folder.cached(version=2).fingerprint() != one
    assert folder.cached(files=folder.files[:5]).fingerprint() != one
    assert folder.loaded() == []


# ---- what cannot be


def test_caching_twice_is_refused(folder):
    for dataset in (folder.cached(), folder.cached().get_subset([1])):
        with pytest.raises(ConfigError, match="is a CachedDataset already"):
            CachedDataset(dataset, folder.path / "other")


def test_what_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot make a dataset"):
        CachedDataset(3, tmp_path)
