"""Trainings whose files go to a store, through whatever is between it and them, and come back on an empty disk."""

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="mirrors need fsspec, see requirements/remote.txt")

import mirror_stores
from digests import digest
from executors import EXECUTORS, executor_called
from mirror_stores import URL, Refusing, check_equal, check_whole, place_of
from small_backends import toy_kit

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, MirrorError, TrainingInterrupted
from delira.execution import Mirror, fetch, fetching
from delira.execution.mirror import Copying
from delira.execution.place import Place
from delira.execution.store import Store
from delira.runs.folder import RunFolder
from delira.training.callbacks import AbstractCallback
from delira.utils.files import publish_text

TESTS = Path(__file__).resolve().parents[1]
MODULES = os.pathsep.join([str(TESTS), str(TESTS.parent)])
EPOCHS, FOLDS = 3, 2


class Slow(AbstractCallback):
    """Takes its time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def at_epoch_end(self, trainer, **facts):
        time.sleep(self.seconds)


class AtEpoch(AbstractCallback):
    """Calls a function once, at the end of an epoch of a fold."""

    shared = ("call",)

    def __init__(self, call, epoch=1, fold=0):
        self.call, self.at = call, (epoch, fold)

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        if (curr_epoch, trainer.fold) == self.at:
            self.call()


def error(pred, label):
    """A metric."""
    return float(np.abs(pred - label).mean())


def experiment(path):
    training = {
        "num_epochs": EPOCHS, "save_freq": 1, "keep_last_checkpoints": 2, "save_freq_steps": 2, "verbose": 0,
        "val_score_key": "error", "val_metrics": {"error": error}, "metric_keys": {"error": ("pred", "label")},
    }  # fmt: skip
    return toy_kit().experiment(path, {"dropout": 0.3}, training=training)


def manager(n=24):
    data = np.random.default_rng(7).normal(size=(n, 3))
    return BaseDataManager({"data": data, "label": data.sum(axis=1, keepdims=True)}, 4)


def kfold(path, *callbacks, mirror=None, **options):
    """Cross-validate in a folder; the same whatever becomes of it on the way."""
    options = {"num_splits": FOLDS, "shuffle": True, "random_seed": 5, "val_split": 0.3, **options}
    if isinstance(mirror, str):
        mirror = Mirror(mirror, every=0.05, patience=60)
    return experiment(path).kfold(manager(), callbacks=list(callbacks), mirror=mirror, **options)


def stamp(result):
    return hashlib.sha256(repr(digest(result)).encode()).hexdigest()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return stamp(kfold(tmp_path_factory.mktemp("alone")))


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("moto", reason="the store of these tests is moto's")
    pytest.importorskip("s3fs", reason="s3:// needs the package s3fs")
    server = mirror_stores.Server()
    yield server
    server.close()


@pytest.fixture
def proxy(server, monkeypatch):
    """What is between the program and the store, which is empty at first."""
    import fsspec

    server.program.answer = None
    mirror_stores.configure(server.port, monkeypatch)
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.makedirs(mirror_stores.BUCKET, exist_ok=True)
    for path in files.ls(mirror_stores.BUCKET, refresh=True):
        files.rm(path, recursive=True)
    proxy = mirror_stores.Proxy(server.port)
    mirror_stores.configure(proxy.port, monkeypatch)
    monkeypatch.setattr(fetching, "_PAUSES", (0.01,))
    yield proxy
    proxy.down()


def only_folder(path):
    (folder,) = [each for each in (path / "UnnamedExperiment").iterdir() if not each.name.startswith(".")]
    return folder


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            if condition():
                return
        time.sleep(0.02)
    raise AssertionError("it did not come")


def has_finished(path):
    return any(each["event"] == "finished" for each in RunFolder(only_folder(path)).events())


@contextlib.contextmanager
def when(condition, act):
    """Scope in which something is done once, by another thread, when a condition holds."""
    thread = threading.Thread(target=lambda: (wait_for(condition), act()), daemon=True)
    thread.start()
    yield
    thread.join(timeout=60)
    assert not thread.is_alive()


# ---- what becomes of a run


@pytest.mark.parametrize("kind", ["file", "memory", "path"])
def test_a_run_goes_on_from_its_mirror_on_an_empty_disk(kind, tmp_path, alone):
    url = {"file": f"file://{tmp_path}/store", "memory": f"memory://{tmp_path.name}", "path": str(tmp_path / "store")}
    mirror = url[kind]

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "first", AtEpoch(stop, epoch=2, fold=1), mirror=mirror)
    first = only_folder(tmp_path / "first")
    before = check_equal(place_of(mirror), first)
    result = kfold(tmp_path / "second", mirror=mirror, resume="auto")
    assert stamp(result) == alone
    second = only_folder(tmp_path / "second")
    assert second.name == first.name
    events = [each["event"] for each in RunFolder(second).events()]
    assert events.count("started") == 1
    assert events.count("fold_finished") == FOLDS
    index = check_whole(place_of(mirror))
    assert index.files.keys() | index.left.keys() >= before.files.keys() - {
        name for name in before.files if name.startswith("fold_01/checkpoints")
    }
    # what a finished fold has of checkpoints is not needed, and stays in the store
    assert {name for name in index.left if "checkpoint" in name} == {
        name for name in before.files if name.startswith("fold_00/checkpoints/")
    }
    assert not (second / "fold_00" / "checkpoints").exists()
    assert (second / "fold_01" / "checkpoints").exists()


def test_the_mirror_of_a_run_that_is_done_gives_its_result(tmp_path, alone):
    mirror = f"memory://{tmp_path.name}"
    assert stamp(kfold(tmp_path / "first", mirror=mirror)) == alone
    index = check_equal(place_of(mirror), only_folder(tmp_path / "first"))
    trained = []
    result = kfold(tmp_path / "second", AtEpoch(lambda: trained.append(1)), mirror=mirror, resume="auto")
    assert stamp(result) == alone
    assert trained == []
    again = check_whole(place_of(mirror))
    assert again.run == index.run
    assert again.all.keys() >= index.files.keys()


def test_a_mirror_is_no_part_of_what_a_run_is(tmp_path, alone):
    kfold(tmp_path, mirror=f"memory://{tmp_path.name}")
    result = kfold(tmp_path, resume="auto")  # without one
    assert stamp(result) == alone
    assert result.path == only_folder(tmp_path)
    for name in ("manifest.json", "experiment.yml", "ledger.jsonl"):
        assert "memory://" not in (result.path / name).read_text()


def test_a_run_that_does_not_go_on_from_its_mirror_is_told_and_why(tmp_path, caplog):
    mirror = f"memory://{tmp_path.name}"
    caplog.set_level(logging.INFO, "delira")

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "first", AtEpoch(stop), mirror=mirror)
    name = only_folder(tmp_path / "first").name
    kfold(tmp_path / "second", mirror=mirror, resume="auto", random_seed=6)
    assert "found no run to continue in memory://" in caplog.text
    assert f"UnnamedExperiment/{name} did not end, but is not continued: " in caplog.text


def test_no_store_is_asked_by_the_thread_that_trains(tmp_path, monkeypatch):
    asked, trains = [], threading.Event()

    def heard(ask):
        def listened(self, *arguments):
            if trains.is_set():
                asked.append(threading.current_thread().name)
            return ask(self, *arguments)

        return listened

    for name in ("write", "put", "copy", "read", "opened", "sizes", "folders", "delete", "remove"):
        monkeypatch.setattr(Store, name, heard(getattr(Store, name)))
    kfold(tmp_path, AtEpoch(trains.set), Slow(0.1), mirror=f"memory://{tmp_path.name}")
    assert {*asked} == {"delira-mirror"}


def test_a_single_training_comes_back_as_well(tmp_path):
    mirror = Mirror(f"memory://{tmp_path.name}", every=0.05)
    quiet = experiment(tmp_path / "quiet").run(manager(), manager(8))

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment(tmp_path / "a").run(manager(), manager(8), callbacks=[AtEpoch(stop, 2)], mirror=mirror)
    run = only_folder(tmp_path / "a")
    moved = tmp_path / "b" / "UnnamedExperiment" / run.name
    other = experiment(tmp_path / "b").run(manager(), manager(8), mirror=mirror, resume=moved / "fold_00")
    kit = toy_kit()
    assert np.array_equal(kit.read(other), kit.read(quiet))
    # by the name of the run alone, of a run that has ended
    third = experiment(tmp_path / "c").run(manager(), manager(8), mirror=mirror, resume=run.name)
    assert np.array_equal(kit.read(third), kit.read(quiet))
    with pytest.raises(ConfigError, match="there are no checkpoints to resume from in 'nowhere'"):
        experiment(tmp_path / "c").run(manager(), manager(8), mirror=mirror, resume="nowhere")


def test_a_search_goes_on_from_its_mirror_on_an_empty_disk(tmp_path):
    pytest.importorskip("optuna", reason="searches need optuna")
    from test_searches_continued import Break
    from test_tuning import rows, tune

    mirror = Mirror(f"memory://{tmp_path.name}", every=0.05)
    with pytest.raises(KeyboardInterrupt):
        tune(toy_kit(), tmp_path / "first", asked={"callbacks": [Break("trial_0002", 2)], "mirror": mirror})
    moved = tune(toy_kit(), tmp_path / "second", asked={"resume": "auto", "mirror": mirror})
    assert [each["event"] for each in RunFolder(moved.path).events()].count("trial_started") > len(moved.trials)
    assert rows(moved) == rows(tune(toy_kit(), tmp_path / "whole"))
    index = check_whole(Place(Store(mirror.url), f"{moved.path.parent.name}/{moved.path.name}"))
    assert "study.journal" in index.files
    assert any(name.startswith("trials/trial_0002/fold_01/") for name in index.files)


@pytest.mark.slow
@pytest.mark.timeout(300)
# Ray leaves files and processes to the end of the program
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("executor", EXECUTORS)
def test_folds_elsewhere_are_copied_by_the_program_that_began_them(tmp_path, executor):
    mirror = f"file://{tmp_path}/store"
    with executor_called(executor, tmp_path / "jobs") as given:
        there = kfold(tmp_path / "there", mirror=mirror, executor=given)
    check_equal(place_of(mirror), there.path)
    assert stamp(kfold(tmp_path / "empty", mirror=mirror, resume="auto")) == stamp(there)


def test_files_that_nobody_needs_to_go_on_come_by_hand(tmp_path, alone):
    mirror = f"file://{tmp_path}/store"
    kfold(tmp_path / "first", mirror=mirror)
    second = kfold(tmp_path / "second", mirror=mirror, resume="auto").path
    names = {path.relative_to(second).as_posix() for path in second.rglob("checkpoint_*")}
    assert names == set()
    for url in (mirror, f"{mirror}/UnnamedExperiment", f"{mirror}/UnnamedExperiment/{second.name}"):
        assert fetch(url, tmp_path / "second") == second
    found = {path.name for path in second.rglob("checkpoint_*")}
    assert found == {path.name for path in only_folder(tmp_path / "first").rglob("checkpoint_*")}
    third = fetch(mirror, tmp_path / "third")
    assert stamp(kfold(tmp_path / "third", mirror=mirror, resume="auto")) == alone
    check_equal(place_of(mirror), third)
    assert not (tmp_path / "third" / "UnnamedExperiment" / fetching.FETCHING).exists()


def test_what_only_a_store_had_and_lost_is_told_at_the_end(tmp_path, monkeypatch, caplog):
    mirror, end = f"file://{tmp_path}/store", Copying.end
    kfold(tmp_path / "first", mirror=mirror)

    def lose(self, limit):
        wait_for(lambda: place_of(mirror).newest().left)
        place, index = place_of(mirror), place_of(mirror).newest()
        place.store.delete(place.object(index.copy, next(iter(index.left.values())).sha256))
        return end(self, limit)

    monkeypatch.setattr(Copying, "end", lose)
    kfold(tmp_path / "second", mirror=mirror, resume="auto")
    assert "which only the store had" in caplog.text
    check_whole(place_of(mirror))


# ---- what is between a run and its store


def troubles(proxy, server):
    """What goes wrong, by name, and how it ends."""
    proxied = lambda *args, **more: lambda: proxy.become(*args, **more)  # noqa: E731
    full = lambda answer: lambda: setattr(server.program, "answer", answer)  # noqa: E731
    return {
        "refuse": (proxy.down, proxy.up),
        "stall": (proxied("stall"), proxied("pass")),
        "cut": (proxied("cut", cut_after=900), proxied("pass")),
        "cut answers": (proxied("cut", cut_after=100, cuts="down"), proxied("pass")),
        "full": (full(Refusing.FULL), full(None)),
        "forbidden": (full(Refusing.FORBIDDEN), full(None)),
    }


TROUBLES = ["refuse", "stall", "cut", "cut answers", "full", "forbidden"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_step_waits_for_a_store_and_it_is_whole_when_it_is_back(trouble, tmp_path, proxy, server, alone, caplog):
    caplog.set_level(logging.INFO, "delira")
    begin, end = troubles(proxy, server)[trouble]

    def is_told():
        return any("is not copied to" in each.getMessage() for each in caplog.records)

    # it ends only after the last line of the ledger: a step that waited for the store would wait for ever
    with when(lambda: has_finished(tmp_path) and is_told(), end):
        result = kfold(tmp_path, AtEpoch(begin), mirror=URL)
    assert stamp(result) == alone
    check_equal(place_of(URL), result.path)
    told = [each for each in caplog.records if each.name == "delira" and each.levelno == logging.WARNING]
    lost, back = (each.getMessage() for each in told)
    assert re.search(rf"is not copied to {URL}/UnnamedExperiment/\S+ now: \w+.*The run goes on", lost)
    assert re.search(r"is copied to .* again", back)
    assert "nobody" not in caplog.text
    assert "nothing" not in lost


@pytest.mark.slow
def test_a_store_that_dies_and_comes_back_again_and_again(tmp_path, proxy, alone):
    is_over = threading.Event()

    def shake():
        while not is_over.wait(0.15):
            proxy.down()
            is_over.wait(0.1)
            proxy.up()

    thread = threading.Thread(target=shake)
    with when(lambda: has_finished(tmp_path), is_over.set):
        result = kfold(tmp_path, AtEpoch(thread.start), Slow(0.2), mirror=URL)
    thread.join()
    assert stamp(result) == alone
    check_equal(place_of(URL), result.path)


@pytest.mark.slow
def test_what_is_not_copied_at_the_end_is_an_error_and_nothing_is_lost(tmp_path, proxy, server, alone):
    mirror = Mirror(URL, every=0.05, patience=1)

    def fill():
        wait_for(lambda: place_of(URL).newest() is not None)
        server.program.answer = Refusing.FULL

    with pytest.raises(MirrorError, match=r"files? \(.* MB\) .* not copied from .* in 1 s \(.*quota.*resume='auto'"):
        kfold(tmp_path, AtEpoch(fill), mirror=mirror)
    assert check_whole(place_of(URL)) is not None  # an earlier state
    assert stamp(kfold(tmp_path, resume="auto")) == alone
    server.program.answer = None
    result = kfold(tmp_path, resume="auto", mirror=URL)
    assert stamp(result) == alone
    check_equal(place_of(URL), result.path)


@pytest.mark.slow
def test_an_error_of_a_fold_arrives_and_says_what_is_not_copied(tmp_path, proxy):
    def fail():
        proxy.down()
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        kfold(tmp_path, AtEpoch(fail, epoch=2), mirror=Mirror(URL, every=0.05, patience=0.5))
    assert any("not copied from" in note for note in caught.value.__notes__)


@pytest.mark.slow
@pytest.mark.parametrize("cuts", ["down", "up"])
def test_a_fetch_that_is_cut_goes_on_where_it_was(cuts, tmp_path, proxy, alone):
    kfold(tmp_path / "first", mirror=URL)
    place = place_of(URL)
    opened, n_opened = place.store._fs.__class__._cat_file, []

    with pytest.MonkeyPatch.context() as patch:

        async def cat_file(self, path, *args, **more):
            n_opened.append(path)
            if len(n_opened) == 8:
                proxy.become("cut", cut_after=200, cuts=cuts)
            return await opened(self, path, *args, **more)

        patch.setattr(place.store._fs.__class__, "_cat_file", cat_file)
        with pytest.raises((MirrorError, OSError)):
            kfold(tmp_path / "second", mirror=URL, resume="auto")
    assert proxy.n_cut
    brought = {path.name for path in (tmp_path / "second").rglob("*") if path.is_file()}
    proxy.become("pass")
    result = kfold(tmp_path / "second", mirror=URL, resume="auto")
    assert stamp(result) == alone
    assert brought
    assert not list((tmp_path / "second").rglob("*.partial-*"))


# ---- refused before anything is trained


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nowhere://bucket/folder", "Protocol not known: nowhere"),
        ("s3://key:secret@bucket/folder", "'s3://bucket/folder' was given with a password in it"),
        ("s3://secret@bucket/folder", "'s3://bucket/folder' was given with a password in it"),
        ("s3://bucket/folder?key=secret", "'s3://bucket/folder' was given with options in it"),
        ("", "must be a URL or a path"),
        (5, "must be a URL"),
        ("simplecache::s3://bucket", "no URL of one store"),
        ("/dev/null/folder", "cannot be used: .*look at the URL"),
    ],
)
def test_a_wrong_mirror_is_refused_before_the_training(url, text, tmp_path):
    with pytest.raises(ConfigError, match=text) as caught:
        kfold(tmp_path, mirror=url)
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.rglob("manifest.json"))
    with pytest.raises(ConfigError, match=text):
        experiment(tmp_path).run(manager(), mirror=url)


def test_a_mirror_that_would_be_in_the_run_is_refused_before_the_training(tmp_path):
    with pytest.raises(ConfigError, match=r"would copy the run .* into itself"):
        kfold(tmp_path, mirror=str(tmp_path))
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_missing_bucket_a_missing_permission_and_nobody_there_are_refused(tmp_path, proxy, server):
    with pytest.raises(ConfigError, match=r"bucket does not exist; look at the URL.*AWS_ENDPOINT_URL"):
        kfold(tmp_path, mirror="s3://no-such-bucket/folder")
    server.program.answer = Refusing.FORBIDDEN
    with pytest.raises(ConfigError, match="PermissionError: you may not write here"):
        kfold(tmp_path, mirror=URL)
    server.program.answer = None
    proxy.down()
    with pytest.raises(ConfigError, match="cannot be used: "):
        kfold(tmp_path, mirror=URL)
    assert not list(tmp_path.rglob("manifest.json"))


# ---- two of them


def test_two_runs_at_one_place_are_refused_and_both_are_named(tmp_path):
    mirror = f"memory://{tmp_path.name}"
    first = kfold(tmp_path / "first", mirror=mirror).path
    other = kfold(tmp_path / "other").path
    run = place_of(mirror).run()
    taken = other.with_name(first.name)
    if taken != other:
        other.rename(taken)
    with pytest.raises(
        ConfigError, match=rf"two runs would be mirrored .*/{first.name}: there is the run {run}.*{taken}"
    ):
        kfold(tmp_path / "other", mirror=mirror, resume=taken)


def test_who_is_taken_over_stops_to_copy_and_says_so(tmp_path, alone, caplog):
    mirror = f"file://{tmp_path}/store"
    results = []

    def go_on_elsewhere():
        wait_for(lambda: place_of(mirror).newest() is not None)
        results.append(kfold(tmp_path / "second", mirror=mirror, resume="auto"))

    first = kfold(tmp_path / "first", AtEpoch(go_on_elsewhere, epoch=1, fold=1), mirror=mirror)
    assert [stamp(result) for result in (first, *results)] == [alone, alone]
    assert "was taken over by process" in caplog.text
    place = place_of(mirror)
    index = check_equal(place, results[0].path)
    assert index.copy.startswith("00002-")
    # the folder that was left behind is brought up to date when it goes on
    again = kfold(tmp_path / "first", mirror=mirror, resume="auto")
    assert stamp(again) == alone
    assert "went on elsewhere" in caplog.text
    assert check_whole(place).copy.startswith("00003-")


def test_a_folder_that_is_not_the_newest_state_is_not_mirrored_over_it(tmp_path):
    mirror = f"file://{tmp_path}/store"
    first = kfold(tmp_path / "first", mirror=mirror).path
    kfold(tmp_path / "second", mirror=mirror, resume="auto")
    place = place_of(mirror)
    with pytest.raises(ConfigError, match="is not the newest state of its run"):
        place.claim(first)


def test_a_folder_that_was_restored_is_brought_to_the_newest_state(tmp_path, alone, caplog):
    mirror, restored, trained = f"file://{tmp_path}/store", tmp_path / "restored", []

    def keep():
        wait_for(lambda: place_of(mirror).newest() is not None)
        hidden = shutil.ignore_patterns("staged", ".leases", ".lock*")
        shutil.copytree(tmp_path / "first", restored, ignore=hidden)
        # of a machine that is gone, with what this one had of it
        dead = {"number": 1, "token": "t", "worker": "process 1 on another machine", "machine": "another", "pid": 1}
        told = json.dumps({**dead, "began": "1", "expires_after": 0.3, "beat": "1"})
        publish_text(only_folder(restored) / ".leases" / "fold_01.1.lease", told)

    kfold(tmp_path / "first", AtEpoch(keep, epoch=1, fold=1), mirror=mirror)
    result = kfold(restored, AtEpoch(lambda: trained.append(1), epoch=3, fold=1), mirror=mirror, resume="auto")
    assert trained == []
    assert stamp(result) == alone
    assert "is brought to its newest state" in caplog.text
    assert check_whole(place_of(mirror)).copy.startswith("00002-")


def test_a_run_that_is_further_here_than_where_it_went_on_is_kept(tmp_path, alone, caplog):
    mirror, trained = f"file://{tmp_path}/store", []

    def stop():
        raise KeyboardInterrupt

    def elsewhere():
        wait_for(lambda: place_of(mirror).newest() is not None)
        with pytest.raises(KeyboardInterrupt):
            kfold(tmp_path / "second", AtEpoch(stop, epoch=1, fold=0), mirror=mirror, resume="auto")

    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "first", AtEpoch(elsewhere, 1, 0), AtEpoch(stop, 3, 0), mirror=mirror)
    first = only_folder(tmp_path / "first")
    epochs = [AtEpoch(lambda epoch=epoch: trained.append(epoch), epoch, 0) for epoch in (1, 2, 3)]
    result = kfold(tmp_path / "first", *epochs, mirror=mirror, resume="auto")
    assert trained == [3]
    assert "but less far than here (0 finished, 3 epochs" in caplog.text
    assert stamp(result) == alone
    assert not list(first.rglob("*.superseded"))
    assert check_whole(place_of(mirror)).copy.startswith("00003-")


@pytest.mark.parametrize("cure", ["mirror", "fetch"])
def test_a_folder_whose_renewal_was_broken_off_is_of_two_moments_and_nothing_goes_on_from_it(
    cure, tmp_path, alone, monkeypatch
):
    mirror, bring, brought = f"file://{tmp_path}/store", Place.fetch, []

    def stop():
        raise KeyboardInterrupt

    def bring_a_part(self, index, name, folder):
        if len(brought) == 3:
            raise KeyboardInterrupt
        brought.append(name)
        bring(self, index, name, folder)

    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "first", AtEpoch(stop, 1, 0), mirror=mirror)
    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "second", AtEpoch(stop, 2, 1), mirror=mirror, resume="auto")
    first = only_folder(tmp_path / "first")
    monkeypatch.setattr(Place, "fetch", bring_a_part)
    with pytest.raises(KeyboardInterrupt):
        kfold(tmp_path / "first", mirror=mirror, resume="auto")
    monkeypatch.setattr(Place, "fetch", bring)
    ledger = (first / "ledger.jsonl").read_bytes()
    for elsewhere in ({}, {"mirror": f"{mirror}-2"}):
        for resume in ("auto", first):
            with pytest.raises(ConfigError, match=rf"two moments.*delira fetch {mirror}/\S+ --out .*first'.*mirror="):
                kfold(tmp_path / "first", resume=resume, **elsewhere)
    assert (first / "ledger.jsonl").read_bytes() == ledger
    if cure == "fetch":
        assert fetch(mirror, tmp_path / "first") == first
    asked = {"mirror": mirror} if cure == "mirror" else {}
    assert stamp(kfold(tmp_path / "first", resume="auto", **asked)) == alone


# ---- ends that nobody plans


def program(folder, mirror, port, seconds=0.1, **options):
    """Start a program that cross-validates, on what may be an empty disk, and prints what its result is."""
    code = (
        f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(Path(__file__).parent)!r}]\n"
        "import test_mirroring as test\nfrom delira.execution import Mirror\n"
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        f"mirror = Mirror({mirror!r}, every=0.02, grace={options.pop('grace', 20)})\n"
        f"result = test.kfold({str(folder)!r}, test.Slow({seconds}), mirror=mirror, resume='auto')\n"
        "print(test.stamp(result), flush=True)"
    )
    environment = {**os.environ, **(mirror_stores.environment(port) if port else {}), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked")
@pytest.mark.parametrize("kind", ["file", "s3"])
def test_programs_that_are_killed_at_random_instants_end_in_the_same_bits(kind, tmp_path, alone, request):
    kills, seed = 10, int.from_bytes(os.urandom(3), "big")
    mirror, environment = f"file://{tmp_path}/store", {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": MODULES}
    if kind == "s3":
        mirror, port = URL, request.getfixturevalue("proxy").port
        environment |= mirror_stores.environment(port)
    seconds = {"file": "1.5", "s3": "2.5"}[kind]  # most that one lives, once it has claimed its place
    program = str(TESTS / "mirror_lives.py")
    command = [sys.executable, program, str(tmp_path), mirror, str(kills), str(seed), seconds]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert "error" not in told, told
    assert {*told["stamps"]} == {alone}
    assert told["kills"] >= 10
    assert max(told["resumed"]) > 0  # they went on, one from the other
    for number in range(len(told["stamps"])):
        store = Store(f"{mirror}/{number}")
        # one that was killed before its first index leaves nothing to go on from
        runs = [Place(store, f"UnnamedExperiment/{run}") for run in store.folders("UnnamedExperiment")]
        assert [index for place in runs if (index := check_whole(place)) is not None]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_signal_ends_a_run_with_its_last_checkpoint_in_the_store(tmp_path, proxy, alone):
    with program(tmp_path / "first", URL, proxy.port, seconds=0.5) as process:
        try:
            wait_for(lambda: list(tmp_path.rglob("fold_01/checkpoints/checkpoint_last*")))
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, err
    check_equal(place_of(URL), only_folder(tmp_path / "first"))
    assert stamp(kfold(tmp_path / "second", mirror=URL, resume="auto")) == alone


@pytest.mark.slow
def test_after_a_signal_a_store_that_stalls_is_waited_for_no_longer_than_the_grace(tmp_path, proxy):
    def stop():
        proxy.become("stall")
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterrupted) as caught:
        kfold(tmp_path, AtEpoch(stop), mirror=Mirror(URL, every=0.05, patience=300, grace=1))
    assert any("not copied from" in note and "in 1 s" in note for note in caught.value.__notes__)
    proxy.become("pass")
