"""Figures of the structure of delira's source: what a reader has to follow, as a table.

    python tests/structure.py                     # of this checkout
    python tests/structure.py /path/to/another    # and of another one beside it

``tests/test_structure.py`` holds the limits. A figure is counted in the source, except for the path from
``PyTorchExperiment.run`` to the optimizer's step, which is walked in a process of its own.
"""

import argparse
import ast
import functools
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BACKENDS = ("torch", "tensorflow", "jax")
#: names of frameworks; scikit-learn is a library of the core, too
FRAMEWORK = re.compile(r"\b(torch|pytorch|tensorflow|keras|jax|flax|optax|nnx)\b", re.IGNORECASE)
#: files that may name frameworks: the table, what tells about installations, and what projects begin with
NAMES_FRAMEWORKS = (
    "compat/",
    "backends.py",
    "frameworks.py",
    "utils/doctor.py",
    "cli/doctor",
    "cli/migrate/",
    "cli/templates",
    "cli/new",
)
#: what users override or use of ``self`` since the older library, wherever it is defined
HISTORIC = {
    "_train_single_epoch", "_setup", "_at_training_begin", "_at_training_end", "_at_epoch_begin", "_at_epoch_end",
    "_at_iter_begin", "_at_iter_end", "_update_state", "_search_for_prev_state", "_is_better_val_scores",
    "save_state", "load_state", "update_state", "try_resume_training", "register_callback", "train", "predict",
    "predict_data_mgr", "predict_data_mgr_cache_metrics_only", "predict_data_mgr_cache_all", "calc_metrics",
    "evaluate", "fold", "_build_model", "_build_models", "_load_fn", "_img_extensions",
    "data_of",  # of a trial, which users may override as well
}  # fmt: skip
#: names with an underscore of objects of the frameworks, which their backends have to use
OF_FRAMEWORKS = {"_version", "_value", "_layers"}
#: names with an underscore that Python documents for everybody: of named tuples
DOCUMENTED = {"_replace", "_asdict", "_fields", "_make"}
#: packages whose files have a test file of the same stem
TESTED_BY_NAME = ("training", "contract", "settings", "experiments", "runs", "trial", "callbacks", "backends")
MAX_BODY, MAX_FILE = 50, 600

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """The files of one ``delira/``.

    Parameters
    ----------
    root
        Folder of the checkout.
    """

    def __init__(self, root: Path):
        self.root, self.folder = root, root / "delira"
        self.files = sorted(path for path in self.folder.rglob("*.py") if "__pycache__" not in path.parts)
        self.texts = {path: path.read_text(encoding="utf-8") for path in self.files}
        self.trees = {path: ast.parse(text) for path, text in self.texts.items()}
        self.modules = {self._module(path): path for path in self.files}

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _module(self, path: Path) -> str:
        parts = ["delira", *path.relative_to(self.folder).with_suffix("").parts]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @functools.cached_property
    def classes(self) -> dict[str, tuple[Path, ast.ClassDef]]:
        """Classes at the top of files, by name; of two with one name the first."""
        found: dict[str, tuple[Path, ast.ClassDef]] = {}
        for path, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, (path, node))
        return found

    def mro(self, name: str) -> list[str]:
        """A class of delira and its bases in delira, each once, from the class on."""
        if name not in self.classes:
            return []
        bases = [base.id for base in self.classes[name][1].bases if isinstance(base, ast.Name) and base.id != name]
        return list(dict.fromkeys([name, *itertools.chain.from_iterable(map(self.mro, bases))]))

    @functools.cached_property
    def imports(self) -> dict[str, set[str]]:
        """Module -> modules of delira that it imports, wherever in the file, but not for type checkers alone.

        The lazy tables of public names in ``__init__`` are no imports.
        """
        return {module: set(self._imports(self.trees[path], module, path)) for module, path in self.modules.items()}

    def _imports(self, node: ast.AST, module: str, path: Path) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            names: list[str] = []
            if isinstance(child, ast.Import):
                names = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom) and not child.level:
                inner = [f"{child.module}.{alias.name}" for alias in child.names]
                names = [name if name in self.modules else str(child.module) for name in inner]
            elif isinstance(child, ast.ImportFrom):
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                base = ".".join([*package.split(".")[: len(package.split(".")) - child.level + 1], child.module or ""])
                names = [base.rstrip(".")]
            yield from (name for name in names if name in self.modules and name != module)
            yield from self._imports(child, module, path)


# ------------------------------------------------------------------ the figures


def depth_of_trainers(source: Source) -> int:
    """Most classes in the order of bases of a backend's trainer."""
    trainers = [name for name in source.classes if name.endswith("NetworkTrainer")]
    return max(len(source.mro(name)) for name in trainers)


