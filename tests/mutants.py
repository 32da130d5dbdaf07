"""Faults of one line, put into copies of checkouts one after the other: which do the tests of the file find?

``python tests/mutants.py --number 40 --seed 19 /path/to/another/checkout`` draws from the lines that both checkouts
have, runs what belongs to the file in each, and exits with 1 if a fault that the other one finds survives here.
"""

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from belonging import ROOT, Belonging, arguments_of_pytest

COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
#: seconds for the tests of one fault
PATIENCE = 600


class Mutant(NamedTuple):
    """A line of a source, as it is and as it is put in."""

    old: str
    new: str


def mutants(text: str) -> Iterator[Mutant]:
    """Every fault that one line of a source may get."""
    lines = text.splitlines()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for wrong in _wrong(node):
            place = node.value if isinstance(node, ast.Return) else node.test if isinstance(node, ast.If) else node
            if place.lineno == place.end_lineno:
                line = lines[place.lineno - 1].encode()
                new = line[: place.col_offset] + wrong.encode() + line[place.end_col_offset :]
                if new != line:
                    yield Mutant(line.decode(), new.decode())


def _wrong(node: ast.AST) -> Iterator[str]:
    """What may stand in the place of a node, or of the value or the condition that it has."""
    other = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        other.ops[0] = COMPARED[type(node.ops[0])]()
        yield ast.unparse(other)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_text(node):
        other.op = COMPUTED[type(node.op)]()
        yield f"({ast.unparse(other)})"
    elif isinstance(node, ast.BoolOp):
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(other)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        yield repr(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
        yield f"not ({ast.unparse(node.test)})"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "None"


def _is_text(node: ast.BinOp) -> bool:
    """Return True if a side is a string or a path is made: any other operator is an error at once."""
    constants = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
    return any(isinstance(value, str) for value in constants) or any(
        isinstance(side, ast.JoinedStr) for side in (node.left, node.right)
    )


class Copy:
    """A checkout that may be changed.

    Parameters
    ----------
    root
        The checkout: its tracked files are copied as they are now.
    folder
        Where to.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        names = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True)
        for name in names.stdout.splitlines():
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, folder / name)
        self.folder = folder
        self.belonging = Belonging(folder)
        self.sources = {file: file.read_text("utf-8") for file in sorted((folder / "delira").rglob("*.py"))}
        self.lines: dict[str, list[Path]] = {}
        for file, text in self.sources.items():
            for line in text.splitlines():
                self.lines.setdefault(line, []).append(file)

    def finds(self, mutant: Mutant) -> str | None:
        """The first test of its file that fails with the fault and passes without it; ``None`` if there is none."""
        (file,) = self.lines[mutant.old]
        tests = arguments_of_pytest([file.relative_to(self.folder).as_posix()], self.belonging)
        file.write_text(self.sources[file].replace(f"{mutant.old}\n", f"{mutant.new}\n"), "utf-8")
        try:
            failed = self._first_failure(tests)
        finally:
            file.write_text(self.sources[file], "utf-8")
        if failed is not None and "::" in failed and self._first_failure([failed]) is not None:
            return f"{failed}, which fails without the fault, too"
        return failed

    def _first_failure(self, tests: list[str]) -> str | None:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not gpu", "--no-header"]
        if "--sample" in (self.folder / "tests" / "conftest.py").read_text("utf-8"):
            options.append("--sample")
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "no end"
        if not done.returncode:
            return None
        first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        return first[1] if first else f"exit status {done.returncode}"


def draw(copies: list[Copy], number: int, seed: int) -> list[Mutant]:
    """Faults in lines that each of the copies has exactly once; no two in one line."""
    rng = random.Random(seed)
    shared = {line for line in copies[0].lines if all(len(one.lines.get(line, ())) == 1 for one in copies)}
    found: dict[str, list[Mutant]] = {}
    for text in copies[0].sources.values():
        for mutant in mutants(text):
            if mutant.old in shared:
                found.setdefault(mutant.old, []).append(mutant)
    return [rng.choice(found[line]) for line in rng.sample(sorted(found), number)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path, help="folder of the checkout of before")
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--only", default=":", help="which of them, as a slice: 0:12")
    asked = parser.parse_args()
    roots = [ROOT, *([asked.other.resolve()] if asked.other else [])]
    lost = 0
    with tempfile.TemporaryDirectory(prefix="delira-mutants-") as folder:
        copies = [Copy(root, Path(folder, str(number))) for number, root in enumerate(roots)]
        chosen = draw(copies, asked.number, asked.seed)
        start, _, end = asked.only.partition(":")
        for number in range(asked.number)[slice(int(start or 0), int(end) if end else None)]:
            mutant = chosen[number]
            results = [one.finds(mutant) for one in reversed(copies)]  # that of before first
            lost += results[-1] is None and results[0] is not None
            file = copies[0].lines[mutant.old][0].relative_to(copies[0].folder)
            print(f"{number:2} {file}\n   - {mutant.old.strip()}\n   + {mutant.new.strip()}")
            for root, failed in zip(reversed(roots), results, strict=True):
                print(f"   {root}: {'survives' if failed is None else f'found by {failed}'}", flush=True)
    print(f"{lost} faults that the other checkout finds survive here")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
