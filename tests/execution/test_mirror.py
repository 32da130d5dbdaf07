"""A folder is copied whole at every instant, whatever the store refuses, by one of those who could."""

import contextlib
import logging
import threading
import time

import pytest

pytest.importorskip("fsspec", reason="mirrors need fsspec, see requirements/remote.txt")

from mirror_stores import check_equal, check_whole

from delira.errors import ConfigError, MirrorError
from delira.execution import Mirror, mirror
from delira.execution.mirror import Copying
from delira.execution.place import Place
from delira.execution.store import Store
from delira.utils.files import publish_text

#: what changes something in a store
CHANGES = ("write", "put", "copy", "delete", "remove")


@pytest.fixture
def folder(tmp_path):
    publish_text(tmp_path / "run" / "manifest.json", "{}")
    return tmp_path / "run"


@pytest.fixture
def place(tmp_path):
    return Place(Store(f"memory://{tmp_path.name}"), "name/run")


def states(folder):
    """Let a folder become one after the other, as a training does."""
    for number in range(5):
        publish_text(folder / "fold_00" / "checkpoints" / f"checkpoint_epoch_{number}.zip", f"weights {number}")
        publish_text(folder / "fold_00" / "checkpoints" / "checkpoint_last.zip", f"weights {number}")
        with contextlib.suppress(FileNotFoundError):
            (folder / "fold_00" / "checkpoints" / f"checkpoint_epoch_{number - 2}.zip").unlink()
        with open(folder / "ledger.jsonl", "a") as file:
            file.write(f"{number}\n")
        yield number


def asked(place, **more):
    return Mirror(place.store.url, **{"every": 0.01, "patience": 20, **more})


@contextlib.contextmanager
def copied(place, folder, **more):
    with asked(place, **more).following() as copying:
        copying.begin(folder, place)
        yield copying


def watch(place, monkeypatch, refuse=lambda number, name: False):
    """Look at the place before and after each change of the store, some of which it refuses; the changes."""
    changes, seen = [], Place(Store(place.store.url), place.key)
    lock = threading.Lock()

    def watched(name):
        change = getattr(place.store, name)

        def changed(*arguments):
            with lock:
                changes.append(name)
                if refuse(len(changes), name):
                    raise OSError("no room")
                change(*arguments)
                check_whole(seen)

        return changed

    for name in CHANGES:
        monkeypatch.setattr(place.store, name, watched(name))
    return changes


def wait_for_index(place, serial=1):
    seen, end = Place(Store(place.store.url), place.key), time.monotonic() + 20
    while (index := seen.newest()) is None or index.serial < serial:
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_is_there_is_whole_at_every_instant(folder, place, monkeypatch):
    changes = watch(place, monkeypatch)
    with copied(place, folder):
        for number in states(folder):
            wait_for_index(place, number + 1)
    index = check_equal(place, folder)
    assert "fold_00/checkpoints/checkpoint_epoch_4.zip" in index.files
    assert "fold_00/checkpoints/checkpoint_epoch_0.zip" not in index.files
    assert changes.count("put") < 5 * 4  # names of one content are copied once
    assert "delete" in changes


@pytest.mark.parametrize("refused", range(2, 22, 3))
def test_whatever_is_refused_once_it_is_whole_and_complete(refused, folder, place, monkeypatch, caplog):
    monkeypatch.setattr(mirror, "_FIRST_PAUSE", 0.01)
    watch(place, monkeypatch, lambda number, name: number == refused)
    with copied(place, folder):
        for number in states(folder):
            wait_for_index(place, number + 1)
    check_equal(place, folder)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert [text for text in told if "is not copied to" in text and "no room" in text]
    assert [text for text in told if "again" in text][1:] == [] or len(told) % 2 == 0


def test_what_is_written_into_while_it_is_copied_is_not_stored_as_what_it_was(folder, place, monkeypatch, caplog):
    publish_text(folder / "fold_00" / "own", "seen")
    put = place.store.put

    def write_into(file, key):
        if file.read_bytes() == b"seen":
            with open(folder / "fold_00" / "own", "a") as opened:  # in place, as callbacks of a user may
                opened.write(" and more")
        put(file, key)

    monkeypatch.setattr(place.store, "put", write_into)
    watch(place, monkeypatch)
    with copied(place, folder):
        wait_for_index(place)
    assert check_equal(place, folder).files["fold_00/own"].size == len("seen and more")
    assert not caplog.records  # what is not whole is told there