@functools.cache
def every_node(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree that is walked again and again."""
    return list(ast.walk(tree))


def depth_of_a_trials_trainer(source: Source) -> int:
    """Classes that a trial puts below a backend's trainer; 0 if its trainer is that of the backend, or none."""
    over = [name for name in source.classes if name.startswith("Trial") and "BaseNetworkTrainer" in source.mro(name)]
    made = classes_made_at_run_time(source)
    return depth_of_trainers(source) + 2 if made and not over else sum(len(source.mro(name)) for name in over)


def classes_made_at_run_time(source: Source) -> int:
    """Places where a trainer's class is made by ``type(name, bases, namespace)``."""
    calls = [node for tree in source.trees.values() for node in every_node(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) == "type" and len(call.args) == 3]
    return sum("trainer" in ast.unparse(call).lower() for call in made)


def methods_of_other_files(source: Source) -> int:
    """Methods that a class of ``training/``, callbacks aside, calls on ``self`` and another file there defines."""
    defined: dict[str, set[Path]] = defaultdict(set)
    parts = ("training", "trial", "experiments")
    inside = [path for path in source.files if name_of_part(source, path) in parts and "callbacks" not in path.parts]
    for path in inside:
        for node in every_node(source.trees[path]):
            if isinstance(node, Function):
                defined[node.name].add(path)
    found = set()
    for path in inside:
        for cls in (node for node in source.trees[path].body if isinstance(node, ast.ClassDef)):
            family = source.mro(cls.name)
            below = [name for name in source.classes if cls.name in source.mro(name)]
            files = {source.classes[name][0] for name in (*family, *below)} - {path}
            for node in ast.walk(cls):
                if not (isinstance(node, ast.Call) and _is_on_self(node.func)):
                    continue
                name = node.func.attr  # type: ignore[attr-defined]
                if name not in HISTORIC and path not in defined[name] and defined[name] & files:
                    found.add((source.name(path), name))
    return len(found)


def _is_on_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def private_uses(source: Source) -> int:
    """Lines that use a ``_private`` name of another object which another file of delira defines."""
    own = {path: _private_names(source.trees[path]) for path in source.files}
    every = set().union(*own.values())
    return len({
        (path, node.lineno)
        for path in source.files
        for node in every_node(source.trees[path])
        if isinstance(node, ast.Attribute) and node.attr in every - own[path] - DOCUMENTED - HISTORIC
        if ast.unparse(node.value) not in ("self", "cls", "super()")
        if not (name_of_part(source, path) == "backends" and node.attr in OF_FRAMEWORKS)
    })  # fmt: skip


def _private_names(tree: ast.AST) -> set[str]:
    """Names with one underscore that a file defines: functions, methods, and what is set on ``self``."""
    found = {node.name for node in every_node(tree) if isinstance(node, Function)}
    found |= {
        node.attr
        for node in every_node(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_on_self(node)
    }
    return {name for name in found if re.fullmatch(r"_[a-z]\w*", name)}


def share_of_any(source: Source) -> float:
    """Share of parameters that are typed bare ``Any``, in percent."""
    kinds: Counter[bool] = Counter()
    for tree in source.trees.values():
        for node in every_node(tree):
            if isinstance(node, Function):
                given = node.args
                for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    if one.annotation is not None:
                        kinds[ast.unparse(one.annotation) == "Any"] += 1
    return round(100 * kinds[True] / kinds.total(), 1)


def framework_files(source: Source, whole: bool = True) -> dict[str, list[str]]:
    """Files outside of ``backends/`` that name a framework, with the names.

    Parameters
    ----------
    source
        The files.
    whole
        Whether sentences count that mention one, too; else tables, branches and identifiers alone do. Docstrings and
        comments never count.
    """
    found = {}
    for path in source.files:
        if source.name(path).startswith(("backends/", *NAMES_FRAMEWORKS)) or path.name == "__init__.py":
            continue
        docs = set(map(id, _docstrings(source.trees[path])))
        texts = [text for node in every_node(source.trees[path]) for text in _texts(node, docs)]
        named = {match for text in texts if whole or " " not in text for match in FRAMEWORK.findall(text)}
        if named:
            found[source.name(path)] = sorted(named)
    return found


def _texts(node: ast.AST, docs: set[int]) -> list[str]:
    """Texts of the source at one node: that of a string, which is no docstring, or an identifier."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
        return [node.value]
    return [node.id] if isinstance(node, ast.Name) else [node.attr] if isinstance(node, ast.Attribute) else []


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in every_node(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def lines_of_code(source: Source, below: str = "") -> int:
    """Lines with code: no blank ones, comments or docstrings. Ready networks are left out of a backend's."""
    return sum(_lines_of_code(source, path) for path in _counted(source, below))


def statements(source: Source, below: str = "") -> int:
    """Statements, docstrings aside."""
    trees = [source.trees[path] for path in _counted(source, below)]
    every = sum(isinstance(node, ast.stmt) for tree in trees for node in every_node(tree))
    return every - sum(1 for tree in trees for _ in _docstrings(tree))


def _counted(source: Source, below: str) -> list[Path]:
    paths = [path for path in source.files if source.name(path).startswith(below)]
    return [path for path in paths if not (below and {"networks", "networks.py"} & set(path.parts))]


def _lines_of_code(source: Source, path: Path) -> int:
    docs = {
        line
        for node in _docstrings(source.trees[path])
        for line in range(node.lineno, node.end_lineno + 1)  # type: ignore[attr-defined]
    }
    code = set()
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source.texts[path]).readline):
        if token.type not in nothing:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docs)


