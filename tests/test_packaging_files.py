"""What people meet around the package: image, conda environment, citation, templates, hooks; none may go stale."""

import ast
import builtins
import importlib.util
import itertools
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import delira
from delira.errors import MissingBackendError

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {path.stem for path in (ROOT / "requirements").glob("*.txt")} | {"full"}


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def instructions() -> list[str]:
    """The Dockerfile's instructions, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


# ---- the image


def test_the_image_is_built_from_files_that_its_context_holds():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    assert all((ROOT / name).exists() for name in kept)
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    assert {"delira", "requirements", "setup.py", "pyproject.toml", "LICENSE", "README.md", "MANIFEST.in"} <= kept
    assert "CHANGELOG.md" in kept
    assert "CHANGELOG.md" in manifest


def test_the_image_has_a_stage_for_cpus_and_one_for_gpus_and_neither_runs_as_root():
    lines = instructions()
    stages = [line.split()[-1] for line in lines if line.startswith("FROM")]
    assert stages == ["base", "cpu", "cuda"]
    assert [line for line in lines if line.startswith("USER")] == ["USER delira", "USER delira"]


def test_the_image_installs_extras_that_exist_with_the_pins():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    named = {name for match in re.findall(r"EXTRAS=([\w,]+)", text) for name in match.split(",")}
    assert named <= EXTRAS
    installs = [line for line in instructions() if line.startswith("RUN pip install")]
    assert len(installs) == 2
    assert all("--constraint /opt/delira/requirements/constraints.txt" in line for line in installs)


def test_the_shell_understands_every_step_of_the_image():
    for line in instructions():
        if line.startswith("RUN "):
            subprocess.run(["bash", "-n", "-c", line.removeprefix("RUN ")], check=True)


# ---- conda


def test_the_conda_environment_has_the_ranges_of_the_requirements():
    environment = read_yaml("environment.yml")
    *packages, pip = environment["dependencies"]
    base = (ROOT / "requirements" / "base.txt").read_text(encoding="utf-8").splitlines()
    ranges = {line.name: line.specifier for line in map(Requirement, (line for line in base if line[:1] != "#"))}
    named = {Requirement(re.sub("^matplotlib-base", "matplotlib", line)) for line in packages if ">=" in line}
    assert named
    assert {line.name: line.specifier for line in named}.items() <= ranges.items()
    assert pip == {"pip": ["--constraint requirements/constraints.txt", "--editable .[torch]"]}


# ---- citation, hooks, templates


def test_the_citation_names_this_version():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == delira.__version__
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what the format requires
    assert citation["license"] in (ROOT / "setup.py").read_text(encoding="utf-8")


def test_the_hooks_run_the_tools_of_make_lint_with_its_pins():
    (repository,) = read_yaml(".pre-commit-config.yaml")["repos"]
    lines = {line for hook in repository["hooks"] for line in hook.get("additional_dependencies", [])}
    assert lines == {f"ruff=={pins()['ruff']}"}
    assert [hook["entry"].split()[0] for hook in repository["hooks"]] == ["ruff", "ruff", ".venv/bin/mypy"]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_form_asks_for_what_we_need_and_every_field_has_a_label(name):
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    identifiers = [field["id"] for field in form["body"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(field["attributes"]["label"] for field in form["body"])


def test_every_make_target_that_a_list_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {target for line in re.findall(r"^([\w -]+):", makefile, re.MULTILINE) for target in line.split()}
    for name in ("docs/releasing.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"):
        spans = re.findall(r"`make ([^`]+)`", (ROOT / name).read_text(encoding="utf-8"))
        words = {word for span in spans for word in re.split(r" && make | ", span) if re.fullmatch(r"[a-z-]+", word)}
        assert words <= targets, name


@pytest.mark.parametrize(
    "name",
    ["delira", "delira.metrics", "delira.training.metrics", "delira.state", "delira.training",
     "delira.training.callbacks", "delira.callbacks.decorators"],
)  # fmt: skip
def test_b31_to_import_everything_replaces_no_builtin(name):
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [key for key in vars(module) if not key.startswith("_")])
    assert not {key for key in names if hasattr(builtins, key)}


def test_t06_python_without_docstrings_imports_all_of_delira():
    program = """
import importlib, importlib.util, pathlib, sys, delira
source = pathlib.Path(delira.__file__).parent
for path in source.rglob("*.py"):
    parts = path.relative_to(source).with_suffix("").parts
    if parts[0] not in ("backends", "__main__", *(() if importlib.util.find_spec("optuna") else ("search",))):
        importlib.import_module(".".join(("delira", *parts)))
sys.exit("there are docstrings" if delira.Trial.__doc__ else len(delira.training.settings_help()) < 1000)
"""
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]


def python_of(path):
    """The Python that a page, a notebook or a script shows."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def imports_of(code):
    """The names that code imports, as (module, name or None)."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!"))]
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


PAGES = sorted(
    path
    for folder, pattern in ((".", "*.md"), ("docs", "*.md"), ("notebooks", "*.ipynb"), ("examples", "**/*.py"))
    for path in (ROOT / folder).glob(pattern)
)


def test_t07_what_the_documents_import_is_there():
    missing, found = [], set()
    for path in PAGES:
        for module, name in itertools.chain.from_iterable(map(imports_of, python_of(path))):
            if module.partition(".")[0] not in ("sklearn", "delira") or importlib.util.find_spec("sklearn") is None:
                continue
            found.add(module)
            try:
                imported = importlib.import_module(module)
                if name is not None and not hasattr(imported, name):
                    importlib.import_module(f"{module}.{name}")
            except MissingBackendError:
                continue  # it is there, for those who have the package
            except ImportError as error:
                missing.append(f"{path.relative_to(ROOT)}: {module} {name}: {error}")
    assert not missing, "\n".join(missing)
    assert {"delira", "sklearn.metrics"} <= found, "the documents were not read"


def test_t08_the_wheel_installs_delira_and_nothing_else(monkeypatch):
    """The wheel itself is looked into by tests/test_packaging.py, which is slow."""
    setuptools = pytest.importorskip("setuptools")
    given = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: given.update(arguments))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__main__")
    assert {name.partition(".")[0] for name in given["packages"]} == {"delira"}
    assert not given.keys() & {"py_modules", "scripts", "data_files"}
    assert given["package_dir"] == {"": "."}  # the folder of setup.py itself, for editable installs