def test_what_is_missing_at_the_end_is_named(folder, place, monkeypatch):
    publish_text(folder / "fold_00" / "result.zip", "x" * 2_000_000)
    watch(place, monkeypatch, lambda number, name: name == "put")
    with (
        pytest.raises(MirrorError, match=r"2 files \(2 MB\) are not copied .*no room.*resume='auto'"),
        copied(place, folder, patience=0.3),
    ):
        pass


def test_an_error_on_its_way_is_not_hidden(folder, place, monkeypatch):
    watch(place, monkeypatch, lambda number, name: name == "put")
    with pytest.raises(ZeroDivisionError) as caught, copied(place, folder, patience=0.3):
        raise ZeroDivisionError
    assert "not copied" in caught.value.__notes__[0]


def test_one_of_several_at_a_folder_copies_and_another_takes_over(folder, place):
    first, second = (Copying(asked(place)) for _ in range(2))
    first.begin(folder, place)
    wait_for_index(place)
    second.begin(folder, Place(Store(place.store.url), place.key))
    publish_text(folder / "a", "a")
    assert first.end(10) == ""
    publish_text(folder / "b", "b")
    assert second.end(10) == ""
    index = check_equal(place, folder)
    assert {"a", "b"} <= index.files.keys()
    assert place.copies() == [index.copy]


def test_what_another_one_copied_meanwhile_is_not_deleted(folder, place, monkeypatch):
    delete = place.store.delete

    def refuse(key):
        if "objects" in key:
            raise OSError("busy")
        delete(key)

    elsewhere = Place(Store(place.store.url), place.key)
    publish_text(folder / "first", "the same")
    with copied(place, folder, every=60) as copying:
        wait_for_index(place)
        (folder / "first").unlink()
        with monkeypatch.context() as changed:
            changed.setattr(place.store, "delete", refuse)
            with pytest.raises(OSError, match="busy"):
                copying._copy_once(False)
        copying._lease.release()
        copying._lease = None  # as of who was stopped for long
        publish_text(folder / "second", "the same")
        with copied(elsewhere, folder):
            """It copies, and ends."""
        assert copying._copy_once(False)
        check_whole(place)
    check_equal(place, folder)


def test_a_store_that_is_emptied_while_the_last_state_is_copied_has_all_of_it(folder, place, monkeypatch):
    put, emptied = place.store.put, []

    def putting(path, key):
        put(path, key)
        if not emptied:
            emptied.append(key)
            place.store.remove("name/run")

    with copied(place, folder, every=60):
        wait_for_index(place)
        publish_text(folder / "result", "important")
        monkeypatch.setattr(place.store, "put", putting)
    assert emptied
    check_equal(place, folder)


def test_a_copy_that_is_no_longer_the_last_is_left_alone(folder, place, caplog):
    with copied(place, folder):
        wait_for_index(place)
        before = place.newest()
        place.store.write("name/run/00002-ffffffff/owner.json", b"{}")
        publish_text(folder / "later", "later")
    assert "was taken over by another process" in caplog.text
    assert place.newest() == before


def test_a_thread_that_hangs_is_left_and_what_it_writes_one_day_does_not_count(folder, place, monkeypatch):
    monkeypatch.setattr(mirror, "_PAUSE_AT_END", 0.1)
    go_on, put = threading.Event(), place.store.put

    def hang(*arguments):
        go_on.wait(20)
        put(*arguments)

    monkeypatch.setattr(place.store, "put", hang)
    with pytest.raises(MirrorError, match="not copied"), copied(place, folder, patience=0.2):
        pass
    other = Place(Store(place.store.url), place.key)
    with copied(other, folder):
        pass
    go_on.set()
    time.sleep(0.2)
    index = check_whole(other)
    assert index.copy.startswith("00002-")
    assert index.files.keys() == {"manifest.json"}


def test_a_folder_that_is_deleted_does_not_delete_its_mirror(folder, place, caplog):
    def delete():
        with copied(place, folder, patience=0.3):
            wait_for_index(place)
            (folder / "manifest.json").unlink()

    with pytest.raises(MirrorError, match=r"manifest\.json"):
        delete()
    assert check_whole(place).files.keys() == {"manifest.json"}


@pytest.mark.parametrize(
    ("wrong", "text"), [({"every": 0}, "every"), ({"patience": "long"}, "patience"), ({"grace": -1}, "grace")]
)
def test_times_that_are_none_are_refused(wrong, text):
    with pytest.raises(ConfigError, match=text):
        Mirror("memory://store", **wrong)
