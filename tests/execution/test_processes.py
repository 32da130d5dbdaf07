"""Tasks in processes of this machine: what they see, what comes back, and what is left when something goes wrong."""

import functools
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import psutil
import pytest

from delira.data_loading.workers.pool import WorkerTraceback
from delira.errors import ConfigError, DataError, TrainingInterrupted, WorkerLostError
from delira.execution import ProcessExecutor, Resources, Shared
from delira.execution.processes import visible_gpus

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory of Linux that has no name")

ONE = Resources()
ROOT = Path(__file__).parents[2]


@pytest.fixture
def executor():
    made = ProcessExecutor(2)
    yield made
    made.shutdown()


def wait_for(condition, seconds=20.0):
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.02)


class Refused(Exception):
    """An error of the user's own, whose constructor wants something else than it keeps."""

    def __init__(self, place, why):
        super().__init__(f"{place}: {why}")
        self.place = place


def refuse():
    error = Refused("shelf 3", "empty")
    error.add_note("in the cellar")
    raise error


class Unsendable(Exception):
    """An error with something that no other process can have."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def refuse_unsendably():
    raise Unsendable("the door is locked")


def new_pages():
    """Pages that the system gives to who takes and lets go of the same memory again and again."""
    import resource

    def taken():
        [b"x" * (1 << 20) for _ in range(16)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    taken()
    before = taken()
    return (taken() - before) / 16


def meet(folder, name, n_others):
    """Say that this task has begun, and wait for others."""
    (folder / name).touch()
    wait_for(lambda: len([*folder.iterdir()]) >= n_others)
    return os.environ.get("CUDA_VISIBLE_DEVICES"), os.getpid()


# ---- what they see, and what comes back


def test_a_task_runs_in_another_process_and_its_value_comes_back(executor):
    handles = [executor.submit(lambda number=number: (number**2, os.getpid()), ONE) for number in range(5)]
    values = [handle.result() for handle in handles]
    assert [value for value, _ in values] == [0, 1, 4, 9, 16]
    pids = {pid for _, pid in values}
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2  # processes are used again
    assert all(handle.done() for handle in handles)


def test_as_many_tasks_run_at_the_same_time_as_there_are_jobs(executor, tmp_path):
    handles = [executor.submit(functools.partial(meet, tmp_path, name, 2), ONE) for name in "ab"]
    assert len({pid for _, pid in (handle.result() for handle in handles)}) == 2


def test_threads_of_libraries_are_what_the_task_needs(executor):
    told = [executor.submit(lambda: os.environ["OMP_NUM_THREADS"], Resources(cpus=n)).result() for n in (3, 1, 3)]
    assert told == ["3", "1", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="another C library")
def test_memory_that_a_task_frees_is_kept_for_its_next_step(executor):
    assert executor.submit(new_pages, Resources()).result() < 16  # of 256 a MiB


def test_what_is_shared_lies_in_shared_memory_and_changes_are_seen_by_nobody_else(executor, tmp_path):
    array = np.arange(300_000, dtype=np.float64)
    shared = Shared({"array": array, "name": "numbers"})

    def change(shared, name):
        own = shared.value["array"]
        with open("/proc/self/maps") as maps:
            is_mapped = any("memfd:delira" in line for line in maps)
        own[0] += 10
        meet(tmp_path, name, 2)  # both have changed theirs
        return float(own[0]), float(own[1:].sum()), is_mapped

    handles = [executor.submit(functools.partial(change, shared, name), ONE) for name in "ab"]
    assert [handle.result() for handle in handles] == [(10.0, array[1:].sum(), True)] * 2
    assert array[0] == 0


def test_an_error_arrives_with_its_own_type_its_attributes_notes_and_traceback(executor):
    with pytest.raises(Refused, match="shelf 3: empty") as caught:
        executor.submit(refuse, ONE).result()
    assert caught.value.place == "shelf 3"
    assert caught.value.__notes__ == ["in the cellar"]
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in refuse" in str(caught.value.__cause__)
    assert executor.submit(lambda: 1, ONE).result() == 1  # the process goes on


def test_an_error_that_cannot_be_sent_says_what_it_said(executor):
    with pytest.raises(DataError, match="Unsendable: the door is locked"):
        executor.submit(refuse_unsendably, ONE).result()


def test_a_value_that_cannot_be_sent_is_an_error_and_no_silence(executor):
    with pytest.raises(TypeError, match="pickle") as caught:
        executor.submit(threading.Lock, ONE).result()
    assert "while the answer of a task was sent" in caught.value.__notes__


def test_a_warning_that_the_program_makes_an_error_is_that_of_its_task_alone(executor, tmp_path):
    def warn():
        warnings.warn("it rains", UserWarning, stacklevel=1)
        wait_for(lambda: False)

    quiet, loud = executor.submit(lambda: (time.sleep(0.5), 5)[1], ONE), executor.submit(warn, ONE)
    with warnings.catch_warnings(action="error"):
        with pytest.raises(UserWarning, match="it rains") as caught:
            loud.result()
        assert quiet.result() == 5
        assert executor.submit(lambda: 7, ONE).result() == 7
    (note,) = caught.value.__notes__
    assert "test_processes.py:" in note


def test_log_records_and_warnings_are_those_of_the_program(executor, caplog):
    def talk():
        logging.getLogger("delira").info("all is %s", "well")
        logging.getLogger("delira").debug("nobody wants this")
        warnings.warn("it rains", UserWarning, stacklevel=1)

    with caplog.at_level(logging.INFO, "delira"), pytest.warns(UserWarning, match="it rains") as caught:
        executor.submit(talk, ONE).result()
    assert [record.getMessage() for record in caplog.records if record.name == "delira"] == ["all is well"]
    assert caught[0].filename == __file__


SCRIPT = """
import os, sys
from delira.execution import ProcessExecutor, Resources

