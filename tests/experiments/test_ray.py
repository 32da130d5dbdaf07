"""Folds on a cluster of Ray: the same bits as here, whatever happens on the way, and nothing left of it."""

import builtins
import functools
import gc
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
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
from delira.errors import ConfigError, WorkerLostError
from delira.execution import RayExecutor, Resources, Shared
from delira.training.callbacks import AbstractCallback

ray = pytest.importorskip("ray", reason="needs Ray, see requirements/ray.txt")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # Ray leaves files and processes to the end of the program
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

ONE = Resources()
ROOT = Path(__file__).parents[2]
CLUSTER = ("raylet", "gcs_server", "ray::", "log_monitor", "monitor.py", "dashboard")


@pytest.fixture(scope="module")
def cluster():
    """One for most tests: it takes ten seconds to begin."""
    shared, before = {*os.listdir("/dev/shm")}, {*psutil.Process().children(recursive=True)}
    made = RayExecutor(n_jobs=2)
    yield made
    processes = {*psutil.Process().children(recursive=True)} - before
    made.shutdown()
    assert not ray.is_initialized()
    assert not psutil.wait_procs(of_ray(processes), timeout=60)[1]
    assert {*os.listdir("/dev/shm")} <= shared


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it never came to be"
        time.sleep(0.05)
    return found


def of_ray(processes):
    """Those of a cluster."""
    found = []
    for process in processes:
        try:
            line = " ".join([process.name(), *process.cmdline()])
        except psutil.Error:
            continue
        found += [process] if any(word in line for word in CLUSTER) else []
    return found


# ---- tasks


def test_a_task_sees_the_threads_it_may_use_and_gives_back_what_it_returns(cluster):
    def look():
        return os.getpid(), os.environ["OMP_NUM_THREADS"], sys.argv

    handles = [cluster.submit(look, Resources(cpus=n)) for n in (1, 2, 1)]
    answers = [handle.result() for handle in handles]
    assert [answer[1] for answer in answers] == ["1", "2", "1"]
    assert all(answer[0] != os.getpid() and answer[2] == sys.argv for answer in answers)
    assert handles[0].done()


def test_what_is_shared_is_put_once_and_each_worker_may_write_into_its_own(cluster):
    shared = Shared({"image": np.arange(1 << 20, dtype=np.float64)})
    gc.collect()  # what earlier tests shared is given back now, not while this one counts
    before = len(cluster._shared.made())

    def double(shared):
        image = shared.value["image"]
        image *= 2
        return float(image.sum())

    expected = float(np.arange(1 << 20, dtype=np.float64).sum() * 2)
    task = functools.partial(double, shared)
    assert [cluster.submit(task, ONE).result() for _ in range(3)] == [expected] * 3
    assert len(cluster._shared.made()) == before + 1


def test_what_a_task_prints_is_shown_and_print_stays_what_it_was(cluster, capfd):
    def tell():
        print("from a worker", flush=True)

    before, shown = builtins.print, []

    def is_shown():
        shown.append("".join(capfd.readouterr()))
        return "from a worker" in "".join(shown)

    cluster.submit(tell, ONE).result()
    wait_for(is_shown)
    assert builtins.print is before


def test_an_error_arrives_with_its_type_its_notes_and_where_it_arose(cluster):
    def refuse():
        error = Full("the disk")
        error.add_note("in the cellar")
        raise error

    with pytest.raises(Full, match="the disk") as caught:
        cluster.submit(refuse, ONE).result()
    assert caught.value.__notes__ == ["in the cellar"]
    assert isinstance(caught.value.__cause__, WorkerTraceback)
    assert "in refuse" in str(caught.value.__cause__)


def test_what_cannot_be_sent_or_had_is_refused_in_words(cluster):
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"cannot be pickled.*__getstate__"):
        cluster.submit(lambda: lock, ONE)
    with pytest.raises(
        ConfigError, match=r"needs 1000 cores and 0 GPUs, and no machine of the cluster has as m.* \(they"
    ):
        cluster.submit(time.time, Resources(cpus=1000))
    with pytest.raises(ConfigError, match=r"a task needs 1 cores and 7 GPUs, .*ask for less in resources="):
        cluster.submit(time.time, Resources(gpus=7))


