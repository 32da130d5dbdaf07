"""The rules of the house, read from the source: who imports whom, how large things grow, what is not done."""

import ast
import functools
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import delira

SOURCE = Path(delira.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

BELOW_CONTRACT = {"errors", "state", "utils", "data_loading", "models", "logging", "metrics", "io", "inference"}
BELOW_TRAINING = BELOW_CONTRACT | {"frameworks", "contract", "settings", "runs"}
UP_TO_EXPERIMENTS = BELOW_TRAINING | {"callbacks", "training", "report", "search", "experiments"}

#: part of delira -> parts it may import, at the top of a file or inside a function
ALLOWED = {
    "__init__": {"frameworks", "state", "utils"},
    "__main__": {"cli"},
    "errors": set(),
    "frameworks": set(),
    "state": {"errors"},
    "utils": {"errors", "frameworks"},
    "data_loading": {"errors", "utils"},
    "models": {"errors", "utils"},
    "logging": {"errors", "utils"},
    "metrics": {"errors", "state", "utils"},
    "io": {"errors", "utils", "data_loading"},
    "inference": {"errors", "utils"},
    "contract": {"errors", "frameworks", "state", "models", "io", "utils"},
    "settings": {"errors", "utils", "metrics", "inference", "logging", "contract"},
    "runs": {"__init__", "errors", "frameworks", "utils", "metrics", "io", "settings"},
    "callbacks": BELOW_TRAINING,
    "training": BELOW_TRAINING | {"callbacks"},
    "report": {"errors", "utils", "metrics", "runs"},
    "search": {"errors", "utils", "metrics", "runs"},
    "experiments": BELOW_TRAINING | {"__init__", "callbacks", "training", "report", "search"},
    "comparison": {"errors", "utils", "metrics", "runs", "report", "experiments"},
    "trial": BELOW_TRAINING | {"callbacks", "training"},
    "execution": {"errors", "utils", "data_loading", "runs"},
    "prediction": UP_TO_EXPERIMENTS | {"__init__"},
    "testing": UP_TO_EXPERIMENTS,
    "backends": UP_TO_EXPERIMENTS,
    "compat": UP_TO_EXPERIMENTS,
    "sklearn": UP_TO_EXPERIMENTS,
    "cli": UP_TO_EXPERIMENTS | {"__init__", "comparison", "execution", "prediction"},
}
#: the same for imports inside functions only: small interfaces to what knows the importing part
ALLOWED_LATE = {
    "experiments": {"execution"},  # an experiment hands its folds out
    "training": {"execution"},  # a training that several processes take part in starts the others
}
#: backend -> the backend it builds on
PARENTS = {"torchscript": "torch"}
#: package of a framework -> backends that may import it; nobody else may
FRAMEWORKS = {
    "torch": {"torch", "torchscript"},
    "tensorflow": {"tensorflow"},
    "keras": {"tensorflow"},
    "jax": {"jax"},
    "flax": {"jax"},
    "optax": {"jax"},
}
#: third-party packages that may be imported at the top of a file outside the backends: numpy, and
AT_ONCE = {
    "utils": {"yaml"},
    "search": {"optuna"},  # the study itself is imported by who searches
    "sklearn": {"sklearn"},  # its estimators derive from scikit-learn's; the package itself shows them lazily
}

MAX_FILE_LINES = 600
MAX_BODY_LINES = 50
MAX_ARGUMENTS = 7
HISTORIC = "historic signature"
#: file or function -> why it may be larger
LONG_FILES: dict[str, str] = {}
LONG_BODIES: dict[str, str] = {}
MANY_ARGUMENTS = {
    "data_loading/data_manager.py BaseDataManager.__init__": HISTORIC,
    "data_loading/data_loader.py BaseDataLoader.__init__": HISTORIC,
    "compat/data.py Augmenter.__init__": HISTORIC,
    "experiments/experiment.py BaseExperiment.__init__": HISTORIC,
    "experiments/experiment.py BaseExperiment.kfold": HISTORIC,
    "experiments/experiment.py BaseExperiment.tune": "what is searched, and how, as of kfold",
    "experiments/experiment.py BaseExperiment.run": "what is trained on what, and where it goes on",
    "training/trainer.py BaseNetworkTrainer.__init__": HISTORIC,
    "callbacks/tensorboard_images.py TensorBoardImages.__init__": HISTORIC,
    "callbacks/tensorboard_images.py TensorBoardProjector.__init__": HISTORIC,
    "callbacks/tensorboard.py TensorBoard.__init__": HISTORIC,
    "callbacks/tensorboard.py TensorBoardText.__init__": HISTORIC,
    "trial/data.py FluentData.with_data": HISTORIC,
    "inference/windows.py SlidingWindow.__init__": "settings of one method, as others who have it call them",
    "comparison/comparison.py compare": "what is compared, and by which conventions",
    "prediction/predicting.py predict": "one door for all sources and data",
    "prediction/ensemble.py Ensemble.score": "which data, by which metrics, predicted in which way",
    "prediction/ensemble.py load_ensemble": "where the members are, and what they are together",
    "sklearn/estimators.py NetworkEstimator.__init__": "scikit-learn reads an estimator's parameters off it",
    "training/predictor.py Predictor.evaluate": "one pass, many readers: the historic methods are views on it",
}

#: modules whose files can run code when read; file -> the one thing it may use of them
CODE_ON_LOAD = {"pickle", "cPickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}
ONLY_THE_ERROR = {"backends/torch/checkpoints.py": "UnpicklingError"}
#: files that pickle what goes between a process and its own workers, and read nothing from disk
BETWEEN_PROCESSES = {"data_loading/workers/process.py", "execution/worker.py"}
#: files that pickle for a scheduler what it hands to processes of a program that waits for them; jobs of SLURM get it
#: by files that their user alone can read, and with it what tells those from any other
BY_A_SCHEDULER = {"execution/ray_cluster.py", "execution/slurm.py"}
#: files that are the program of a process of ours
OWN_PROCESSES = {"execution/worker.py"}
MAY_PRINT = {"callbacks/progress.py", "cli/main.py", "cli/output.py"}


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


# ------------------------------------------------------------------ who imports whom


def test_every_part_has_a_row_in_the_table():
    unknown = {part_of(path) for path in FILES} - ALLOWED.keys()
    assert not unknown, f"say in ALLOWED what {sorted(unknown)} may import"


def test_imports_point_inwards():
    complaints = []
    for path in FILES:
        part = part_of(path)
        for found, target in own_imports(path):
            late = ALLOWED_LATE.get(part, set())
            if target != part and target not in ALLOWED[part] | (late if found.is_late else set()):
                but = " except inside a function" if target in late else ""
                complaints.append(f"{name_of(path)}:{found.line}: {part} must not import {found.module}{but}")
    assert not complaints, "\n".join(complaints)


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


def test_a_backend_knows_no_other_backend_but_its_parent():
    complaints = []
    for path in (SOURCE / "backends").rglob("*.py"):
        kit = path.relative_to(SOURCE / "backends").parts[0]
        for found, target in own_imports(path):
            if target == "backends" and found.module.split(".")[2:3] not in ([kit], [PARENTS.get(kit)]):
                complaints.append(f"{name_of(path)}:{found.line}: {kit} must not import {found.module}")
    assert not complaints, "\n".join(complaints)


def test_a_framework_is_imported_in_its_backend_only():
    complaints = []
    for path in FILES:
        names = path.relative_to(SOURCE).parts
        kit = names[1] if names[0] == "backends" else None
        for found in imports_of(path):
            backends = FRAMEWORKS.get(found.module.split(".")[0])
            if backends is not None and kit not in backends:
                complaints.append(
                    f"{name_of(path)}:{found.line} imports {found.module}, which belongs to {sorted(backends)}; "
                    "ask the backend, or look into sys.modules"
                )
    assert not complaints, "\n".join(complaints)


def test_outside_the_backends_only_numpy_is_imported_at_once():
    complaints = []
    for path in FILES:
        for found in imports_of(path):
            package = found.module.split(".")[0]
            known = {"delira", "numpy", *AT_ONCE.get(part_of(path), ())} | sys.stdlib_module_names
            if package not in known and not (found.is_late or found.is_for_checkers or part_of(path) == "backends"):
                complaints.append(f"{name_of(path)}:{found.line}: import {package} in the function that needs it")
    assert not complaints, "\n".join(complaints)


# ------------------------------------------------------------------ how large things grow

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(path: Path) -> Iterator[tuple[str, Function]]:
    """Every function of a file with its name: ``"<file> Class.method"``."""
    yield from _functions(tree_of(path), f"{name_of(path)} ")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
        named = isinstance(child, (Function, ast.ClassDef))
        yield from _functions(child, f"{prefix}{child.name}." if named else prefix)


@functools.cache
def functions() -> dict[str, Function]:
    """Every function of delira with its name."""
    return dict(item for path in FILES for item in functions_of(path))


def body_lines(function: Function) -> int:
    """Lines of the body without its docstring."""
    if ast.get_docstring(function) is None:
        return function.end_lineno - function.body[0].lineno + 1
    return function.end_lineno - function.body[0].end_lineno


def arguments(function: Function) -> list[str]:
    """Names of the arguments, without ``self``, ``*args`` and ``**kwargs``."""
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    if names[:1] in (["self"], ["cls"]):
        del names[0]
    return names + [argument.arg for argument in given.kwonlyargs]


def assert_only_these(too_large: dict[str, int], excused: dict[str, str], limit: int, what: str) -> None:
    """Nothing but the excused is above the limit, and no excuse outlives its reason."""
    too_large = {name: size for name, size in too_large.items() if size > limit}
    unexcused = {name: size for name, size in too_large.items() if name not in excused}
    assert not unexcused, f"more than {limit} {what}: {unexcused}"
    assert not excused.keys() - too_large.keys(), f"no longer more than {limit} {what}: take it off the list"


def test_no_file_outgrows_a_reader():
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert_only_these(lines, LONG_FILES, MAX_FILE_LINES, "lines")


def test_no_function_outgrows_a_screen():
    lines = {name: body_lines(function) for name, function in functions().items()}
    assert_only_these(lines, LONG_BODIES, MAX_BODY_LINES, "lines")


def test_what_travels_together_is_no_list_of_arguments():
    counts = {name: len(arguments(function)) for name, function in functions().items()}
    assert_only_these(counts, MANY_ARGUMENTS, MAX_ARGUMENTS, "arguments")


# ------------------------------------------------------------------ what is not done


def calls_of(path: Path, outside: str | None = None) -> Iterator[tuple[str, ast.Call]]:
    """What a file calls, as it is written; on request only outside of ``with <outside>``."""
    skipped = {
        id(inner)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.With) and any(outside and outside in ast.unparse(item) for item in node.items)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and id(node) not in skipped:
            yield ast.unparse(node.func), node


def test_nothing_is_unpickled():
    complaints = []
    for path in FILES:
        for found in imports_of(path):
            if found.module.split(".")[0] in CODE_ON_LOAD and name_of(path) not in {
                *ONLY_THE_ERROR,
                *BETWEEN_PROCESSES,
                *BY_A_SCHEDULER,
            }:
                complaints.append(f"{name_of(path)}:{found.line} imports {found.module}, whose files can run code")
        for name, call in calls_of(path):
            for keyword in call.keywords:
                setting = f"{keyword.arg}={ast.unparse(keyword.value)}"
                if setting in ("weights_only=False", "allow_pickle=True"):
                    complaints.append(f"{name_of(path)}:{call.lineno}: {name}({setting}) can run code")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", ONLY_THE_ERROR)
def test_of_pickle_only_the_error_is_used(name):
    nodes = [node for node in ast.walk(tree_of(SOURCE / name)) if isinstance(node, ast.Attribute)]
    assert {node.attr for node in nodes if ast.unparse(node.value) in CODE_ON_LOAD} == {ONLY_THE_ERROR[name]}


@pytest.mark.parametrize("name", sorted(BETWEEN_PROCESSES))
def test_what_goes_between_processes_is_not_read_from_disk(name):
    from_disk = {"pickle.load", "pickle.Unpickler", "cloudpickle.load", "read_bytes", "np.load"}
    calls = {call.rpartition(".")[2] if "read_bytes" in call else call for call, _ in calls_of(SOURCE / name)}
    assert not calls & from_disk
    opened = [ast.unparse(call) for call_name, call in calls_of(SOURCE / name) if call_name == "open"]
    assert opened in ([], ["open(path, encoding='utf-8')"])  # the user's script, as text


def test_only_the_progress_display_prints():
    prints = [f"{name_of(path)}:{call.lineno}" for path in FILES for name, call in calls_of(path) if name == "print"]
    assert not [place for place in prints if place.partition(":")[0] not in MAY_PRINT]


def test_the_logging_and_the_warnings_of_the_host_program_are_its_own():
    changes = {"basicConfig", "dictConfig", "fileConfig", "simplefilter", "filterwarnings", "resetwarnings"}
    complaints = [
        f"{name_of(path)}:{call.lineno} calls {name}"
        for path in FILES
        for name, call in calls_of(path, outside="catch_warnings")
        if name.rpartition(".")[2] in changes and name_of(path) not in OWN_PROCESSES
    ]
    assert not complaints, "\n".join(complaints)


def test_no_user_meets_an_assert():
    asserts = [
        f"{name_of(path)}:{node.lineno}"
        for path in FILES
        if part_of(path) != "testing"  # a specification consists of asserts
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert)
    ]
    assert not asserts, f"raise an exception of delira.errors instead: {asserts}"
