"""``delira doctor`` reports what is missing or broken, and is harmed by nothing."""

import json
import re
import runpy
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import delira
from delira import cli
from delira.cli import doctor
from delira.frameworks import FRAMEWORKS
from delira.logging.targets import TARGETS
from delira.logging.writers import NO_VISDOM

ROOT = Path(delira.__file__).resolve().parents[1]


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Writes fake packages, which are the only ones that are looked at."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "OPTIONAL", {})
    monkeypatch.setattr(doctor, "FRAMEWORKS", {})

    def write(backends=(), **sources):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
            doctor.OPTIONAL[name] = ("images", "pictures")
        for backend, package in dict(backends).items():
            doctor.FRAMEWORKS[backend] = package
            doctor.OPTIONAL.pop(package, None)

    return write


def run(capsys, *arguments):
    code = cli.main(["doctor", *arguments])
    return code, capsys.readouterr().out


def test_what_works_is_shown_with_its_version(packages, capsys):
    packages(works_well="__version__ = '1.2'\nprint('hello')")
    code, text = run(capsys)
    assert code == 0
    assert re.search(r"works +works_well +works_well 1\.2; pictures", text)
    assert f"delira      {delira.__version__} in {Path(delira.__file__).parent}" in text


BROKEN = {
    "an error": ("raise RuntimeError('no such symbol')", "RuntimeError: no such symbol"),
    "a crash": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "its import ended the process with SIGSEGV"),
    "an end": ("import os, sys\nsys.stderr.write('no driver\\n')\nsys.stderr.flush()\nos._exit(3)",
               "its import ended the process with exit code 3: no driver"),
    "an exit": ("raise SystemExit('go away')", "exit code 1: go away"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_broken_is_reported_with_the_cure(kind, packages, capsys):
    source, problem = BROKEN[kind]
    packages(falls_apart=source, works_well="")
    code, text = run(capsys)
    assert code == 1
    lines = text.splitlines()
    (place,) = [number for number, line in enumerate(lines) if re.search(r"broken +falls_apart", line)]
    assert problem in lines[place + 1]
    assert lines[place + 2].strip() == "pip install 'delira[images]' --force-reinstall"
    assert re.search(r"works +works_well +works_well of unknown version", text)
    assert "falls_apart" not in sys.modules


def test_an_import_without_end_is_broken(packages, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_TIMEOUT", 1.0)
    packages(sleeps="import time\ntime.sleep(60)")
    code, text = run(capsys)
    assert code == 1
    assert "its import did not end within 1 s" in text


def test_what_is_missing_is_no_fault(packages, capsys, monkeypatch):
    packages(needs_more="import a_package_that_is_not_there")
    doctor.OPTIONAL["not_there"] = ("medical", "bodies")
    code, text = run(capsys)
    assert code == 0
    assert re.search(r"missing +not_there +bodies\n +pip install 'delira\[medical\]'\n", text)
    assert re.search(r"incomplete needs_more .*\n +the package 'a_package_that_is_not_there' is missing\n", text)


def test_a_backend_needs_all_of_its_packages_and_its_own_modules(packages, capsys, monkeypatch):
    monkeypatch.setitem(doctor.PACKAGES, "jax", ("half", "other_half"))
    packages({"torch": "torch", "jax": "half"}, torch="__version__ = '9'; Tensor = object", half="__version__ = '8'")
    code, text = run(capsys)
    assert code == 1
    assert re.search(r"broken +torch +torch 9\n +the module 'torch\.[a-z.]+' is missing in the package 'torch'\n", text)
    assert re.search(r"incomplete jax\n +the package 'other_half' is missing\n +pip install 'delira\[jax\]'\n", text)


def test_json_says_the_same(packages, capsys):
    packages({"torch": "torch"}, torch="raise OSError('libcudart')", works_well="__version__ = '1'")
    code, text = run(capsys, "--json")
    said = json.loads(text)
    assert code == 1
    assert said["is_broken"] is True
    (framework,), (optional,) = said["frameworks"], said["optional"]
    assert (framework["backends"], framework["state"], framework["problem"]) == (
        ["torch"],
        "broken",
        "OSError: libcudart",
    )
    assert (optional["state"], optional["versions"], optional["install"]) == (
        "works", {"works_well": "1"}, "pip install 'delira[images]'",
    )  # fmt: skip
    assert said["folder"] == {"path": str(Path.cwd()), "problem": None}


def test_a_folder_that_cannot_be_written_to_is_told(packages, capsys, tmp_path):
    assert "cannot be written to" in doctor._folder(tmp_path / "missing")["problem"]
    assert doctor._folder(tmp_path)["problem"] is None
    assert not [*tmp_path.iterdir()]


def test_scikit_learn_is_found_with_its_devices(packages, capsys):
    pytest.importorskip("skops")
    packages({"sklearn": "sklearn"})
    code, text = run(capsys)
    assert code == 0
    assert re.search(r"works +sklearn +sklearn \d\S+, skops \d\S+; devices: cpu", text)


@pytest.mark.slow
def test_everything_that_is_installed_here_works(capsys):
    code, text = run(capsys, "--json")
    said = json.loads(text)
    assert {backend for finding in said["frameworks"] for backend in finding["backends"]} == FRAMEWORKS.keys()
    assert code == 0, text
    assert all(finding["devices"] for finding in said["frameworks"] if finding["state"] == "works")


def test_every_package_is_in_the_extra_that_it_names():
    if not (ROOT / "requirements").is_dir():
        pytest.skip("the requirements are not shipped")
    names = packages_distributions()
    backends = {(package, backend) for backend, packages in doctor.PACKAGES.items() for package in packages}
    keras_comes_with = {("keras", "tensorflow"), ("sklearn", "sklearn")}
    for package, extra in {(name, extra) for name, (extra, _) in doctor.OPTIONAL.items()} | backends - keras_comes_with:
        listed = (ROOT / "requirements" / f"{extra}.txt").read_text(encoding="utf-8").lower()
        others = {"skimage": ["scikit-image"], "PIL": ["pillow"], "mlflow": ["mlflow-skinny"]}
        known = {package, *names.get(package, ()), *others.get(package, ())}
        assert any(re.search(rf"^{re.escape(name.lower())}[>=]", listed, re.MULTILINE) for name in known), package


def test_every_target_of_a_log_is_listed_with_what_its_own_error_says(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    installs = {each.package: each.install for each in map(doctor._optional, doctor.OPTIONAL)}
    assert installs.keys() >= {package for _, package, _ in TARGETS.values()}
    for _, package, install in TARGETS.values():
        assert install in installs[package]
    assert NO_VISDOM.endswith(f": {installs['visdom']}")


def test_every_backend_says_what_it_needs():
    assert doctor.PACKAGES.keys() == FRAMEWORKS.keys()
    assert all(FRAMEWORKS[backend] in packages for backend, packages in doctor.PACKAGES.items())
    assert {packages[0] for packages in doctor.PACKAGES.values()} == doctor._DEVICES.keys()


def test_a_command_that_is_unknown_or_missing_is_explained(capsys):
    for arguments in ([], ["docter"]):
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 2
        assert "doctor" in capsys.readouterr().err


def test_the_module_is_the_command(packages, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["delira", "doctor", "--json"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module("delira", run_name="__main__")
    assert stopped.value.code == 0
    assert json.loads(capsys.readouterr().out)["frameworks"] == []


def test_a_package_may_say_something_when_the_process_ends(tmp_path, monkeypatch):
    source = "import atexit\n__version__ = '1'\natexit.register(print, 'bye')\n"
    (tmp_path / "says_goodbye.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "FRAMEWORKS", {})
    monkeypatch.setattr(doctor, "OPTIONAL", {"says_goodbye": ("images", "pictures")})
    assert [finding.state for finding in doctor.examine().optional] == ["works"]


def test_a_working_folder_that_was_deleted_is_told(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(doctor, "FRAMEWORKS", {})
    monkeypatch.setattr(doctor, "OPTIONAL", {})
    assert "cannot be written to" in doctor.examine().folder["problem"]
