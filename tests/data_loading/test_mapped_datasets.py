"""Arrays on disk: only what is asked for is read, and what is wrong with a file is said at once."""

import multiprocessing
import os
import pathlib
import pickle
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delira.data_loading import BaseDataLoader, BaseDataManager
from delira.data_loading.mapped_dataset import MappedDataset
from delira.errors import ConfigError, DataError, MissingBackendError, MissingKeyError

DATA = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
LABEL = np.arange(10) % 4


def npy(folder, array=DATA, name="data.npy"):
    np.save(folder / name, array)
    return folder / name


def zarr_array(folder, array=DATA, name="data.zarr"):
    zarr = pytest.importorskip("zarr")
    stored = zarr.open(str(folder / name), mode="w", shape=array.shape, dtype=array.dtype, chunks=(4, *array.shape[1:]))
    stored[:] = array
    return stored


def raw(folder, array=DATA, mode="r"):
    array.tofile(folder / "data.raw")
    return np.memmap(folder / "data.raw", array.dtype, mode, shape=array.shape)


SOURCES = {
    "npy": npy,
    "npy as str": lambda folder: str(npy(folder)),
    "fortran": lambda folder: npy(folder, np.asfortranarray(DATA)),
    "memmap": raw,
    "part of a memmap": lambda folder: raw(folder, np.concatenate([DATA - 99, DATA, DATA + 99]))[10:20],
    "array": lambda folder: DATA,
    "list": lambda folder: DATA.tolist(),
    "zarr": lambda folder: zarr_array(folder),
    "zarr path": lambda folder: zarr_array(folder) and folder / "data.zarr",
}


@pytest.fixture(params=SOURCES)
def dataset(request, tmp_path):
    return MappedDataset({"data": SOURCES[request.param](tmp_path), "label": LABEL})


def test_samples_and_batches_are_those_of_the_array(dataset):
    assert len(dataset) == 10
    np.testing.assert_array_equal(dataset[3]["data"], DATA[3])
    assert dataset[-1]["label"] == 1
    indices = np.array([7, 0, 7, 9, -2])
    batch = dataset.get_batch(indices)
    np.testing.assert_array_equal(batch["data"], DATA[indices])
    assert batch["label"].tolist() == LABEL[indices].tolist()
    assert type(batch["data"]) is np.ndarray
    for index in (10, -11):
        with pytest.raises(IndexError, match=f"index {index} is not in this MappedDataset of 10 samples"):
            dataset[index]
        with pytest.raises(IndexError, match=f"index {index} is not in this MappedDataset of 10 samples"):
            dataset.get_batch(np.array([0, index]))


def test_a_batch_can_be_changed_and_the_file_stays_as_it_is(dataset):
    batch = dataset.get_batch(np.array([1]))
    batch["data"] += 1000
    np.testing.assert_array_equal(dataset.get_batch(np.array([1]))["data"][0], DATA[1])


def test_it_serves_loaders_and_managers(dataset):
    manager = BaseDataManager(dataset.get_subset([9, 4, 2]), 2)
    assert [batch["label"].tolist() for batch in manager] == [[1, 0], [2]]
    one_by_one = BaseDataLoader([dict(sample) for sample in dataset])([3, 3, 8])
    for key, values in BaseDataLoader(dataset)([3, 3, 8]).items():
        np.testing.assert_array_equal(values, one_by_one[key])


def test_a_copy_sent_to_another_process_reads_the_same(dataset):
    twin = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(twin.get_batch(np.array([5, 2]))["data"], DATA[[5, 2]])
    assert twin.fingerprint() == dataset.fingerprint()


def read(dataset, queue):
    queue.put(dataset.get_batch(np.array([5, 2]))["data"].tolist())


@pytest.mark.sampled("values")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("source", ["npy", "zarr path"])
def test_worker_processes_read_the_same(method, source, tmp_path):
    dataset = MappedDataset({"data": SOURCES[source](tmp_path)})
    dataset[0]  # opened before the process starts
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=read, args=(dataset, queue))
    process.start()
    assert queue.get(timeout=60) == DATA[[5, 2]].tolist()
    process.join()


