"""What a task may need of a machine."""

import os

import psutil
import pytest

from delira.errors import ConfigError
from delira.execution import ProcessExecutor, Resources
from delira.execution.executor import usable_cores


@pytest.mark.parametrize(
    "wrong", [{"cpus": 0}, {"cpus": 1.5}, {"cpus": True}, {"gpus": -1}, {"gpus": "one"}, {"gpus": 1.5}]
)
def test_needs_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Resources(**wrong)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system ties no process to cores")
def test_cores_are_those_that_the_process_may_use():
    own = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(own)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, own)


@pytest.mark.parametrize(("content", "most"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 10**6)])
def test_a_container_may_have_fewer_cores_than_its_machine(tmp_path, content, most):
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text(content)
    assert usable_cores(tmp_path) == min(most, usable_cores(tmp_path / "elsewhere"))


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory of Linux that has no name")
def test_a_with_statement_gives_everything_back():
    with ProcessExecutor(n_jobs=1) as executor:
        pid = executor.submit(os.getpid, Resources()).result()
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)
