"""Arrays at a URL: the same samples as here, fetched once, and what goes wrong is said without a secret."""

import importlib
import io
import json
import logging
import multiprocessing
import pathlib
import pickle
import subprocess
import sys
import tarfile
import threading
import traceback
import zipfile

import numpy as np
import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from served import s3_server, serving

from delira.data_loading import (
    BaseDataManager,
    BaseLazyDataset,
    CachedDataset,
    ConcatDataset,
    LoadSample,
    MappedDataset,
    Patches,
    RemoteSettings,
    load_array,
    remote,
)
from delira.data_loading._cache_key import preprocessing_key
from delira.data_loading.case_hashes import hashes_of, too_far_away
from delira.data_loading.remote_arrays import without_objects
from delira.errors import ConfigError, DataError, MissingBackendError, UnreadableError
from delira.utils import block_cache

DATA = np.arange(40 * 3 * 5, dtype=np.float32).reshape(40, 3, 5)
LARGE = np.random.default_rng(0).integers(0, 255, (60, 100_000), np.uint8)  # 6 MB, six blocks
LABEL = np.arange(40) % 4


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(remote, "_PAUSE", 0.01)
    monkeypatch.setattr(block_cache, "_broken", set())
    monkeypatch.setattr(remote, "_warned", set())


@pytest.fixture
def cache(tmp_path):
    return {"cache_dir": tmp_path / "cache", "retries": 2, "time_limit": 2}


@pytest.fixture
def server():
    with serving() as served:
        yield served


def zarr_folder(folder, array=DATA, **options):
    zarr = pytest.importorskip("zarr")
    options = {"chunks": (7, *array.shape[1:])} | options
    stored = zarr.create_array(str(folder), shape=array.shape, dtype=array.dtype, **options)
    stored[:] = array
    return folder


def in_memory(folder, name):
    import fsspec

    system = fsspec.filesystem("memory")
    system.put(str(folder / name), f"/{folder.name}/{name}", recursive=True)
    return f"memory://{folder.name}/{name}", {}


def in_a_file(folder, name):
    return f"file://{folder / name}", {}


def by_http(folder, name, served):
    if (folder / name).is_dir():
        return served.save_folder(folder / name, name), {}
    served.files[name] = (folder / name).read_bytes()
    return f"{served.url}/{name}", {}


ARRAYS = {
    "npy": lambda folder: np.save(folder / "a.npy", DATA) or "a.npy",
    "zarr 3": lambda folder: zarr_folder(folder / "a.zarr", zarr_format=3).name,
    "zarr 2": lambda folder: zarr_folder(folder / "a.zarr", zarr_format=2).name,
    "zarr with shards": lambda folder: zarr_folder(folder / "a.zarr", chunks=(2, 3, 5), shards=(8, 3, 5)).name,
}


@pytest.fixture(params=["memory", "file", "http"])
def put(request, server):
    places = {"memory": in_memory, "file": in_a_file, "http": lambda folder, name: by_http(folder, name, server)}
    return places[request.param]


@pytest.mark.parametrize("kind", ARRAYS)
def test_samples_batches_and_parts_are_those_of_the_array(kind, put, tmp_path, cache):
    url, _ = put(tmp_path, ARRAYS[kind](tmp_path))
    dataset = MappedDataset({"data": url, "label": LABEL}, cache)
    assert len(dataset) == 40
    assert dataset.entry_shapes(0) == {"data": (3, 5), "label": ()}
    np.testing.assert_array_equal(dataset[3]["data"], DATA[3])
    indices = np.array([7, 0, 7, 39, 8])
    np.testing.assert_array_equal(dataset.get_batch(indices)["data"], DATA[indices])
    part = dataset.read_part(4, {"data": (slice(1, 3), slice(2, 4))}, ["data"])["data"]
    np.testing.assert_array_equal(part, DATA[4, 1:3, 2:4])
    np.testing.assert_array_equal(dataset.read_part(4, {"data": (slice(1, 3),)})["data"], DATA[4, :, 1:3])
    np.testing.assert_array_equal(dataset.labels("data"), DATA)
    assert not dataset.describe().missing_files
    np.testing.assert_array_equal(load_array(url, cache), DATA)
    twin = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(twin[9]["data"], DATA[9])
    assert twin.fingerprint() == dataset.fingerprint() == MappedDataset({"data": url, "label": LABEL}).fingerprint()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["npy", "zarr 3"])
