"""Public names: the table of backends, what editors see, what is there at run time, and what is written about it."""

import ast
import collections
import dataclasses
import importlib
import inspect
import itertools
import re
import subprocess
import sys
import textwrap
import typing
from pathlib import Path
from typing import Any

import pytest
from stubs import check_is_own, stubs
from stubs import main as main_of_stubs

import delira
from delira.errors import ConfigError
from delira.frameworks import FRAMEWORKS, NAMES
from delira.settings.config import SETTINGS
from delira.training import BaseExperiment, BaseNetworkTrainer

SOURCE = Path(delira.__file__).parent

#: parameter -> why no docstring has to speak of it
EXPLAINED_BY_ITS_NAME = {
    "file": "the file that is read or written",
    "folder": "the folder that is read or written",
    "path": "the file that is read or written",
    "model": "the network",
}
#: callable and parameter -> why its docstring does not speak of it
EXPLAINED_ELSEWHERE = {
    "PerSample.function": "the class marks a function, and per_sample, which makes it, says how it is called",
    "create_optims_default_pytorch.optim_cls": "as every builder of optimizers: OptimizerConfig.builder",
    "create_optims_gan_default_pytorch.optim_cls": "the same",
    "kind_of.name": "only for the message",
    "load_checkpoint_torch.map_location": "as in torch.load",
    "mean_squared_error.prediction": "losses are called as loss(prediction, target)",
    "mean_squared_error.target": "the same",
    "result_page.result": "the function makes the page of a result",
}


