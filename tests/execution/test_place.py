"""The place of a run in a store: whose it is, and what it says that it has."""

import dataclasses
import hashlib
import json

import pytest

pytest.importorskip("fsspec", reason="stores need fsspec, see requirements/remote.txt")

from delira.errors import ConfigError, FolderInUseError, MirrorError
from delira.execution import fetch, fetching
from delira.execution.fetching import fetch_whole
from delira.execution.place import Claim, Index, Place
from delira.execution.snapshot import OWN, Entry
from delira.execution.store import Store
from delira.runs import fetched
from delira.utils import files, lock
from delira.utils.time import now

ONE = Entry("0" * 64, 5)


@pytest.fixture
def place(tmp_path):
    return Place(Store(f"memory://{tmp_path.name}"), "name/run")


def index(**changes):
    return Index(**{"copy": "00001-aaaaaaaa", "serial": 3, "run": "r", "files": {"fold_00/a": ONE}, **changes})


def store(place, contents):
    """Let a place have files; their keys."""
    keys, entries = {}, {}
    for name, content in contents.items():
        entries[name] = Entry(hashlib.sha256(content).hexdigest(), len(content))
        keys[name] = place.object(index().copy, entries[name].sha256)
        place.store.write(keys[name], content)
    place.write_index(index(files=entries))
    return keys


def test_an_index_is_read_as_it_was_written():
    made = index(left={"b": ONE})
    assert Index.from_bytes(made.to_bytes()) == made
    assert made.all == {"fold_00/a": ONE, "b": ONE}


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "", ".mirror/owner.json", "a//b", "a\\b", "./a"])
def test_an_index_that_leads_out_of_its_folder_is_refused(name):
    with pytest.raises(ValueError, match="no file of a run"):
        Index.from_bytes(index(files={name: ONE}).to_bytes())


