"""The tests of numbers are tested themselves: each mended fault is put back in a copy, and a named test must fail.

``python tests/honesty/put_back.py [POINT ...]`` does it for all, or for those named, and prints a line for each.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
POINTS = Path(__file__).parent / "points"
FAILED = 1
"""What pytest exits with where tests failed: 2 to 5 are its own troubles, which prove nothing."""

NO_COPY = "No module named 'delira"
"""In what a test prints whose copy of the repository lacks a part, so that its failure proves nothing."""


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """One fault of old, as a change of text, and the test that sees it."""

    point: str
    """Number of the point in the list of what was wrong without a word."""
    what: str
    """The fault, in a few words."""
    file: str
    """Path from the root of the repository."""
    old: str
    """Text of today; stands exactly once in the file."""
    new: str
    """The text with the fault."""
    test: str
    """Identifier of the test, as pytest takes it; it passes today."""

    def apply_to(self, copy: Path) -> None:
        """Write the fault into a copy of the repository."""
        path = copy / self.file
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(
                f"point {self.point} ({self.what}): its text stands {count} times in {self.file}, not once"
            )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def all_points() -> list[PutBack]:
    """Return the faults of all files in ``points/``, by number."""
    points: list[PutBack] = []
    for path in sorted(POINTS.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"honesty_points_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        points.extend(module.POINTS)
    return sorted(points, key=lambda point: (int("".join(filter(str.isdigit, point.point)) or 0), point.point))


def run_test(repository: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test of a copy of the repository, against the code of that copy."""
    environment = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=600", test]
    return subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


def copy_of_the_repository(folder: Path) -> Path:
    """Copy what tests need: the code, the tests and what they read."""
    copy = folder / "copy"
    # not "runs": a package is called so
    left_out = shutil.ignore_patterns("__pycache__", ".venv*", ".git", "_build", ".hypothesis", ".*_cache")
    shutil.copytree(REPOSITORY, copy, ignore=left_out, symlinks=True)
    return copy


def is_caught(point: PutBack) -> str:
    """Put one fault back; return an empty text where its test fails then, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="delira-put-back-") as folder:
        copy = copy_of_the_repository(Path(folder))
        point.apply_to(copy)
        done = run_test(copy, point.test)
    if done.returncode == FAILED and NO_COPY not in done.stdout:
        return ""
    printed = done.stdout[-2000:] + done.stderr[-1000:]
    return f"{point.test} ended with {done.returncode} although the fault was put back:\n{printed}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Put back what is named, or everything, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", nargs="*", help="numbers of points; all of them if none is named")
    wanted = set(parser.parse_args(arguments).points)
    missed = 0
    for point in all_points():
        if wanted and point.point not in wanted:
            continue
        passes = run_test(REPOSITORY, point.test).returncode == 0
        trouble = is_caught(point) if passes else f"{point.test} does not pass today"
        missed += bool(trouble)
        print(f"{point.point:>4}  {'MISSED' if trouble else 'caught':6}  {point.what}  [{point.test}]", flush=True)
        if trouble:
            print(trouble, flush=True)
    print(f"{missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