def test_a_task_that_waits_is_cancelled_and_one_that_runs_is_asked_to_stop(cluster, tmp_path):
    def wait(name):
        def task():
            (tmp_path / name).touch()
            for _ in range(600):  # Ray's request is heard between two steps of a program, as those of a training
                time.sleep(0.1)

        return task

    handles = [cluster.submit(wait(name), ONE) for name in "abc"]
    wait_for(lambda: len([*tmp_path.iterdir()]) == 2)
    handles[2].cancel()
    with pytest.raises(CancelledError):
        handles[2].result()
    for handle in handles[:2]:
        handle.cancel()
        with pytest.raises((SystemExit, CancelledError)):
            handle.result()
    assert not (tmp_path / "c").exists()
    assert cluster.submit(lambda: 5, ONE).result() == 5


def test_a_lost_worker_is_told(cluster):
    with pytest.raises(WorkerLostError, match="a worker of Ray was lost"):
        cluster.submit(lambda: os.kill(os.getpid(), signal.SIGKILL), ONE).result()
    assert cluster.submit(lambda: 5, ONE).result() == 5


# ---- folds


def test_a_cluster_computes_what_one_process_does_bit_for_bit(cluster, kit, tmp_path, manager):
    threads = {"num_threads": kit.backend.devices.thread_count() and 1}
    here = kfold(kit, tmp_path / "here", manager(24), **threads)
    there = kfold(kit, tmp_path / "there", manager(24), executor=cluster, **threads)
    assert digest(there) == digest(here)
    assert [fold.callbacks[0].epochs for fold in there.folds] == [fold.callbacks[0].epochs for fold in here.folds]
    assert [event["executor"] for event in named(there, "handed_out")] == ["RayExecutor"]
    assert not (there.path / ".leases").exists()


def test_the_fold_of_a_lost_worker_goes_on_from_its_checkpoint(cluster, tmp_path, manager):
    (tmp_path / "marks").mkdir()
    die = DieOnce(tmp_path / "marks", (1, 2), 2)
    found = kfold(toy_kit(), tmp_path / "lost", manager(24), die, executor=cluster)
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))
    assert sorted(event["fold"] for event in named(found, "fold_lost")) == [1, 2]


