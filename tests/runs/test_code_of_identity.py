"""The digest of a user's function changes whenever its result may, and is none where that cannot be told."""

import functools
import itertools
import math
import os
import random
import textwrap
import types

import numpy as np
import pytest

from delira.runs.code_of import function_identity


def helper(values):
    return values.sum()


def made(source, **names):
    """The function ``f`` of a source, as in a module of its own."""
    found = {"np": np, "__name__": "mine", **names}
    exec(compile(textwrap.dedent(source), "mine.py", "exec"), found)
    return found["f"]


BASE = """
def f(y_true, y_pred):
    return float(np.mean(y_true == y_pred) * 2)
"""
SAME = [
    BASE,
    "\n\n# said elsewhere\n" + BASE,
    BASE.replace("    return", '    """Twice the share."""\n    # a comment\n    return'),
]
OTHER = [
    BASE.replace("* 2", "* 3"),
    BASE.replace("mean", "median"),
    BASE.replace("==", "!="),
    BASE.replace("y_pred):", "y_pred, k=1):"),
    BASE.replace("y_pred):", "y_pred, k=2):"),
    BASE.replace("return float", "return int"),
]


@pytest.mark.parametrize("source", SAME)
def test_comments_and_docstrings_do_not_count(source):
    assert function_identity(made(source)) == function_identity(made(BASE)) is not None


def test_every_other_function_is_another():
    found = [function_identity(made(source)) for source in (BASE, *OTHER)]
    assert None not in found
    assert len({*found}) == len(found)


def closing_over(value):
    def f(y_true, y_pred):
        return (y_true - y_pred).sum(), value

    return f


VALUES = [
    1, 1.0, True, "1", None, float("nan"), (1, 2), (2, 1), [1, 2], {"a": 1}, {"a": 2}, {1, 2}, frozenset({1, 2}),
    range(3), np.arange(3), np.arange(3.0), np.arange(3)[::-1], np.int64(1), np.float32(1), np.mean, np.add,
    functools.partial(helper), functools.partial(helper, 1), helper, closing_over(1), closing_over(2), math.sqrt, len,
    int, itertools.chain, math,
]  # fmt: skip


def test_what_it_closes_over_counts_by_its_content():
    found = [function_identity(closing_over(value)) for value in VALUES]
    assert None not in found
    assert len({*found}) == len(found)
    assert found == [function_identity(closing_over(value)) for value in VALUES]


def test_what_it_names_counts_by_its_content():
    source = "def f(y_true, y_pred):\n    return g(y_true, scale) + y_pred\n"
    inner = [made(f"def f(a, b):\n    return a * {number}\n") for number in (1, 2)]
    found = [function_identity(made(source, g=g, scale=scale)) for g in inner for scale in (1, np.ones(2), np.zeros(2))]
    assert None not in found
    assert len({*found}) == 6


def test_functions_may_call_themselves_and_each_other():
    source = "def g(n):\n    return f(n)\ndef f(n):\n    return n and g(n - 1)\n"
    assert function_identity(made(source)) == function_identity(made(source)) is not None


def test_a_module_of_the_users_counts_by_what_is_used_of_it(tmp_path):
    def module(text):
        mine = types.ModuleType("mine_too")
        mine.__file__ = str(tmp_path / "mine_too.py")
        exec(compile(text, mine.__file__, "exec"), vars(mine))
        return mine

    source = "def f(a, b):\n    return mine.g(a) + b\n"
    one, other, same = (
        module(f"def g(a):\n    return a * {k}\nunused = {k + extra}\n") for k, extra in ((1, 0), (2, 0), (1, 5))
    )
    found = [function_identity(made(source, mine=mine)) for mine in (one, other, same)]
    assert None not in found
    assert found[0] != found[1]
    assert found[0] == found[2]


class Own:
    """An object of a user's."""

    factor = 2

    def __call__(self, y_true, y_pred):
        return 1.0


def counting():
    count = 0

    def f(y_true, y_pred):
        nonlocal count
        count += 1
        return count

    return f


def changing():
    def f(y_true, y_pred):
        return f.factor

    f.factor = 1
    return f


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: [*open("scale.txt")],  # noqa: SIM115
        lambda a, b: np.load("scale.npy"),
        lambda a, b: np.random.rand(),
        lambda a, b: np.random.default_rng(0).normal(),
        lambda a, b: random.random(),
        lambda a, b: os.environ["SCALE"],
        lambda a, b: eval("1"),
        lambda a, b: globals()["helper"],
        lambda a, b: Own().factor,
        lambda a, b: undefined(a, b),  # noqa: F821
        counting(),
        changing(),
        closing_over(Own()),
        closing_over([Own()]),
        closing_over(np.array([Own()])),
        closing_over(os),
        functools.lru_cache(helper),
        functools.partial(Own()),
        np.vectorize(helper),
        Own(),
        Own().__call__,
        Own,
        np.mean,
        "accuracy",
        5,
        None,
    ],
)
def test_what_cannot_be_told_has_no_digest(function):
    assert function_identity(function) is None


def test_imports_inside_of_it_count_by_package_and_version(monkeypatch):
    source = "def f(a, b):\n    from numpy import median\n    return median(a - b)\n"
    before = function_identity(made(source))
    monkeypatch.setattr(np, "__version__", "0.1")
    assert None not in (before, after := function_identity(made(source)))
    assert before != after
    assert function_identity(made("def f(a, b):\n    import time\n    return time.time()\n")) is None
    assert function_identity(made("def f(a, b):\n    import nonsense_package\n    return 1\n")) is None
