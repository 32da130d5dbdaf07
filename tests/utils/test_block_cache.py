"""A cache of blocks: bounded at every instant, shared by processes, and nothing damaged is believed."""

import contextlib
import logging
import multiprocessing
import os
import time

import numpy as np
import pytest

from delira.utils import block_cache
from delira.utils.block_cache import BlockCache

UNIT = 4096
"""Bytes: what a disk gives a file is a multiple of it."""


def size_of(folder):
    return sum(sizes_in(folder).values())


def together_in(folder):
    """Bytes of files that were there at the same time: of those that are found twice."""
    first, second = sizes_in(folder), sizes_in(folder)
    return sum(size for file, size in first.items() if file in second)


def sizes_in(folder):
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in {*names} - {"size"}:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(parent, name))
                sizes[parent, name, status.st_ino] = -(-status.st_size // UNIT) * UNIT
    return sizes


def blocks_in(folder):
    return [path for path in folder.glob("*/*") if path.is_file()]


def test_what_was_put_is_there_for_another_object(tmp_path):
    BlockCache(tmp_path / "cache", UNIT).put("a", b"content")
    assert BlockCache(tmp_path / "cache", UNIT).get("a") == b"content"
    assert BlockCache(tmp_path / "cache", UNIT).get("b") is None
    assert os.stat(tmp_path / "cache").st_mode & 0o777 == 0o700


def test_nothing_is_made_before_a_block_is_written(tmp_path):
    cache = BlockCache(tmp_path / "cache", UNIT)
    assert cache.get("a") is None
    cache.put("too large", bytes(UNIT))
    BlockCache(tmp_path / "cache", UNIT - 1).put("takes a whole unit", b"")
    BlockCache(tmp_path / "cache", 0).put("none", b"")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "of another", "empty"])
def test_a_damaged_block_is_not_believed(damage, tmp_path, caplog):
    cache = BlockCache(tmp_path, 10_000)
    cache.put("a", bytes(range(200)))
    (path,) = blocks_in(tmp_path)
    stored = bytearray(path.read_bytes())
    if damage == "flipped":
        stored[100] ^= 1
    if damage == "of another":
        cache.put("b", bytes(200))
        (other,) = {*blocks_in(tmp_path)} - {path}
        stored = other.read_bytes()
    path.write_bytes({"cut": stored[:-1], "longer": stored + b"x", "empty": b""}.get(damage, bytes(stored)))
    with caplog.at_level(logging.WARNING, "delira"):
        assert cache.get("a") is None
    assert "is damaged" in caplog.text
    assert not path.exists()
    cache.put("a", b"again")
    assert cache.get("a") == b"again"


def test_those_that_nobody_read_for_the_longest_time_go(tmp_path):
    cache = BlockCache(tmp_path, 10 * UNIT)
    for number in range(10):
        cache.put(str(number), bytes(100))
        os.utime(max(blocks_in(tmp_path), key=os.path.getctime), (number, number))
    assert size_of(tmp_path) == 10 * UNIT
    assert cache.get("0") is not None  # read now
    cache.put("new", bytes(100))
    assert size_of(tmp_path) <= 10 * UNIT
    assert cache.get("0")
    assert cache.get("new")
    assert cache.get("9")
    assert cache.get("1") is None


def test_small_blocks_take_no_more_of_the_disk_than_it_may(tmp_path):
    cache = BlockCache(tmp_path, 2**18)
    for number in range(500):
        cache.put(str(number), b"x" * 100)
    files = blocks_in(tmp_path)
    assert len(files) > 50
    assert sum(path.stat().st_blocks * 512 for path in files) <= 2**18
    assert cache.get("499") == b"x" * 100


def test_a_sum_that_is_wrong_or_half_written_is_counted_again(tmp_path):
    cache = BlockCache(tmp_path, 10 * UNIT)
    for number in range(10):
        cache.put(str(number), bytes(100))
    for text in ("", "12", "\0\0\0", "7\n7\n"):
        (tmp_path / "size").write_text(text)
        cache.put(f"after {text!r}", bytes(100))
        assert size_of(tmp_path) <= 10 * UNIT
    assert int((tmp_path / "size").read_text()) == size_of(tmp_path)