class Mine(ValueError):
    pass

class Point:
    def __init__(self, x):
        self.x = x

def fail(point):
    raise Mine(f"at {point.x}")

executor = ProcessExecutor(1)
point = Point(7)
print("begins", flush=True)
try:
    executor.submit(lambda: fail(point), Resources()).result()
except Mine as error:
    print(type(error) is Mine, error)
print(executor.submit(lambda: Point(3), Resources()).result().x)
"""


def test_a_script_needs_no_guard_and_gets_errors_of_its_own_classes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[:3] == ["begins", "True at 7", "3"], done.stderr


# ---- GPUs


def test_gpus_are_dealt_out_and_come_back(tmp_path):
    executor = ProcessExecutor(2, gpus=[3, "GPU-5"])
    try:
        for turn in ("first", "second"):
            (tmp_path / turn).mkdir()
            need = Resources(gpus=1)
            tasks = [functools.partial(meet, tmp_path / turn, name, 2) for name in "ab"]
            seen = [executor.submit(task, need) for task in tasks]
            assert {gpus for gpus, _ in (handle.result() for handle in seen)} == {"3", "GPU-5"}
        assert executor.submit(lambda: os.environ["CUDA_VISIBLE_DEVICES"], Resources(gpus=2)).result() == "3,GPU-5"
        with pytest.raises(ConfigError, match="a task needs 3 GPUs, and 2 can be seen here"):
            executor.submit(print, Resources(gpus=3))
    finally:
        executor.shutdown()


def test_several_tasks_share_a_gpu_if_asked(tmp_path):
    executor = ProcessExecutor(3, gpus=["0"])
    try:
        handles = [executor.submit(functools.partial(meet, tmp_path, name, 2), Resources(gpus=0.5)) for name in "ab"]
        third = executor.submit(lambda: len([*tmp_path.iterdir()]), Resources(gpus=0.5))
        assert [gpus for gpus, _ in (handle.result() for handle in handles)] == ["0", "0"]
        assert third.result() == 2  # it waited, though there was a process for it
    finally:
        executor.shutdown()


def test_parts_of_gpus_are_taken_of_the_one_with_most_left(tmp_path):
    executor = ProcessExecutor(2, gpus=["0", "1"])
    try:
        handles = [executor.submit(functools.partial(meet, tmp_path, name, 2), Resources(gpus=0.5)) for name in "ab"]
        assert [gpus for gpus, _ in (handle.result() for handle in handles)] == ["0", "1"]
    finally:
        executor.shutdown()


def test_gpus_that_the_program_may_not_use_are_not_dealt_out(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2,-1,3")
    assert visible_gpus() == ["1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []


# ---- what goes wrong


def test_a_process_that_is_lost_is_told_and_replaced(executor):
    lost = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL), ONE)
    with pytest.raises(WorkerLostError, match=r"process \d+ was ended by SIGKILL .* while it ran a task"):
        lost.result()
    with pytest.raises(WorkerLostError, match="ended with exit code 3"):
        executor.submit(lambda: os._exit(3), ONE).result()
    assert executor.submit(lambda: "well", ONE).result() == "well"


def test_a_task_that_has_not_begun_can_be_called_off(tmp_path):
    executor = ProcessExecutor(1)
    try:
        first = executor.submit(lambda: wait_for((tmp_path / "go").exists), ONE)
        second = executor.submit((tmp_path / "second").touch, ONE)
        second.cancel()
        (tmp_path / "go").touch()
        first.result()
        assert second.done()
        with pytest.raises(CancelledError):
            second.result()
        assert not (tmp_path / "second").exists()
    finally:
        executor.shutdown()


def test_a_task_that_runs_is_asked_to_stop_as_by_a_signal(executor, tmp_path):
    def wait():
        (tmp_path / "began").touch()
        time.sleep(60)

    handle = executor.submit(wait, ONE)
    wait_for(lambda: handle.done() or (tmp_path / "began").exists())
    handle.cancel()
    with pytest.raises(TrainingInterrupted, match="SIGTERM"):
        handle.result()
    assert executor.submit(lambda: 2, ONE).result() == 2


def test_what_cannot_be_sent_is_named_before_anything_runs(executor):
    class Opened:
        def __init__(self):
            self.files = {"lock": threading.Lock()}

    class Task:
        def __init__(self, shared):
            self.shared = shared

        def __call__(self):
            return self.shared.value

    place = r"shared\.value\.files\.lock \(a lock\) cannot be pickled: .*; open it when it is first used"
    with pytest.raises(ConfigError, match=place):
        executor.submit(Task(Shared(Opened())), ONE)


def test_after_the_end_no_process_is_left_and_no_task_is_taken(tmp_path):
    executor = ProcessExecutor(2)
    handles = [executor.submit(functools.partial(time.sleep, 60), ONE) for _ in range(3)]
    children = psutil.Process().children()
    assert len([child for child in children if "execution.worker" in " ".join(child.cmdline())]) == 2
    executor.shutdown()
    executor.shutdown()
    for handle in handles:
        with pytest.raises(CancelledError):
            handle.result()
    assert not [child for child in psutil.Process().children() if "execution.worker" in " ".join(child.cmdline())]
    with pytest.raises(ConfigError, match="was shut down"):
        executor.submit(print, ONE)


ORPHAN = """
import functools, os, sys, time
from delira.execution import ProcessExecutor, Resources