def module_of(path: Path) -> str:
    parts = ["delira", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def constants(path: Path) -> dict[str, Any]:
    """The plain values that a file assigns to names, e.g. its ``__all__``."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


#: module -> its ``__all__``, read without importing it: as it is written, or else as editors see it
LISTED = {
    module_of(path): values["__all__"]
    for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyi")])
    if b"__all__" in path.read_bytes() and "__all__" in (values := constants(path))
}
#: historic import path -> where its names are defined
MOVED = {
    "delira.training.base_experiment": "delira.experiments.experiment",
    "delira.training.command_line": "delira.experiments.command_line",
    "delira.training.metrics": "delira.metrics",
    "delira.training.parameters": "delira.experiments.parameters",
}
#: module -> names that backends show there
SHOWN = {
    f"delira.{package}": sorted(name for backend in NAMES for name in NAMES[backend].get(package, ()))
    for package in sorted({package for names in NAMES.values() for package in names})
}
every_shown = pytest.mark.parametrize(
    ("backend", "module", "name"),
    [
        (backend, f"delira.{package}", name)
        for backend in NAMES
        for package in NAMES[backend]
        for name in NAMES[backend][package]
    ],
)


def needed_for(module: str) -> str | None:
    """Return the package that must be installed to import a module."""
    names = module.split(".")
    return FRAMEWORKS.get(names[2]) if names[1:2] == ["backends"] and len(names) > 2 else None


def import_or_skip(module: str) -> Any:
    if (package := needed_for(module)) is not None:
        pytest.importorskip(package, reason=f"{module} needs the package {package!r}, which is not installed")
    return importlib.import_module(module)


# ------------------------------------------------------------------ the table of backends


def test_every_backend_of_the_table_has_a_folder_and_a_package():
    assert NAMES.keys() == FRAMEWORKS.keys()
    for backend in NAMES:
        assert (SOURCE / "backends" / backend / "__init__.py").is_file()


def test_what_editors_see_is_what_the_packages_say():
    written = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.pyi")}
    assert written == stubs(), "run: make stubs"


def test_the_stubs_of_another_checkout_are_not_written(tmp_path):
    check_is_own(Path(__file__).parents[1] / "delira")
    with pytest.raises(ConfigError, match="PYTHONPATH="):
        check_is_own(tmp_path / "delira")


def test_help_about_the_stubs_writes_none(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stubs.py", "--help"])
    monkeypatch.setattr(Path, "write_text", lambda *what, **how: pytest.fail("a stub was written"))
    with pytest.raises(SystemExit, match="0"):
        main_of_stubs()
    assert "one ``.pyi`` beside each" in capsys.readouterr().out


@pytest.mark.parametrize("module", SHOWN)
def test_editors_see_the_names_of_backends(module):
    path = Path(importlib.import_module(module).__file__).with_suffix(".pyi")
    seen = [
        (node.module, alias.name, alias.asname)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("delira.backends.")
        for alias in node.names
    ]
    package = module.removeprefix("delira.")
    table = [
        (f"delira.backends.{backend}", name, name) for backend in NAMES for name in NAMES[backend].get(package, ())
    ]
    assert sorted(seen) == sorted(table)


def test_every_package_that_shows_names_of_backends_is_in_the_table():
    assert SHOWN.keys() <= {module_of(path.with_suffix(".py")) for path in stubs()}


@pytest.mark.parametrize("module", MOVED)
def test_a_historic_path_shows_what_its_home_has(module):
    old, new = importlib.import_module(module), importlib.import_module(MOVED[module])
    names = [name for name in vars(new) if not name.startswith("__")]
    assert all(getattr(old, name) is getattr(new, name) for name in names)
    assert dir(old) == dir(new)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        old.no_such_name  # noqa: B018


def test_everything_listed_can_be_imported_from_a_historic_path():
    found: dict[str, Any] = {}
    exec("from delira.training.metrics import *", found)
    assert found.keys() >= set(LISTED["delira.metrics"])


@pytest.mark.parametrize("backend", NAMES)
def test_the_table_lists_each_name_of_a_backend_once_in_order(backend):
    for names in NAMES[backend].values():
        assert names == sorted(set(names))
    assert {name for names in NAMES[backend].values() for name in names} == set(LISTED[f"delira.backends.{backend}"])


def test_no_name_of_a_backend_is_stated_twice():
    tables = [SOURCE / "frameworks.py", *(path.with_suffix(".py") for path in stubs())]
    nodes = [node for path in tables for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts += [node.name for node in nodes if isinstance(node, ast.alias)]
    words = collections.Counter(word for text in texts for word in text.split())
    assert {name: words[name] for names in SHOWN.values() for name in names if words[name] != 1} == {}


def test_no_two_backends_show_the_same_name():
    for names in SHOWN.values():
        assert len(names) == len(set(names))


@every_shown
def test_a_shown_name_is_the_object_of_its_backend(backend, module, name):
    backend = import_or_skip(f"delira.backends.{backend}")
    assert getattr(importlib.import_module(module), name) is getattr(backend, name)


@pytest.mark.parametrize("module", SHOWN)
def test_dir_lists_the_names_of_backends_among_the_others(module):
    listed = dir(importlib.import_module(module))
    assert set(SHOWN[module]) | set(LISTED.get(module, ())) <= set(listed)
    assert listed == sorted(listed)


@pytest.mark.parametrize("module", SHOWN)
def test_an_unknown_name_is_the_usual_error(module):
    name = "no_such_name"
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute '{name}'$"):
        getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("backend", NAMES)
def test_a_name_whose_framework_is_missing_says_what_to_install(backend):
    """In a fresh interpreter that cannot find the framework, nor what may be imported before it."""
    package, beside = FRAMEWORKS[backend], {"tensorflow": ["keras"], "jax": ["optax", "jax"]}.get(backend, [])
    shown = [(f"delira.{where}", name) for where, names in NAMES[backend].items() for name in names]
    code = f"""
        import importlib, sys
        sys.modules.update(dict.fromkeys({[package, *beside]!r}))
        from delira.errors import MissingBackendError
        for module, name in {shown}:
            try:
                getattr(importlib.import_module(module), name)
            except MissingBackendError as error:
                said = f"{{module}}.{{name}} needs the package {package!r}, which is not installed. "
                said += "Install it with: pip install 'delira[{backend}]'"
                if str(error) != said:
                    sys.exit(f"{{error}} != {{said}}")
            else:
                sys.exit(f"{{module}}.{{name}} was found")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=SOURCE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------ lists of names


def ruff_order(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then the rest."""
    return not name.isupper(), not name[0].isupper(), name


@pytest.mark.parametrize("module", LISTED)
def test_every_listed_name_is_there(module):
    imported = import_or_skip(module)
    assert not [name for name in LISTED[module] if not hasattr(imported, name)]


@pytest.mark.parametrize("module", LISTED)
def test_the_list_of_a_package_is_what_editors_see(module):
    of_backends = {name for shown in NAMES.values() for name in shown["models"]} if module == "delira.models" else set()
    assert [name for name in import_or_skip(module).__all__ if name not in of_backends] == list(LISTED[module])


@pytest.mark.parametrize("module", LISTED)
def test_lists_of_names_are_sorted_and_name_nothing_twice(module):
    assert LISTED[module] == sorted(set(LISTED[module]), key=ruff_order)


def test_every_public_package_lists_its_names():
    packages = {module_of(path) for path in SOURCE.rglob("__init__.py")}
    shown_by_training = {f"delira.{name}" for name in ("experiments", "runs", "settings")}
    moved = {"delira.training.callbacks", "delira.compat"}
    assert packages - shown_by_training - moved - {"delira.backends", "delira.cli.migrate"} <= LISTED.keys()


HISTORIC = [
    ("delira.data_loading", "DataLoader", "delira.data_loading", "BaseDataLoader"),
    ("delira.data_loading", "DataManager", "delira.data_loading", "BaseDataManager"),
    ("delira.io", "torch_load_checkpoint", "delira.io", "load_checkpoint_torch"),
    ("delira.io", "torch_save_checkpoint", "delira.io", "save_checkpoint_torch"),
    ("delira.training", "AbstractExperiment", "delira.training", "BaseExperiment"),
    ("delira.training", "AbstractNetworkTrainer", "delira.training", "BaseNetworkTrainer"),
    *(("delira.training.metrics", name, "delira.metrics", name) for name in LISTED["delira.metrics"]),
]


@pytest.mark.parametrize(("old_module", "old", "module", "name"), HISTORIC, ids=lambda value: value)
def test_a_historic_name_is_the_same_object(old_module, old, module, name):
    if old in SHOWN.get(old_module, ()):
        import_or_skip("delira.backends.torch")
    assert getattr(importlib.import_module(old_module), old) is getattr(importlib.import_module(module), name)


# ------------------------------------------------------------------ what is written about them

#: the modules that a user imports from
PUBLIC = [module for module in LISTED if (SOURCE.parent / module.replace(".", "/") / "__init__.py").is_file()]
every_public_module = pytest.mark.parametrize("module", PUBLIC)


def public_objects(module: str) -> dict[str, Any]:
    """The classes and functions that a module lists; names of types, such as ``Tree``, have no text of their own."""
    imported = import_or_skip(module)
    listed = {name: getattr(imported, name) for name in LISTED[module]}
    listed = {name: value for name, value in listed.items() if value is not Any and typing.get_origin(value) is None}
    return {name: value for name, value in listed.items() if callable(value)}


def docstring(value: Any, *, with_bases: bool = False) -> str:
    """The docstring; a class shows that of its base as its own unless one looks closely."""
    if not isinstance(value, type):
        return value.__doc__ or ""
    classes = value.__mro__ if with_bases else [value]
    return "\n".join(vars(cls).get("__doc__") or "" for cls in classes if cls.__module__.startswith("delira"))


def parameters(value: Any) -> list[str]:
    """Names that a call can give."""
    names = [
        parameter.name
        for parameter in inspect.signature(value.__init__ if isinstance(value, type) else value).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and parameter.name != "self"
    ]
    if isinstance(value, type) and issubclass(value, (BaseExperiment, BaseNetworkTrainer, delira.Trial)):
        return [name for name in names if name not in SETTINGS]  # documented as fields of TrainerConfig, see below
    is_record = isinstance(value, type) and (dataclasses.is_dataclass(value) or issubclass(value, tuple))
    return [] if is_record else names  # the fields of a record are documented one by one


@every_public_module
def test_every_public_name_has_a_docstring(module):
    assert not [name for name, value in public_objects(module).items() if not docstring(value).strip()]


@every_public_module
def test_a_docstring_speaks_of_every_parameter(module):
    silent = [
        f"{value.__name__}.{name}"
        for value in public_objects(module).values()
        for name in parameters(value)
        if name not in EXPLAINED_BY_ITS_NAME and not re.search(rf"\b{name}\b", docstring(value, with_bases=True))
    ]
    unexplained = sorted(set(silent) - EXPLAINED_ELSEWHERE.keys())
    assert not unexplained, f"say what they mean (numpy style): {unexplained}"


def test_every_setting_is_explained_below_its_field():
    unexplained = []
    for path in SOURCE.rglob("*.py"):
        classes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
        for node in classes:
            if not node.name.endswith("Config") or "dataclass" not in " ".join(map(ast.unparse, node.decorator_list)):
                continue
            for field, below in itertools.pairwise([*node.body, None]):
                is_explained = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and not is_explained:
                    unexplained.append(f"{node.name}.{ast.unparse(field.target)}")
    assert not unexplained