@pytest.mark.parametrize("source", ["npy", "memmap", "part of a memmap", "zarr path"])
def test_values_are_not_pickled(source, tmp_path):
    large = np.zeros((30, 10_000))
    pick = {
        "npy": lambda: npy(tmp_path, large),
        "memmap": lambda: raw(tmp_path, large),
        "part of a memmap": lambda: raw(tmp_path, large)[5:],
        "zarr path": lambda: zarr_array(tmp_path, large) and tmp_path / "data.zarr",
    }
    dataset = MappedDataset({"data": pick[source]()})
    dataset[0], dataset.labels("data")
    assert len(pickle.dumps(dataset)) < 5000


def test_a_relative_path_is_the_same_file_in_another_working_directory(tmp_path, monkeypatch):
    npy(tmp_path)
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(MappedDataset({"data": "data.npy"}))
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(pickled)[4]["data"], DATA[4])


@pytest.mark.slow
@given(st.lists(st.integers(-10, 9), min_size=1, max_size=15))
def test_zarr_samples_come_in_the_order_asked_for(indices):
    pytest.importorskip("zarr")
    with tempfile.TemporaryDirectory() as folder:
        dataset = MappedDataset({"data": zarr_array(pathlib.Path(folder))})
        np.testing.assert_array_equal(dataset.get_batch(np.array(indices))["data"], DATA[indices])


def test_labels_read_one_array_only(tmp_path):
    npy(tmp_path)
    dataset = MappedDataset({"data": tmp_path / "data.npy", "label": npy(tmp_path, LABEL, "label.npy")})
    os.remove(tmp_path / "data.npy")
    twin = pickle.loads(pickle.dumps(dataset))
    assert twin.labels().tolist() == LABEL.tolist()
    with pytest.raises(DataError, match=r"data\.npy' is gone"):
        twin[0]
    with pytest.raises(MissingKeyError, match=r"no sample has an entry 'mask'; only \['data', 'label'\]"):
        dataset.labels("mask")


def test_a_file_that_changed_its_size_is_not_read_as_if_nothing_had_happened(tmp_path):
    pickled = pickle.dumps(MappedDataset({"data": npy(tmp_path)}))
    npy(tmp_path, DATA[:5])
    with pytest.raises(DataError, match=r"data\.npy' has changed since a MappedDataset was made of it"):
        pickle.loads(pickled)[0]


def test_a_group_of_zarr_arrays_is_refused_and_its_arrays_are_named(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.open_group(str(tmp_path / "scans.zarr"), mode="w").create_array("images", shape=(10,), dtype="i4")
    stored[:] = LABEL
    with pytest.raises(DataError, match=r"entry 'data' .* is a group of zarr arrays.*pass one of \['images'\]"):
        MappedDataset({"data": tmp_path / "scans.zarr"})
    assert MappedDataset({"data": tmp_path / "scans.zarr" / "images"})[3]["data"] == 3


def test_a_damaged_zarr_chunk_names_array_and_sample(tmp_path):
    dataset = MappedDataset({"data": zarr_array(tmp_path)})
    chunk = next(file for file in (tmp_path / "data.zarr").rglob("*") if file.is_file() and "json" not in file.name)
    chunk.write_bytes(b"nonsense")
    with pytest.raises(Exception, match=r"error|fail|invalid") as caught:
        dataset.get_batch(np.arange(10))
    assert "data.zarr" in caught.value.__notes__[0]


def test_a_zarr_store_without_zarr_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "data.zarr").mkdir()
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(MissingBackendError, match=r"needs the package 'zarr'.*pip install 'zarr'"):
        MappedDataset({"data": tmp_path / "data.zarr"})


def test_a_folder_that_is_no_zarr_store_is_refused(tmp_path):
    pytest.importorskip("zarr")
    with pytest.raises(DataError, match="entry 'data' of a MappedDataset, is no zarr store"):
        MappedDataset({"data": tmp_path})


def truncated(path):
    os.truncate(path, 200)
    return path


def archive(folder):
    np.savez(folder / "data.npz", DATA)
    return folder / "data.npz"


def text(folder):
    (folder / "data.csv").write_text("1,2,3\n")
    return folder / "data.csv"


