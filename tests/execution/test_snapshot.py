"""What is seen of a folder is what was in it at one instant, and stays at hand until it is copied."""

import contextlib
import hashlib
import os
import threading

import pytest

from delira.execution import snapshot
from delira.execution.snapshot import OWN, Entry, Snapshots, Unquiet
from delira.utils.files import publish_text


@pytest.fixture
def folder(tmp_path):
    for name in ("manifest.json", "fold_00/result.zip", "fold_00/checkpoints/checkpoint_last.zip"):
        publish_text(tmp_path / name, name)
    return tmp_path


def entry(text):
    return Entry(hashlib.sha256(text.encode()).hexdigest(), len(text))


def test_what_is_finished_is_seen(folder):
    for name in (
        ".lock",
        "a.partial-01234567",
        "slurm/job.pkl",
        f"{OWN}/owner.json",
        "fold_00/.leases/x",
        "report/r.html",
    ):
        publish_text(folder / name, name)
    (folder / "fold_00" / "link").symlink_to(folder / "manifest.json")
    found = Snapshots(folder).take({})
    names = ["manifest.json", "fold_00/result.zip", "fold_00/checkpoints/checkpoint_last.zip", "report/r.html"]
    assert found == {name: entry(name) for name in names}


def test_lines_are_whole(folder):
    (folder / "ledger.jsonl").write_text('{"a": 1}\n{"b"')
    (folder / "fold_00" / "history.csv").write_text("epoch")
    found = Snapshots(folder).take({})
    assert found["ledger.jsonl"] == entry('{"a": 1}\n')
    assert found["fold_00/history.csv"] == entry("")


@pytest.mark.parametrize("with_logs", [False, True])
def test_a_file_of_a_user_that_rests_is_copied_to_its_end(with_logs, folder):
    written = {
        "fold_00/threshold.txt": "0.4375",
        "fold_00/scores.csv": "case,score\na,1\nb,2",
        "notes.log": "one\ntwo",
        "own/cases.jsonl": '{"a": 1}',
        "fold_00/my_history.csv": "epoch,loss\n1,0.5",
    }
    for name, text in written.items():
        publish_text(folder / name, text)
    snapshots = Snapshots(folder)
    found = snapshots.take({}, with_logs=with_logs)
    assert {name: found[name] for name in written} == {name: entry(text) for name, text in written.items()}
    assert snapshots.left_out == set()


def test_a_file_of_a_user_that_never_rested_is_cut_at_a_line_and_whole_at_the_end(folder, monkeypatch):
    busy, written = folder / "fold_00" / "busy.txt", []

    def write(text):
        with open(busy, "a") as file:
            file.write(text)

    def look(about, mark_of=snapshot._mark_of):  # each time that somebody looks, something is written
        if written:
            write(written[0])
        return mark_of(about)

    write("one\n")
    monkeypatch.setattr(snapshot, "_mark_of", look)
    written.append("half")
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    assert found["fold_00/busy.txt"] == entry("one\n")
    written.clear()
    assert snapshots.take({}, with_logs=True)["fold_00/busy.txt"] == entry(busy.read_text())
    assert not busy.read_text().endswith("\n")


def test_what_was_seen_stays_though_it_is_replaced(folder):
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    publish_text(folder / "fold_00" / "result.zip", "another")
    staged = snapshots.pending[found["fold_00/result.zip"].sha256]
    assert staged.path.read_text() == "fold_00/result.zip"
    assert staged.is_same()
    stored = {each.sha256: each.size for each in found.values()}
    assert snapshots.take(stored)["fold_00/result.zip"] == entry("another")
    assert snapshots.pending.keys() == {entry("another").sha256}
    snapshots.forget()
    assert not staged.path.exists()
    # what was not copied is at hand again
    snapshots.take(stored)
    assert snapshots.pending.keys() == {entry("another").sha256}
    # a content of which the store has a part is none that it has
    snapshots.take({**stored, entry("another").sha256: 3})
    assert snapshots.pending.keys() == {entry("another").sha256}


def test_one_content_is_kept_once(folder):
    os.link(folder / "fold_00/result.zip", folder / "fold_00/again.zip")
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    assert found["fold_00/again.zip"] == found["fold_00/result.zip"]
    assert len(snapshots.pending) == 3


@pytest.mark.parametrize("has_links", [True, False])
def test_two_files_that_belong_together_are_seen_together(folder, has_links, monkeypatch):
    if not has_links:

        def refuse(*names, **more):
            raise OSError("no links here")

        monkeypatch.setattr(snapshot.os, "link", refuse)
    is_over = threading.Event()

    def write():
        for number in range(100_000):
            for name in ("data", "names_data"):  # the second one says which the first one is
                (folder / "new").write_text(str(number))
                os.replace(folder / "new", folder / "fold_00" / name)
            if is_over.wait(0.002):
                return

    thread = threading.Thread(target=write)
    thread.start()
    numbers = set()
    try:
        snapshots = Snapshots(folder)
        for _ in range(20):
            with contextlib.suppress(Unquiet):
                found = snapshots.take({})
                if "fold_00/names_data" in found:
                    data, names = (
                        int(snapshots.pending[found[f"fold_00/{name}"].sha256].path.read_text())
                        for name in ("data", "names_data")
                    )
                    assert data - names in (0, 1)
                    numbers.add(data)
    finally:
        is_over.set()
        thread.join()
    assert len(numbers) > 3


