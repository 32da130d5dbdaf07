"""triton is imported before TensorFlow where both may be used: the other order is a segmentation fault."""

import subprocess
import sys

import pytest

#: stand-ins for three packages; the one for triton dies if TensorFlow is there already, as the real one may
PACKAGES = {
    "tensorflow": "",
    "triton": "import os, sys\nif 'tensorflow' in sys.modules:\n    os.abort()\n",
    "torch": "",
}


def run(folder, code, without=()):
    for name, text in PACKAGES.items():
        if name not in without:
            (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_stand_in_dies_in_the_wrong_order(tmp_path):
    assert run(tmp_path, "import tensorflow, triton").returncode < 0
    assert run(tmp_path, "import triton, tensorflow").returncode == 0


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_a_backend_imports_triton_before_any_framework(tmp_path, backend):
    code = f"""
import importlib
try:
    importlib.import_module("delira.backends.{backend}")
except (ImportError, AttributeError):
    pass  # the stand-ins have nothing in them
assert "triton" in sys.modules
import tensorflow, torch, triton
"""
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", ["tensorflow", "torch"])
def test_where_only_one_of_them_is_installed_triton_is_left_alone(tmp_path, missing):
    code = f"""
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {missing!r} else find(name, *more)
import delira.utils.triton_first
assert "triton" not in sys.modules
"""
    done = run(tmp_path, code, without=[missing])
    assert done.returncode == 0, done.stderr


def test_a_script_that_imported_tensorflow_itself_is_told_the_cure(tmp_path):
    done = run(tmp_path, "import tensorflow\nimport delira.utils.triton_first\nassert 'triton' not in sys.modules")
    assert done.returncode == 0, done.stderr
    assert "write 'import triton' above 'import tensorflow'" in " ".join(done.stderr.lower().split())


def test_a_triton_that_is_broken_is_no_reason_to_stop(tmp_path):
    (tmp_path / "broken").mkdir()
    code = f"sys.path.insert(0, {str(tmp_path / 'broken')!r})\nimport delira.utils.triton_first"
    (tmp_path / "broken" / "triton.py").write_text("raise OSError('no driver')")
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr


def test_the_doctor_tells_it(monkeypatch):
    from delira.cli import doctor

    monkeypatch.setattr(doctor, "needs_order", lambda: True)
    assert "above 'import tensorflow'" in doctor._system()["imports"]
    monkeypatch.setattr(doctor, "needs_order", lambda: False)
    assert "imports" not in doctor._system()