def test_the_others_finish_when_one_fails(cluster, tmp_path, manager, caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(Full, match="fold 1 is full"):
        kfold(toy_kit(), tmp_path, manager(24), Fail(tmp_path, 1), executor=cluster)
    assert sorted(event["fold"] for event in named(only_folder(tmp_path), "fold_finished")) == [0, 2, 3]


class Slow(AbstractCallback):
    """Takes its time, and says which process it is in."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds

    def at_epoch_end(self, trainer, **facts):
        (self.folder / str(os.getpid())).touch()
        time.sleep(self.seconds)


def is_at_work(pid):
    """Whether a worker of Ray does something; those that do not stay until the cluster ends."""
    try:
        return "IDLE" not in " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return False


def test_twenty_folds_whose_workers_are_killed_at_random_arrive_bit_for_bit(cluster, tmp_path, manager):
    options = {"num_splits": 20, "num_epochs": 4}
    shared = {*os.listdir("/dev/shm")}
    quiet = kfold(toy_kit(), tmp_path / "quiet", manager(60), **options)
    seen, stop, killed, draw = tmp_path / "seen", threading.Event(), [], random.Random(7)
    seen.mkdir()

    def kill():
        while not stop.wait(draw.uniform(0.3, 0.9)):
            alive = [int(mark.name) for mark in seen.iterdir() if psutil.pid_exists(int(mark.name))]
            if alive and len(killed) < 15:
                killed.append(draw.choice(sorted(alive)))
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = kfold(toy_kit(), tmp_path / "killed", manager(60), Slow(seen, 0.15), executor=cluster, **options)
    finally:
        stop.set()
        killer.join()
    assert len(killed) > 4
    assert digest(found) == digest(quiet)
    assert sorted(event["fold"] for event in named(found, "fold_finished")) == [*range(20)]
    assert not (found.path / ".leases").exists()
    wait_for(lambda: not [mark for mark in seen.iterdir() if is_at_work(int(mark.name))], 20)
    assert {*os.listdir("/dev/shm")} <= shared  # what is left of the cluster itself its end tells


# ---- the cluster


def test_nothing_of_it_listens_to_others_and_nothing_reports_its_use(cluster):
    processes = of_ray(psutil.Process().children(recursive=True))
    ports = [each.laddr for process in processes for each in process.net_connections() if each.status == "LISTEN"]
    assert ports
    assert {address.ip for address in ports} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")


def run(code, **environment):
    """Run a program of its own, which has the tests on its path."""
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "experiments")]
    code = f"import sys\nsys.path[:0] = {paths!r}\n{code}"
    pipe = subprocess.PIPE
    begun = subprocess.Popen(
        [sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment}
    )
    watchdog = threading.Timer(300, begun.kill)
    watchdog.daemon = True
    watchdog.start()
    return begun


OPEN = """
from delira.execution import RayExecutor, Resources
executor = RayExecutor(n_jobs=1, allow_network={allowed})
print(executor.submit(lambda: 5, Resources()).result())
executor.shutdown()
"""


@pytest.mark.parametrize("allowed", [False, True])
def test_a_cluster_that_others_could_reach_is_refused_unless_it_is_allowed(allowed):
    process = run(OPEN.format(allowed=allowed), RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="1")
    said, complained = process.communicate(timeout=200)
    if allowed:
        assert said.split()[-1] == "5", complained
    else:
        assert process.returncode == 1
        assert "where other machines can reach it" in complained
        assert "allow_network=True" in complained


def test_an_address_that_does_not_answer_is_refused_in_words():
    process = run("from delira.execution import RayExecutor\nRayExecutor('127.0.0.1:9')")
    _, complained = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "ConfigError: no cluster of Ray answers at '127.0.0.1:9'" in complained


SILENT = """
import socket
from delira.execution import RayExecutor, ray_cluster
ray_cluster._PATIENCE = 1.0
with socket.socket() as silent:
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    RayExecutor(f"127.0.0.1:{silent.getsockname()[1]}")
"""


def test_an_address_where_something_else_listens_is_refused_after_a_stated_time():
    process = run(SILENT)
    try:
        _, complained = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "something listens there, and says nothing for 1 s" in complained


SCATTERED = """
import os, ray
from ray.cluster_utils import Cluster
from delira.execution import RayExecutor, Resources
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
os.environ["RAY_ADDRESS"] = cluster.address
executor = RayExecutor()
cluster.add_node(num_cpus=2)
print(executor.n_jobs, ray.cluster_resources()["CPU"], executor.n_gpus())
try:
    executor.submit(int, Resources(cpus=3))
except Exception as error:
    print(error)
print(executor.submit(int, Resources(cpus=2)).result())
executor.shutdown()
cluster.shutdown()
"""


def test_the_cluster_that_the_environment_names_is_used_and_what_fits_into_no_machine_of_it_is_refused():
    process = run(SCATTERED)
    try:
        said, complained = process.communicate(timeout=100)
    finally:
        process.kill()
    lines = [line for line in said.splitlines() if not line.startswith("(")]
    assert lines[-3:-1] == [
        "None 3.0 0.0",
        "a task needs 3 cores and 0 GPUs, and no machine of the cluster has as many (they have 2 and 0, 1 and 0); ask "
        "for less in resources={'cpus': …, 'gpus': …}, or add a machine",
    ], complained[-3000:]
    assert lines[-1] == "0"


ELSEWHERE = """
import os, ray
from ray.cluster_utils import Cluster
from delira.execution import RayExecutor, Resources
cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1}})
os.chdir({folder!r})
os.environ.update(NVIDIA_TF32_OVERRIDE="0", A_SECRET_KEY="hidden", STORE="s3://user:hidden@bucket/x")
executor = RayExecutor(cluster.address)

def look():
    names = ("NVIDIA_TF32_OVERRIDE", "A_SECRET_KEY", "STORE")
    return [open("here.txt").read(), *(os.environ.get(name) for name in names)]

print(executor.submit(look, Resources()).result())
os.getcwd = lambda: "/nowhere/at/all"
try:
    executor.submit(look, Resources()).result()
except Exception as error:
    print(type(error).__name__, error)
executor.shutdown()
cluster.shutdown()
"""


def test_a_cluster_that_is_there_works_in_the_folder_and_by_the_environment_of_the_program(tmp_path):
    (tmp_path / "here.txt").write_text("found")
    process = run(ELSEWHERE.format(folder=str(tmp_path)))
    try:
        said, complained = process.communicate(timeout=100)
    finally:
        process.kill()
    lines = [line for line in said.splitlines() if not line.startswith("(")]
    assert lines[-2] == "['found', '0', None, None]", complained[-3000:]
    assert lines[-1].startswith("ExecutorError the program works in '/nowhere/at/all', which a worker of Ray on ")


SCRIPT = """
import pathlib, time
import numpy as np
from delira.callbacks import AbstractCallback
from delira.data_loading import BaseDataManager
from small_backends import toy_kit

folder = pathlib.Path({folder!r})