@pytest.mark.parametrize("part", ["fold_00", "trials/trial_0000", "trials/trial_0000/fold_00"])
def test_what_a_ledger_names_is_seen_with_it(part, folder, monkeypatch):
    snapshots, names = Snapshots(folder), []
    look, ledger = snapshots._part, folder / "ledger.jsonl"

    def train_on(*arguments):
        found = look(*arguments)
        names.append(f"{part}/result_{len(names)}")
        publish_text(folder / names[-1], names[-1])
        publish_text(ledger, "".join(f"{name}\n" for name in names))
        return found

    publish_text(folder / part / "begun", "")
    monkeypatch.setattr(snapshots, "_part", train_on)
    for _ in range(2):
        found = snapshots.take({})
        told = snapshots.pending[found["ledger.jsonl"].sha256].path.read_text() if "ledger.jsonl" in found else ""
        assert {*told.split()} <= found.keys()
    assert len(told.split()) > 1


def test_a_fold_that_begins_while_the_ledger_is_looked_at_is_seen_with_it(folder, monkeypatch):
    snapshots = Snapshots(folder)
    look = snapshots._part

    def train_on(part, stored):
        if not part:
            publish_text(folder / "fold_07" / "result.zip", "seven")
            publish_text(folder / "ledger.jsonl", "seven\n")
        return look(part, stored)

    monkeypatch.setattr(snapshots, "_part", train_on)
    assert {"ledger.jsonl", "fold_07/result.zip"} <= snapshots.take({}).keys()


def disturb(monkeypatch, change):
    """Let something change each time that a file is given a second name."""
    link, numbers = os.link, iter(range(10**6))

    def linked(source, target):
        link(source, target)
        change(source, next(numbers))

    monkeypatch.setattr(snapshot.os, "link", linked)


def test_what_a_run_resumes_from_is_left_for_later_if_it_never_rests(folder, monkeypatch):
    monkeypatch.setattr(snapshot, "_LONGEST", 0.2)
    busy = folder / "fold_00" / "checkpoints" / "checkpoint_last.zip"
    disturb(monkeypatch, lambda source, number: publish_text(busy, str(number)))
    with pytest.raises(Unquiet, match=r"fold_00/checkpoints/checkpoint_last\.zip in .* changed all the time"):
        Snapshots(folder).take({})


@pytest.mark.parametrize("how", ["appended", "replaced"])
def test_a_file_of_a_user_that_never_rests_holds_up_nothing_and_is_told(how, folder, monkeypatch, caplog):
    busy = folder / "fold_00" / "busy"

    def change(source, number):
        if how == "replaced":
            publish_text(busy, str(number))
        else:
            with open(busy, "a") as file:
                file.write("x")

    publish_text(busy, "")
    disturb(monkeypatch, change)
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    assert {name: found[name] for name in found if "busy" not in name} == {
        name: entry(name) for name in ("manifest.json", "fold_00/result.zip", "fold_00/checkpoints/checkpoint_last.zip")
    }
    assert snapshots.pending[found["fold_00/busy"].sha256].is_same()
    assert "fold_00/busy in" in caplog.text
    assert "changes all the time" in caplog.text
    assert snapshots.take({}).keys() == found.keys()
    assert len(caplog.records) == 1


def test_trials_at_work_do_not_hold_up_each_other(folder, monkeypatch):
    monkeypatch.setattr(snapshot, "_PAUSE", 0)
    names = [f"trials/trial_{number:04d}/fold_00/checkpoints/checkpoint_last.zip" for number in range(3)]
    for name in names:
        publish_text(folder / name, "0")

    def train_on(source, number):
        other = next(name for name in names if folder / name != source)
        publish_text(folder / other, str(number))

    disturb(monkeypatch, train_on)
    assert {*names} < Snapshots(folder).take({}).keys()


def test_who_writes_into_a_file_that_was_seen_is_noticed(folder):
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    with open(folder / "fold_00" / "result.zip", "a") as file:
        file.write("more")
    assert not snapshots.pending[found["fold_00/result.zip"].sha256].is_same()


def test_logs_are_looked_at_now_and_then(folder):
    publish_text(folder / "fold_00" / "logs" / "events", "one")
    snapshots = Snapshots(folder)
    found = snapshots.take({})
    assert found["fold_00/logs/events"] == entry("one")
    with open(folder / "fold_00" / "logs" / "events", "a") as file:
        file.write(" two")
    stored = {each.sha256: each.size for each in found.values()}
    assert snapshots.take(stored)["fold_00/logs/events"] == entry("one")
    assert snapshots.take(stored, with_logs=True)["fold_00/logs/events"] == entry("one two")


def test_a_folder_that_was_deleted_is_none(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError):
        Snapshots(folder).take({})
