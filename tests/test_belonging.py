"""Which tests belong to a file, and which cases of a product are run, is found by rules; this is what they give."""

import ast
import itertools
import shutil
import subprocess
import sys
import types

import pytest
from belonging import ACROSS, ROOT, Belonging, arguments_of_pytest, changed
from mutants import mutants
from pairwise import covering, leave_out, take_turns
from structure import TESTED_BY_NAME

PARTS = [f"/{part}/" for part in TESTED_BY_NAME]


@pytest.fixture(scope="module")
def belonging():
    return Belonging()


def test_every_file_of_the_parts_has_tests_that_exist(belonging):
    files = [
        path
        for path, tree in belonging.trees.items()
        if any(part in path for part in PARTS) and "__init__" not in path
        if any(isinstance(node, (ast.ClassDef, ast.FunctionDef)) for node in tree.body)  # else a path of before
    ]
    assert len(files) > 100
    assert [file for file in files if not belonging.own(file)] == []
    assert {test for file in files for test in belonging.tests(file)} <= set(belonging.texts)


def test_what_is_across_exists(belonging):
    starts = [start for start in ACROSS if not (ROOT / start).exists()]
    assert not starts
    assert {test for tests in ACROSS.values() for test in tests} <= set(belonging.texts)


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("delira/training/checks.py", "tests/training/test_checks.py"),
        ("delira/backends/torch/schedules.py", "tests/backends/test_torch_schedules.py"),
        ("delira/data_loading/_preview.py", "tests/data_loading/test_preview.py"),
        ("delira/metrics/tree/aggregators.py", "tests/metrics/test_tree_aggregators.py"),
        ("tests/io/test_container.py", "tests/io/test_container.py"),
        ("tests/mutants.py", "tests/test_belonging.py"),
        ("docs/design.md", "tests/test_every_block.py"),
    ],
)
def test_a_file_has_the_tests_of_its_name(belonging, file, test):
    assert belonging.tests(file)[0] == test


def test_a_file_of_a_backend_has_the_specification_of_that_backend_alone(belonging):
    arguments = arguments_of_pytest(["delira/backends/torch/checkpoints.py"], belonging)
    assert "tests/test_specification.py" in arguments
    deselected = {argument.partition("[")[2] for argument in arguments if argument.startswith("--deselect")}
    assert deselected >= {"jax-", "torchscript-", "toy-"}
    assert "torch-" not in deselected


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_is_committed_what_is_edited_and_what_is_new_is_changed(tmp_path):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for name in ("a", "b", "c", "gone"):
        (tmp_path / name).write_text("1")
    git("add", "-A")
    git("commit", "-qm", "a")
    git("checkout", "-qb", "mine")
    (tmp_path / "a").write_text("2")
    (tmp_path / "gone").unlink()
    git("commit", "-qam", "b")
    (tmp_path / "b").write_text("2")
    (tmp_path / "d").write_text("1")
    assert changed("main", tmp_path) == ["a", "b", "d"]


@pytest.mark.slow
def test_the_command_prints_files_for_pytest():
    command = [sys.executable, str(ROOT / "tests" / "belonging.py"), "tests/io/test_container.py"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "tests/io/test_container.py\n"


# ---- samples of products


@pytest.mark.parametrize(("sizes", "number"), [((2, 2, 2), 4), ((2, 8, 2), 16), ((3, 4, 2, 2), 13), ((5, 7), 35)])
def test_a_sample_holds_every_pair_of_values(sizes, number):
    cases = [dict(enumerate(case)) for case in itertools.product(*map(range, sizes))]
    chosen = [cases[at] for at in covering(cases, 2)]
    assert len(chosen) <= number
    for left, right in itertools.combinations(range(len(sizes)), 2):
        pairs = {(case[left], case[right]) for case in chosen}
        assert len(pairs) == sizes[left] * sizes[right]


def test_pairs_that_no_case_has_are_not_asked_for():
    cases = [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}, {"a": 1, "b": 1, "c": 2}]
    assert covering(cases, 2) == {0, 1, 2}


def test_a_sample_of_values_takes_each_about_as_often():
    cases = [{"case": case, "backend": kit} for case in range(6) for kit in "ab"]
    chosen = [cases[at] for at in sorted(covering(cases, 1))]
    assert [case["case"] for case in chosen] == list(range(6))
    assert [case["backend"] for case in chosen] == list("ababab")


