"""A store has a file wholly or not at all, and says what is missing before it is needed."""

import sys
from pathlib import Path

import pytest

from delira.errors import ConfigError, MissingBackendError
from delira.execution.store import Store, check_url

pytest.importorskip("fsspec", reason="stores need fsspec, see requirements/remote.txt")


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    return Store({"file": f"file://{tmp_path}/store", "memory": f"memory://{tmp_path.name}"}[request.param])


def test_what_is_written_is_read_listed_and_deleted(store, tmp_path):
    assert store.sizes("") == {}
    store.write("a/b/small", b"12345")
    (tmp_path / "large").write_bytes(b"x" * 1000)
    store.put(tmp_path / "large", "a/large")
    store.copy("a/large", "c/again", 1000)
    assert store.read("a/b/small") == b"12345"
    with store.opened("c/again") as file:
        assert file.read() == b"x" * 1000
    assert store.sizes("a") == {"large": 1000}
    assert store.sizes("a/b") == {"small": 5}
    assert store.folders("") == ["a", "c"]
    assert store.folders("a") == ["b"]
    store.delete("a/large")
    store.delete("a/large")
    store.remove("c")
    store.remove("c")
    assert store.sizes("a") == store.sizes("c") == {}
    with pytest.raises(FileNotFoundError):
        store.read("a/large")


def test_what_is_cut_off_has_no_name(store, tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(b"x" * 1000)

    def put_half(source, target, **more):
        store._fs.pipe_file(target, b"x" * 500)
        raise ConnectionError("cut")

    monkeypatch.setattr(store._fs, "put_file", put_half)
    with pytest.raises(ConnectionError, match="cut"):
        store.put(tmp_path / "large", "a/large")
    assert store.sizes("a") == {}


def test_what_arrives_in_part_without_an_error_is_one(store, tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(b"x" * 1000)
    monkeypatch.setattr(store._fs, "put_file", lambda source, target, **more: store._fs.pipe_file(target, b"x" * 500))
    with pytest.raises(OSError, match="500 of 1000 bytes arrived"):
        store.put(tmp_path / "large", "a/large")
    assert store.sizes("a") == {}


def test_a_store_that_cannot_copy_is_helped(store, tmp_path, monkeypatch):
    store.write("a/one", b"content")

    def cannot(*paths, **more):
        raise NotImplementedError

    monkeypatch.setattr(store._fs, "cp_file", cannot)
    # which put, get and rename of these two are made of
    monkeypatch.setattr(store._fs, "put_file", lambda file, to: store._fs.pipe_file(to, Path(file).read_bytes()))
    monkeypatch.setattr(store._fs, "get_file", lambda path, to: Path(to).write_bytes(store._fs.cat_file(path)))
    monkeypatch.setattr(store._fs, "mv", lambda path, to: store._fs.pipe_file(to, store._fs.cat_file(path)))
    store.copy("a/one", "b/two", 7)
    assert store.read("b/two") == b"content"


def test_a_store_that_forgets_is_refused(store, monkeypatch):
    store.probe()
    assert store.sizes("") == {}
    monkeypatch.setattr(store._fs, "cat_file", lambda path: b"something else")
    with pytest.raises(ConfigError, match="does not give back what was written"):
        store.probe()


@pytest.mark.parametrize(
    ("module", "url", "text"),
    [
        ("fsspec", "s3://bucket", r"pip install 'delira\[remote\]'"),
        ("gcsfs", "gs://bucket", "needs the package 'gcsfs', which is not installed. .*pip install gcsfs"),
        ("paramiko", "sftp://127.0.0.1/folder", "pip install paramiko"),
    ],
)
def test_a_missing_package_is_named(module, url, text, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingBackendError, match=text):
        Store(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/folder/", "s3://bucket/folder"),
        ("sftp://me@example.org/folder", "sftp://me@example.org/folder"),
        ("webdav://me@example.org/folder", "webdav://me@example.org/folder"),
        ("sftp://me@example.org:22/a@b", "sftp://me@example.org:22/a@b"),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("SSH://me@example.org/a", "SSH://me@example.org/a"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("memory://", "memory://"),
        ("/somewhere/else", "/somewhere/else"),
    ],
)
def test_a_url_stays_what_it_is(url, expected):
    assert check_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("s3://a:secret@b/c", "s3://b/c?key=secret", "s3://b/c#secret", "s3://[b", "a::s3://b", " ", None, 5, "\0"),
        *("s3://AKIA:secret/secret@b/c", "s3://AKIA:12/secret@b/c", "s3://a@b:secret/secret@b/c"),
        *("s3://a:secret/secret?secret@b/c", "s3://a:secret#secret@b/c", "s3://a:secret@secret@b/c"),
        *("simplecache::s3://a:secret@b/c", "simplecache::s3://a:secret/secret@b/c", "://a:secret@b"),
        *("s3://secret@b/c", "gs://secret@b/a@b", "S3://secret@b:9000/a@b:c", "https://secret@b/c"),
        *("s3://a%3Asecret@b", "simplecache::s3://secret@b/c", "own://secret@b/c"),
        "s3://a:secret\u2100@b/c",
    ],
)
def test_a_url_with_secrets_and_one_that_is_none_are_refused(url):
    with pytest.raises(ConfigError, match="mirror") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)