def test_workers_give_the_same_batches(kind, method, server, tmp_path, cache):
    url, _ = by_http(tmp_path, ARRAYS[kind](tmp_path), server)
    data = BaseDataManager(MappedDataset({"data": url, "label": LABEL}, cache), 7)
    alone = [batch["data"] for batch in data.epoch(0, 0, 0, shuffle=True)]
    data.n_process_augmentation, data.worker_settings = 2, {"start_method": method}
    helped = [batch["data"] for batch in data.epoch(0, 0, 0, shuffle=True)]
    data.close()
    np.testing.assert_array_equal(np.concatenate(alone), np.concatenate(helped))


def test_s3_gives_the_same(tmp_path, cache, monkeypatch):
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    import s3fs

    with s3_server() as options:
        system = s3fs.S3FileSystem(**options)
        np.save(tmp_path / "a.npy", DATA)
        system.put(str(tmp_path / "a.npy"), "bucket/a.npy")
        system.put(str(zarr_folder(tmp_path / "a.zarr")), "bucket/a.zarr", recursive=True)
        settings = RemoteSettings(**cache, storage_options=options)
        dataset = MappedDataset({"data": "s3://bucket/a.npy", "zarr": "s3://bucket/a.zarr"}, settings)
        before = dataset.fingerprint()
        data = BaseDataManager(dataset, 9, n_process_augmentation=1)
        for key in ("data", "zarr"):
            np.testing.assert_array_equal(np.concatenate([batch[key] for batch in data]), DATA)
        data.close()
        with pytest.raises(DataError, match=r"there is no 's3://bucket/none.npy'"):
            load_array("s3://bucket/none.npy", settings)
        system.pipe("bucket/a.npy", (tmp_path / "a.npy").read_bytes()[::-1])
        patient = MappedDataset({"data": "s3://bucket/a.zarr"}, settings)
        assert patient[0]["data"].shape == (3, 5)
        fresh = MappedDataset({"data": dataset.data["zarr"]._array, "zarr": "s3://bucket/a.zarr"}, settings)
        assert fresh.fingerprint() != before
        (tmp_path / "cache").rename(tmp_path / "gone")
        with pytest.raises(DataError, match=r"s3://bucket/a.npy has changed since it was opened"):
            pickle.loads(pickle.dumps(dataset))[0]


# ------------------------------------------------------------------ what is fetched


def test_opening_reads_the_header_alone_and_a_sample_its_blocks(server, cache):
    url = server.save("a.npy", LARGE)
    dataset = MappedDataset({"data": url}, cache)
    dataset.fingerprint()
    assert len(dataset) == 60
    assert server.n_sent() <= 4096
    np.testing.assert_array_equal(dataset[25]["data"], LARGE[25])
    assert server.n_sent() <= 4096 + 2**20
    assert dataset.read_part(25, {"data": (slice(3, 7),)})["data"].tolist() == LARGE[25, 3:7].tolist()
    assert server.n_sent() <= 4096 + 2**20


def test_what_was_fetched_is_not_fetched_again(server, cache, tmp_path):
    url = server.save("a.npy", LARGE)
    zarr_url = server.save_folder(zarr_folder(tmp_path / "b.zarr"), "b.zarr")
    first = MappedDataset({"data": url}, cache), MappedDataset({"data": zarr_url}, cache)
    for dataset, array in zip(first, (LARGE, DATA), strict=True):
        np.testing.assert_array_equal(dataset.get_batch(np.arange(len(array)))["data"], array)
    server.asked.clear()
    again = MappedDataset({"data": url}, cache), MappedDataset({"data": zarr_url}, cache)
    for dataset, array in zip(again, (LARGE, DATA), strict=True):
        np.testing.assert_array_equal(dataset.get_batch(np.arange(len(array)))["data"], array)
    assert server.n_sent() == 0
    assert server.asked


def test_neighbours_come_in_one_request(server, cache):
    dataset = MappedDataset({"data": server.save("a.npy", LARGE)}, cache)
    server.asked.clear()
    dataset.get_batch(np.arange(60))
    assert [method for method, _, _ in server.asked].count("GET") == 1


