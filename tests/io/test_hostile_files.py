"""Files that were made to do harm, or that stand where a checkpoint should: refused, and nothing happens."""

import dataclasses
import io
import os
import pickle
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from delira.errors import CheckpointError, UnreadableError
from delira.io import read_tree, verify_zip, write_tree
from delira.utils import files

READERS = [verify_zip, read_tree]
TREE = {"model": {"weight": np.arange(6.0).reshape(2, 3)}, "epoch": 3}


def checkpoint():
    buffer = io.BytesIO()
    write_tree(buffer, TREE)
    return buffer.getvalue()


@pytest.fixture(params=READERS, ids=lambda reader: reader.__name__)
def refused(request, tmp_path):
    """Whether a file, or the file with these bytes, is refused, for the reason given, and no other file appears."""

    def check(content, match):
        path = content
        if isinstance(content, bytes):
            path = tmp_path / "folder" / "bad.zip"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(CheckpointError, match=match) as caught:
            request.param(path)
        assert str(path) in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == before

    return check


# ---- zip files, byte by byte


@dataclasses.dataclass
class Entry:
    """One record; what is given twice can be a lie in one place."""

    name: bytes
    data: bytes = b""
    local_name: bytes | None = None
    size: int | None = None
    crc: int | None = None
    method: int = 0
    flags: int = 0
    offset: int | None = None
    """Where the directory says that it is."""
    is_listed_only: bool = False
    before: bytes = b""
    """What stands before it in the file."""

    def fields(self):
        size = len(self.data) if self.size is None else self.size
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        return struct.pack("<5H3L", 20, self.flags, self.method, 0, 0x21, crc, size, size)

    def local(self):
        name = self.name if self.local_name is None else self.local_name
        return b"PK\3\4" + self.fields() + struct.pack("<2H", len(name), 0) + name + self.data


def zip_of(*entries, after=b"", comment=b"", count=None):
    content, directory = bytearray(), bytearray()
    for entry in entries:
        content += entry.before
        offset = len(content) if entry.offset is None else entry.offset
        tail = struct.pack("<5H2L", len(entry.name), 0, 0, 0, 0, 0, offset)
        directory += b"PK\1\2" + struct.pack("<H", 20) + entry.fields() + tail + entry.name
        if not entry.is_listed_only:
            content += entry.local()
    count = len(entries) if count is None else count
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(content), len(comment))
    return bytes(content) + directory + end + comment + after


JSON = Entry(b"tree.json", b'{"a": 1}')


def test_what_is_built_here_is_read_if_nothing_is_wrong(tmp_path):
    (tmp_path / "good.zip").write_bytes(zip_of(JSON, Entry(b"arrays/7.npy", b"nobody asks")))
    verify_zip(tmp_path / "good.zip")
    assert read_tree(tmp_path / "good.zip") == {"a": 1}


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/tmp/evil",
        "a/../../evil",
        "..",
        "a/..",
        "C:/evil",
        "c:evil",
        "..\\evil",
        "a\\b",
        "\\\\host\\evil",
        "",
    ],
)
def test_a_name_that_leads_out_of_a_folder_is_refused(name, refused):
    refused(zip_of(JSON, Entry(name.encode(), b"evil")), "has a name that leads out of a folder")


def test_a_name_that_hides_its_end_is_refused(refused):
    refused(zip_of(JSON, Entry(b"good\0/../evil", b"evil")), "has a name that leads out of a folder")


@pytest.mark.parametrize("name", [b"tree.json", b"Tree.JSON"])
def test_two_records_of_one_name_are_refused(name, refused):
    """Programs differ in which one they read; PyTorch does not tell capitals from small letters."""
    refused(zip_of(JSON, Entry(name, b'{"a": 2}')), "two records called")


def test_a_record_that_has_another_name_in_the_directory_is_refused(refused):
    refused(zip_of(JSON, Entry(b"good", b"x", local_name=b"evil")), "header of its record 'good' is damaged")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_a_compressed_record_is_refused(method, refused):
    refused(zip_of(JSON, Entry(b"x", b"y", method=method)), "'x' is compressed; delira never does that")