class Slow(AbstractCallback):
    def at_epoch_end(self, trainer, **facts):
        (folder / f"began-{{trainer.fold}}").touch()
        time.sleep({pause})

data = np.random.default_rng(0).normal(size=(24, 3))
manager = BaseDataManager({{"data": data, "label": data.sum(axis=1, keepdims=True)}}, 4)
experiment = toy_kit().experiment(folder, {{"dropout": 0.3}}, training={{"num_epochs": 4, "save_freq": 1}}, verbose=0)
result = experiment.kfold(manager, num_splits=4, callbacks=[Slow()], executor="ray", n_jobs=2, resume="auto")
print("done", len(result.folds))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_nothing_of_the_cluster_is_left_and_the_run_goes_on(tmp_path, number):
    scratch = Path(tempfile.mkdtemp())
    process = run(SCRIPT.format(folder=str(tmp_path), pause=0.5), TMPDIR=str(scratch))
    wait_for(lambda: len([*tmp_path.glob("began-*")]) == 2 or process.poll() is not None, 120)
    assert process.poll() is None, process.communicate()[1]
    processes = psutil.Process(process.pid).children(recursive=True)
    assert len(of_ray(processes)) > 3
    process.send_signal(number)
    _, said = process.communicate(timeout=100)
    assert process.returncode == (-number if number != signal.SIGTERM else 143), said
    _, alive = psutil.wait_procs(processes, timeout=150)  # agents of Ray look for their parent now and then
    assert not alive
    if number != signal.SIGKILL:
        assert "folds [0, 1, 2, 3] stopped" in said
        assert not [*scratch.iterdir()]
    shutil.rmtree(scratch)
    process = run(SCRIPT.format(folder=str(tmp_path), pause=0))
    said, complained = process.communicate(timeout=200)
    assert said.splitlines()[-1] == "done 4", complained
    assert not [*tmp_path.glob("UnnamedExperiment/*/.leases")]


NODES = """
import logging, os, sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from digests import digest
from small_backends import toy_kit
from test_folds import kfold, named
from test_ray import Slow
from delira.data_loading import BaseDataManager
from delira.execution import RayExecutor
from problems import linear_problem

folder = Path({folder!r})
(folder / "seen").mkdir()
cluster = Cluster(initialize_head=True, head_node_args={{"num_cpus": 1}})
executor = RayExecutor(cluster.address, n_jobs=2)  # before there is another node on this machine to connect to
second = cluster.add_node(num_cpus=1)
assert ray.cluster_resources()["CPU"] == 2

def remove():
    while len([*(folder / "seen").iterdir()]) < 2:
        time.sleep(0.05)
    cluster.remove_node(second, allow_graceful=False)

threading.Thread(target=remove, daemon=True).start()
data = lambda: BaseDataManager(linear_problem(24, 3, 7), 4)
found = kfold(toy_kit(), folder / "lost", data(), Slow(folder / "seen", 0.5), executor=executor)
quiet = kfold(toy_kit(), folder / "quiet", data())
print(digest(found) == digest(quiet), len(named(found, "fold_lost")), flush=True)
executor.shutdown()
cluster.shutdown()
"""


def test_the_fold_of_a_lost_node_is_placed_again(tmp_path):
    process = run(NODES.format(folder=str(tmp_path)))
    said, complained = process.communicate(timeout=500)
    assert "True 1" in said.splitlines(), complained[-3000:]  # Ray shows what the node had said, at any time


JOINS = """
import ray
from delira.execution import RayExecutor, Resources
ray.init(num_cpus=1, include_dashboard=False)
executor = RayExecutor()
print(executor.n_jobs, executor.submit(lambda: 5, Resources()).result())
executor.shutdown()
executor.shutdown()
print(ray.is_initialized())
try:
    executor.submit(lambda: 5, Resources())
except Exception as error:
    print(error)
"""


def test_a_cluster_that_the_program_has_is_used_and_left_as_it_is():
    process = run(JOINS)
    said, complained = process.communicate(timeout=200)
    assert [line for line in said.splitlines() if not line.startswith("(")][-3:] == [
        "1 5", "True", "this executor was shut down; make a new one"
    ], complained[-3000:]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"address": ""}, "address"),
        ({"address": 5}, "address"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": "two"}, "n_jobs"),
        ({"allow_network": 1}, "allow_network"),
    ],
)
def test_arguments_that_are_none_are_refused_before_anything_begins(arguments, match):
    with pytest.raises(ConfigError, match=match):
        RayExecutor(**arguments)
