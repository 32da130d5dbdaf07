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
#: tests of what is nearest to it
OTHERS = (
    "utils/test_lazy.py", "test_import_effects.py", "data_loading/test_data_loader.py", "data_loading/test_samplers.py",
    "settings/test_config.py", "experiments/test_parameters.py", "training/test_trainer.py",
    "training/test_checkpoints.py",
)  # fmt: skip


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
def test_in_a_copy_without_it_other_tests_pass(tmp_path):
    tests = SOURCE.parent / "tests"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--sample", "-m", "not slow and not gpu",
         "-c", str(tests.parent / "pyproject.toml"), *(str(tests / name) for name in OTHERS)],
        env=without(tmp_path), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
