"""Wrong values at every public entry: each is refused by name, or is right; none is swallowed or ends in a raw error.

``make test`` draws 300 cases, ``make full`` 2,400 and at least five for each public callable. The seed is fixed;
``DELIRA_FUZZ_SEED=1 pytest tests/fuzz`` draws others.
"""

import os

import pytest
from fuzz_cases import Case, all_entries, missing_parameters, select
from fuzz_names import public_callables

SEED = int(os.environ.get("DELIRA_FUZZ_SEED", "0"))
ALL_ENTRIES = all_entries()
ENTRIES = [entry for entry in ALL_ENTRIES if entry.is_possible]
#: callables some of whose entries need a package that is not installed
IMPOSSIBLE = {entry.callable_name for entry in ALL_ENTRIES if not entry.is_possible}
FEW = select([entry for entry in ENTRIES if not entry.is_slow], 300, SEED)
MANY = select(ENTRIES, 2400, SEED + 1, least=5)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    """What a case writes by a relative path does not stay where the tests are started."""
    monkeypatch.chdir(tmp_path)


def troubles_of(cases: list[Case], tmp_path) -> list[str]:
    """Run the cases, each in a folder of its own, and return a line for each that went wrong."""
    lines = []
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        if trouble := case.trouble(folder):
            lines.append(f"{case}: {trouble}")
    return lines


@pytest.mark.parametrize("name", FEW)
def test_wrong_values_are_refused_by_name_and_right_ones_are_right(name, tmp_path):
    assert not (lines := troubles_of(FEW[name], tmp_path)), "\n".join(lines)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MANY)
def test_many_wrong_values_are_refused_by_name_and_right_ones_are_right(name, tmp_path):
    assert not (lines := troubles_of(MANY[name], tmp_path)), "\n".join(lines)


def test_every_public_callable_has_five_cases_and_all_are_two_thousand():
    counts = {name: 0 for name in public_callables() if name not in IMPOSSIBLE}
    for entry in ENTRIES:
        if entry.callable_name in counts:
            counts[entry.callable_name] += len(entry.cases())
    assert not {name: count for name, count in counts.items() if count < 5}
    assert IMPOSSIBLE or sum(map(len, MANY.values())) >= 2000


def test_every_parameter_is_fuzzed_or_says_why_not():
    mentioned: dict[str, set[str]] = {}
    for entry in [entry for entry in ENTRIES if entry.callable_name not in IMPOSSIBLE]:
        missing = missing_parameters(entry)
        mentioned[entry.callable_name] = mentioned.get(entry.callable_name, missing) & missing
    assert not {name: missing for name, missing in mentioned.items() if missing}
