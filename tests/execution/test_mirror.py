"""A folder is copied whole at every instant, whatever the store refuses, by one of those who could."""

import contextlib
import logging
import shutil
import threading
import time

import pytest

pytest.importorskip("fsspec", reason="mirrors need fsspec, see requirements/remote.txt")

from mirror_stores import check_equal, check_whole

from delira.errors import ConfigError, MirrorError
from delira.execution import Mirror, mirror, snapshot
from delira.execution.mirror import Copying
from delira.execution.place import Claim, Place
from delira.execution.snapshot import Snapshots, Unquiet
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


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_file_that_is_written_into_all_the_time_is_left_out_and_the_rest_is_copied(
    is_torn, folder, place, monkeypatch, caplog
):
    events, put = folder / "fold_00" / "events", place.store.put
    publish_text(folder / "fold_00" / "result.zip", "result")
    publish_text(events, "0")

    def write_into(file, key):
        put(file, key)
        with open(events, "a") as opened:
            opened.write("1")

    monkeypatch.setattr(place.store, "put", write_into)
    if is_torn:  # it does not grow alone
        monkeypatch.setattr(snapshot, "_copy_whole", lambda path, staged: False)
    with copied(place, folder, patience=5):
        wait_for_index(place)
    index = check_whole(place)
    assert index.files.keys() - {"fold_00/events"} == {"manifest.json", "fold_00/result.zip"}
    assert ("fold_00/events" in index.files) != is_torn
    assert ("fold_00/events is not in" in caplog.text) == is_torn


def test_a_checkpoint_that_is_written_into_is_not_parted_from_its_ledger(folder, place, monkeypatch):
    put, checkpoint = place.store.put, folder / "fold_00" / "checkpoints" / "checkpoint_last.zip"
    publish_text(checkpoint, "0")
    publish_text(folder / "ledger.jsonl", "{}\n")

    def write_into(file, key):
        if file.stat().st_ino == checkpoint.stat().st_ino:
            with open(checkpoint, "a") as opened:
                opened.write("1")
        put(file, key)

    monkeypatch.setattr(place.store, "put", write_into)
    with (
        pytest.raises(MirrorError, match=r"checkpoint_last\.zip in .* was written into while it was copied"),
        copied(place, folder, patience=0.5),
    ):
        pass
    assert place.newest() is None


def test_a_folder_that_never_rests_is_told_once_and_when_it_is_over(folder, place, monkeypatch, caplog):
    monkeypatch.setattr(mirror, "_UNQUIET_FOR", 0)
    monkeypatch.setattr(mirror, "_PAUSE_AT_END", 0.01)
    take, n_looks = Snapshots.take, []

    def never(self, *arguments, **more):
        n_looks.append(1)
        if len(n_looks) < 6:
            raise Unquiet("it changed all the time")
        return take(self, *arguments, **more)

    monkeypatch.setattr(Snapshots, "take", never)
    with copied(place, folder):
        pass
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 2
    assert "is not copied to" in told[0]
    assert "it changed all the time" in told[0]
    assert "again" in told[1]


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


def test_what_a_delete_took_that_was_given_up_and_came_late_is_there_at_the_end(folder, place, monkeypatch, caplog):
    def refuse(key):
        raise TimeoutError("no answer")

    publish_text(folder / "first", "the same")
    with copied(place, folder, every=60) as copying:
        wait_for_index(place)
        key = place.object(place.newest().copy, place.newest().files["first"].sha256)
        (folder / "first").unlink()
        with monkeypatch.context() as changed:
            changed.setattr(place.store, "delete", refuse)
            with pytest.raises(TimeoutError):
                copying._copy_once(False)
        publish_text(folder / "second", "the same")
        assert copying._copy_once(False)
        place.store.delete(key)
    assert "lacks second, which was copied there and is copied again" in caplog.text
    check_equal(place, folder)