def test_a_damaged_block_is_fetched_again(server, cache, tmp_path):
    url = server.save("a.npy", LARGE)
    MappedDataset({"data": url}, cache)[0]
    for path in (tmp_path / "cache").glob("*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    np.testing.assert_array_equal(MappedDataset({"data": url}, cache)[0]["data"], LARGE[0])


def test_without_a_cache_and_with_one_that_cannot_be_written_it_trains_on(server, tmp_path, caplog):
    url = server.save("a.npy", LARGE)
    (tmp_path / "file").write_text("")
    for settings in ({"cache_size": 0, "cache_dir": tmp_path / "none"}, {"cache_dir": tmp_path / "file"}):
        with caplog.at_level(logging.WARNING, "delira"):
            data = BaseDataManager(MappedDataset({"data": url}, settings), 8)
            np.testing.assert_array_equal(np.concatenate([batch["data"] for batch in data]), LARGE)
    assert len([one for one in caplog.records if "cannot be kept" in one.getMessage()]) == 1
    assert not (tmp_path / "none").exists()


def test_files_of_another_name_or_content_are_not_taken_for_each_other(server, cache):
    first, second = server.save("get", LARGE), server.save("other.npy", LARGE + 1)
    server.files["x.npy"] = server.files["get"]
    np.testing.assert_array_equal(load_array(f"{server.url}/x.npy?id=1", cache), LARGE)
    server.files["x.npy"] = server.files["other.npy"]
    np.testing.assert_array_equal(load_array(f"{server.url}/x.npy?id=1", cache), LARGE + 1)
    assert first != second


# ------------------------------------------------------------------ which content it is


def archived(path, value):
    """Write an array into an archive, or as it is, of which neither size nor the times inside tell the value."""
    content = io.BytesIO()
    np.save(content, np.full((8, 4), value, np.float32))
    path.unlink(missing_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo("x.npy"), content.getvalue())
    elif path.suffix == ".tar":
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("x.npy")
            member.size = len(content.getvalue())
            archive.addfile(member, io.BytesIO(content.getvalue()))
    else:
        path.write_bytes(content.getvalue())


IN_OTHERS = {
    "zip": ("zip://x.npy::file://{}", "a.zip"),
    "tar": ("tar://x.npy::file://{}", "a.tar"),
    "copied": ("simplecache::file://{}", "a.npy"),
    "copied tar": ("tar://x.npy::simplecache::file://{}", "a.tar"),
}


@pytest.mark.parametrize("kind", IN_OTHERS)
def test_a_file_in_another_that_was_replaced_is_another(kind, tmp_path, cache):
    url, name = IN_OTHERS[kind]
    url, path = url.format(tmp_path / name), tmp_path / name
    archived(path, 1)
    first = MappedDataset({"data": url}, cache)
    size, print_ = path.stat().st_size, first.fingerprint()
    np.testing.assert_array_equal(first[0]["data"], [1, 1, 1, 1])
    assert MappedDataset({"data": url}, cache).fingerprint() == print_
    unread = MappedDataset({"data": url}, cache | {"cache_size": 0})
    archived(path, 2)
    assert path.stat().st_size == size
    code = (
        "from delira.data_loading import MappedDataset\n"
        f"dataset = MappedDataset({{'data': {url!r}}}, {{'cache_dir': {str(cache['cache_dir'])!r}}})\n"
        f"print(dataset[0]['data'][0], dataset.fingerprint() != {print_!r})"
    )
    again = MappedDataset({"data": url}, cache)  # fsspec still has the old one open
    np.testing.assert_array_equal(again[0]["data"], [2, 2, 2, 2])
    assert again.fingerprint() != print_
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2.0 True\n"
    with pytest.raises(DataError, match="has changed since it was opened"):
        unread[0]


def test_what_is_known_by_its_size_alone_is_fetched_again_and_said_once(server, cache, caplog):
    server.has_etags = False
    url, other = server.save("a.npy", LARGE), server.save("b.npy", LARGE)
    with caplog.at_level(logging.WARNING, "delira"):
        first = MappedDataset({"data": url, "other": other}, cache)
        np.testing.assert_array_equal(first[0]["data"], LARGE[0])
        sent = server.n_sent()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(first))[0]["data"], LARGE[0])
        assert server.n_sent() == sent  # a worker has what was fetched
        server.save("a.npy", LARGE + 1)
        np.testing.assert_array_equal(MappedDataset({"data": url}, cache)[0]["data"], LARGE[0] + 1)
    (said,) = [one.getMessage() for one in caplog.records if "by its size alone" in one.getMessage()]
    assert said.startswith(f"{url} is known by its size alone, as nothing of {server.url} says a checksum")
    assert "another name" in said


