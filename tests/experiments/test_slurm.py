"""Folds as jobs of submitit: out of time, queued again, failed, lost; and the same bits as here."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import psutil
import pytest
from digests import digest
from small_backends import toy_kit
from test_folds import DieOnce, Fail, Full, kfold, named, only_folder

from delira.data_loading.workers.pool import WorkerTraceback
from delira.errors import ConfigError, WorkerError, WorkerLostError
from delira.execution import Resources, Shared, SlurmExecutor
from delira.training.callbacks import AbstractCallback

submitit = pytest.importorskip("submitit", reason="needs submitit, see requirements/slurm.txt")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # its jobs are left to the system
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

ONE = Resources()


@pytest.fixture
def jobs(tmp_path):
    made = SlurmExecutor(tmp_path / "jobs", n_jobs=2, cluster="local", signal_delay_s=30)
    yield made
    made.shutdown()


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.05)
    return found


# ---- tasks


def test_a_task_has_its_threads_and_shared_data_of_its_own(jobs):
    shared = Shared(np.arange(10.0))

    def look(shared):
        from threadpoolctl import threadpool_info

        shared.value[:] *= 2
        algebra = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return os.environ["OMP_NUM_THREADS"], shared.value.tolist(), sys.argv, os.getpid(), algebra

    class Task:
        def __init__(self):
            self.shared = shared

        def __call__(self):
            return look(self.shared)

    answers = [handle.result() for handle in [jobs.submit(Task(), Resources(cpus=n)) for n in (2, 1)]]
    assert [answer[0] for answer in answers] == ["2", "1"]
    assert [answer[4] for answer in answers] == [{2}, {1}]
    assert all(answer[1] == (np.arange(10.0) * 2).tolist() and answer[2] == sys.argv for answer in answers)
    assert os.getpid() not in {answer[3] for answer in answers}
    (tasks,) = jobs.folder.glob("tasks-*")
    assert tasks.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in tasks.iterdir()) == ["shared-0", "task-1", "task-2"]
    (tasks / "shared-0").write_bytes(b"something else")
    with pytest.raises(WorkerError, match="is not what was written for this job"):
        jobs.submit(Task(), ONE).result()
    jobs.shutdown()
    assert not tasks.exists()
    assert not [*jobs.folder.rglob("*.pkl")]
    with pytest.raises(ConfigError, match="was shut down"):
        jobs.submit(Task(), ONE)


def test_what_may_hold_keys_is_read_by_nobody_else(jobs):
    keys = {"secret": "geheim99"}

    class Task:
        def __init__(self):
            self.shared, self.own = Shared(keys), dict(keys)

        def __call__(self):
            return self.shared.value == self.own

    task = Task()  # while it lives, what it shares lies there
    assert jobs.submit(task, ONE).result()
    holding = [path for path in jobs.folder.rglob("*") if path.is_file() and b"geheim99" in path.read_bytes()]
    assert sorted(path.name for path in holding) == ["shared-0", "task-1"]
    assert {path.stat().st_mode & 0o777 for path in holding} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in holding} == {0o700}


def test_errors_losses_and_what_is_cancelled(jobs):
    def refuse():
        error = Full("the disk")
        error.add_note("in the cellar")
        raise error

    handles = [jobs.submit(task, ONE) for task in (refuse, lambda: os.kill(os.getpid(), signal.SIGKILL), time.time)]
    handles[2].cancel()
    with pytest.raises(Full, match="the disk") as caught:
        handles[0].result()
    assert caught.value.__notes__ == ["in the cellar"]
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    with pytest.raises(WorkerLostError, match="ended without an answer"):
        handles[1].result()
    with pytest.raises(CancelledError):
        handles[2].result()
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"cannot be pickled.*__getstate__"):
        jobs.submit(lambda: lock, ONE)


def test_no_more_jobs_run_at_once_than_wanted(jobs, tmp_path):
    def count(tmp_path=tmp_path):
        mark = tmp_path / f"runs-{os.getpid()}"
        mark.touch()
        time.sleep(0.3)
        n = len([*tmp_path.glob("runs-*")])
        mark.unlink()
        return n

    assert max(handle.result() for handle in [jobs.submit(count, ONE) for _ in range(5)]) <= 2


# ---- folds


def test_jobs_compute_what_one_process_does_bit_for_bit(jobs, tmp_path, manager):
    here = kfold(toy_kit(), tmp_path / "here", manager(24))
    there = kfold(toy_kit(), tmp_path / "there", manager(24), executor=jobs)
    assert digest(there) == digest(here)
    assert [event["executor"] for event in named(there, "handed_out")] == ["SlurmExecutor"]
    assert not (there.path / ".leases").exists()


class Slow(AbstractCallback):
    """Takes its time in some folds, and notes each epoch."""

    def __init__(self, folder, seconds, *folds):
        self.folder, self.seconds, self.folds = folder, seconds, folds

    def at_epoch_end(self, trainer, *, curr_epoch, **facts):
        with open(self.folder / f"epochs-{trainer.fold}", "a") as file:
            file.write(f"{curr_epoch} {os.getpid()}\n")
        if trainer.fold in self.folds:
            time.sleep(self.seconds)


def epochs_of(path):
    lines = [line.split() for line in path.read_text().splitlines()]
    return [int(epoch) for epoch, _ in lines], len({pid for _, pid in lines})


def test_a_job_that_runs_out_of_time_writes_a_checkpoint_and_goes_on_in_its_next_turn(tmp_path, manager):
    # six seconds of time, of which two are for the checkpoint, and epochs of a second
    jobs = SlurmExecutor(tmp_path / "jobs", n_jobs=2, cluster="local", timeout_min=0.15, signal_delay_s=3)
    options = {"num_epochs": 9, "save_freq": 100, "folds": [0, 1]}
    try:
        slow = Slow(tmp_path, 1.2, 0)
        found = kfold(toy_kit(), tmp_path / "turns", manager(24), slow, executor=jobs, **options)
    finally:
        jobs.shutdown()
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24), **options))
    epochs, n_processes = epochs_of(tmp_path / "epochs-0")
    assert epochs == [*range(1, 10)]  # none was computed twice: the checkpoint is of the epoch in which the signal came
    assert n_processes > 1
    assert epochs_of(tmp_path / "epochs-1") == ([*range(1, 10)], 1)
    assert not named(found, "fold_lost")


@pytest.mark.parametrize("name", ["USR2", "USR1", "HUP"])
def test_whatever_signal_submitit_is_told_to_send_means_the_same(tmp_path, manager, monkeypatch, name):
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", name)
    jobs = SlurmExecutor(tmp_path / "jobs", n_jobs=1, cluster="local", timeout_min=0.15, signal_delay_s=3)
    # submitit reads its environment when it is imported: jobs are programs of their own
    options = {"num_epochs": 6, "save_freq": 100, "folds": [0]}
    begun = threading.Thread(target=send_to_jobs, args=(tmp_path / "epochs-0", getattr(signal, f"SIG{name}")))
    begun.start()
    try:
        found = kfold(toy_kit(), tmp_path / "turns", manager(24), Slow(tmp_path, 0.6, 0), executor=jobs, **options)
    finally:
        begun.join()
        jobs.shutdown()
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24), **options))
    assert epochs_of(tmp_path / "epochs-0") == ([*range(1, 7)], 2)


def send_to_jobs(mark, number):
    """Send a signal to all processes of the first job, as SLURM does."""
    wait_for(lambda: mark.exists() and len(mark.read_text().splitlines()) >= 2)
    pid = int(mark.read_text().split()[-1])
    os.kill(pid, number)


def test_lost_and_failed_jobs_are_told(tmp_path, manager, jobs):
    (tmp_path / "marks").mkdir()
    die = DieOnce(tmp_path / "marks", (2,), 2)
    with pytest.raises(Full, match="fold 1 is full"):
        kfold(toy_kit(), tmp_path, manager(24), die, Fail(tmp_path, 1), executor=jobs)
    folder = only_folder(tmp_path)
    assert sorted(event["fold"] for event in named(folder, "fold_finished")) == [0, 2, 3]
    assert [event["fold"] for event in named(folder, "fold_lost")] == [2]
    (tmp_path / "mended").touch()
    whole = kfold(toy_kit(), tmp_path, manager(24), resume="auto")
    assert whole.path == folder
    assert digest(whole) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))


def test_this_process_may_stand_for_a_cluster_to_try_it(tmp_path, manager):
    jobs = SlurmExecutor(tmp_path / "jobs", cluster="debug")
    found = kfold(toy_kit(), tmp_path / "debug", manager(24), executor=jobs)
    jobs.shutdown()
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "here", manager(24)))


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
import pathlib
from delira.execution import SlurmExecutor
from problems import linear_problem
from delira.data_loading import BaseDataManager
from small_backends import toy_kit
from test_slurm import Slow
from test_folds import kfold
folder = pathlib.Path({folder!r})
jobs = SlurmExecutor(folder / "jobs", n_jobs=2, cluster="local")
data = BaseDataManager(linear_problem(24, 3, 7), 4)
kfold(toy_kit(), folder, data, Slow(folder, {pause}, 0, 1, 2, 3), executor=jobs, resume="auto", takeover_after=3.0)
print("done")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_after_a_signal_the_run_goes_on_and_no_job_is_left(tmp_path, manager, number):
    root = Path(__file__).parents[2]
    paths = [str(root), str(root / "tests"), str(root / "tests" / "experiments")]

    def start(pause):
        code = SCRIPT.format(paths=paths, folder=str(tmp_path), pause=pause)
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)

    first = start(0.5)
    wait_for(lambda: len([*tmp_path.glob("epochs-*")]) == 2)
    processes = psutil.Process(first.pid).children(recursive=True)
    first.send_signal(number)
    first.communicate(timeout=60)
    if number == signal.SIGINT:
        assert not psutil.wait_procs(processes, timeout=20)[1]
    second = start(0)  # the jobs of a program that was killed go on, and are waited for
    said, complained = second.communicate(timeout=200)
    assert said.split()[-1] == "done", complained
    assert not psutil.wait_procs(processes, timeout=20)[1]
    found = kfold(toy_kit(), tmp_path, manager(24), resume="auto")
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"folder": ""}, "folder"),
        ({"folder": None}, "folder"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"timeout_min": 0}, "timeout_min"),
        ({"timeout_min": "1:00"}, "timeout_min"),
        ({"signal_delay_s": 0}, "signal_delay_s"),
        ({"signal_delay_s": 90, "timeout_min": 1}, "signal_delay_s"),
        ({"options": ["gpu"]}, "options"),
        ({"cluster": "lsf"}, "cluster"),
    ],
)
def test_arguments_that_are_none_are_refused_before_anything_is_submitted(tmp_path, arguments, match):
    with pytest.raises(ConfigError, match=match):
        SlurmExecutor(**{"folder": tmp_path / "jobs", "cluster": "local", **arguments})


def test_a_folder_that_others_may_write_into_is_refused_and_a_new_one_is_ones_own(tmp_path):
    SlurmExecutor(tmp_path / "new" / "jobs", cluster="local")
    assert (tmp_path / "new" / "jobs").stat().st_mode & 0o077 == 0
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="others may write into it"):
        SlurmExecutor(tmp_path / "open", cluster="local")
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(ConfigError, match="folder="):
            SlurmExecutor(tmp_path / name, cluster="local")


def test_where_there_is_no_slurm_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="executor='slurm' cannot be used here"):
        SlurmExecutor(tmp_path)