def test_a_bomb_is_refused_before_it_goes_off(refused):
    """100 MB of zeros in 100 kB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tree.json", "{}")
        archive.writestr("zeros", bytes(100_000_000))
    assert len(buffer.getvalue()) < 200_000
    tracemalloc.start()
    try:
        refused(buffer.getvalue(), "is compressed; delira never does that")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_records_that_share_their_bytes_are_refused(refused):
    """The bomb without compression: many records, one content."""
    large = Entry(b"x0", bytes(1000))
    again = [
        Entry(b"x%d" % number, large.data, offset=0, local_name=large.name, is_listed_only=True)
        for number in range(1, 50)
    ]
    refused(zip_of(large, *again, JSON), "damaged|not where it can be")
    # each has a header of its own, inside the content of the one before
    inner = Entry(b"x1", bytes(100))
    outer = Entry(b"x0", inner.local())
    listed = Entry(b"x1", inner.data, offset=len(outer.local()) - len(inner.local()), is_listed_only=True)
    refused(zip_of(outer, listed, JSON), r"its record 'x1' is not where it can be")


@pytest.mark.parametrize("size", [10, 1 << 20, (1 << 32) - 2])
def test_a_record_that_claims_more_than_the_file_has_is_refused(size, refused):
    refused(zip_of(JSON, Entry(b"x", b"y", size=size)), "'x' is not where it can be")


def test_a_record_outside_of_the_file_is_refused(refused):
    refused(zip_of(JSON, Entry(b"x", b"y", offset=1 << 30, is_listed_only=True)), "bad.zip")


@pytest.mark.parametrize("flags", [0x1, 0x20, 0x40, 0x2000])
def test_an_encrypted_record_is_refused(flags, refused):
    refused(zip_of(JSON, Entry(b"x", b"y", flags=flags)), "'x' is encrypted|not supported")


def test_a_number_of_records_that_is_not_true_is_refused(refused):
    for count in (0, 1, 3, 0xFFFF):
        refused(zip_of(JSON, Entry(b"x", b"y"), count=count), f"it has 2 records and claims {count}")


def test_a_record_that_claims_to_be_a_folder_or_on_another_disk_is_refused(refused):
    """PyTorch gives back memory as it found it for a record with the mark of a folder."""
    content = zip_of(JSON)
    place = content.index(b"PK\1\2")
    for offset, mark in ((38, 0x10), (34, 1)):
        changed = bytearray(content)
        changed[place + offset] = mark
        refused(bytes(changed), "'tree.json' is not in this file, or is a folder")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (4, "end is damaged"),
        (6, "end is damaged"),
        (8, "end is damaged"),
        (12, "end is"),
        (16, "end is"),
        (20, "follows"),
    ],
    ids=["disk", "first disk", "records here", "length of the directory", "place of the directory", "comment"],
)
def test_an_end_that_is_not_true_is_refused(place, reason, refused):
    content = bytearray(zip_of(JSON))
    content[place - 22] ^= 1
    refused(bytes(content), reason)


def test_bytes_before_between_and_after_are_refused(refused):
    """The file would be two things at once, or was written to by another program."""
    refused(zip_of(dataclasses.replace(JSON, before=b"#!/bin/sh\nexit\n")), "is not where it can be")
    refused(zip_of(JSON, Entry(b"x", b"y", before=bytes(25))), "is not where it can be")
    refused(zip_of(JSON, after=b"more"), "something follows its end")
    refused(zip_of(JSON, after=bytes(4096)), "something follows its end")
    refused(zip_of(JSON, comment=b"more"), "something follows its end")


def test_a_directory_of_a_hundred_thousand_records_takes_no_hour(refused):
    entries = (Entry(b"%d" % number, is_listed_only=True, offset=0) for number in range(100_000))
    refused(zip_of(JSON, *entries, count=0xFFFF), "bad.zip")


def test_verifying_takes_little_memory(tmp_path):
    with open(tmp_path / "large.zip", "wb") as file:
        write_tree(file, {"a": np.broadcast_to(np.uint8(1), (1 << 26,))})
    tracemalloc.start()
    try:
        verify_zip(tmp_path / "large.zip")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


# ---- pickles


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_is_refused_and_not_executed(protocol, refused, tmp_path):
    target = tmp_path / "executed"
    content = pickle.dumps({"model": Malicious(target)}, protocol)
    pickle.loads(content)["model"].close()
    assert target.exists()  # it works
    target.unlink()
    # the oldest two cannot be told from text
    refused(content, "it is a pickle, which could run code" if protocol > 1 else "it is no zip file")
    assert not target.exists()


def test_an_old_checkpoint_is_refused_with_the_sentence_that_says_how_to_read_it(refused):
    cure = r"If you trust its source, read it yourself with torch\.load\(path, weights_only=False\)"
    refused(pickle.dumps({"epoch": 3}, 2), cure)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:  # PyTorch 0.1
        for name in ("sys_info", "pickle", "storages", "tensors"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    refused(buffer.getvalue(), cure)


# ---- what is no checkpoint at all


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"P", "it is no zip file"),
        (b"epoch,loss\n1,0.5\n", "it is no zip file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "it is no zip file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(2000), "it is no zip file"),
        (b"\x1f\x8b\x08" + bytes(100), "it is no zip file"),
        (bytes(5000), "it is no zip file"),
        (b"\xff" * 5000, "it is no zip file"),
        (b"PK\3\4" + bytes(100), "it was cut short"),
        (b"PK\5\6" + bytes(17), "it is no zip file"),
        (b"PK\5\6" + b"\xff" * 16 + bytes(2), "its end is damaged"),
    ],
)
def test_another_format_is_refused(content, reason, refused):
    refused(content, reason)


def test_an_npz_file_is_whole_and_no_checkpoint(tmp_path):
    (tmp_path / "arrays.zip").write_bytes(npz())
    verify_zip(tmp_path / "arrays.zip")
    with pytest.raises(CheckpointError, match=r"arrays\.zip is not a readable checkpoint: it has no tree\.json"):
        read_tree(tmp_path / "arrays.zip")


# ---- what is no file


def test_a_folder_is_refused(refused, tmp_path):
    refused(tmp_path, "is a folder, a pipe or a device, not a file")


@pytest.mark.skipif(os.name != "posix", reason="named pipes and devices of POSIX")
def test_a_pipe_and_a_device_are_refused_and_nobody_waits(refused, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is a folder, a pipe or a device, not a file")
    refused("/dev/zero", "is a folder, a pipe or a device, not a file")


def test_links_that_lead_nowhere_or_in_circles_are_refused(refused, tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / "dangling", "No such file")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    refused(tmp_path / "one", "symbolic links")
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    refused(tmp_path / "itself", "symbolic links")


def test_a_link_to_a_checkpoint_is_followed(tmp_path):
    (tmp_path / "real.zip").write_bytes(checkpoint())
    (tmp_path / "link.zip").symlink_to("real.zip")
    verify_zip(tmp_path / "link.zip")
    assert read_tree(tmp_path / "link.zip")["epoch"] == 3


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="users of POSIX")
def test_a_file_that_must_not_be_read_is_refused(refused, tmp_path):
    path = tmp_path / "secret.zip"
    path.write_bytes(checkpoint())
    path.chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            path.read_bytes()
        for reader in READERS:
            with pytest.raises(UnreadableError, match=r"Permission denied.*secret\.zip"):  # it may be whole
                reader(path)
    finally:
        os.seteuid(user)
        path.chmod(0o600)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that cannot be read, of Linux")
def test_a_file_whose_reading_fails_is_refused(monkeypatch):
    monkeypatch.setattr(files, "_PAUSES", (0.001,))
    for reader in READERS:
        with pytest.raises(UnreadableError, match=r"Input/output error.*/proc/self/mem"):
            reader("/proc/self/mem")
