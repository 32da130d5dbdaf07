"""Which tests belong to a file: ``python tests/belonging.py [file ...]``; without a file, to those changed since main.

Three things say so: the name of a test file (``training/saving.py`` has ``test_saving.py``),
the classes and functions that the file defines (the test files that say them most), and ACROSS. A file that no test
names has the tests of those that import it.
"""

import argparse
import ast
import collections
import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: how many test files are taken because they say the names of a source the most
BY_NAMES = 3
#: of more test files than these, a helper that they import has none
BY_IMPORT = 5
SPECIFICATION = "tests/test_specification.py"
#: what the path of a file begins with -> tests of what many files make together
ACROSS = {
    "delira/training/": ["tests/training/test_events.py", "tests/training/test_trainer.py"],
    "delira/experiments/": ["tests/training/test_events.py"],
    "delira/callbacks/": ["tests/test_callbacks_page.py"],
    "delira/compat/": [f"tests/migration/test_{name}.py" for name in ("scripts", "old_names", "without_compat")],
    "delira/cli/migrate/": [f"tests/migration/test_{name}.py" for name in ("migrate", "meanings")],
    "delira/contract/": [SPECIFICATION, "tests/training/test_trainer.py"],
    "delira/backends/": [SPECIFICATION],
    "delira/testing/": [SPECIFICATION, "tests/test_own_backend.py"],
    "delira/io/": ["tests/io/test_golden_checkpoints.py"],
    "delira/data_loading/transforms.py": ["tests/honesty/test_preprocessing.py"],
    "delira/": ["tests/test_architecture.py", "tests/test_exports.py"],
    "docs/": ["tests/test_every_block.py"],
    "README.md": ["tests/test_readme.py"],
    "examples/": ["tests/test_examples.py"],
}


class Belonging:
    """The tests of one checkout, by what they belong to.

    Parameters
    ----------
    root
        Folder of the checkout.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        """Every test file with its text."""
        files = sorted((self.root / "tests").rglob("test_*.py"))
        return {file.relative_to(self.root).as_posix(): file.read_text("utf-8") for file in files}

    @functools.cached_property
    def places(self) -> dict[str, set[str]]:
        """Every word and every module of delira that the tests say, with their files."""
        places = collections.defaultdict(set)
        for file, text in self.texts.items():
            for word in set(re.findall(r"delira[.][.\w]+|\w+", text)):
                places[word].add(file)
        return places

    @functools.cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Every source file, read."""
        files = sorted((self.root / "delira").rglob("*.py"))
        return {file.relative_to(self.root).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}

    @functools.cached_property
    def users(self) -> dict[str, set[str]]:
        """Every source file with those that import it."""
        modules = {_module(path): path for path in self.trees}
        users: dict[str, set[str]] = {path: set() for path in self.trees}
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                        if name in modules:
                            users[modules[name]].add(path)
                elif isinstance(node, ast.Constant) and node.value in modules:  # a table of public names
                    users[modules[node.value]].add(path)
        return users

    def tests(self, path: str) -> list[str]:
        """Test files of a file, named from the root of the checkout, its own first and those of many files last."""
        across = (tests for start, tests in ACROSS.items() if path.startswith(start))
        return list(
            dict.fromkeys([*self.own(path), *(test for tests in across for test in tests if test in self.texts)])
        )

    def own(self, path: str) -> list[str]:
        """Test files that a file does not share with all others of its folder."""
        if path not in self.trees:
            return [path] if path in self.texts else self._by_import(path)
        seen, queue = {path}, [path]
        for source in queue:
            if found := [*self._by_stem(source), *self._by_names(source)]:
                return list(dict.fromkeys(found))
            users = sorted(self.users[source] - seen)
            seen.update(users)
            queue += users
        return []

    def _by_import(self, path: str) -> list[str]:
        """The test files that import a helper of the tests; of one that half of them import, that is make test."""
        helper = re.compile(rf"^(from|import) {re.escape(Path(path).stem)}\b", re.MULTILINE)
        found = [name for name, text in self.texts.items() if path.endswith(".py") and helper.search(text)]
        return found if len(found) <= BY_IMPORT else []

    def _by_stem(self, path: str) -> list[str]:
        """Test files whose name begins with that of a source, or of its folder and it."""
        source = Path(path)
        starts = [source.stem.strip("_"), f"{source.parent.name}_{source.stem}"]
        tests = {name: Path(name).stem.removeprefix("test_") for name in self.texts}
        if source.parts[:2] == ("delira", "backends"):  # all backends have files of the same names
            starts = [f"{source.parts[2]}_{source.stem}"]
            role = f"tests/backends/test_{source.stem}.py"
        else:
            role = ""
        found = [name for name, test in tests.items() if name == role or any(_begins(test, start) for start in starts)]
        near = [name for name in found if Path("tests", source.parts[1]) in Path(name).parents]
        return sorted(near or found, key=len)

    def _by_names(self, path: str) -> list[str]:
        """The test files that say most of what a source defines; a word that many files say counts little."""
        score: dict[str, float] = collections.Counter()
        folder = Path("tests", *Path(path).parts[1:2])
        defined = [node.name for node in self.trees[path].body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        for name in [_module(path), *(name for name in defined if not re.fullmatch("[a-z]+", name))]:  # no plain words
            places = self.places.get(name, ())
            for file in places:
                score[file] += (4 if folder in Path(file).parents else 1) / len(places) ** 2
        return sorted(score, key=lambda file: (-score[file], file))[:BY_NAMES]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _begins(name: str, start: str) -> bool:
    return re.match(rf"{re.escape(start.removesuffix('s'))}s?(_|$)", name) is not None


def arguments_of_pytest(files: list[str], belonging: Belonging) -> list[str]:
    """The tests of some files; where they are files of backends, the specification of these alone."""
    tests = sorted({test for file in files for test in belonging.tests(file)})
    if SPECIFICATION in tests and all(file.startswith("delira/backends/") for file in files):
        others = {path.name for path in (belonging.root / "delira" / "backends").iterdir()} | {"toy"}
        others -= {file.split("/")[2] for file in files}
        tests += [f"--deselect={SPECIFICATION}::test_a_backend_keeps_the_promise[{name}-" for name in sorted(others)]
    return tests


def changed(since: str, root: Path = ROOT) -> list[str]:
    """Files that are otherwise than where this branch left another one, committed or not."""
    base = _git(root, "merge-base", since, "HEAD")[0]
    named = [*_git(root, "diff", "--name-only", base), *_git(root, "ls-files", "--others", "--exclude-standard")]
    return [name for name in dict.fromkeys(named) if (root / name).is_file()]


def _git(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="named from the root of the checkout")
    parser.add_argument("--since", default="main", help="branch or commit (default: main)")
    asked = parser.parse_args()
    belonging = Belonging()
    files = asked.files or changed(asked.since)
    for file in files:
        print(f"{file}: {' '.join(belonging.tests(file)) or 'no tests of its own'}", file=sys.stderr)
    print(*arguments_of_pytest(files, belonging), sep="\n")


if __name__ == "__main__":
    main()
