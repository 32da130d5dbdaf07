"""Files with compressed records, as TorchScript writes them: verified without unpacking more than was said."""

import io
import struct
import tracemalloc
import zipfile
import zlib

import pytest

from delira.errors import CheckpointError
from delira.io import verify_zip

CODE = b"def forward(self, x):\n    return x\n" * 1000


def archive(path, *records, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w") as file:  # of 1980: bytes of a time of day may be those that a test changes
        file.writestr(zipfile.ZipInfo("data"), b"numbers" * 100, zipfile.ZIP_STORED)
        for number, content in enumerate(records):
            file.writestr(zipfile.ZipInfo(f"code/{number}.py"), content, method)
    return path


def changed(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def test_compressed_records_are_taken_only_where_they_are_expected(tmp_path):
    path = archive(tmp_path / "a.ptj", CODE, b"")
    verify_zip(path, compressed=True)
    with pytest.raises(CheckpointError, match=r"'code/0\.py' is compressed; delira never does that"):
        verify_zip(path)


def test_stored_records_are_verified_as_ever(tmp_path):
    path = archive(tmp_path / "a.ptj", CODE)
    changed(path, b"numbersnumbers", b"numbersnumbe\0s")
    with pytest.raises(CheckpointError, match="the checksum of its record 'data' is wrong"):
        verify_zip(path, compressed=True)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, method):
    with pytest.raises(CheckpointError, match=r"'code/0\.py' is compressed"):
        verify_zip(archive(tmp_path / "a.ptj", CODE, method=method), compressed=True)


def test_every_changed_byte_of_a_compressed_record_is_found(tmp_path):
    path = archive(tmp_path / "a.ptj", CODE)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        entry = file.getinfo("code/0.py")
    start = entry.header_offset + 30 + len(entry.filename)
    for place in range(start, start + entry.compress_size):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"the checksum of its record 'code/0\.py' is wrong"):
            verify_zip(path, compressed=True)


def test_a_record_that_unpacks_into_more_than_it_says_is_damaged(tmp_path):
    path = archive(tmp_path / "a.ptj", CODE)
    changed(path, struct.pack("<L", len(CODE)), struct.pack("<L", len(CODE) - 1))
    with pytest.raises(CheckpointError, match=r"the checksum of its record 'code/0\.py' is wrong"):
        verify_zip(path, compressed=True)


def test_nothing_hides_behind_the_end_of_a_compressed_record(tmp_path):
    path = tmp_path / "a.ptj"
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(CODE) + packer.flush() + b"more"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("code", packed, zipfile.ZIP_STORED)
        entry = file.getinfo("code")
        entry.compress_type, entry.file_size, entry.CRC = zipfile.ZIP_DEFLATED, len(CODE), zlib.crc32(CODE)
    content = bytearray(buffer.getvalue())
    content[8:10] = struct.pack("<H", zipfile.ZIP_DEFLATED)
    content[14:18] = struct.pack("<L", zlib.crc32(CODE))
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="the checksum of its record 'code' is wrong"):
        verify_zip(path, compressed=True)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = archive(tmp_path / "a.ptj", *[bytes(1 << 26)] * 5)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(CheckpointError, match="its compressed records unpack into more than 256 MiB"):
        verify_zip(path, compressed=True)


def test_a_bomb_that_lies_about_its_size_takes_no_memory(tmp_path):
    path = archive(tmp_path / "a.ptj", bytes(1 << 26))
    changed(path, struct.pack("<L", 1 << 26), struct.pack("<L", 1 << 10))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"the checksum of its record 'code/0\.py' is wrong"):
            verify_zip(path, compressed=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