def test_what_a_killed_writer_left_is_removed_with_the_next_room(tmp_path):
    cache = BlockCache(tmp_path, 10 * UNIT)
    cache.put("a", bytes(100))
    left = blocks_in(tmp_path)[0].with_name(f"{'1f' * 31}.partial-0123abcd")
    left.write_bytes(bytes(100))
    for number in range(12):
        cache.put(str(number), bytes(100))
    assert not left.exists()


def test_files_of_others_in_its_folder_are_neither_removed_nor_counted(tmp_path):
    content = b"x" * 20 * UNIT
    others = [
        tmp_path / name
        for name in ("notes", "thesis/results.csv", "ab/results.csv", f"thesis/{'0' * 62}", "ab/a.partial-0123abcd")
    ]
    elsewhere = tmp_path / "elsewhere" / ("0" * 62)
    for path in (*others, elsewhere):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (0, 0))
    (tmp_path / "cd").symlink_to(elsewhere.parent)
    cache = BlockCache(tmp_path, 10 * UNIT)
    for number in range(30):
        cache.put(str(number), bytes(100))
    assert all(path.read_bytes() == content for path in (*others, elsewhere))
    assert cache.get("29") is not None
    blocks = [path for path in blocks_in(tmp_path) if path.stat().st_size < UNIT]
    assert 5 < len(blocks) <= 10


def test_a_file_of_another_with_the_name_of_the_sum_is_left_alone(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(block_cache, "_broken", set())
    (tmp_path / "size").write_text("S: 86 cm, M: 92 cm\n")
    with caplog.at_level(logging.WARNING, "delira"):
        BlockCache(tmp_path, 10 * UNIT).put("a", bytes(100))
    assert (tmp_path / "size").read_text() == "S: 86 cm, M: 92 cm\n"
    assert "is no file of a cache" in caplog.text


def test_a_block_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path):
    cache = BlockCache(tmp_path, UNIT)
    cache.put("a", b"x" * 500)
    (path,) = blocks_in(tmp_path)
    with open(path, "rb") as file:
        cache.put("b", b"y" * 900)
        assert not path.exists()
        assert file.read()[16:] == b"x" * 500


def work(folder, seed, until):
    cache = BlockCache(folder, 50_000)
    rng = np.random.default_rng(seed)
    while time.time() < until:
        number = int(rng.integers(200))
        content = cache.get(str(number))
        assert content is None or content == bytes([number % 256]) * 1000
        if content is None:
            cache.put(str(number), bytes([number % 256]) * 1000)


def test_the_bound_holds_at_every_instant_with_several_processes(tmp_path):
    context = multiprocessing.get_context("fork")
    until = time.time() + 3
    processes = [context.Process(target=work, args=(tmp_path / "cache", seed, until)) for seed in range(3)]
    for process in processes:
        process.start()
    largest, n_looks = 0, 0
    while time.time() < until:
        largest, n_looks = max(largest, together_in(tmp_path / "cache")), n_looks + 1
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert n_looks > 20
    assert 40_000 < largest <= 50_000


def test_a_killed_writer_does_not_break_the_bound(tmp_path):
    context = multiprocessing.get_context("fork")
    for seed in range(5):
        process = context.Process(target=work, args=(tmp_path / "cache", seed, time.time() + 60))
        process.start()
        time.sleep(0.3)
        process.kill()
        process.join()
        assert size_of(tmp_path / "cache") <= 50_000 + (seed + 1) * UNIT
    BlockCache(tmp_path / "cache", 50_000).put("last", bytes(49_000))
    assert size_of(tmp_path / "cache") <= 50_000


def test_where_nothing_can_be_written_it_is_said_once_and_work_goes_on(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(block_cache, "_broken", set())
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING, "delira"):
        for _ in range(3):
            cache = BlockCache(tmp_path / "file" / "cache", UNIT)
            cache.put("a", b"x")
            assert cache.get("a") is None
    assert len(caplog.records) == 1
    assert "cannot be kept" in caplog.text


def test_a_disk_that_takes_no_more_is_said_once_and_keeps_what_it_has(tmp_path, caplog, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(block_cache, "_broken", set())
    cache = BlockCache(tmp_path / "cache", 10**8)
    cache.put("a", b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, hard))
    try:
        with caplog.at_level(logging.WARNING, "delira"):
            cache.put("b", bytes(2 * 10**6))
            cache.put("c", bytes(2 * 10**6))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(caplog.records) == 1
    assert "cannot be kept" in caplog.text
    assert cache.get("a") == b"x"
    assert cache.get("b") is None
    assert size_of(tmp_path / "cache") == UNIT