def circles(source: Source) -> list[int]:
    """Sizes of the circles of files that import each other, imports inside of functions counted."""
    return sorted((len(one) for one in strongly_connected(source.imports) if len(one) > 1), reverse=True)


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules from each of which every other one is reached."""
    reached = {start: _reached(graph, start) for start in graph}
    sets: list[set[str]] = []
    for module in graph:
        if not any(module in one for one in sets):
            sets.append({module, *(other for other in reached[module] if module in reached[other])})
    return sets


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph[waiting.pop()] - found:
            found.add(module)
            waiting.append(module)
    return found


def name_of_part(source: Source, path: Path) -> str:
    return path.relative_to(source.folder).parts[0].removesuffix(".py")


def mutual_packages(source: Source) -> int:
    """Pairs of packages that import each other."""
    arrows = {
        (name_of_part(source, source.modules[module]), name_of_part(source, source.modules[other]))
        for module, others in source.imports.items()
        for other in others
    }
    return sum(1 for one, other in arrows if one < other and (other, one) in arrows and "__init__" not in (one, other))


def long_bodies(source: Source) -> int:
    """Functions with more than 50 lines of body, docstring aside."""
    return sum(
        _body_lines(node) > MAX_BODY
        for tree in source.trees.values()
        for node in every_node(tree)
        if isinstance(node, Function)
    )


def _body_lines(function: Function) -> int:
    first = function.body[0]
    begin = function.body[0].lineno - 1 if ast.get_docstring(function) is None else first.end_lineno
    return int(function.end_lineno or 0) - int(begin or 0)


def long_files(source: Source) -> int:
    """Files with more than 600 lines."""
    return sum(len(text.splitlines()) > MAX_FILE for text in source.texts.values())


def files_without_test(source: Source) -> list[str]:
    """Files of the packages that have tests by name, and no file ``test_<stem>.py``.

    ``__init__`` and other files that define nothing, as historic import paths, are left aside.
    """
    stems = {path.stem.removeprefix("test_") for path in (source.root / "tests").rglob("test_*.py")}
    return [
        source.name(path)
        for path in source.files
        if name_of_part(source, path) in TESTED_BY_NAME and _defines_something(source, path)
        if path.stem not in stems and f"{path.parent.name}_{path.stem}" not in stems
    ]


def _defines_something(source: Source, path: Path) -> bool:
    return path.stem != "__init__" and any(
        isinstance(node, (ast.ClassDef, Function)) for node in source.trees[path].body
    )


def walked(root: Path) -> dict[str, Any]:
    """Frames of delira between ``run`` and the optimizer's step, and calls of delira's functions before it."""
    command = [sys.executable, str(HERE / "structure_walk.py")]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(source: Source) -> dict[str, Any]:
    """Every figure by what it is."""
    return figures(source) | sizes(source)


def sizes(source: Source) -> dict[str, Any]:
    """Figures that have no limit of their own: how much there is to read."""
    code, parts = lines_of_code(source), statements(source)
    return {
        "lines of code": code,
        "statements": parts,
        "statements per line": round(parts / code, 4),
        **{f"lines of {name}, no ready networks": lines_of_code(source, f"backends/{name}/") for name in BACKENDS},
    }


def figures(source: Source) -> dict[str, Any]:
    """Figures that ``tests/test_structure.py`` limits, and what is told beside them."""
    walk = walked(source.root)
    missing = files_without_test(source)
    named = [
        path
        for path in source.files
        if name_of_part(source, path) in TESTED_BY_NAME and _defines_something(source, path)
    ]
    return {
        "classes in the order of bases of a backend's trainer": depth_of_trainers(source),
        "of a trial's trainer": depth_of_a_trials_trainer(source),
        "trainers made by type(...)": classes_made_at_run_time(source),
        "methods called on self that another file defines": methods_of_other_files(source),
        "lines that use another module's _private": private_uses(source),
        "parameters typed bare Any, percent": share_of_any(source),
        "core files with tables or branches of frameworks": len(framework_files(source, whole=False)),
        "core files that name a framework at all": len(framework_files(source)),
        "frames from run to the optimizer's step": walk["frames"],
        "library calls before the first step": walk["calls"],
        "circles of files": circles(source) or 0,
        "pairs of packages that know each other": mutual_packages(source),
        "bodies over 50 lines": long_bodies(source),
        "files over 600 lines": long_files(source),
        "files without a test file of their name": f"{len(missing)} of {len(named)}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("others", nargs="*", type=Path, help="folders of other checkouts")
    roots = [*parser.parse_args().others, HERE.parent]
    tables = [table(Source(root.resolve())) for root in roots]
    width = max(map(len, tables[0]))
    for what in tables[0]:
        print(f"{what:{width}}  " + "  ".join(f"{one[what]!s:>20}" for one in tables))


if __name__ == "__main__":
    main()
