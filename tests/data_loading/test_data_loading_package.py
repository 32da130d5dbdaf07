"""The package: its names, and what importing it costs."""

import ast
import pathlib
import subprocess
import sys

import delira.data_loading
import delira.data_loading.sampler

ROOT = pathlib.Path(__file__).parents[2]


def test_every_name_that_is_promised_is_there():
    for module in (delira.data_loading, delira.data_loading.sampler):
        assert sorted(module.__all__) == module.__all__
        for name in module.__all__:
            assert getattr(module, name).__doc__, name


def test_the_names_of_version_0_5_work():
    assert delira.data_loading.DataManager is delira.data_loading.BaseDataManager
    assert delira.data_loading.DataLoader is delira.data_loading.BaseDataLoader


def test_importing_it_imports_numpy_and_no_framework():
    code = (
        "import sys, delira.data_loading\n"
        "bad = {'torch', 'tensorflow', 'jax', 'sklearn', 'skimage', 'SimpleITK', 'batchgenerators', 'tqdm'}\n"
        "sys.exit(', '.join(bad & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_it_knows_of_delira_only_the_errors_and_the_tools():
    for path in (ROOT / "delira" / "data_loading").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("delira"):
                assert node.module.split(".")[1] in {"errors", "utils", "data_loading"}, (path, node.module)