def test_who_ends_leaves_what_another_one_is_about_to_copy(folder, place, monkeypatch, caplog):
    is_putting, go_on, put = threading.Event(), threading.Event(), place.store.put

    def wait(*arguments):
        is_putting.set()
        go_on.wait(20)
        put(*arguments)

    monkeypatch.setattr(place.store, "put", wait)
    publish_text(folder / "a", "a")
    first, second = (Copying(asked(place, takeover_after=1)) for _ in range(2))
    first.begin(folder, place)
    is_putting.wait(20)
    second.begin(folder, Place(Store(place.store.url), place.key))
    assert second.end(20) == ""
    monkeypatch.setattr(mirror, "_PAUSE_AT_END", 0.1)
    third = Copying(asked(place))  # which has no time to see whether the first one is alive
    third.begin(folder, Place(Store(place.store.url), place.key))
    assert "not copied" in third.end(0.1)
    assert Claim.of(folder).copy == place.copies()[0]
    go_on.set()
    assert first.end(20) == ""
    check_equal(place, folder)
    assert not caplog.records


def test_a_store_that_is_emptied_while_the_last_state_is_copied_has_all_of_it(folder, place, monkeypatch, caplog):
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
    assert "was emptied, and what was copied there is copied again" in caplog.text
    check_equal(place, folder)


def test_a_copy_that_is_no_longer_the_last_is_left_alone(folder, place, caplog):
    with copied(place, folder):
        wait_for_index(place)
        before = place.newest()
        place.store.write("name/run/00002-ffffffff/owner.json", b"{}")
        publish_text(folder / "later", "later")
    assert "was taken over by another process" in caplog.text
    assert place.newest() == before


def test_a_copy_of_a_folder_that_goes_on_into_the_same_copy_is_stopped(folder, place, tmp_path, caplog):
    with copied(place, folder):
        pass
    other = tmp_path / "other" / "run"
    shutil.copytree(folder, other)
    elsewhere = Place(Store(place.store.url), place.key)
    with copied(place, folder), copied(elsewhere, other, every=60) as copying:
        publish_text(folder / "fold_00" / "checkpoints" / "checkpoint_epoch_2", "2")
        wait_for_index(place, 2)
        publish_text(other / "result", "of the copy")
        with pytest.raises(mirror._TakenOver, match="was taken over by"):
            copying._copy_once(False)
    check_equal(place, folder)
    with pytest.raises(ConfigError, match="is not the newest state of its run"):
        place.claim(other)


def test_of_two_runs_that_begin_at_once_one_has_the_place_and_the_other_an_error(tmp_path):
    begin, url, errors = threading.Barrier(2), f"memory://{tmp_path.name}", {}

    class Meeting(Place):
        has_met = False

        def run(self):
            found = super().run()
            if not self.has_met:
                self.has_met = True
                begin.wait(10)
            return found

    def work(number):
        folder = tmp_path / str(number) / "run"
        publish_text(folder / "manifest.json", f"{number}")
        try:
            with copied(Meeting(Store(url), "name/run"), folder):
                publish_text(folder / "result", f"of {number}")
                time.sleep(0.1)
        except (ConfigError, MirrorError) as error:
            errors[number] = str(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (lost,) = errors
    assert "two runs would be mirrored" in errors[lost]
    check_equal(Place(Store(url), "name/run"), tmp_path / str(1 - lost) / "run")


def test_who_loses_the_place_once_it_has_begun_ends_with_an_error_at_once(folder, place, monkeypatch, caplog):
    put, rival = place.store.put, "00001-00000000"

    def begin_elsewhere(*arguments):
        Place(place.store, place.key)._write_owner(Claim("another run", rival))
        put(*arguments)

    monkeypatch.setattr(place.store, "put", begin_elsewhere)
    began = time.monotonic()
    with (
        pytest.raises(MirrorError, match=r"two runs would be mirrored .* there is the run another run"),
        copied(place, folder),
    ):
        pass
    assert time.monotonic() < began + 10
    assert "is not copied: two runs would be mirrored" in caplog.text
    assert place.store.folders(place.key) == [rival]


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
