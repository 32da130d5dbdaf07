"""Shards of WebDataset as a data set: what its own reader gives, in any order, here and at a URL."""

import io
import json
import pickle
import shutil
import subprocess
import tarfile
import zlib

import numpy as np
import pytest

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

from served import s3_server, serving

from delira.data_loading import BaseDataManager, CachedDataset, ShardDataset, default_load_fn_2d
from delira.data_loading.case_hashes import too_far_away
from delira.data_loading.remote import Address, RemoteFile, RemoteSettings
from delira.data_loading.shard_index import expanded
from delira.errors import ConfigError, DataError, MissingKeyError

N = 12
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (N, 6, 7, 3), np.uint8)
ARRAYS = RNG.random((N, 2, 3)).astype(np.float32)
LABELS = np.arange(N) % 3


@pytest.fixture(autouse=True)
def cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def server():
    with serving() as served:
        yield served


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def tar(path, members, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def shards(tmp_path):
    """Three shards as WebDataset itself writes them."""
    webdataset = pytest.importorskip("webdataset")
    pattern = str(tmp_path / "train-%06d.tar")
    with webdataset.ShardWriter(pattern, maxcount=5, verbose=0) as writer:
        for number in range(N):
            writer.write({
                "__key__": f"{number:04d}", "png": IMAGES[number], "cls": int(LABELS[number]),
                "npy": ARRAYS[number], "json": {"age": number}, "txt": f"case {number}",
            })  # fmt: skip
    return tmp_path / "train-{000000..000002}.tar"


KEYS = {"data": "jpg;png", "label": "cls"}


def as_webdataset_reads(shards):
    import webdataset

    return list(webdataset.WebDataset(str(shards), shardshuffle=False, empty_check=False).decode("rgb"))


@pytest.mark.filterwarnings("ignore")
def test_samples_are_those_that_webdataset_reads(shards):
    dataset = ShardDataset(shards)
    read = as_webdataset_reads(shards)
    assert len(dataset) == len(read) == N
    for number in RNG.permutation(N):
        sample, other = dataset[int(number)], read[number]
        assert sample.keys() == {"png", "cls", "npy", "json", "txt"}
        np.testing.assert_array_equal(sample["png"], np.moveaxis(other["png"], -1, 0))
        np.testing.assert_array_equal(sample["npy"], other["npy"])
        assert [sample[key] for key in ("cls", "json", "txt")] == [other[key] for key in ("cls", "json", "txt")]
        assert dataset.case_names[number] == other["__key__"]


def test_an_image_is_that_of_the_same_file(shards, tmp_path):
    from PIL import Image

    Image.fromarray(IMAGES[3]).save(tmp_path / "3.png")
    loaded = default_load_fn_2d(str(tmp_path / "3.png"), img_shape=(6, 7), n_channels=3)["data"]
    np.testing.assert_array_equal(ShardDataset(shards, KEYS)[3]["data"], loaded)


def test_it_serves_managers_subsets_and_workers(shards):
    data = BaseDataManager(ShardDataset(shards, KEYS), 5)
    alone = [batch["label"].tolist() for batch in data.epoch(1, 0, 0, shuffle=True)]
    images = np.concatenate([batch["data"] for batch in data])
    np.testing.assert_array_equal(images, np.moveaxis(IMAGES, -1, 1).astype(np.float32) / 255)
    data.n_process_augmentation = 2
    assert [batch["label"].tolist() for batch in data.epoch(1, 0, 0, shuffle=True)] == alone
    data.close()
    part = data.dataset.get_subset([7, 2])
    assert part.case_names == ["0007", "0002"]
    assert pickle.loads(pickle.dumps(part))[0]["label"] == LABELS[7]


def test_labels_cost_no_reading_and_keep_their_type(shards, monkeypatch):
    dataset = ShardDataset(shards, KEYS)
    for shard in dataset._shards:
        monkeypatch.setattr(shard, "read", None)
    assert dataset.labels().tolist() == LABELS.tolist()
    assert dataset.get_subset([4, 1]).labels().tolist() == LABELS[[4, 1]].tolist()


def test_fingerprints_see_what_is_in_the_shards(shards, tmp_path):
    first = ShardDataset(shards, KEYS).fingerprint()
    assert ShardDataset(shards, KEYS).fingerprint() == first
    assert ShardDataset(shards, {"data": "png", "label": "cls"}).fingerprint() != first
    (tmp_path / "copy").mkdir()
    for number in range(3):
        name = f"train-{number:06d}.tar"
        (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
    assert ShardDataset(tmp_path / "copy" / shards.name, KEYS).fingerprint() == first


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_shards_at_a_url_give_the_same(method, shards, server, tmp_path):
    for path in tmp_path.glob("*.tar"):
        server.files[path.name] = path.read_bytes()
    url = f"{server.url}/{shards.name}"
    cache = {"cache_dir": tmp_path / "cache"}
    there, here = ShardDataset(url, remote=cache), ShardDataset(shards)
    for number in range(N):
        one, other = there[number], here[number]
        assert [np.array_equal(one[key], other[key]) for key in other] == [True] * 5
    data = BaseDataManager(ShardDataset(url, KEYS, remote=cache), 5, n_process_augmentation=1)
    data.worker_settings = {"start_method": method}
    assert np.concatenate([batch["label"] for batch in data]).tolist() == LABELS.tolist()
    data.close()
    server.asked.clear()
    again = ShardDataset(url, KEYS, remote=cache)
    assert again.fingerprint() == ShardDataset(url, KEYS, remote=cache).fingerprint()
    assert again[3]["label"] == 0
    assert server.n_sent() == 0  # index and blocks are there
    small = ShardDataset(url, KEYS, remote=cache | {"cache_size": 0})
    assert "lie elsewhere" in too_far_away(BaseDataManager(small, 5))
    server.files["train-000000.tar"] = server.files["train-000000.tar"][::-1]
    with pytest.raises(DataError, match=r"train-000000.tar has changed") as caught:
        pickle.loads(pickle.dumps(small))[0]
    assert any("the member 0000.png of http" in note for note in caught.value.__notes__)


def test_a_cached_dataset_knows_shards_however_they_are_reached(server, tmp_path):
    members = [(f"{number}.npy", npy(ARRAYS[number])) for number in range(4)]
    server.files["a.tar"] = tar(tmp_path / "a.tar", members).read_bytes()

    def cached(url, **remote):
        dataset = ShardDataset(url, {"data": "npy"}, remote=remote)
        dataset[3]
        return CachedDataset(dataset, tmp_path / "samples")

    def files():
        return {path for path in (tmp_path / "samples").rglob("*") if path.is_file()}

    np.testing.assert_array_equal(cached(f"{server.url}/a.tar")[1]["data"], ARRAYS[1])
    before = files()
    assert cached(f"{server.url}/a.tar?X-Amz-Signature=abc", cache_dir=tmp_path / "other", retries=1)[1]
    assert files() == before
    server.files["a.tar"] = tar(tmp_path / "a.tar", [(name, npy(ARRAYS[5])) for name, _ in members]).read_bytes()
    np.testing.assert_array_equal(cached(f"{server.url}/a.tar")[1]["data"], ARRAYS[5])
    assert files() > before


def test_an_index_that_is_kept_is_that_of_the_shard_as_it_is(server, tmp_path):
    members = [(f"{number}.npy", npy(ARRAYS[number])) for number in range(3)]
    sizes = set()
    for order in (members, [("0.txt", b"more"), *members], members[::-1]):
        server.files["a.tar"] = tar(tmp_path / "a.tar", order).read_bytes()
        sizes.add(len(server.files["a.tar"]))
        dataset = ShardDataset(f"{server.url}/a.tar", {"data": "npy"})
        expected = [ARRAYS[int(name[0])].tolist() for name, _ in order if name.endswith("npy")]
        assert [sample["data"].tolist() for sample in dataset] == expected
    assert len(sizes) == 1  # so that the size tells nothing


def test_shards_in_s3_give_the_same(shards, tmp_path):
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    import s3fs

    with s3_server() as options:
        for path in tmp_path.glob("*.tar"):
            s3fs.S3FileSystem(**options).put(str(path), f"bucket/{path.name}")
        remote = {"storage_options": options, "cache_dir": tmp_path / "cache"}
        data = BaseDataManager(ShardDataset(f"s3://bucket/{shards.name}", KEYS, remote=remote), 5)
        data.n_process_augmentation = 1
        images = np.concatenate([batch["data"] for batch in data])
        data.close()
    np.testing.assert_array_equal(images, np.moveaxis(IMAGES, -1, 1).astype(np.float32) / 255)


def test_large_members_are_not_read_for_the_index(server, tmp_path):
    large = npy(np.arange(10**6, dtype=np.float32))  # 4 MB
    members = [one for number in range(5) for one in ((f"{number}.npy", large), (f"{number}.cls", b"1"))]
    server.files["a.tar"] = tar(tmp_path / "a.tar", members).read_bytes()
    dataset = ShardDataset(f"{server.url}/a.tar")
    assert dataset.labels("cls").tolist() == [1] * 5
    assert server.n_sent() < 8 * 2**20 < len(server.files["a.tar"])
    np.testing.assert_array_equal(dataset[2]["npy"], np.arange(10**6))


# ------------------------------------------------------------------ what is in a tar file


def test_members_are_grouped_as_the_format_says(tmp_path):
    path = tar(
        tmp_path / "a.tar",
        [
            ("__meta__", b"x"), ("folder/a.b/0.seg.png.txt", b"one"), ("folder/a.b/0.CLS", b" 7\n"), ("noext", b""),
            ("1.txt", b"two"), ("1.cls", b"-1"), ("./2.txt", b"three"), ("./2.cls", b"0"),
            ("long/" + "n" * 150 + ".txt", b"four"), ("long/" + "n" * 150 + ".cls", b"3"),
        ],
    )  # fmt: skip
    dataset = ShardDataset(path, {"text": "txt;seg.png.txt", "label": "cls"})
    assert [(sample["text"], sample["label"]) for sample in dataset] == [
        ("one", 7),
        ("two", -1),
        ("three", 0),
        ("four", 3),
    ]
    assert dataset.case_names[:2] == ["folder/a.b/0", "1"]
    with pytest.raises(MissingKeyError, match=r"sample 1, '1' in '?.*a.tar.*has no seg.png.txt for its entry 'text'"):
        ShardDataset(path, {"text": "seg.png.txt"})[1]


def test_all_kinds_of_members_are_decoded(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    volume = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    nibabel.save(nibabel.Nifti1Image(volume.T, np.eye(4)), tmp_path / "v.nii.gz")
    archive = io.BytesIO()
    np.savez(archive, a=volume)
    path = tar(
        tmp_path / "a.tar",
        [
            ("0.nii.gz", (tmp_path / "v.nii.gz").read_bytes()), ("0.npz", archive.getvalue()),
            ("0.own", b"abc"), ("0.json", json.dumps([1, 2]).encode()), ("0.seg.npy", npy(volume)), ("0.id", b"5"),
        ],
    )  # fmt: skip
    sample = ShardDataset(path, decoders={"own": len, "id": bytes.decode})[0]
    np.testing.assert_array_equal(sample["nii.gz"], volume)
    np.testing.assert_array_equal(sample["npz"]["a"], volume)
    np.testing.assert_array_equal(sample["seg.npy"], volume)
    assert (sample["own"], sample["json"], sample["id"]) == (3, [1, 2], "5")


@pytest.mark.parametrize("ending", ["pyd", "pth", "pickle", "PKL", "deep.pt"])
def test_pickles_are_refused_by_name(ending, tmp_path):
    bomb = b"cos\nsystem\n(S'touch harmed'\ntR."
    path = tar(tmp_path / "a.tar", [(f"0.{ending}", bomb), ("0.cls", b"1")])
    with pytest.raises(ConfigError, match=rf"end in '{ending.lower()}' are pickles, which can run code"):
        ShardDataset(path)
    with pytest.raises(ConfigError, match="are pickles"):
        ShardDataset(path, {"data": ending})
    assert ShardDataset(path, {"label": "cls"})[0] == {"label": 1}
    objects = tar(tmp_path / "b.tar", [("0.npy", npy(np.array([{}], dtype=object)))])
    with pytest.raises(DataError, match="cannot be read as an array"):
        ShardDataset(objects)[0]


def test_what_is_wrong_with_a_shard_is_said(tmp_path):
    good = [("0.cls", b"1"), ("0.txt", b"x" * 2000)]
    with pytest.raises(DataError, match=r"there is no '.*none.tar', which should be a shard"):
        ShardDataset(tmp_path / "none.tar")
    for mode, kind in (("w:gz", "gzip"), ("w:bz2", "bzip2"), ("w:xz", "xz")):
        with pytest.raises(DataError, match=rf"is compressed \({kind}\).*decompress it"):
            ShardDataset(tar(tmp_path / f"{kind}.tar", good, mode))
    whole = tar(tmp_path / "good.tar", good).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:1700])
    with pytest.raises(DataError, match=r"cut.tar' is no whole tar file"):
        ShardDataset(tmp_path / "cut.tar")
    (tmp_path / "text.tar").write_bytes(b"no tar" * 1000)
    with pytest.raises(DataError, match=r"text.tar' is no whole tar file"):
        ShardDataset(tmp_path / "text.tar")
    with pytest.raises(DataError, match=r"has two members 0.cls in one sample"):
        ShardDataset(tar(tmp_path / "twice.tar", [*good, ("0.cls", b"2")]))
    with pytest.raises(ConfigError, match=r"the dataset .ShardDataset. is empty"):
        BaseDataManager(ShardDataset(tar(tmp_path / "empty.tar", [])))
    dataset = ShardDataset(tar(tmp_path / "text_label.tar", [("0.cls", b"cat")]))
    with pytest.raises(DataError, match="b'cat', which is no whole number") as caught:
        dataset[0]
    assert "while the member 0.cls of" in caught.value.__notes__[0]
    changed = ShardDataset(tmp_path / "good.tar")
    (tmp_path / "good.tar").write_bytes(whole + bytes(512))
    with pytest.raises(DataError, match="has changed since it was opened"):
        changed[0]


def test_a_shard_that_ends_without_the_end_of_a_tar_file_is_refused(tmp_path, server):
    members = [one for n in range(6) for one in ((f"{n}.npy", npy(ARRAYS[n])), (f"{n}.cls", b"1"))]
    whole = tar(tmp_path / "a.tar", members).read_bytes()
    with tarfile.open(tmp_path / "a.tar") as archive:
        places = [member.offset for member in archive]
    end = places[-1] + 2 * tarfile.BLOCKSIZE
    for cut in (places[6], places[7], places[6] + 100, end, end + 100):
        (tmp_path / "cut.tar").write_bytes(whole[:cut])
        server.files["cut.tar"] = whole[:cut]
        for shard in (tmp_path / "cut.tar", f"{server.url}/cut.tar"):
            with pytest.raises(DataError, match=rf"cut.tar' is cut off: it ends at byte {cut} without the zeros"):
                ShardDataset(shard)
    (tmp_path / "cut.tar").write_bytes(whole[: end + tarfile.BLOCKSIZE])  # the second block of zeros tells nothing
    assert len(ShardDataset(tmp_path / "cut.tar")) == 6
    for nonsense in (b"x" * 512, bytes(511) + b"x"):
        (tmp_path / "wrong.tar").write_bytes(whole[: places[6]] + nonsense + whole[places[6] + 512 :])
        with pytest.raises(
            DataError, match=rf"wrong.tar' is no whole tar file: at byte {places[6]} there is no header"
        ):
            ShardDataset(tmp_path / "wrong.tar")


def test_an_index_of_a_shard_that_is_cut_off_is_not_believed_from_before(tmp_path, server):
    whole = tar(tmp_path / "a.tar", [(f"{number}.cls", b"1") for number in range(3)]).read_bytes()
    server.files["a.tar"] = whole[: 4 * tarfile.BLOCKSIZE]
    kept = {"version": 1, "samples": [("0", {"cls": [512, 1, 1]}), ("1", {"cls": [1536, 1, 1]})]}
    RemoteFile.open(Address(f"{server.url}/a.tar", RemoteSettings())).keep(
        "index", zlib.compress(json.dumps(kept).encode())
    )
    with pytest.raises(DataError, match="is cut off"):
        ShardDataset(f"{server.url}/a.tar")


@pytest.mark.parametrize("format_", ["ustar", "pax", "gnu"])
def test_what_tar_itself_writes_is_whole(format_, tmp_path):
    if shutil.which("tar") is None:
        pytest.skip("there is no tar here")
    (tmp_path / "0.cls").write_text("7")
    subprocess.run(["tar", f"--format={format_}", "-cf", "a.tar", "0.cls"], cwd=tmp_path, check=True)
    assert ShardDataset(tmp_path / "a.tar")[0] == {"cls": 7}


def test_arguments_are_checked(tmp_path):
    path = tar(tmp_path / "a.tar", [("0.cls", b"1"), ("0.own", b"x")])
    for wrong, message in [
        ({"keys": ["cls"]}, "keys must be a dict"),
        ({"keys": {"label": "clas"}}, "no sample has 'clas' for the entry 'label'; the shards have 'cls', 'own'"),
        ({}, "nothing says how members that end in 'own' are decoded; pass decoders"),
        ({"decoders": {"own": 3}}, "decoders must be a dict"),
        ({"remote": {"cache": 3}}, "remote has no 'cache'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            ShardDataset(path, **wrong)
    for wrong in ([], 3, [""], [3]):
        with pytest.raises(ConfigError, match="shards must be a path or URL"):
            ShardDataset(wrong)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.tar", ["a.tar"]),
        ("a-{08..11}.tar", ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]),
        ("a-{8..10}.tar", ["a-8.tar", "a-9.tar", "a-10.tar"]),
        ("{train,val}-{0..1}.tar", ["train-0.tar", "train-1.tar", "val-0.tar", "val-1.tar"]),
        (["s3://b/{0..1}.tar", "x.tar"], ["s3://b/0.tar", "s3://b/1.tar", "x.tar"]),
        ("a{}.tar", ["a{}.tar"]),
    ],
)
def test_braces_are_expanded(pattern, names):
    assert expanded(pattern) == names


def test_braces_are_those_of_webdataset():
    braceexpand = pytest.importorskip("braceexpand").braceexpand
    for pattern in ("a-{000..012}.tar", "{a,b}{1..3}", "x"):
        assert expanded(pattern) == list(braceexpand(pattern))
