"""The workflow of forks: a valid one, and its shell lines run."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
#: tests that the jobs run here: that the lines work is to be seen, not once more that all tests pass
FEW = "tests/test_exports.py"


def jobs() -> dict[str, Any]:
    return dict(yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"])


def runs_of(job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The values of the matrix of each run of a job."""
    matrix = dict(job["strategy"]["matrix"])
    excluded = matrix.pop("exclude", [])
    for values in itertools.product(*matrix.values()):
        run = dict(zip(matrix, values, strict=True))
        if not any(one.items() <= run.items() for one in excluded):
            yield run


def shell_lines() -> Iterator[tuple[str, str]]:
    """Name and shell line of each run on this Python."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, job in jobs().items():
        for run in runs_of(job):
            for step in job["steps"] if run["python"] == own else ():
                if "run" in step:
                    line = re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda match, run=run: run[match[1]], step["run"])
                    yield "-".join([name, *run.values()]), line


def test_the_workflow_is_one_by_the_schema():
    pytest.importorskip("check_jsonschema", reason="needs the package 'check-jsonschema', see requirements/dev.txt")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_python_and_every_backend_alone_has_a_job():
    found = jobs()
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', setup)
    assert [run["python"] for run in runs_of(found["all"])] == supported
    alone = {run["backend"] for run in runs_of(found["alone"])}
    assert alone == set(re.findall(r"^ONLY_(\w+) :=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pairs = {(run["python"], run["backend"]) for run in runs_of(found["alone"])}
    assert set(itertools.product(supported, alone)) <= pairs


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in shell_lines()])
def test_the_shell_lines_of_a_job_run(line, tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout of git: a job begins with a clone")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3"):
        (tmp_path / "bin" / name).symlink_to(sys._base_executable)
    # what a make around this one was asked for is asked of no other
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYTHON", "MAKE", "MFLAGS"))
    }
    environment = {**kept, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "ARGS": FEW}
    done = subprocess.run(["bash", "-e", "-c", line], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
