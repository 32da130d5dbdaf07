"""A scheduler that does not take a job: told at the first one, waited for where others run."""

import os
import time

import pytest

from delira.errors import ExecutorError
from delira.execution import Resources, SlurmExecutor, slurm

pytest.importorskip("submitit", reason="needs submitit, see requirements/slurm.txt")

SBATCH = """#!/bin/sh
if [ -e {folder}/full ]; then
  echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1
fi
echo x >> {folder}/taken
echo "Submitted batch job $(wc -l < {folder}/taken)"
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """An executor whose commands of SLURM are scripts: jobs that are taken run until they are cancelled."""
    commands = {
        "sbatch": SBATCH.format(folder=tmp_path),
        "srun": "#!/bin/sh\n",
        "squeue": "#!/bin/sh\necho 1_0\necho 2_0\n",
    }
    commands["scancel"] = f"#!/bin/sh\necho $1 >> {tmp_path}/cancelled\n"
    (tmp_path / "bin").mkdir()
    for name, text in commands.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    made = SlurmExecutor(tmp_path / "jobs")
    yield made
    (tmp_path / "full").unlink(missing_ok=True)
    made.shutdown()


def test_the_first_refusal_is_told_with_what_can_be_done(jobs, tmp_path):

    (tmp_path / "full").touch()
    handle = jobs.submit(int, Resources())
    with pytest.raises(ExecutorError, match=r"(?s)SLURM does not take the job: .*QOSMaxSubmit.*options= of the Slurm"):
        handle.done()


def test_a_job_that_is_refused_while_others_run_is_tried_again(jobs, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(slurm, "_AGAIN", 0.05, raising=False)
    first = jobs.submit(int, Resources())
    assert not first.done()
    (tmp_path / "full").touch()
    second = jobs.submit(int, Resources())
    for _ in range(3):
        assert not first.done()
        assert not second.done()
        time.sleep(0.06)
    assert caplog.text.count("SLURM does not take a job, which is tried again every 0.05 s") == 1
    assert not (tmp_path / "cancelled").exists()
    (tmp_path / "full").unlink()
    assert not second.done()
    assert (tmp_path / "taken").read_text().count("x") == 2


def test_where_nothing_runs_any_more_patience_ends(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "_AGAIN", 0.0, raising=False)
    monkeypatch.setattr(slurm, "_PATIENCE", 0.3, raising=False)
    first = jobs.submit(int, Resources())
    assert not first.done()
    jobs._gone.add(str(first.submitted.job_id))
    assert first.done()
    (tmp_path / "full").touch()
    again = jobs.submit(int, Resources())
    until = time.monotonic() + 0.25
    while time.monotonic() < until:
        assert not again.done()
    with pytest.raises(ExecutorError, match="SLURM does not take the job"):
        again.result()


def test_nobody_here_knows_what_gpus_a_cluster_has(jobs):
    assert jobs.n_gpus() is None
