"""Several programs that work at one cross-validation: each fold is computed once, and the bits are those of one."""

import collections
import contextlib
import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from digests import digest
from small_backends import toy_kit

from delira.callbacks.live_view import FoldTable
from delira.data_loading import BaseDataManager
from delira.errors import FolderInUseError, FoldFailedError
from delira.experiments import folds
from delira.runs.folder import RunFolder
from delira.runs.leases import FOLDER, Leases, worker
from delira.runs.stored_run import read_run
from delira.training.callbacks import AbstractCallback

fcntl = pytest.importorskip("fcntl")
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="programs are stopped and killed")

TESTS = Path(__file__).resolve().parents[1]
FOLDS, EPOCHS = 6, 4


class Slow(AbstractCallback):
    """Takes its time, so that programs meet."""

    def __init__(self, seconds):
        self.seconds = seconds

    def at_epoch_end(self, trainer, **facts):
        time.sleep(self.seconds)


class Full(Exception):
    """An error of the user's own."""


class Fail(AbstractCallback):
    """Raises in one fold of one program."""

    def at_epoch_begin(self, trainer, *, curr_epoch, **facts):
        if trainer.fold == 1 and curr_epoch == 2:
            raise Full("fold 1 is full")


def kfold(path, *callbacks, seconds=0.05, **options):
    """What each program does."""
    rng = np.random.default_rng(7)
    data = rng.normal(size=(36, 3))
    manager = BaseDataManager({"data": data, "label": data.sum(axis=1, keepdims=True)}, 4)
    training = {"num_epochs": EPOCHS, "save_freq": 1, "verbose": 0}
    options = {"num_splits": FOLDS, "shuffle": True, "random_seed": 5, "takeover_after": 2.0, **options}
    experiment = toy_kit().experiment(path, {"dropout": 0.3}, training=training)
    return experiment.kfold(manager, callbacks=[Slow(seconds), *callbacks], **options)


def stamp(result):
    return hashlib.sha256(repr(digest(result)).encode()).hexdigest()


def program(path, *more, before="", **options):
    """Start one; it prints what tells its result from any other."""
    callbacks = "".join(f", test_joining.{name}()" for name in more)
    code = (
        f"import sys; sys.path[:0] = [{str(TESTS)!r}, {str(TESTS / 'experiments')!r}, {str(TESTS / 'training')!r}]\n"
        f"{before}\nimport test_joining\n"
        f"result = test_joining.kfold({str(path)!r}{callbacks}, **{ ({'resume': 'auto', **options})!r})\n"
        "print(test_joining.stamp(result), flush=True)"
    )
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, start_new_session=True)