def test_an_index_that_was_changed_is_refused(place):
    told = json.loads(index().to_bytes())
    for changed in (
        {**told, "serial": 4}, files.sealed({**told, "format": 2}), files.sealed({**told, "files": 5}),
        files.sealed({**told, "files": {"a": {"sha256": "x", "size": 1}}}), [], "text",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            Index.from_bytes(json.dumps(changed).encode())
    place.store.write("name/run/00001-aaaaaaaa/index-00000001.json", b"{")
    with pytest.raises(MirrorError, match=r"index-00000001\.json is damaged"):
        place.newest()


def test_the_last_index_of_the_last_copy_that_has_one_counts(place):
    assert place.newest() is None
    for copy, serial in (("00001-aaaaaaaa", 1), ("00002-bbbbbbbb", 7), ("00002-bbbbbbbb", 8)):
        place.write_index(index(copy=copy, serial=serial))
    place.store.write("name/run/00003-cccccccc/owner.json", b"{}")
    assert (place.newest().copy, place.newest().serial) == ("00002-bbbbbbbb", 8)
    place.remove("00002-bbbbbbbb")
    assert place.newest().copy == "00001-aaaaaaaa"
    assert place.copies() == ["00001-aaaaaaaa", "00003-cccccccc"]


def test_a_folder_claims_its_place_once(place, tmp_path):
    claim = place.claim(tmp_path)
    assert claim.copy.startswith("00001-")
    assert Claim.of(tmp_path) == claim == place.claim(tmp_path)
    assert place.copies() == [claim.copy]
    assert place.run() == claim.run
    assert "process" in place.describe(claim.copy)
    # somebody emptied the store
    place.store.remove("name")
    assert place.claim(tmp_path) == claim
    assert place.copies() == [claim.copy]


def test_another_run_is_refused(place, tmp_path):
    claim = place.claim(tmp_path / "one")
    for other in (None, Claim("another run", "00001-ffffffff")):
        if other is not None:
            other.write(tmp_path / "two")
        with pytest.raises(ConfigError, match=f"two runs would be mirrored .*the run {claim.run}.*{tmp_path / 'two'}"):
            place.claim(tmp_path / "two")


def test_who_fetched_the_newest_state_takes_over_and_nobody_else(place, tmp_path):
    first = place.claim(tmp_path / "one")
    Claim(first.run, fetched=first.copy).write(tmp_path / "two")
    Claim(first.run, fetched=first.copy).write(tmp_path / "three")
    second = place.claim(tmp_path / "two")
    assert second.copy.startswith("00002-")
    assert place.copies() == [first.copy, second.copy]
    for late in ("one", "three"):
        with pytest.raises(ConfigError, match="is not the newest state of its run"):
            place.claim(tmp_path / late)


def test_of_two_runs_at_one_place_it_is_that_of_one_whoever_looks(place):
    for name in ("a", "b"):
        place._write_owner(Claim(name, f"00001-{name * 8}"))
    fresh = lambda: Place(place.store, place.key)  # noqa: E731
    assert (fresh().run(), fresh().copies()) == ("a", ["00001-aaaaaaaa"])
    place.write_index(index(copy="00001-bbbbbbbb", run="b"))
    assert (fresh().run(), fresh().copies()) == ("b", ["00001-bbbbbbbb"])


def test_a_folder_that_was_restored_is_not_the_newest_state(place, tmp_path):
    claim = place.claim(tmp_path)
    place.write_index(index(copy=claim.copy, serial=2, run=claim.run))
    dataclasses.replace(claim, serial=1).write(tmp_path)
    with pytest.raises(ConfigError, match="is not the newest state of its run"):
        place.claim(tmp_path)
    dataclasses.replace(claim, serial=2).write(tmp_path)
    assert place.claim(tmp_path).copy == claim.copy


@pytest.mark.parametrize("looks_at", ["copies", "run", "serials"])
def test_who_joins_while_another_process_copies_the_folder_is_let_in(looks_at, place, tmp_path, monkeypatch, caplog):
    folder = tmp_path / "name" / "run"
    claim = place.claim(folder)
    look = getattr(Place, looks_at)

    def copy_meanwhile(self, *arguments):
        found = look(self, *arguments)
        serial = Claim.of(folder).serial + 1
        dataclasses.replace(claim, serial=serial).write(folder)  # before the index, as whoever copies does
        place.write_index(index(copy=claim.copy, serial=serial, run=claim.run, files={}))
        return found

    monkeypatch.setattr(Place, looks_at, copy_meanwhile)
    fetching.Fetching(place.store, "name", folder.parent).located(folder)
    assert "went on elsewhere" not in caplog.text
    assert place.claim(folder).copy == claim.copy


def test_a_mirror_in_the_folder_of_the_run_is_refused(tmp_path):
    publish = Place(Store(str(tmp_path / "run" / "mirror")), "name/run")
    with pytest.raises(ConfigError, match="into itself; name a folder apart"):
        publish.check_apart(tmp_path / "run")
    publish.check_apart(tmp_path / "ru")


def test_a_claim_that_cannot_be_read_is_said(tmp_path):
    assert Claim.of(tmp_path) is None
    Claim("r", "c").write(tmp_path)
    path = tmp_path / OWN / "owner.json"
    path.write_text(path.read_text().replace('"c"', '"d"'))
    with pytest.raises(ConfigError, match="cannot be read"):
        Claim.of(tmp_path)


def test_what_is_damaged_is_not_fetched(place, tmp_path):
    entry = dataclasses.replace(ONE, size=3)
    place.store.write(place.object("00001-aaaaaaaa", ONE.sha256), b"abc")
    with pytest.raises(MirrorError, match="is damaged: it is not what was copied from fold_00/a"):
        place.fetch(index(files={"fold_00/a": entry}), "fold_00/a", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_run_that_is_fetched_has_its_folder_when_all_of_it_is_there(place, tmp_path):
    contents = {"fold_00/result.zip": b"result", "manifest.json": b"{}"}
    keys = store(place, contents)
    place.store.delete(keys["manifest.json"])  # which comes last
    with pytest.raises(MirrorError, match=r"has no content of manifest\.json"):
        fetch(place.url, tmp_path)
    assert not (tmp_path / "name" / "run").exists()
    place.store.write(keys["manifest.json"], b"{}")
    run = fetch(place.url, tmp_path)
    assert run == tmp_path / "name" / "run"
    assert {name: (run / name).read_bytes() for name in contents} == contents


def test_checkpoints_of_another_state_are_set_aside(place, tmp_path):
    checkpoints = tmp_path / "fold_00" / "checkpoints"
    for name in ("last", "epoch_9"):
        files.publish_text(checkpoints / f"checkpoint_{name}.zip", "old")
    store(place, {"fold_00/checkpoints/checkpoint_last.zip": b"new"})
    fetch_whole(place, tmp_path, lambda _, newest: newest.all)
    assert {path.name: path.read_bytes() for path in checkpoints.iterdir()} == {
        "checkpoint_last.zip": b"new", "checkpoint_epoch_9.zip.superseded": b"old",
    }  # fmt: skip


def test_a_folder_of_two_moments_is_not_further_than_its_mirror(place, tmp_path):
    name, folder = "fold_00/history.jsonl", tmp_path / "name" / "run"
    store(place, {name: b"{}\n"})
    place._write_owner(Claim(index().run, index().copy))
    files.publish_text(folder / name, "{}\n" * 9)
    Claim(index().run, fetched=index().copy, serial=index().serial).write(folder)
    fetched.begin(folder, place.url)
    fetching.Fetching(place.store, "name", folder.parent).located(folder)
    assert (folder / name).read_text() == "{}\n"
    assert not fetched.is_in_parts(folder)


def test_names_that_lead_elsewhere_are_not_followed(tmp_path, monkeypatch, caplog):
    store = Store(f"memory://{tmp_path.name}")
    for name in ("..", "a\\b", ".hidden", "a\x1b[2J"):
        store.write(f"{name}/00001-aaaaaaaa/index-00000001.json", index(files={}).to_bytes())
        store.write(f"name/{name}/00001-aaaaaaaa/index-00000001.json", index(files={}).to_bytes())
    store.write("name/run/00001-aaaaaaaa/index-00000001.json", index(files={}).to_bytes())
    assert store.folders("") == ["name"]
    assert store.folders("name") == ["run"]
    assert "has a folder '..', which no run has for its name" in caplog.text
    assert "\x1b" not in caplog.text
    assert fetch(store.url, tmp_path / "out") == tmp_path / "out" / "name" / "run"
    monkeypatch.setattr(fetching, "_found", lambda url: (Place(store, "../name"), "..", "name"))
    with pytest.raises(ConfigError, match=r"'\.\.' is no name of a run"):
        fetch(store.url, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_what_is_missing_of_a_run_that_is_here_is_brought_unless_somebody_is_at_work(place, tmp_path, monkeypatch):
    store(place, {"manifest.json": b"{}", "a": b"a"})
    place._write_owner(Claim(index().run, index().copy))
    run = fetch(place.url, tmp_path)
    (run / "a").unlink()
    with lock.locked(run), pytest.raises(FolderInUseError, match="is in use by"):
        fetch(place.url, tmp_path)
    bring, went_on = Place.fetch, []

    def go_on(self, newest, name, folder):
        if not went_on:
            went_on.append(name)
            place.write_index(dataclasses.replace(newest, serial=4))
            raise FileNotFoundError(name)
        bring(self, newest, name, folder)

    monkeypatch.setattr(Place, "fetch", go_on)
    fetch(place.url, tmp_path)
    assert went_on
    assert (run / "a").read_bytes() == b"a"


def test_a_new_run_waits_until_its_name_is_taken_by_none(tmp_path):
    store = Store(f"memory://{tmp_path.name}")
    store.write(f"name/{now()}-1/00001-aaaaaaaa/owner.json", b"{}")
    fetching.Fetching(store, "name", tmp_path).wait_for_a_name()
    assert not [name for name in store.folders("name") if name.startswith(now())]
