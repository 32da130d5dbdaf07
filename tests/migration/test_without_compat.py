"""What only old scripts need lies in one package: a copy without it does everything else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from structure import Source, lines_of_code

import delira

SOURCE = Path(delira.__file__).parent
LINES = 1000
#: tests of the parts that it has something for
PARTS = ("training", "experiments", "data_loading", "io", "runs", "logging", "utils", "test_specification.py")


def without(folder):
    shutil.copytree(SOURCE, folder / "delira", ignore=shutil.ignore_patterns("compat", "__pycache__"))
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_the_package_is_small():
    assert lines_of_code(Source(SOURCE.parent), "compat/") <= LINES


def test_a_copy_without_it_works_but_for_old_names(tmp_path):
    script = (
        "import delira, delira.data_loading, delira.training, delira.models, delira.callbacks\n"
        "assert not hasattr(delira.models, 'gan') and not hasattr(delira.utils, 'bounding_box')\n"
        "try:\n    import delira.io.torch\nexcept ModuleNotFoundError:\n    print(delira.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=without(tmp_path), capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.strip() == str(tmp_path / "delira" / "__init__.py"), done.stderr


@pytest.mark.slow
def test_what_only_old_scripts_use_says_what_is_missing(tmp_path):
    pytest.importorskip("torch", reason="a trainer of the package 'torch', which is not installed")
    script = (
        "import torch\nfrom delira.training import PyTorchNetworkTrainer\n"
        "try:\n    PyTorchNetworkTrainer(torch.nn.Linear(1, 1), None, {}, {}, torch.optim.SGD)\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=without(tmp_path), capture_output=True, text=True, cwd=tmp_path
    )
    assert "ConfigError the script uses what only older versions had" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_in_a_copy_without_it_the_tests_of_its_parts_pass(tmp_path):
    tests = SOURCE.parent / "tests"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--sample", "-m", "not slow and not gpu",
         "-c", str(tests.parent / "pyproject.toml"), *(str(tests / part) for part in PARTS)],
        env=without(tmp_path), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