TOLD = {
    "FTP": [{"modify": "20261101120000"}, {"modify": "20261101120001"}],
    "WebHDFS": [{"modificationTime": 1}, {"modificationTime": 2}],
    "zip": [{"CRC": 1}, {"CRC": 2}],
    "git": [{"hex": "a"}, {"hex": "b"}],
    "GitHub": [{"sha": "a"}, {"sha": "b"}],
    "gists": [{"raw_url": "https://host/a/x"}, {"raw_url": "https://host/b/x"}],
    "Hugging Face": [{"blob_id": "a", "last_commit": None}, {"blob_id": "b", "last_commit": None}],
    "its buckets": [{"xet_hash": "a", "mtime": None}, {"xet_hash": "b", "mtime": None}],
}


@pytest.mark.parametrize("kind", TOLD)
def test_what_file_systems_say_tells_contents_of_one_size(kind, monkeypatch):
    told = iter(TOLD[kind])
    monkeypatch.setattr(remote.Address, "_ask", lambda self, what: {"type": "file", "size": 7} | next(told))
    address = remote.Address("memory://x.npy", RemoteSettings())
    first, second = address.about(), address.about()
    assert first.is_told
    assert first.size == second.size
    assert first.stamp != second.stamp


def test_hugging_face_is_asked_for_more_than_the_size(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    says = importlib.import_module("huggingface_hub.hf_api").RepoFile(path="x.npy", size=7, oid="abc")
    monkeypatch.setattr(hub.HfApi, "repo_info", lambda self, *args, **options: None)
    monkeypatch.setattr(hub.HfApi, "get_paths_info", lambda self, *args, **options: [says])
    about = remote.Address("hf://datasets/somebody/something/x.npy", RemoteSettings(retries=0)).about()
    assert about == (7, "7 bytes abc", True)


def test_what_references_point_to_is_not_known_by_what_holds_these(tmp_path, cache, caplog):
    (tmp_path / "a.json").write_text('{"version": 1, "refs": {"x.npy": "content"}}')
    address = remote.Address(f"reference://x.npy::file://{tmp_path}/a.json", RemoteSettings(**cache))
    with caplog.at_level(logging.WARNING, "delira"):
        assert remote.RemoteFile.open(address).size == 7
    assert "known by its size alone" in caplog.text


# ------------------------------------------------------------------ what goes wrong


def opened(url, **settings):
    return MappedDataset({"data": url}, settings)


def test_what_is_missing_refused_or_no_array_is_said(server, cache, tmp_path):
    with pytest.raises(DataError, match=r"there is no 'http://.*/none.npy', which entry 'data' of a MappedDataset"):
        opened(f"{server.url}/none.npy", **cache)
    pytest.importorskip("zarr")
    with pytest.raises(DataError, match=r"there is no zarr store at 'http://.*/none'"):
        opened(f"{server.url}/none", **cache)
    server.save("secret.npy", DATA)
    server.refused.add("secret.npy")
    with pytest.raises(DataError, match=r"secret.npy may not be read, or is not there.*storage_options"):
        opened(f"{server.url}/secret.npy", **cache)
    server.files["text.npy"] = b"no array"
    with pytest.raises(DataError, match=r"text.npy' cannot be read as an array"):
        opened(f"{server.url}/text.npy", **cache)
    server.save("cut.npy", LARGE)
    server.files["cut.npy"] = server.files["cut.npy"][:-5]
    with pytest.raises(DataError, match=r"cut.npy' is cut off"):
        opened(f"{server.url}/cut.npy", **cache)
    with pytest.raises(DataError, match=r"Fortran order.*ascontiguousarray"):
        opened(server.save("f.npy", np.asfortranarray(DATA)), **cache)
    with pytest.raises(DataError, match="Python objects"):
        opened(server.save("o.npy", np.array([{}, {}])), **cache)
    with pytest.raises(DataError, match="is no array that load_array knows"):
        load_array(f"{server.url}/x.txt", cache)
    group = pytest.importorskip("zarr").open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_array("images", shape=(3,), dtype="i4")
    with pytest.raises(DataError, match=r"a group of zarr arrays.*pass one of \['images'\]"):
        opened(f"file://{tmp_path / 'g.zarr'}", **cache)
    assert len(opened(f"file://{tmp_path / 'g.zarr'}/images", **cache)) == 3


class Bomb:
    """Unpickled, it writes a file."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return pathlib.Path.touch, (self.mark,)


OPENED = {
    "MappedDataset": lambda source, cache: MappedDataset({"data": source}, cache)[0],
    "load_array": load_array,
    "zarr": lambda source, cache: MappedDataset({"data": sys.modules["zarr"].open(source, mode="r")})[0],
}
OBJECTS = {
    "texts that are pickled": {"filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 4}]},
    "pickles": {"filters": [{"id": "pickle", "protocol": 4}]},
    "compressed by pickle": {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle", "protocol": 4}},
    "bytes": {"filters": [{"id": "vlen-bytes"}], "fill_value": None},
}


@pytest.mark.parametrize("how", OPENED)
@pytest.mark.parametrize("place", ["here", "elsewhere"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_in_a_zarr_store_are_refused_and_never_unpickled(kind, place, how, tmp_path, cache, monkeypatch):
    pytest.importorskip("zarr")
    # as older numcodecs, which unpickle
    monkeypatch.setattr(pytest.importorskip("numcodecs.pickles"), "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    about = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "order": "C", "fill_value": ""}
    folder, mark = tmp_path / "a.zarr", tmp_path / "executed"
    folder.mkdir()
    (folder / ".zarray").write_text(json.dumps(about | {"compressor": None} | OBJECTS[kind]))
    (folder / "0").write_bytes(pickle.dumps(Bomb(mark)))
    # pickles alone are refused by zarr itself, from version 3 on
    why = r"holds Python objects.*may run code; write it anew as numbers" + "|No Zarr data type" * (kind == "pickles")
    with pytest.raises(ValueError if kind == "pickles" else DataError, match=why):
        OPENED[how](str(folder) if place == "here" else f"file://{folder}", cache)
    assert not mark.exists()


def test_texts_in_a_zarr_store_are_read(tmp_path, cache):
    texts = np.array(["a", "bcd", ""], dtype="T")
    for version in (2, 3):
        folder = zarr_folder(tmp_path / f"{version}.zarr", texts, zarr_format=version)
        for source in (folder, f"file://{folder}"):
            assert [sample["data"] for sample in MappedDataset({"data": source}, cache)] == ["a", "bcd", ""]


def test_pickles_are_found_in_the_shards_of_a_zarr_store(tmp_path):
    class PickleCodec:
        pass

    class Metadata:
        codecs = (type("ShardingCodec", (), {"codecs": (PickleCodec(),)})(),)

    with pytest.raises(DataError, match=r"a holds Python objects by the codec PickleCodec"):
        without_objects(type("Array", (), {"metadata": Metadata(), "dtype": np.dtype("f4")})(), "a")


def test_a_server_that_recovers_is_asked_again_and_one_that_does_not_is_named(server, cache):
    url = server.save("a.npy", DATA)
    dataset = opened(url, **cache)
    server.faults += [503, 503]
    np.testing.assert_array_equal(dataset[0]["data"], DATA[0])
    dataset = opened(url, **cache | {"cache_size": 0})
    server.faults += [503] * 3
    with pytest.raises(UnreadableError, match=r"/a.npy cannot be read, in 3 tries.*503") as caught:
        dataset[0]
    assert "while samples [0] of http" in caught.value.__notes__[0]


@pytest.mark.filterwarnings("ignore")
def test_one_that_does_not_answer_in_time_is_given_up(server, cache):
    url = server.save("a.npy", DATA)
    dataset = opened(url, **cache | {"cache_size": 0, "retries": 0, "time_limit": 0.3})
    server.faults.append("hang")
    with pytest.raises(UnreadableError, match=r"in 1 tries: FSTimeoutError"):
        dataset[0]
    with pytest.raises(UnreadableError, match="is the network there"):
        opened("http://127.0.0.1:9/a.npy", **cache | {"retries": 0})


def test_a_server_without_ranges_is_refused(server, cache):
    url = server.save("a.npy", LARGE)
    server.has_ranges = False
    with pytest.raises(DataError, match="gives whole files only"):
        opened(url, **cache)


@pytest.mark.parametrize("kind", ["npy", "zarr 3"])
def test_a_file_that_changes_while_it_is_read_ends_it(kind, server, cache, tmp_path):
    url, _ = by_http(tmp_path, ARRAYS[kind](tmp_path), server)
    dataset = opened(url, **cache | {"cache_size": 0})
    np.testing.assert_array_equal(dataset[0]["data"], DATA[0])
    name = next(name for name in server.files if name.endswith(("npy", "c/0/0/0")))
    before = server.files[name]
    server.files[name] = before[::-1]
    with pytest.raises(DataError, match=rf"{name} has changed since it was opened.*Begin again"):
        pickle.loads(pickle.dumps(dataset))[0] if kind == "npy" else dataset[1]
    del server.files[name]
    with pytest.raises(DataError, match=rf"{name} is gone"):
        pickle.loads(pickle.dumps(dataset))[0] if kind == "npy" else dataset[1]


def test_a_block_of_a_new_file_is_not_kept_as_one_of_the_old(server, cache, monkeypatch):
    url = server.save("a.npy", LARGE)
    dataset, fetch = opened(url, **cache), remote.Address.fetch

    def change(self, *limits):
        server.save("a.npy", LARGE + 1)
        return fetch(self, *limits)

    with monkeypatch.context() as patch:
        patch.setattr(remote.Address, "fetch", change)
        with pytest.raises(DataError, match=r"a.npy has changed since it was opened"):
            dataset[0]
    server.save("a.npy", LARGE)
    np.testing.assert_array_equal(opened(url, **cache)[0]["data"], LARGE[0])


def test_an_answer_that_is_too_short_is_none(server, cache, monkeypatch):
    file = remote.RemoteFile.open(remote.Address(server.save("a.npy", LARGE), RemoteSettings(**cache)))
    ask, cuts = remote.Address._ask, [7, 7, 7, 7]

    def cut(self, what, **arguments):
        content = ask(self, what, **arguments)
        return content[: -cuts.pop()] if cuts and what == "cat_file" else content

    monkeypatch.setattr(remote.Address, "_ask", cut)
    with pytest.raises(UnreadableError, match=r"in 3 tries: OSError: \d+ of \d+ bytes came"):
        file.read(0, file.size)
    assert file.read(0, file.size) == server.files["a.npy"]
    assert not cuts


def test_a_chunk_of_a_store_that_fails_is_no_empty_chunk(server, cache, tmp_path):
    url = server.save_folder(zarr_folder(tmp_path / "a.zarr"), "a.zarr")
    dataset = opened(url, **cache)
    server.faults += [503] * 9
    with pytest.raises(UnreadableError, match=r"a.zarr/c/0/0/0 cannot be read"):
        dataset[0]
    server.faults.clear()
    np.testing.assert_array_equal(dataset[0]["data"], DATA[0])


def test_what_lacks_a_package_names_it(monkeypatch, cache):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(MissingBackendError, match=r"reading gs://bucket/x.npy needs.*pip install 'gcsfs'"):
        opened("gs://bucket/x.npy", **cache)
    with pytest.raises(ConfigError, match=r"nonsense://x.npy has a protocol that fsspec does not know"):
        opened("nonsense://x.npy", **cache)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingBackendError, match=r"'fsspec'.*pip install 'delira\[remote\]'"):
        opened("memory://x.npy", **cache)


def test_settings_are_checked():
    for wrong, message in [
        ({"cache_size": -1}, "cache_size"),
        ({"retries": 1.5}, "retries"),
        ({"time_limit": 0}, "time_limit must be a number of seconds above 0"),
        ({"cache_dir": 3}, "cache_dir must be a path"),
        ({"storage_options": "key"}, "storage_options must be a dict"),
        ({"cachesize": 1}, "remote has no 'cachesize'; did you mean 'cache_size'"),
        (3, "remote must be a RemoteSettings"),
    ]:
        with pytest.raises(ConfigError, match=message):
            MappedDataset({"data": DATA}, wrong)


def test_no_secret_is_in_an_error_a_fingerprint_or_a_text(server, cache):
    server.save("a.npy", DATA)
    host = server.url.removeprefix("http://")
    settings = cache | {"storage_options": {"headers": {"X-Key": "geheim99"}}, "retries": 0}
    url = f"http://me:geheim1@{host}/a.npy?X-Amz-Signature=geheim2"
    dataset = MappedDataset({"data": url}, settings)
    np.testing.assert_array_equal(dataset[0]["data"], DATA[0])
    texts = [repr(dataset), repr(RemoteSettings(**settings)), str(dataset.describe()), repr(dataset.fingerprint())]
    load = LoadSample({"data": "a.npy"}, load_array, remote=settings)
    texts += [
        repr(load),
        *BaseLazyDataset([f"http://me:geheim1@{host}/case_01", f"http://{host}/case_02"], load).case_names,
    ]
    for fault in (403, 404, 500, "changed"):
        fresh = MappedDataset({"data": url}, settings | {"cache_size": 0})
        if fault == "changed":
            server.files["a.npy"] = server.files["a.npy"][::-1]
        else:
            server.faults += [fault] * 4
        with pytest.raises((DataError, UnreadableError)) as caught:
            fresh[0]
        server.faults.clear()
        texts.append("".join(traceback.format_exception(caught.value)))
    assert not [text for text in texts if "geheim" in text]
    assert all("geheim" not in str(path) for path in cache["cache_dir"].rglob("*"))


# ------------------------------------------------------------------ what goes over all data


def test_a_fingerprint_sees_a_change_and_reads_nothing(server, tmp_path, cache):
    url = server.save("a.npy", LARGE)
    folder = zarr_folder(tmp_path / "b.zarr")
    stores = MappedDataset({"data": url}, cache), MappedDataset({"data": server.save_folder(folder, "b.zarr")}, cache)
    before = [one.fingerprint() for one in stores]
    sent = server.n_sent()
    assert [pickle.loads(pickle.dumps(one)).fingerprint() for one in stores] == before
    assert server.n_sent() - sent < 2000  # the metadata of zarr
    server.save("a.npy", LARGE + 1)
    server.files["b.zarr/c/3/0/0"] = server.files["b.zarr/c/2/0/0"]
    after = [MappedDataset({"data": f"{server.url}/{name}"}, cache).fingerprint() for name in ("a.npy", "b.zarr")]
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_cases_are_hashed_only_where_the_cache_keeps_them(server, tmp_path, cache):
    data = MappedDataset({"data": server.save("a.npy", LARGE)}, cache)
    np.save(tmp_path / "a.npy", LARGE)
    here = BaseDataManager(MappedDataset({"data": tmp_path / "a.npy"}), 4)
    assert too_far_away(here) == too_far_away(BaseDataManager(data, 4)) == ""
    assert dict(hashes_of(BaseDataManager(data, 4), ["data"])) == dict(hashes_of(here, ["data"]))
    sent = server.n_sent()
    for _ in BaseDataManager(data, 4):
        pass
    assert server.n_sent() == sent
    small = MappedDataset({"data": f"{server.url}/a.npy", "label": np.arange(60)}, cache | {"cache_size": 10**6})
    for one in (small, small.get_subset([1]), ConcatDataset(small, small)):
        reason = too_far_away(BaseDataManager(one, 4))
        assert "lie elsewhere" in reason
        assert "cache_size" in reason
    assert server.n_sent() - sent <= 4096


def test_patches_of_files_elsewhere_read_their_part(server, cache):
    volumes = [np.random.default_rng(number).random((1, 64, 64, 64)) for number in range(2)]  # 2 MiB each
    for number, volume in enumerate(volumes):
        server.save(f"case_{number}/image.npy", volume[0])
    load = LoadSample({"data": "image.npy"}, load_array, remote=cache)
    cases = BaseLazyDataset([f"{server.url}/case_{number}" for number in range(2)], load)
    assert cases.case_names == ["case_0", "case_1"]
    np.testing.assert_array_equal(cases[1]["data"], volumes[1])
    patches = Patches(cases, (8, 8, 8), foreground=0)
    assert patches[0]["data"].shape == (1, 8, 8, 8)
    part = cases.read_part(0, {"data": (slice(3, 5), slice(0, 9), slice(60, 64))})["data"]
    np.testing.assert_array_equal(part, volumes[0][:, 3:5, :9, 60:])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read_too(save, server, cache, tmp_path):
    save(tmp_path / "a.npz", first=DATA, second=DATA[:2])
    server.files["a.npz"] = (tmp_path / "a.npz").read_bytes()
    np.testing.assert_array_equal(load_array(f"{server.url}/a.npz/second", cache), DATA[:2])
    with pytest.raises(DataError, match="holds 2 arrays; write the name behind the path"):
        load_array(f"{server.url}/a.npz", cache)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = DATA
    server.files["a.h5"] = (tmp_path / "a.h5").read_bytes()
    np.testing.assert_array_equal(load_array(f"{server.url}/a.h5/images", cache), DATA)


def read(url, cache, queue):
    queue.put(float(MappedDataset({"data": url}, cache).get_batch(np.arange(60))["data"].sum(dtype=np.int64)))


def test_several_processes_share_a_cache_that_is_too_small(server, cache, tmp_path):
    url, settings = server.save("a.npy", LARGE), cache | {"cache_size": 3 * 2**20}
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    processes = [context.Process(target=read, args=(url, settings, queue)) for _ in range(3)]
    for process in processes:
        process.start()
    assert [queue.get(timeout=60) for _ in processes] == [LARGE.sum(dtype=np.int64)] * 3
    for process in processes:
        process.join()
    assert sum(path.stat().st_size for path in (tmp_path / "cache").glob("*/*")) <= 3 * 2**20


def test_threads_may_read_at_once(server, cache):
    dataset = MappedDataset({"data": server.save("a.npy", LARGE)}, cache | {"cache_size": 2 * 2**20})
    wrong = []

    def check(seed):
        for row in np.random.default_rng(seed).integers(0, 60, 40):
            if not np.array_equal(dataset[int(row)]["data"], LARGE[row]):
                wrong.append(row)

    threads = [threading.Thread(target=check, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ------------------------------------------------------------------ samples that are kept


class InAFile:
    def __init__(self, folder):
        self.folder, self.options = folder, {}

    def put(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def url(self, name):
        return f"file://{self.folder / name}"


class OnAServer(InAFile):
    """Lists nothing, and is asked for each chunk."""

    def __init__(self, folder, served):
        super().__init__(folder)
        self.served = served

    def put(self, name, content):
        self.served.files[name] = content

    def url(self, name):
        return f"{self.served.url}/{name}"


class InS3(InAFile):
    def __init__(self, folder, options):
        super().__init__(folder)
        self.options = options
        self.system = pytest.importorskip("s3fs").S3FileSystem(**options)

    def put(self, name, content):
        self.system.pipe(f"bucket/{name}", content)

    def url(self, name):
        return f"s3://bucket/{name}"


@pytest.fixture(params=["file", "http", pytest.param("s3", marks=pytest.mark.slow)])
def place(request, tmp_path, server):
    folder = tmp_path / "store"
    if request.param == "s3":
        pytest.importorskip("moto")
        with s3_server() as options:
            yield InS3(folder, options)
    else:
        yield InAFile(folder) if request.param == "file" else OnAServer(folder, server)


def put_zarr(place, array, folder):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(str(folder), shape=array.shape, dtype=array.dtype, chunks=(1, 4), overwrite=True)
    stored[:] = array
    for path in folder.rglob("*"):
        if path.is_file():
            place.put(f"a.zarr/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return folder


def cached_at(place, tmp_path, name="a.zarr"):
    remote = {"cache_dir": tmp_path / "fetched", "storage_options": place.options}
    return CachedDataset(MappedDataset({"data": place.url(name)}, remote), tmp_path / "kept")


def chunk(folder, number, value):
    """Content of a chunk with other values."""
    pytest.importorskip("zarr").open(str(folder), mode="r+")[number] = value
    return f"a.zarr/c/{number}/0", (folder / "c" / str(number) / "0").read_bytes()


def test_any_chunk_elsewhere_that_was_written_anew_has_samples_made_again(place, tmp_path):
    values = np.random.default_rng(0).normal(size=(200, 4))
    folder = put_zarr(place, values, tmp_path / "a.zarr")
    first = cached_at(place, tmp_path)
    np.testing.assert_array_equal(first[5]["data"], values[5])
    assert cached_at(place, tmp_path)._roots[0][1] == first._roots[0][1]
    for number in (5, 7):  # not of the 64 from all over it
        place.put(*chunk(folder, number, -1.0))
        np.testing.assert_array_equal(cached_at(place, tmp_path)[number]["data"], np.full(4, -1.0))


def test_a_chunk_that_was_read_before_it_changed_is_the_old_one(tmp_path, server):
    place = OnAServer(tmp_path, server)
    folder = put_zarr(place, np.ones((70, 4)), tmp_path / "a.zarr")
    dataset = MappedDataset({"data": place.url("a.zarr")}, {"cache_dir": tmp_path / "fetched"})
    before = preprocessing_key(dataset, None)
    assert dataset[5]["data"].tolist() == [1.0] * 4
    place.put(*chunk(folder, 5, -1.0))
    assert preprocessing_key(dataset, None) == before
    assert cached_at(place, tmp_path)._roots[0][1] != before


@pytest.mark.parametrize("name", ["a.zarr", "a.npy"])
def test_what_a_store_knows_by_its_size_alone_is_not_cached(name, tmp_path, server):
    place = OnAServer(tmp_path, server)
    server.has_etags = False
    put_zarr(place, np.ones((70, 4)), tmp_path / "a.zarr")
    server.save("a.npy", np.ones((70, 4)))
    with pytest.raises(ConfigError, match=r"is known by its size alone, so that a CachedDataset cannot tell"):
        cached_at(place, tmp_path, name)
