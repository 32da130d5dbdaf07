"""Twenty folds whose processes are killed at random: all arrive, each once, with the bits of a quiet run.

Those on a cluster of Ray are in ``test_ray.py``.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from digests import digest
from problems import linear_problem
from small_backends import toy_kit
from test_joining import counted, ended, only_folder, programs, stamp, wait_for

from delira.data_loading import BaseDataManager
from delira.errors import WorkerLostError
from delira.experiments.result import KFoldResult
from delira.runs.leases import FOLDER
from delira.training.callbacks import AbstractCallback

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="processes and signals of Linux"),
]

TESTS = Path(__file__).resolve().parents[1]
FOLDS, EPOCHS = 20, 4
#: a variable of the environment that all processes of a test have, to find those that are left
MARK = "DELIRA_TEST_OF"


class Seen(AbstractCallback):
    """Takes its time, and says which process it is in."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds

    def at_epoch_end(self, trainer, **facts):
        (self.folder / str(os.getpid())).touch()
        time.sleep(self.seconds)


def numbers():
    """What all learn from."""
    return BaseDataManager(linear_problem(60, 3, 7), 4)


def kfold(path, seconds=0.0, **options):
    """What each program does."""
    (seen := Path(path) / "seen").mkdir(parents=True, exist_ok=True)
    training = {"num_epochs": EPOCHS, "save_freq": 1, "verbose": 0, "callbacks": [Seen(seen, seconds)]}
    experiment = toy_kit().experiment(path, {"dropout": 0.3}, training=training)
    return experiment.kfold(numbers, **{"num_splits": FOLDS, "shuffle": True, "random_seed": 5, **options})


def left_of(mark):
    """Processes that a test began and that still are."""
    found = []
    for process in psutil.process_iter():
        try:
            found += [process] if process.environ().get(MARK) == mark and process.pid != os.getpid() else []
        except psutil.Error:
            continue
    return found


def check_whole(folder, kills):
    assert counted(folder, "fold_finished") == dict.fromkeys(range(FOLDS), 1)
    assert sum(counted(folder, "fold_started").values()) <= FOLDS + kills
    assert not [*folder.path.parent.rglob(FOLDER)]
    assert not folder.is_unfinished()


@pytest.mark.parametrize("seed", range(2))
def test_processes_that_are_killed_at_random(tmp_path, monkeypatch, seed):
    quiet = digest(kfold(tmp_path / "quiet"))
    shared, draw, killed, stop = {*os.listdir("/dev/shm")}, random.Random(seed), [], threading.Event()
    seen = tmp_path / "killed" / "seen"

    def kill():
        while not stop.wait(draw.uniform(0.2, 0.8)):
            alive = [int(mark.name) for mark in seen.glob("*") if psutil.pid_exists(int(mark.name))]
            if alive and len(killed) < 15:
                killed.append(draw.choice(sorted(alive)))
                os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setenv(MARK, str(tmp_path))
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for _ in range(5):  # one that is lost three times in one epoch has failed
            try:
                found = kfold(tmp_path / "killed", 0.15, n_jobs=2, resume="auto")
                break
            except WorkerLostError:
                continue
    finally:
        stop.set()
        killer.join()
    assert len(killed) > 4
    assert digest(found) == quiet
    check_whole(only_folder(tmp_path / "killed"), len(killed))
    assert not psutil.wait_procs(left_of(str(tmp_path)), timeout=20)[1]
    assert {*os.listdir("/dev/shm")} <= shared


def test_four_workers_from_a_shell_that_are_killed_at_random_and_started_again(tmp_path, monkeypatch):
    quiet = stamp(kfold(tmp_path / "quiet"))
    monkeypatch.setenv(MARK, str(tmp_path))
    paths = os.pathsep.join(str(TESTS / each) for each in ("", "experiments", "training"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS.parent), paths]))
    run = tmp_path / "killed"
    begin = f"import test_twenty_folds; test_twenty_folds.kfold({str(run)!r}, 0.4)"

    def start(*command):
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, *command], stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    with programs(start("-c", begin)) as (first,):
        folder = wait_for(run, "fold_started")
        os.killpg(first.pid, signal.SIGKILL)
    work = ("-m", "delira", "work", str(folder.path), "--import", "test_twenty_folds")
    assert "add --import delira.testing.toy.backend" in start(*work).communicate(timeout=100)[1]
    work += ("--import", "delira.testing.toy.backend", "--takeover-after", "3")
    draw, kills = random.Random(3), 1
    with programs(*(start(*work) for _ in range(4))) as running:
        wait_for(run, "fold_finished")
        while kills <= 12 and sum(counted(folder, "fold_finished").values()) < FOLDS:
            time.sleep(draw.uniform(0.5, 3.0))
            number = draw.randrange(4)
            os.killpg(running[number].pid, signal.SIGKILL)
            running[number].communicate()
            running[number] = start(*work)
            kills += 1
        for process in running:
            ended(process, 300)
    assert kills > 4
    assert stamp(KFoldResult.load(folder.path)) == quiet
    check_whole(folder, kills)
    assert not psutil.wait_procs(left_of(str(tmp_path)), timeout=20)[1]