def objects(folder):
    np.save(folder / "data.npy", np.array([None, 1]), allow_pickle=True)
    return folder / "data.npy"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda folder: folder / "missing.npy", r"there is no '.*missing\.npy', which entry 'data'"),
        (lambda folder: truncated(npy(folder)), r"data\.npy', entry 'data' of a MappedDataset, cannot be mapped"),
        (archive, r"data\.npz', entry 'data' .* is an archive of arrays.*numpy\.save"),
        (text, r"data\.csv', entry 'data' .* cannot be mapped: .*must be a complete \.npy file"),
        (objects, r"data\.npy', entry 'data' .* cannot be mapped: Array can't be memory-mapped: Python objects"),
        (lambda folder: npy(folder, np.array(3)), "entry 'data' is a single value without a first axis"),
        (lambda folder: 3.0, "entry 'data' is a single value without a first axis .*got 3.0"),
    ],
)
def test_what_is_no_array_is_refused(make, match, tmp_path):
    with pytest.raises(DataError, match=match):
        MappedDataset({"data": make(tmp_path), "label": LABEL})


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda folder: raw(folder, mode="c"), "memmap of entry 'data' is open in mode 'c'"),
        (lambda folder: raw(folder)[:, :, 1:], "memmap of entry 'data' is a view with gaps; .*get_subset"),
    ],
)
def test_a_memmap_that_others_cannot_open_is_refused(make, match, tmp_path):
    with pytest.raises(ConfigError, match=match):
        MappedDataset({"data": make(tmp_path)})


def test_a_memmap_of_a_file_without_a_name_is_refused():
    with tempfile.TemporaryFile() as file, pytest.raises(ConfigError, match=r"has no file with a name.*pass a path"):
        MappedDataset({"data": np.memmap(file, np.float32, "w+", shape=(3, 2))})


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({}, "needs a dict of paths and arrays, got an empty dict"),
        ("data.npy", "needs a dict of paths and arrays, got a str"),
        ({"data": DATA, "label": [1]}, r"equal lengths \(first axes\), got 'data': 10, 'label': 1"),
    ],
)
def test_what_are_no_arrays_of_one_length_is_refused(arrays, match):
    with pytest.raises(DataError, match=match):
        MappedDataset(arrays)


def test_files_are_named_once(tmp_path):
    path = npy(tmp_path)
    assert MappedDataset({"data": path, "again": str(path), "label": LABEL})._files() == [str(path)]


def test_a_fingerprint_changes_with_the_values_and_not_with_the_place(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    one = MappedDataset({"data": npy(tmp_path / "a"), "label": LABEL}).fingerprint()
    assert MappedDataset({"data": npy(tmp_path / "b"), "label": LABEL}).fingerprint() == one
    changed = DATA.copy()
    changed[5, 0, 0] += 1
    assert MappedDataset({"data": npy(tmp_path / "b", changed), "label": LABEL}).fingerprint() != one
    assert MappedDataset({"data": npy(tmp_path / "b"), "label": LABEL[::-1]}).fingerprint() != one


@pytest.mark.slow_cases("zarr")
@pytest.mark.parametrize("source", ["C", "F", "zarr"])
def test_of_a_large_array_only_blocks_are_read_for_the_fingerprint(source, tmp_path, monkeypatch):
    monkeypatch.setattr("delira.data_loading.mapped_dataset._WHOLE", 64 * 64)
    large = np.random.default_rng(0).integers(0, 9, (1000, 50))

    def fingerprint(array):
        if source == "zarr":
            zarr_array(tmp_path, array)
            return MappedDataset({"data": tmp_path / "data.zarr"}).fingerprint()
        return MappedDataset({"data": npy(tmp_path, np.asarray(array, order=source))}).fingerprint()

    expected = fingerprint(large)
    assert fingerprint(large) == expected
    for index in (0, -1):
        changed = large.copy()
        changed[index] += 1
        assert fingerprint(changed) != expected
    assert fingerprint(large[:-1]) != expected
    seen = 0
    for index in range(1, 999, 37):
        changed = large.copy()
        changed[index, 20] += 1
        seen += fingerprint(changed) != expected
    assert seen < 20  # of 27: most samples were not read


def test_reading_draws_no_random_numbers_unless_a_subclass_says_so():
    class Noisy(MappedDataset):
        def __getitem__(self, index):
            return {"data": super().__getitem__(index)["data"] + np.random.rand()}

    assert MappedDataset({"data": DATA}).is_deterministic()
    noisy = Noisy({"data": DATA})
    assert not noisy.is_deterministic()
    assert noisy.get_batch(np.array([0])) is None


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_arrays_without_values_are_possible(shape, tmp_path):
    dataset = MappedDataset({"data": npy(tmp_path, np.zeros(shape))})
    assert len(dataset) == shape[0]
    assert len(dataset.fingerprint()) == 64
    assert pickle.loads(pickle.dumps(dataset)).labels("data").shape == shape
