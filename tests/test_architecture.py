"""The rules of the house, read from the source: who imports whom, how large things grow, what an import does."""

import ast
import functools
import graphlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import delira

SOURCE = Path(delira.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

BELOW_CONTRACT = {"errors", "utils", "data_loading", "models", "logging", "metrics", "io"}
UP_TO_TRAINING = BELOW_CONTRACT | {"contract", "training"}

#: part of delira -> parts it may import, at the top of a file or inside a function
ALLOWED = {
    "__init__": {"rooms", "utils"},
    "errors": set(),
    "rooms": set(),
    "utils": {"errors", "rooms"},
    "data_loading": {"errors", "utils"},
    "models": {"errors", "utils"},
    "logging": {"errors", "utils"},
    "metrics": {"errors", "utils"},
    "io": {"errors", "utils"},
    "contract": {"errors", "models", "io"},
    "training": BELOW_CONTRACT | {"contract"},
    "execution": UP_TO_TRAINING,
    "report": {"errors", "utils", "metrics", "training"},
    "testing": UP_TO_TRAINING,
    "backends": UP_TO_TRAINING,
    "cli": UP_TO_TRAINING | {"rooms", "execution", "report"},
}
#: the same for imports inside functions only: small interfaces to what knows the importing part
ALLOWED_LATE = {
    "__init__": {"training"},  # delira.Trial
    "training": {"report", "execution"},  # a result plots itself; an experiment hands its folds out
}
#: room -> the room it builds on
PARENTS = {"torchscript": "torch"}
#: package of a framework -> rooms that may import it; nobody else may
FRAMEWORKS = {
    "torch": {"torch", "torchscript"},
    "tensorflow": {"tensorflow"},
    "keras": {"tensorflow"},
    "jax": {"jax"},
    "flax": {"jax"},
    "optax": {"jax"},
}
#: third-party packages that may be imported when a module outside the rooms is
REQUIRED = {"numpy", "yaml"}

MAX_FILE_LINES = 400
MAX_BODY_LINES = 50
MAX_ARGUMENTS = 7
HISTORIC = "historic signature"
#: file or function -> why it may be larger
LONG_FILES: dict[str, str] = {}
LONG_BODIES: dict[str, str] = {}
MANY_ARGUMENTS = {
    "data_loading/data_manager.py BaseDataManager.__init__": HISTORIC,
    "training/base_experiment.py BaseExperiment.__init__": HISTORIC,
    "training/base_experiment.py BaseExperiment.kfold": HISTORIC,
    "training/base_trainer.py BaseNetworkTrainer.train": HISTORIC,
    "training/predictor.py Predictor.evaluate": "one pass, many readers: the historic methods are views on it",
}

#: modules whose files can run code when read; file -> the one thing it may use of them
CODE_ON_LOAD = {"pickle", "cPickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}
ONLY_THE_ERROR = {"backends/torch/io.py": "UnpicklingError"}
MAY_PRINT = {"training/callbacks/progress.py", "cli.py"}

PUBLIC_PACKAGES = [
    "delira",
    "delira.data_loading",
    "delira.io",
    "delira.metrics",
    "delira.models",
    "delira.report",
    "delira.testing",
    "delira.training",
    "delira.utils",
]
#: not needed before it is used, and some of it takes seconds to import
NOT_BEFORE_USE = {
    *FRAMEWORKS, "sklearn", "scipy", "matplotlib", "pandas", "jinja2", "tqdm",
    "tensorboard", "tensorboardX", "batchgenerators",
}  # fmt: skip


# ------------------------------------------------------------------ reading the source


class Import(NamedTuple):
    """One imported module, e.g. ``delira.io.container``."""

    module: str
    line: int
    is_late: bool
    """Inside a function: imported when that is called."""
    is_for_checkers: bool
    """In a TYPE_CHECKING block: never imported."""


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def module_of(path: Path) -> str:
    parts = ["delira", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(path: Path) -> str:
    """Return the row of the table that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(_imports(tree_of(path), path, False, False))


def _imports(node: ast.AST, path: Path, is_late: bool, is_for_checkers: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        late = is_late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _imports(ast.Module([statement], []), path, late, True)
            for statement in child.orelse:
                yield from _imports(ast.Module([statement], []), path, late, is_for_checkers)
            continue
        for module in _imported_modules(child, path):
            yield Import(module, child.lineno, late, is_for_checkers)
        yield from _imports(child, path, late, is_for_checkers)


def _imported_modules(node: ast.AST, path: Path) -> list[str]:
    """Return the modules that one statement, or one call of ``import_module`` with a plain name, imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(node, path)
        return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        name = node.args[0] if node.args else None
        return [name.value] if isinstance(name, ast.Constant) and isinstance(name.value, str) else []
    return []


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    base = package.rsplit(".", node.level - 1)[0]
    return f"{base}.{node.module}" if node.module else base


def own_imports(path: Path) -> Iterator[tuple[Import, str]]:
    """Imports of delira's own modules that are executed, and the part each belongs to."""
    for found in imports_of(path):
        names = found.module.split(".")
        if names[0] == "delira" and not found.is_for_checkers:
            yield found, names[1] if len(names) > 1 else "__init__"


every_file = pytest.mark.parametrize("path", FILES, ids=name_of)

# ------------------------------------------------------------------ who imports whom


def test_every_part_has_a_row_in_the_table():
    unknown = {part_of(path) for path in FILES} - ALLOWED.keys()
    assert not unknown, f"say in ALLOWED what {sorted(unknown)} may import (and see docs: architecture)"


@every_file
def test_imports_point_inwards(path):
    part = part_of(path)
    for found, target in own_imports(path):
        allowed = ALLOWED[part] | (ALLOWED_LATE.get(part, set()) if found.is_late else set())
        assert target == part or target in allowed, (
            f"{name_of(path)}:{found.line}: {part} must not import {found.module}"
            + (", except inside a function" if target in ALLOWED_LATE.get(part, ()) else "")
        )


def import_graph() -> dict[str, set[str]]:
    """Module -> modules that are executed before it.

    To import ``delira.io.container`` executes ``delira.io`` first, unless one is inside that package
    already, where it only has to exist.
    """
    graph: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        before = graph.setdefault(module, set())
        for found, _ in own_imports(path):
            if found.is_late:
                continue
            names = found.module.split(".")
            packages = {".".join(names[:length]) for length in range(1, len(names))}
            before |= {package for package in packages if not f"{module}.".startswith(f"{package}.")}
            before.add(found.module)
    return graph


def test_no_two_modules_need_each_other():
    try:
        graphlib.TopologicalSorter(import_graph()).prepare()
    except graphlib.CycleError as error:
        pytest.fail("these modules import each other: " + " -> ".join(reversed(error.args[1])))


def test_a_room_knows_no_other_room_but_its_parent():
    for path in (SOURCE / "backends").rglob("*.py"):
        room = path.relative_to(SOURCE / "backends").parts[0]
        for found, target in own_imports(path):
            names = found.module.split(".")
            if target == "backends":
                known = {room, PARENTS.get(room)}
                assert len(names) > 2 and names[2] in known, (
                    f"{name_of(path)}:{found.line}: the room {room} must not import {found.module}"
                )


@every_file
def test_a_framework_is_imported_in_its_room_only(path):
    names = path.relative_to(SOURCE).parts
    room = names[1] if names[0] == "backends" else None
    for found in imports_of(path):
        rooms = FRAMEWORKS.get(found.module.split(".")[0])
        assert rooms is None or room in rooms, (
            f"{name_of(path)}:{found.line} imports {found.module}, which belongs to the rooms {sorted(rooms)}; "
            "ask the backend, or look into sys.modules"
        )


@every_file
def test_outside_the_rooms_only_required_packages_are_imported_at_once(path):
    if part_of(path) == "backends":
        return
    for found in imports_of(path):
        package = found.module.split(".")[0]
        if not (found.is_late or found.is_for_checkers or package in sys.stdlib_module_names):
            assert package in REQUIRED | {"delira"}, (
                f"{name_of(path)}:{found.line} imports {package}; move the import into the function that needs it"
            )


# ------------------------------------------------------------------ how large things grow


def functions_of(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of a file with its name: ``"<file> Class.method"``."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{name_of(path)} {prefix}{child.name}", child
            inner = f"{prefix}{child.name}." if hasattr(child, "name") else prefix
            yield from walk(child, inner)

    yield from walk(tree_of(path), "")


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    if ast.get_docstring(function) is None:
        return function.end_lineno - function.body[0].lineno + 1
    return function.end_lineno - function.body[0].end_lineno


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of the arguments, without ``self``, ``*args`` and ``**kwargs``."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    if names[:1] in (["self"], ["cls"]):
        del names[0]
    return names + [argument.arg for argument in given.kwonlyargs]


@every_file
def test_no_file_outgrows_a_reader(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_FILE_LINES or name_of(path) in LONG_FILES, f"{name_of(path)} has {lines} lines"


@every_file
def test_no_function_outgrows_a_screen(path):
    long = {name: body_lines(function) for name, function in functions_of(path)}
    long = {name: lines for name, lines in long.items() if lines > MAX_BODY_LINES and name not in LONG_BODIES}
    assert not long, f"longer than {MAX_BODY_LINES} lines: {long}"


@every_file
def test_no_function_takes_more_than_seven_arguments(path):
    many = {name: arguments(function) for name, function in functions_of(path)}
    many = {name: names for name, names in many.items() if len(names) > MAX_ARGUMENTS}
    unexcused = {name: names for name, names in many.items() if name not in MANY_ARGUMENTS}
    assert not unexcused, f"what travels together becomes a frozen dataclass: {unexcused}"


def test_no_exception_is_listed_in_vain():
    functions = {name: function for path in FILES for name, function in functions_of(path)}
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    needed = {name for name, function in functions.items() if len(arguments(function)) > MAX_ARGUMENTS}
    assert set(MANY_ARGUMENTS) == needed & set(MANY_ARGUMENTS)
    assert all(name in functions and body_lines(functions[name]) > MAX_BODY_LINES for name in LONG_BODIES)
    assert all(lines.get(name, 0) > MAX_FILE_LINES for name in LONG_FILES)


# ------------------------------------------------------------------ what is not done


@every_file
def test_nothing_is_unpickled(path):
    for found in imports_of(path):
        package = found.module.split(".")[0]
        assert package not in CODE_ON_LOAD or name_of(path) in ONLY_THE_ERROR, (
            f"{name_of(path)}:{found.line} imports {package}, whose files can run code when they are read"
        )
    if (allowed := ONLY_THE_ERROR.get(name_of(path))) is not None:
        used = {
            node.attr
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in CODE_ON_LOAD
        }
        assert used == {allowed}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            assert (node.arg, node.value.value) not in {("weights_only", False), ("allow_pickle", True)}, (
                f"{name_of(path)}:{node.value.lineno}: {node.arg}={node.value.value} runs what the file says"
            )


def calls_of(path: Path) -> Iterator[tuple[str, int]]:
    """What a file calls, as it is written, and where."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


@every_file
def test_only_the_progress_display_prints(path):
    for name, line in calls_of(path):
        assert name != "print" or name_of(path) in MAY_PRINT, f"{name_of(path)}:{line} prints"


@every_file
def test_the_host_program_keeps_its_logging_and_its_warnings(path):
    changes = {"basicConfig", "dictConfig", "fileConfig", "simplefilter", "filterwarnings", "resetwarnings"}
    for name, line in calls_of(path):
        assert name.rpartition(".")[2] not in changes, f"{name_of(path)}:{line} calls {name}"


@every_file
def test_no_assert_meets_a_user(path):
    if part_of(path) == "testing":  # a specification consists of asserts
        return
    lines = [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Assert)]
    assert not lines, f"{name_of(path)}: raise an exception of delira.errors instead of assert in lines {lines}"


# ------------------------------------------------------------------ what an import does

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
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "HOME": str(folder), "TMPDIR": str(folder)}
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


every_package = pytest.mark.parametrize("package", PUBLIC_PACKAGES)


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
