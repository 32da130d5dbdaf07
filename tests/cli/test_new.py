"""``delira new`` and ``demo``: projects that run as they are; ``completion``: scripts that shells take."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from delira import cli
from delira.cli.new import render
from delira.frameworks import installed_backends

ROOT = Path(__file__).parents[2]
PROJECTS = [
    (kit, task)
    for kit in ("torch", "torchscript", "tensorflow", "jax", "sklearn")
    for task in ("classification", "segmentation")
    if (kit, task) != ("sklearn", "segmentation")
]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


def run(*words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *words]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, **more)


@pytest.mark.parametrize(("backend", "task"), PROJECTS)
def test_the_files_of_a_project_are_python_in_good_style(tmp_path, backend, task):
    texts = render("my_project", backend, task)
    assert set(texts) == {
        "README.md", "dataset.py", "network.py", "train.py", "test_project.py", "requirements.txt", ".gitignore",
    }  # fmt: skip
    for name, text in texts.items():
        assert "{{" not in text, name
        assert "{%" not in text, name
        assert text.endswith("\n"), name
        if name.endswith(".py"):
            compile(text, name, "exec")
            (tmp_path / name).write_text(text)
    if shutil.which("ruff", path=str(Path(sys.executable).parent)) is None:
        return
    options = ["--isolated", "--line-length", "120", "--no-cache"]
    checked = run("-m", "ruff", "check", *options, "--select", "E,F,I,UP,B,SIM,RUF", ".", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    formatted = run("-m", "ruff", "format", *options, "--diff", ".", cwd=tmp_path)
    assert formatted.returncode == 0, formatted.stdout


def test_a_project_is_written_into_a_new_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "sub/ears", "--backend", "sklearn", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["folder"] == "sub/ears"
    assert all((tmp_path / "sub" / "ears" / name).is_file() for name in answer["files"])
    assert 'name="ears"' in (tmp_path / "sub" / "ears" / "train.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("full", "--backend", "torch"), "'full' exists already and is not empty"),
        (("file", "--backend", "torch"), "'file' exists already and is not empty"),
        (("..", "--backend", "torch"), "'..' is no name of a project"),
        (("a b", "--backend", "torch"), "'a b' is no name of a project"),
        (("x", "--backend", "sklearn", "--task", "segmentation"), "a segmentation needs a network"),
    ],
)
def test_what_cannot_be_a_project_is_refused(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    (tmp_path / "file").touch()
    assert cli.main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_script_answers_mistakes_in_its_options_by_one_line(tmp_path):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    assert run("-m", "delira", "new", "project", "--backend", "sklearn", cwd=tmp_path).returncode == 0
    project = tmp_path / "project"
    for words, message in (
        (("--folds", "1"), "num_splits must be an integer of at least 2, got 1"),
        (("--resume", "nosuch"), f"'{project / 'nosuch'}' is no run folder: there is no such folder"),
    ):
        done = run("train.py", *words, cwd=project)
        assert (done.returncode, done.stderr, done.stdout) == (2, f"train.py: {message}\n", "")
    text = run("train.py", "--help", cwd=project).stdout
    assert "\n\nCross-validate the network.\n\n" in text
    assert "(--n_trees)" in text


@pytest.mark.slow
@pytest.mark.timeout(600)  # several interpreters that import a framework, on a machine that is shared
@pytest.mark.parametrize(("backend", "task"), PROJECTS)
def test_a_project_runs_as_it_is_and_its_test_passes(tmp_path, backend, task):
    if backend not in installed_backends():
        pytest.skip(f"the package of the backend {backend!r} is not installed")
    if backend == "sklearn":
        pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    assert run("-m", "delira", "new", "project", "--backend", backend, "--task", task, cwd=tmp_path).returncode == 0
    project = tmp_path / "project"
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert tested.returncode == 0, tested.stdout
    words = ["--n_trees", "5"] if backend == "sklearn" else ["--num_epochs", "1"]
    trained = run("train.py", "--folds", "2", *words, cwd=project)
    assert trained.returncode == 0, trained.stderr
    assert "project: 2 folds" in trained.stdout
    (page,) = project.glob("runs/project/*/report/report.html")
    assert str(page) in trained.stdout
    assert "data: __main__:load_data" in (page.parents[1] / "experiment.yml").read_text()  # so that it can be rerun


@pytest.mark.slow
@pytest.mark.timeout(600)  # several interpreters that import a framework, on a machine that is shared
def test_the_demo_writes_a_run_and_its_page(tmp_path):
    pytest.importorskip("skops", reason="estimators are stored by the package 'skops', which is not installed")
    done = run("-m", "delira", "demo", "--backend", "sklearn", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["backend"] == "sklearn"
    assert answer["summary"]["accuracy"]["oof"] > 0.9
    assert (tmp_path / answer["run"] / "ledger.jsonl").exists()
    assert "accuracy" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_demo_of_a_backend_that_is_missing_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    from delira.cli import demo

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None if name in ("torch", "skops") else name)
    assert cli.main(["demo", "--backend", "torch"]) == 2
    assert "needs the package 'torch', which is not installed" in capsys.readouterr().err
    # with delira alone scikit-learn is there, and what stores its networks is not
    assert cli.main(["demo", "--backend", "sklearn"]) == 2
    assert "needs the package 'skops', which is not installed: pip install 'delira[sklearn]'" in capsys.readouterr().err
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: name if name == "sklearn" else None)
    assert cli.main(["demo"]) == 2
    assert "pip install 'delira[torch]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_fails_is_no_misuse(tmp_path, monkeypatch, capsys):
    from delira.cli import demo

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_missing", lambda kit: [])
    monkeypatch.setattr(demo.new, "render", lambda *facts: {"train.py": "raise SystemExit(3)"})
    assert cli.main(["demo"]) == 1
    assert "the demo ended with exit code 3" in capsys.readouterr().err


def test_a_project_requires_this_delira_and_not_the_older_library_of_its_name(tmp_path, monkeypatch):
    from packaging.requirements import Requirement

    import delira

    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "mine", "--backend", "torch"]) == 0
    needed = Requirement((tmp_path / "mine" / "requirements.txt").read_text().splitlines()[0])
    assert (needed.name, needed.extras) == ("delira", {"torch"})
    assert needed.specifier.contains(delira.__version__, prereleases=True)
    assert not any(needed.specifier.contains(old, prereleases=True) for old in ("0.3.1", "0.4.1", "0.9"))


# ---- completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_shell_takes_the_script(shell, tmp_path, capsys):
    pytest.importorskip("shtab", reason="completion needs the package 'shtab', which is not installed")
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "verify" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    (tmp_path / "script").write_text(script)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_commands(tmp_path):
    pytest.importorskip("shtab", reason="completion needs the package 'shtab', which is not installed")
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "script").write_text(run("-m", "delira", "completion", "bash").stdout)
    asked = "source ./script; COMP_WORDS=(delira ver); COMP_CWORD=1; _shtab_delira; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "verify\n", done.stderr


def test_without_shtab_it_is_said_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert cli.main(["completion", "bash"]) == 2
    assert "pip install 'delira[cli]'" in capsys.readouterr().err
