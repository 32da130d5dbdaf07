"""What an import of delira does to a fresh interpreter: it brings modules, and nothing else."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import delira

SOURCE = Path(delira.__file__).parent

PACKAGES = ["delira", *sorted(f"delira.{init.parent.name}" for init in SOURCE.glob("*/__init__.py"))]
#: not needed before it is used, and some of it takes seconds to import
NOT_BEFORE_USE = {
    *("torch", "tensorflow", "keras", "jax", "flax", "optax"),
    *("sklearn", "scipy", "matplotlib", "pandas", "jinja2", "tqdm", "tensorboard", "tensorboardX", "batchgenerators"),
}

PROBE = """
import json, logging, os, signal, sys, threading, warnings
import numpy, yaml  # what they do on import is not ours

def situation():
    root = logging.getLogger()
    return {
        "root logger": [root.level, [repr(handler) for handler in root.handlers]],
        "warning filters": [repr(entry) for entry in warnings.filters],
        "environment": dict(os.environ),
        "signal handlers": [repr(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "threads": threading.active_count(),
        "excepthook": repr(sys.excepthook),
    }

written = []

def watch(event, arguments):
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(str(arguments[0]))
    elif event == "os.mkdir":
        written.append(str(arguments[0]))

before = situation()
sys.addaudithook(watch)
__import__(sys.argv[1])
wrote, after = list(written), situation()
print(json.dumps({
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
    "changed": [name for name in before if before[name] != after[name]],
    "written": wrote,
}))
"""


@functools.cache
def after_import(package: str, folder: Path) -> dict[str, list[str]]:
    """What has happened after ``import package`` in a fresh interpreter."""
    command = [sys.executable, "-B", "-c", PROBE, package]
    # not the whole environment: pytest has imported delira already
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environment |= {"PYTHONPATH": str(SOURCE.parent), "HOME": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder that may not be written to (the superuser may, and is watched)."""
    folder = tmp_path_factory.mktemp("read_only")
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


every_package = pytest.mark.parametrize("package", PACKAGES)


@every_package
def test_nothing_is_imported_before_it_is_used(package, folder):
    too_early = NOT_BEFORE_USE & set(after_import(package, folder)["modules"])
    assert not too_early, f"import {package} imports {sorted(too_early)}"


@every_package
def test_an_import_leaves_the_host_program_as_it_was(package, folder):
    assert after_import(package, folder)["changed"] == []


@every_package
def test_an_import_writes_no_file(package, folder):
    assert after_import(package, folder)["written"] == []
    assert list(folder.iterdir()) == []


def test_the_tests_leave_nothing_to_clean_up_behind():
    words = "-W default -m pytest -q -p no:cacheprovider --collect-only tests/utils/test_trees_of_arrays.py"
    root = Path(__file__).parents[1]  # delira itself may be installed elsewhere
    done = subprocess.run([sys.executable, *words.split()], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "ResourceWarning" not in done.stderr
