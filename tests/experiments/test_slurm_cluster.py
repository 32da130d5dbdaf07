"""Folds as jobs of a real SLURM: its controller and its daemon on this machine's own address."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from digests import digest
from small_backends import toy_kit
from test_folds import DieOnce, Fail, Full, kfold, named
from test_slurm import Slow, epochs_of

from delira.errors import WorkerLostError
from delira.execution import Resources, SlurmExecutor

pytest.importorskip("submitit", reason="needs submitit, see requirements/slurm.txt")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in PROGRAMS), reason="needs slurmctld, slurmd and munge"
    ),
    pytest.mark.skipif(
        hasattr(os, "getuid") and os.getuid() != 0, reason="daemons of SLURM that are not those of root"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

CONFIGURATION = """
ClusterName=delira
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
JobRequeue=1
KillWait=5
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture(scope="module")
def slurm():
    """A cluster of one machine, this one; its state, ports and keys are its own."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, ports=free_ports(2), folder=folder))
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    try:
        subprocess.run(
            ["munged", "--force", f"--socket={folder}/munge.sock", f"--key-file={folder}/munge.key",
             f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munged.log"],
            check=True, timeout=30,
        )  # fmt: skip
        subprocess.run(["slurmctld", "-c"], check=True, timeout=30)
        subprocess.run(["slurmd"], check=True, timeout=30)
        deadline = time.monotonic() + 60
        while "idle" not in (said := run("sinfo", "--noheader")):
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
                pytest.skip(f"SLURM did not start here: {said}\n{logs}")
            time.sleep(0.5)
        yield folder
        run("scancel", "--me")
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((folder / f"{name}.pid").read_text()), 15)
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.fixture
def jobs(slurm, tmp_path):
    made = SlurmExecutor(tmp_path / "jobs", n_jobs=2, timeout_min=5, signal_delay_s=30)
    yield made
    made.shutdown()


def test_folds_are_one_array_and_have_the_bits_of_one_process(jobs, tmp_path, manager):
    here = kfold(toy_kit(), tmp_path / "here", manager(24))
    there = kfold(toy_kit(), tmp_path / "there", manager(24), executor=jobs)
    assert digest(there) == digest(here)
    assert len(named(there, "fold_finished")) == 4
    text = min(jobs.folder.rglob("*submission*.sh")).read_text()
    assert "#SBATCH --array=0-3%2" in text
    assert "#SBATCH --signal=USR2@30" in text


def test_it_is_chosen_by_its_name(slurm, tmp_path, manager):
    found = kfold(toy_kit(), tmp_path, manager(24), executor="slurm", n_jobs=2)
    assert [event["executor"] for event in named(found, "handed_out")] == ["SlurmExecutor"]
    assert [*(found.path / "slurm").rglob("*.out")]


def test_a_job_that_is_told_to_make_place_goes_on_where_it_was_in_its_next_turn(jobs, tmp_path, manager):
    def send():
        mark = tmp_path / "epochs-0"
        while not (mark.exists() and len(mark.read_text().splitlines()) >= 2):
            time.sleep(0.1)
        for number in run("squeue", "--me", "--noheader", "--array", "--states=RUNNING", "--format=%i").split():
            run("scancel", "--signal=USR2", number)

    options = {"num_epochs": 8, "save_freq": 100, "folds": [0]}
    sender = threading.Thread(target=send)
    sender.start()
    found = kfold(toy_kit(), tmp_path / "turns", manager(24), Slow(tmp_path, 0.6, 0), executor=jobs, **options)
    sender.join()
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24), **options))
    assert epochs_of(tmp_path / "epochs-0") == ([*range(1, 9)], 2)
    assert not named(found, "fold_lost")


def test_lost_jobs_are_placed_again_without_an_accounting(jobs, tmp_path, manager):
    (tmp_path / "marks").mkdir()
    die = DieOnce(tmp_path / "marks", (1,), 2)
    found = kfold(toy_kit(), tmp_path / "lost", manager(24), die, executor=jobs)
    assert digest(found) == digest(kfold(toy_kit(), tmp_path / "quiet", manager(24)))
    assert [event["fold"] for event in named(found, "fold_lost")] == [1]


def test_a_cancelled_job_has_no_answer(jobs):
    handle = jobs.submit(lambda: time.sleep(60), Resources())
    while not handle.done() and "R" not in run("squeue", "--me", "--noheader", "--format=%t"):
        time.sleep(0.2)
    handle.cancel()
    with pytest.raises((WorkerLostError, SystemExit)):
        handle.result()


def test_a_fold_that_fails_is_told_as_ever(jobs, tmp_path, manager):
    with pytest.raises(Full, match="fold 1 is full"):
        kfold(toy_kit(), tmp_path, manager(24), Fail(tmp_path, 1), executor=jobs)
