"""Every block of code of the README, of docs/ and of the pages beside them runs, here or in the test of its page."""

import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from delira.errors import MissingBackendError

ROOT = Path(__file__).parents[1]
#: page -> the test that runs its Python
RUN_BY = {
    "README.md": "test_readme.py",
    "docs/callbacks.md": "test_callbacks_page.py",
    "docs/command_line.md": "cli/test_command_line_page.py",
    "docs/comparing.md": "comparison/test_comparing_page.py",
    "docs/data.md": "test_examples.py",
    "docs/errors.md": "test_errors_page.py",
    "docs/how_to.md": "test_examples.py",
    "docs/live_view.md": "test_live_view_page.py",
    "docs/logging.md": "logging/test_logging_page.py",
    "docs/metrics.md": "metrics/test_tree_page.py",
    "docs/nothing_lost.md": "test_examples.py",
    "docs/own_backend.md": "test_own_backend.py",
    "docs/report.md": "test_report_page_of_docs.py",
    "docs/scale.md": "experiments/test_scale_page.py",
    "docs/backends.md": "test_backends_page.py",
    "docs/trial.md": "test_trial_page.py",
}
#: beginning of a line of a shell block -> why it is not run here, or where it is; each is parsed all the same
NOT_RUN = {
    "pip install": "it needs a package index; tests/test_packaging.py builds and reads the wheel",
    "conda env": "it needs a package index",
    "docker": "it needs a daemon and an index of images",
    "cd examples/": "a folder of the checkout",
    "git clone": "it needs a network",
    "make": "it would run the tests inside of a test; .ci/run and a release run these targets",
    "python examples/": "tests/test_examples.py and tests/test_trial_examples.py run the examples",
    "python -m delira.testing.spec": "tests/test_specification.py runs it",
    "python backend_under_test.py": "tests/test_own_backend.py runs its checks one by one",
    "delira": "the tests of the command line run its commands",
    "optuna-dashboard": "tests/experiments/test_search_servers.py begins it",
    "srun": "it needs SLURM; tests/experiments/test_slurm_cluster.py begins one",
}
SHELL = ("bash", "sh", "console", "shell")
NOT_CODE = ("text", "toctree", "eval-rst", "json", "yaml", "csv", "latex", "html", "diff")


class Block(NamedTuple):
    page: str
    line: int
    language: str
    code: str


def blocks_of(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"^(```+)([^\n`]*)\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL):
        language = match[2].strip("{} ").split()[0] if match[2].strip() else ""
        line = text.count("\n", 0, match.start()) + 2
        yield Block(path.relative_to(ROOT).as_posix(), line, language, match[3])


PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "notebooks/README.md")
    ),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
BLOCKS = [block for page in PAGES for block in blocks_of(page)]
HERE = sorted({block.page for block in BLOCKS if block.language == "python"} - RUN_BY.keys())
IN_A_SHELL = [block for block in BLOCKS if block.language in SHELL]


@pytest.mark.slow_cases("getting_started|experiments|prediction")
@pytest.mark.parametrize("page", HERE)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    blocks = [block for block in BLOCKS if block.page == page and block.language == "python"]
    imported = re.findall(r"^(?:from|import) (\w+)", "".join(block.code for block in blocks), re.MULTILINE)
    for package in sorted(set(imported)):
        if find_spec(package) is None:
            pytest.skip(f"the page's examples need the package {package!r}, which is not installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in blocks:
        code = "\n" * (block.line - 1) + block.code  # so that a traceback shows the line of the page
        try:
            exec(compile(code, page, "exec"), names)
        except MissingBackendError as error:
            if not (isinstance(error.__cause__, ModuleNotFoundError) and find_spec(error.__cause__.name or "") is None):
                raise
            pytest.skip(str(error))


@pytest.mark.parametrize(("page", "test"), [(page, test) for page, test in RUN_BY.items() if (ROOT / page).exists()])
def test_the_test_of_a_page_reads_it(page, test):
    assert Path(page).name.removesuffix(".md") in (ROOT / "tests" / test).read_text(encoding="utf-8")
    assert any(block.page == page and block.language == "python" for block in BLOCKS)


@pytest.mark.parametrize("block", IN_A_SHELL, ids=lambda block: f"{block.page}:{block.line}")
def test_the_lines_of_a_shell_block_are_run_somewhere_or_say_why_not(block, tmp_path):
    script = "\n".join(line.removeprefix("$ ") for line in block.code.splitlines())
    parsed = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    commands = [line for line in re.sub(r"\\\n", "", script).splitlines() if line.strip() and line[0] not in "# "]
    unknown = [line for line in commands if not line.startswith(tuple(NOT_RUN))]
    assert not unknown, f"run them, or say in NOT_RUN where they run: {unknown}"


def test_every_block_names_a_language_that_somebody_looks_after():
    known = {"python", *SHELL, *NOT_CODE}
    unknown = [f"{block.page}:{block.line} {block.language}" for block in BLOCKS if block.language not in known]
    assert not unknown
    assert [f"{block.page}:{block.line}" for block in BLOCKS if not block.code.strip()] == []


def test_make_targets_of_the_pages_exist():
    targets = set(re.findall(r"^([\w%-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z][\w-]*)", page.read_text(encoding="utf-8"))}
    assert {name for name in named if name not in targets and not name.startswith("test-only-")} == set()
