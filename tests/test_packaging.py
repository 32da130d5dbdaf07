"""What is shipped: the extras, the pins, and the files in the wheel."""

import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import delira

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
NO_EXTRA = {"base", "constraints", "peers", "servers", "trackers", "trixi", "visdom"}
TESTED = ("base", "torch", "jax", "sklearn", "logging", "trackers", "servers", "export", "cli", "dev")


def read_requirements(name: str) -> list[Requirement]:
    lines = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments that setup.py gives to ``setuptools.setup``."""
    setuptools = pytest.importorskip("setuptools")
    arguments: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: arguments.update(given))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__main__")
    return arguments


def test_every_requirements_file_is_an_extra_or_deliberately_none(metadata):
    files = {path.stem for path in REQUIREMENTS.glob("*.txt")}
    assert files == {*metadata["extras_require"], *NO_EXTRA} - {"full"}


def test_full_is_all_that_users_choose_from_and_nothing_for_developers(metadata):
    extras = metadata["extras_require"]
    chosen = {line for name in extras.keys() - {"full", "docs", "dev"} for line in extras[name]}
    assert set(extras["full"]) == chosen


@pytest.mark.parametrize("name", ["trixi", "visdom"])
def test_what_pip_cannot_install_is_in_no_extra(metadata, name):
    assert name not in metadata["extras_require"]
    assert name not in {Requirement(line).name for line in metadata["extras_require"]["full"]}


def test_the_version_is_that_of_the_package(metadata):
    assert metadata["version"] == delira.__version__


def test_constraints_are_exact_pins_without_a_local_build():
    for pin in read_requirements("constraints"):
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), f"{pin} is not an exact pin"


@pytest.mark.parametrize("name", TESTED)
def test_every_requirement_tested_here_has_a_pin_within_its_range(name):
    pins = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in read_requirements("constraints")}
    for requirement in read_requirements(name):
        key = canonicalize_name(requirement.name)
        assert key in pins, f"requirements/constraints.txt has no pin for {requirement.name}"
        assert requirement.specifier.contains(pins[key], prereleases=True), (
            f"{requirement} excludes its pin {pins[key]}"
        )


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in a wheel that was built from the source distribution, so that both must be complete."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("packaging")
    source, built = folder / "source", folder / "built"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(
        ROOT, source, ignore=lambda path, names: left_out(path, names) | ({"runs"} if Path(path) == ROOT else set())
    )
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_the_wheel_holds_delira_and_nothing_else(wheel_files):
    tops = {name.split("/")[0] for name in wheel_files}
    assert tops == {"delira", f"delira-{delira.__version__}.dist-info"}


@pytest.mark.slow
def test_the_wheel_holds_every_module_every_template_and_the_type_marker(wheel_files):
    files = {path for pattern in ("*.py", "*.pyi", "*.j2") for path in (ROOT / "delira").rglob(pattern)}
    expected = {path.relative_to(ROOT).as_posix() for path in files} | {"delira/py.typed"}
    missing = sorted(expected - wheel_files)
    assert not missing, f"the wheel lacks {missing}; has each folder an __init__.py?"


@pytest.mark.slow
def test_the_wheel_carries_the_licence(wheel_files):
    assert f"delira-{delira.__version__}.dist-info/licenses/LICENSE" in wheel_files


@pytest.mark.slow
def test_type_checkers_and_editors_find_an_editable_install(tmp_path):
    copied = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".*", "tests", "docs", "*.egg-info", "build", "runs", "__pycache__")
    shutil.copytree(ROOT, copied, ignore=ignored)
    build = f"from setuptools.build_meta import build_editable; build_editable({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copied, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".pth")]
        assert archive.read(path).decode().strip() == str(copied)  # a folder, not a hook of the interpreter
