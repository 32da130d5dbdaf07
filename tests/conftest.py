"""What the tests share: one fixture for all backends, and data."""

import functools
import gc
import importlib.metadata
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pairwise
import pytest
import visdom_server
from problems import linear_problem
from small_backends import KITS, NORMAL_KITS, Kit, build_kit

from delira.data_loading import BaseDataManager
from delira.runs import environment as run_environment

#: where this process keeps what JAX compiled: its own, for JAX writes in place what another process may read
JAX_CACHE = tempfile.TemporaryDirectory(prefix="delira-tests-jax-", ignore_cleanup_errors=True)

# No test is timed: another program on the machine would make it fail. A test draws the same cases in every run, so that
# a change is not blamed for what others did; DELIRA_FUZZ_SEED draws others, as it does in tests/fuzz.
EVERY_RUN = {"deadline": None, "derandomize": "DELIRA_FUZZ_SEED" not in os.environ}
hypothesis.settings.register_profile("full", **EVERY_RUN)
hypothesis.settings.register_profile("fast", **EVERY_RUN, max_examples=40)

SPECIFICATION_MARKS = {"passed": ".", "refused": "r", "not offered": "-", "failed": "F"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backends", "--rooms", dest="backends", default=",".join(NORMAL_KITS),
        help=f"backends for the tests of every backend, by name and comma, or 'all'; there are {', '.join(KITS)}",
    )  # fmt: skip
    parser.addoption("--sample", action="store_true", help="of products and of frameworks, the choice of make test")
    parser.addoption("--forks", choices=["only", "no"], help="only the test files that are marked 'forks', or no such")


def pytest_configure(config: pytest.Config) -> None:
    # millions of objects stay to the end: to look through them again and again takes longer than what it finds is worth
    gc.set_threshold(100_000, 20, 100)
    hypothesis.settings.load_profile("fast" if config.getoption("sample") else "full")
    # a shell's background job ignores Ctrl-C, and so would every program that a test starts and interrupts
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # no test pulls the plug, so that no file need be on the disk; os.fstat refuses the same descriptors
    os.fsync = lambda descriptor: os.fstat(descriptor) and None
    importlib.metadata.version = functools.cache(importlib.metadata.version)  # what is installed stays


def pytest_unconfigure() -> None:
    JAX_CACHE.cleanup()  # not left to the garbage: the interpreter warns of what it finds at its end


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what ``--forks`` does: files are not imported to see their marks, as they import frameworks."""
    asked = config.getoption("forks")
    if asked is None or not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    mark = re.compile(r"^pytestmark = \[?\s*pytest[.]mark[.]forks\b", re.MULTILINE)
    is_marked = mark.search(collection_path.read_text("utf-8")) is not None
    return True if is_marked != (asked == "only") else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    has_its_own = any("kit" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "kit" in metafunc.fixturenames and not has_its_own:
        asked = metafunc.config.getoption("backends")
        metafunc.parametrize("kit", list(KITS) if asked == "all" else asked.split(","), indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(re.search(mark.args[0], item.callspec.id) for mark in item.iter_markers("slow_cases")):
            item.add_marker("slow")
    if items and items[0].config.getoption("sample"):
        pairwise.leave_out(items)
        pairwise.take_turns(items)


def pytest_collection_finish() -> None:
    """Spare the garbage collector, and processes that are forked, the millions of objects that stay to the end."""
    _ask_git_once()
    gc.collect()
    gc.freeze()


def _ask_git_once() -> None:
    """Let thousands of runs of this process share the commit that they record: each asks git twice for it."""
    ask, here = run_environment.git_commit, (sys.argv[0], Path.cwd())
    commit = functools.cache(lambda: ask(here[0]))
    run_environment.git_commit = lambda script: commit() if (script, Path.cwd()) == here else ask(script)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Let JAX compile a step once for all tests: that is most of the time of its tests."""
    if "jax" in sys.modules and sys.modules["jax"].config.jax_compilation_cache_dir is None:
        import jax

        jax.config.update("jax_compilation_cache_dir", JAX_CACHE.name)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what became of the specification: a mark for each check of each backend, by area."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    found: dict[tuple[str, str, str], str] = {}
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == "specification":
                backend, area, check, kind = value
                found[backend, area, check] = SPECIFICATION_MARKS[kind]
    if not found:
        return
    from delira.testing import spec_checks

    backends = list(dict.fromkeys(backend for backend, *_ in found))
    areas: dict[str, list[str]] = {}
    for check in spec_checks():
        areas.setdefault(check.area, []).append(check.name)
    cells = {
        (area, backend): "".join(found.get((backend, area, name), " ") for name in names)
        for area, names in areas.items()
        for backend in backends
    }
    widths = [max(len(backend), *(len(cells[area, backend]) for area in areas)) for backend in backends]
    terminalreporter.section("specification: . passed, r refused as it must be, - not offered, F failed")
    terminalreporter.line(
        " " * 13 + "  ".join(f"{backend:{width}}" for backend, width in zip(backends, widths, strict=True))
    )
    for area in areas:
        shown = "  ".join(f"{cells[area, backend]:{width}}" for backend, width in zip(backends, widths, strict=True))
        terminalreporter.line(f"{area:13}{shown}".rstrip())


@pytest.fixture
def kit(request: pytest.FixtureRequest) -> Kit:
    """Every backend that can be here: one specification for all of them."""
    return build_kit(request.param)


@pytest.fixture
def regression() -> Callable[..., dict[str, np.ndarray]]:
    """Arrays of a linear problem with noise."""
    return linear_problem


@pytest.fixture
def manager() -> Callable[..., BaseDataManager]:
    """Managers of linear problems; ten samples in batches of 4, 4 and 2 unless told otherwise."""

    def make(n: int = 10, batch_size: int = 4, seed: int = 7, n_features: int = 3, **kw: Any) -> BaseDataManager:
        return BaseDataManager(linear_problem(n, n_features, seed, **kw.pop("more", {})), batch_size, **kw)

    return make


# ---- the backends


@pytest.fixture(scope="module")
def visdom_port(tmp_path_factory):
    """Port of a server of visdom, on this machine alone, of the tests of a file: it computes while it waits."""
    pytest.importorskip("visdom", reason="needs the package 'visdom', see requirements/visdom.txt")
    with visdom_server.running_server(tmp_path_factory.mktemp("visdom")) as (port, _):
        yield port
