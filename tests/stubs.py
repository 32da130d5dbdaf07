"""What editors and type checkers see of packages that resolve their names on first use: one ``.pyi`` beside each.

    python tests/stubs.py     # writes them, as ``make stubs`` does

The statement of the names is the package itself; ``tests/test_exports.py`` holds the stubs equal to it.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import delira
from delira.errors import ConfigError
from delira.frameworks import NAMES, homes_in

SOURCE = Path(delira.__file__).parent


def stubs() -> dict[Path, str]:
    """Path and text of every stub."""
    return {path.with_suffix(".pyi"): stub(path) for path in sorted(SOURCE.rglob("*.py")) if _is_lazy(path)}


def _is_lazy(path: Path) -> bool:
    return path.name != "lazy.py" and bool(re.search(r"= (public|lazy|moved)_names\(", path.read_text("utf-8")))


def stub(path: Path) -> str:
    """The text of one stub, read off its file; nothing is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = ["delira", *path.relative_to(SOURCE).with_suffix("").parts]
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and "_names" in ast.unparse(node.func))
    own = {*_imports(tree), *_tables(call), *_of_the_backend(module)}
    lines = sorted({*own, *_of_backends(module.removeprefix("delira."))}, key=lambda line: (line.lower(), line))
    listed = [line.rpartition(" as ")[2] for line in own]
    if any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__" for node in tree.body):
        lines += ["", "__version__: str"]
        listed.append("__version__")
    if ast.unparse(call.func) == "public_names":
        lines += ["", "__all__ = [", *(f'    "{name}",' for name in sorted(listed, key=_order)), "]"]
    return "\n".join(lines) + "\n"


def _order(name: str) -> tuple[bool, bool, str]:
    return not name.isupper(), not name[0].isupper(), name


def _imports(tree: ast.Module) -> Iterator[str]:
    """What the package imports itself."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "delira.utils.lazy":
            for alias in node.names:
                yield f"from {node.module} import {alias.name} as {alias.asname or alias.name}"


def _tables(call: ast.Call) -> Iterator[str]:
    """What its table says; of a module that moved everything."""
    for argument in call.args[1:]:
        table = ast.literal_eval(argument)
        if isinstance(table, str):
            yield f"from {table} import *"
            continue
        for home, names in table.items():
            for entry in names.split():
                shown, _, real = entry.partition("=")
                yield f"from {home} import {real or shown} as {shown}"


def _of_the_backend(module: str) -> Iterator[str]:
    """What the table of backends says of a package of one."""
    for name, home in homes_in(module).items():
        yield f"from {home} import {name} as {name}"


def _of_backends(package: str) -> Iterator[str]:
    for backend, names in NAMES.items():
        for name in names.get(package, ()):
            yield f"from delira.backends.{backend} import {name} as {name}"


def check_is_own(source: Path) -> None:
    """Refuse to write beside another delira than the one that this file belongs to.

    Raises
    ------
    ConfigError
        If ``delira`` was imported from somewhere else.
    """
    own = Path(__file__).resolve().parent.parent / "delira"
    if source.resolve() != own:
        raise ConfigError(
            f"delira was imported from {source}, and these stubs are of {own}; run it with PYTHONPATH={own.parent}"
        )


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()  # --help only helps
    check_is_own(SOURCE)
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(SOURCE.parent))


if __name__ == "__main__":
    main()
