"""Which cases of a test ``make test`` runs where all of them say little more; ``make full`` runs the others, too."""

import collections
import itertools
import re
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytest

#: what a sample holds each of: every value of every parameter, or every two values of two parameters; or every second
STRENGTHS = {"values": 1, "pairs": 2, "half": 0}
#: parameters and fixtures whose values are names of frameworks, for tests of what is the same in all of them
FRAMEWORK = ("kit", "fit", "framework", "convert", "backend", "backend_name")
#: frameworks that take turns, as their traces make up most of the time, in tests that PyTorch runs, too
TURNS = ("tensorflow", "jax")


def covering(cases: Sequence[Mapping[str, Hashable]], strength: int) -> set[int]:
    """Numbers of the cases to run: every combination of so many values that any case has is in one of them.

    The choice is always the same. Where it is of values, not pairs, it takes each about as often as the others.
    """
    combinations = [set(itertools.combinations(case.items(), min(strength, len(case)))) for case in cases]
    missing = set().union(*combinations)
    used: collections.Counter[tuple[str, Hashable]] = collections.Counter()
    chosen: set[int] = set()

    def worth(number: int) -> tuple[int, int]:
        often = sum(used[value] for value in cases[number].items()) if strength == 1 else 0
        return len(combinations[number] & missing), -often

    while missing:
        best = max(range(len(cases)), key=worth)
        chosen.add(best)
        missing -= combinations[best]
        used.update(cases[best].items())
    return chosen


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Mark as slow the cases that a ``sampled`` test can do without, and those marked ``left_to_full``."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if any(re.search(mark.args[0] if mark.args else "", item.name) for mark in item.iter_markers("left_to_full")):
            item.add_marker("slow")
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, every in tests.items():
        cases = _in_turn(test, every)
        strength = STRENGTHS[cases[0].get_closest_marker("sampled").args[0]]
        kept = covering([_values(case) for case in cases], strength) if strength else range(0, len(cases), 2)
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker("slow")


def _in_turn(test: str, cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Mark as slow the cases of a test that PyTorch runs, too, whose framework does not have its turn; the others."""
    frameworks = {_framework_of(case) for case in cases}
    away = {name for name in TURNS if name != _turn_of(test)} if frameworks >= {"torch", *TURNS} else set()
    for case in cases:
        if _framework_of(case) in away:
            case.add_marker("slow")
    return [case for case in cases if _framework_of(case) not in away]


def _turn_of(test: str) -> str | None:
    """The framework besides PyTorch that runs a test; for half of the tests None. It depends on its name alone."""
    return (*TURNS, None, None)[_number_of(test) % 4]


def _number_of(test: str) -> int:
    return zlib.crc32(test.rpartition("/")[2].encode())


def _framework_of(case: pytest.Item) -> str | None:
    """The framework, or backend, that a case is one of."""
    params = case.callspec.params if hasattr(case, "callspec") else {}
    found = [value for name in FRAMEWORK if isinstance(value := params.get(name), str)]
    return next((value for value in found if value in ("toy", "torch", *TURNS)), None)


def take_turns(items: Sequence[pytest.Item]) -> None:
    """Mark as slow all but a quarter of the cases of TensorFlow and of JAX, of tests that PyTorch runs, too.

    No test is run by both. And, of tests marked ``turns``, half of those of the toy backend and the other half of
    PyTorch. Which cases these are depends on the name of the test alone.
    """
    tests: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        framework = _framework_of(item)
        if framework is None or item.get_closest_marker("sampled") or item.get_closest_marker("slow"):
            continue
        parts = [part for part in item.callspec.id.split("-") if part != framework]
        tests.setdefault("-".join([item.nodeid.partition("[")[0], *parts]), {})[framework] = item
    for test, cases in tests.items():
        _in_turn(test, [*cases.values()])
        if cases.keys() == {"toy", "torch"} and cases["toy"].get_closest_marker("turns"):
            cases[("toy", "torch")[_number_of(test) % 2]].add_marker("slow")


def every_second(names: Iterable[str], start: int = 0) -> str:
    """Pattern of every second case of a parameter, for ``left_to_full``; another test runs the others."""
    return rf"\[({'|'.join(map(re.escape, [*names][start::2]))})\]"


def _values(case: pytest.Item) -> dict[str, Hashable]:
    """What the case has for each ``parametrize`` of its test, whatever the names in it, and for each fixture."""
    left = dict(case.callspec.params)
    found: dict[str, Hashable] = {}
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        found[str(mark.args[0])] = tuple(id(left.pop(name.strip(), None)) for name in names)
    return found | {name: id(value) for name, value in left.items()}