class Case:
    """A case of a test, as far as a sample looks at it."""

    def __init__(self, marks, **params):
        names = "-".join(map(str, params.values()))
        self.name, self.nodeid, self.marks = f"test[{names}]", f"test.py::test[{names}]", list(marks)
        self.callspec = types.SimpleNamespace(params=params, id=names)

    def iter_markers(self, name):
        return [mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name):
        return next(iter(self.iter_markers(name)), None)

    def add_marker(self, name):
        self.marks.append(getattr(pytest.mark, name).mark)


def test_what_a_sample_leaves_out_is_slow():
    marks = [pytest.mark.sampled("pairs").mark, pytest.mark.parametrize(("b", "c"), []).mark]
    values = itertools.product([1, 2], [(1, 1), (2, 2)], "xy")
    cases = [Case(marks, a=a, b=b, c=c, d=d) for a, (b, c), d in values]
    others = [Case([], a=1), Case([pytest.mark.slow.mark, *marks], a=1, b=3, c=3, d="x")]
    leave_out([*others, *cases])
    kept = [case.callspec.params for case in cases if not case.get_closest_marker("slow")]
    assert len(kept) == 4
    assert others[0].marks == []
    assert {(case["a"], case["d"]) for case in kept} == {(1, "x"), (1, "y"), (2, "x"), (2, "y")}


def test_of_a_sample_one_of_the_other_frameworks_is_there_at_most():
    marks = [pytest.mark.sampled("values").mark]
    fits = itertools.product(("torch", "tensorflow", "jax"), range(3))
    leave_out(cases := [Case(marks, fit=fit, rate=rate) for fit, rate in fits])
    kept = [case.callspec.params for case in cases if not case.get_closest_marker("slow")]
    assert len({"tensorflow", "jax"} & {case["fit"] for case in kept}) <= 1
    assert {case["rate"] for case in kept} == {0, 1, 2}


def test_what_is_left_to_make_full_is_slow():
    marks = [pytest.mark.left_to_full(r"\[torchscript-(?!steps)").mark]
    cases = [Case(marks, name=name, check=check) for name in ("torch", "torchscript") for check in ("steps", "bits")]
    leave_out([*cases, whole := Case([pytest.mark.left_to_full.mark])])
    assert [case.name for case in (*cases, whole) if case.get_closest_marker("slow")] == [
        "test[torchscript-bits]",
        "test[]",
    ]


def test_frameworks_and_backends_take_turns_from_test_to_test():
    fits = [Case([], name=name, fit=fit) for name in range(20) for fit in ("torch", "tensorflow", "jax")]
    backends = [Case([pytest.mark.turns.mark], name=name, kit=kit) for name in range(20) for kit in ("toy", "torch")]
    both = [Case([], name=name, kit=kit) for name in "ab" for kit in ("toy", "torch")]
    for cases in (fits, backends, both):  # each in a file of its own
        take_turns(cases)

    def kept(cases, key):
        return [case.callspec.params[key] for case in cases if not case.get_closest_marker("slow")]

    assert kept(fits, "fit").count("torch") == 20
    assert 2 <= kept(fits, "fit").count("jax") <= 8
    assert 2 <= kept(fits, "fit").count("tensorflow") <= 8
    assert len(kept(backends, "kit")) == 20
    assert 5 <= kept(backends, "kit").count("toy") <= 15
    assert len(kept(both, "kit")) == 4


# ---- faults


def test_faults_are_of_one_line_each():
    text = "def f(a, b):\n    if a < b and not a:\n        return a + 1\n    return True\n"
    found = {(mutant.old.strip(), mutant.new.strip()) for mutant in mutants(text)}
    assert found == {
        ("if a < b and not a:", "if not (a < b and (not a)):"),
        ("if a < b and not a:", "if (a < b or not a):"),
        ("if a < b and not a:", "if a <= b and not a:"),
        ("return a + 1", "return None"),
        ("return a + 1", "return (a - 1)"),
        ("return a + 1", "return a + 2"),
        ("return True", "return None"),
        ("return True", "return False"),
    }