def wait(folder):
    open(os.path.join(folder, str(os.getpid())), "w").close()
    time.sleep(300)

if __name__ == "__main__":
    executor = ProcessExecutor(2)
    handles = [executor.submit(functools.partial(wait, sys.argv[1]), Resources()) for _ in range(2)]
    while not all(handle.done() for handle in handles):
        time.sleep(0.1)
"""


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_processes_end_with_the_one_that_started_them_however_it_ends(tmp_path, is_stopped):
    (tmp_path / "script.py").write_text(ORPHAN)
    pids = tmp_path / "pids"
    pids.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(pids)], env=environment)
    try:
        wait_for(lambda: driver.poll() is not None or len([*pids.iterdir()]) == 2, 60)
        workers = [int(path.name) for path in pids.iterdir()]
        assert len(workers) == 2
        if is_stopped:
            os.kill(workers[0], signal.SIGSTOP)
    finally:
        driver.kill()
        driver.wait()
    wait_for(lambda: not any(_is_running(pid) for pid in workers))


def _is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "two"])
def test_a_number_of_jobs_that_is_none_is_refused(n_jobs):
    with pytest.raises(ConfigError, match="n_jobs"):
        ProcessExecutor(n_jobs)


def living(shared):
    """Return the values of all that is shared in this process."""
    return sorted(each.value for each in gc.get_objects() if isinstance(each, Shared))


def test_a_worker_gives_back_what_is_shared_no_more(executor):
    for number in range(4):
        shared = Shared(number)
        assert executor.submit(functools.partial(living, shared), ONE).result() == [number]
        del shared
    gc.collect()
    assert len(executor._shared.made()) == 0


def test_a_task_that_waits_keeps_what_it_shares(executor):
    handles = [executor.submit(functools.partial(living, Shared(number)), ONE) for number in range(8)]
    assert [number in handle.result() for number, handle in enumerate(handles)] == [True] * 8