@contextlib.contextmanager
def programs(*begun):
    """Scope after which none is left."""
    begun = [*begun]
    try:
        yield begun
    finally:
        for process in begun:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def ended(process, seconds=100):
    """What a program printed."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return out.split()[-1]


def only_folder(path):
    (folder,) = [each for each in (path / "UnnamedExperiment").iterdir() if not each.name.startswith(".")]
    return RunFolder(folder)


def counted(folder, event):
    return collections.Counter(each["fold"] for each in folder.events() if each["event"] == event)


def wait_for(path, event, count=1, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ValueError):
            folder = only_folder(path)
            if sum(counted(folder, event).values()) >= count:
                return folder
        time.sleep(0.02)
    raise AssertionError(f"no {event}")


def check_whole(folder, *, restarts=0):
    assert counted(folder, "fold_finished") == dict.fromkeys(range(FOLDS), 1)
    assert sum(counted(folder, "fold_started").values()) <= FOLDS + restarts
    assert not (folder.path / FOLDER).exists()
    assert not (folder.path.parent / FOLDER).exists()
    assert not (folder.path / ".lock").exists()
    assert not folder.is_unfinished()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return stamp(kfold(tmp_path_factory.mktemp("alone"), seconds=0))


def test_programs_that_begin_in_the_same_moment_share_one_run(tmp_path, alone):
    with programs(*(program(tmp_path) for _ in range(3))) as begun:
        assert {ended(process) for process in begun} == {alone}
    folder = only_folder(tmp_path)
    check_whole(folder)
    workers = {event["worker"] for event in folder.events() if event["event"] == "fold_started"}
    assert len(workers) > 1
    names = [event["event"] for event in folder.events()]
    assert names.count("started") == 1
    assert names.count("joined") + names.count("resumed") <= 2


@pytest.mark.slow
def test_a_second_one_joins_by_the_path_with_processes_of_its_own(tmp_path, alone):
    with programs(program(tmp_path, seconds=0.3)) as (first,):
        folder = wait_for(tmp_path, "fold_started")
        joined = kfold(tmp_path, resume=folder.path, n_jobs=2, seconds=0)
        assert stamp(joined) == ended(first) == alone
    check_whole(folder)
    assert [event["event"] for event in folder.events()].count("joined") == 1


def test_who_is_stopped_loses_its_fold_and_ends_well_when_it_wakes(tmp_path, alone):
    with programs(program(tmp_path, seconds=0.3)) as (stopped,):
        folder = wait_for(tmp_path, "fold_started")
        time.sleep(0.5)
        os.killpg(stopped.pid, signal.SIGSTOP)
        joined = kfold(tmp_path, resume="auto", seconds=0)
        assert stamp(joined) == alone
        files = {path: path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}
        os.killpg(stopped.pid, signal.SIGCONT)
        assert ended(stopped) == alone
    after = {path: path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}
    changed = {path.name for path in {*files, *after} if files.get(path) != after.get(path)}
    assert changed <= {"ledger.jsonl", ".lock", ".lock-owner.json"}
    (taken,) = [event for event in folder.events() if "taken_over_from" in event]
    assert taken["taken_over_from"].startswith(f"process {stopped.pid} on ")
    check_whole(folder, restarts=1)


def test_the_table_shows_what_others_train_while_this_program_trains_a_fold(tmp_path, alone, monkeypatch):
    drawn = []

    @contextlib.contextmanager
    def shown(n_folds, settings, what):
        with contextlib.closing(FoldTable(n_folds, lambda table, is_last: drawn.append(look(table)), what)) as table:
            yield table

    def look(table):
        return table.number, [(row.state, row.epoch) for row in table.rows]

    monkeypatch.setattr(folds, "shown_folds", shown)
    with programs(program(tmp_path, seconds=0.8)) as (first,):
        wait_for(tmp_path, "fold_started")
        assert stamp(kfold(tmp_path, resume="auto", seconds=0.8, verbose=1)) == ended(first) == alone
    both = [rows[:2] for number, rows in drawn if number == 1 and rows[1][0] == "runs"]
    assert {state for (state, _), _ in both} >= {"runs"}
    assert len({epoch for (_, epoch), _ in both if epoch}) > 1


STOPS_ITSELF = """
import os, pathlib, signal
from delira.experiments.cross_validation import CrossValidation
real, stopped = CrossValidation.{name}, pathlib.Path({stopped!r})
def stop(self, *arguments):
    if not stopped.exists():
        stopped.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return real(self, *arguments)
CrossValidation.{name} = stop
"""


@pytest.mark.parametrize("name", ["log_finished", "_settle"])
def test_who_is_stopped_before_it_tells_what_it_has_done_tells_it_not_twice(tmp_path, alone, name):
    stopped = tmp_path / "stopped"
    with programs(program(tmp_path, before=STOPS_ITSELF.format(name=name, stopped=str(stopped)))) as (first,):
        folder = wait_for(tmp_path, "fold_started")
        while not stopped.exists():
            time.sleep(0.05)
        assert stamp(kfold(tmp_path, resume="auto", seconds=0)) == alone
        os.killpg(first.pid, signal.SIGCONT)
        assert ended(first) == alone
    check_whole(folder, restarts=1)


@pytest.mark.slow
def test_a_fold_that_failed_in_another_program_is_told_with_its_traceback_and_the_others_finish(tmp_path):
    with programs(program(tmp_path, "Fail", seconds=1.0, n_jobs=2)) as (failing,):  # it fails after the second
        folder = wait_for(tmp_path, "fold_started", 2)
        with pytest.raises(FoldFailedError, match=r"fold 1 failed in process .* fold 1 is full") as caught:
            kfold(tmp_path, resume="auto", seconds=0.1)
        _, err = failing.communicate(timeout=60)
        assert "Full: fold 1 is full" in err
    assert "in at_epoch_begin" in "".join(caught.value.__notes__)
    assert counted(folder, "fold_finished") == {number: 1 for number in range(FOLDS) if number != 1}
    assert counted(folder, "fold_failed") == {1: 1}
    assert folder.is_unfinished()
    whole = kfold(tmp_path, resume="auto", seconds=0)
    assert whole.path == folder.path
    check_whole(folder, restarts=1)


WITHOUT_LOCKS = """
import errno, fcntl, filelock
def flock(*arguments):
    raise OSError(errno.ENOLCK, "no locks available")
fcntl.flock = flock
"""


@pytest.mark.slow
def test_leases_need_no_locks_of_the_file_system(tmp_path, alone):
    with programs(*(program(tmp_path, before=WITHOUT_LOCKS) for _ in range(2))) as begun:
        assert {ended(process) for process in begun} == {alone}
    folder = only_folder(tmp_path)
    assert counted(folder, "fold_finished") == dict.fromkeys(range(FOLDS), 1)
    assert not (folder.path / FOLDER).exists()


def test_without_locks_leases_say_who_is_at_work_and_nobody_is_warned(tmp_path, monkeypatch):
    def refused(*arguments):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = kfold(tmp_path, seconds=0, folds=[0])
    assert (first.path / ".lock").exists()
    assert read_run(first.path).owner is None
    with Leases(first.path).take("fold_01") as lease, lease.fenced(first.path / "fold_01"):
        assert read_run(first.path).owner == worker()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_programs_that_are_killed_at_random_and_started_again_finish_all(tmp_path, alone, seed):
    draw, kills = random.Random(seed), 12
    with programs(*(program(tmp_path) for _ in range(3))) as running:
        for _ in range(kills):
            time.sleep(draw.uniform(0.2, 1.5))
            number = draw.randrange(3)
            os.killpg(running[number].pid, signal.SIGKILL)
            running[number].communicate()
            running[number] = program(tmp_path)
        assert {ended(process) for process in running} == {alone}
    folder = only_folder(tmp_path)
    check_whole(folder, restarts=kills)


def test_a_run_whose_machine_has_died_goes_on_with_more_epochs(tmp_path):
    first = kfold(tmp_path, seconds=0, folds=[0, 1])
    lease = Leases(first.path, expires_after=0.6).take("fold_02")  # of a machine that is gone
    path = first.path / FOLDER / "fold_02.1.lease"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another one"}))
    with lease, pytest.raises(FolderInUseError, match=r"num_epochs: 4 there, 5 here"):
        kfold(tmp_path, seconds=0, resume=first.path, num_epochs=5)
    lease = Leases(first.path, expires_after=0.6).take("fold_02")
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another one"}))
    longer = kfold(tmp_path, seconds=0, resume=first.path, num_epochs=5)
    assert [len(fold.history) for fold in longer.folds] == [5] * FOLDS
    assert not (first.path / FOLDER).exists()


def test_a_finished_run_that_is_tested_again_says_so(tmp_path):
    first = kfold(tmp_path, seconds=0)
    again = kfold(tmp_path, seconds=0, resume="auto", keep_predictions=False)
    assert again.path == first.path
    names = [event["event"] for event in RunFolder(first.path).events()]
    last = names[names.index("finished") + 1 :]
    assert last[0] == "resumed"
    assert last[-1] == "finished"
    assert last.count("fold_started") == FOLDS
