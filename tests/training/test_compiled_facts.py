"""What a compiled step has of the state: what it read is frozen in it, and arrays that change are its inputs."""

import numpy as np
import pytest

from delira import state as keys
from delira.state import State, state_key
from delira.training.step import CARRIED, CompiledState, NotingState, is_of_arrays, written

NOTE = state_key("note_of_compiled_facts")


@pytest.fixture
def compiled():
    return CompiledState(lambda leaf: getattr(leaf, "arrays", []))


def traced(compiled, facts, read):
    """A step that reads the state while it is traced."""
    with compiled.noting(facts):
        assert type(facts) is NotingState
        read(facts)
    assert type(facts) is State


@pytest.mark.parametrize(
    "read",
    [lambda facts: facts[NOTE], lambda facts: facts.get(NOTE), lambda facts: NOTE in facts and facts[NOTE]],
    ids=["item", "get", "in"],
)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (1.0, 1), ("a", "b"), ([1, 2], [1, 3]), ({"a": 1}, {"b": 1})])
def test_a_plain_value_that_was_read_and_is_another_now_is_told(compiled, read, before, after):
    facts = State({NOTE: before})
    traced(compiled, facts, read)
    assert compiled.changed(facts) == []
    facts[NOTE] = after
    assert compiled.changed(facts) == [NOTE]
    assert compiled.changed(facts) == [], "it is compiled anew, so that nothing is noted yet"


def test_what_was_not_read_may_change(compiled):
    facts = State({NOTE: 1, keys.EPOCH: 1})
    traced(compiled, facts, lambda facts: facts[NOTE])
    facts[keys.EPOCH] = 2
    assert compiled.changed(facts) == []


def test_no_number_equals_itself(compiled):
    facts = State({NOTE: float("nan")})
    traced(compiled, facts, lambda facts: facts[NOTE])
    assert compiled.changed(facts) == []


@pytest.mark.parametrize("is_there", [False, True])
def test_whether_a_key_is_there_is_part_of_the_step(compiled, is_there):
    facts = State({NOTE: 1} if is_there else {})
    traced(compiled, facts, lambda facts: NOTE in facts)
    assert compiled.changed(facts) == []
    if is_there:
        del facts[NOTE]
    else:
        facts[NOTE] = 1
    assert compiled.changed(facts) == [NOTE]


def test_a_list_that_was_written_into_is_another(compiled):
    facts = State({NOTE: [1, 2]})
    traced(compiled, facts, lambda facts: facts[NOTE])
    facts[NOTE].append(3)
    assert compiled.changed(facts) == [NOTE]


def test_an_array_that_changes_becomes_an_input(compiled):
    facts = State({NOTE: np.ones(2)})
    batch = compiled.join({"data": 1}, facts)
    assert batch == {"data": 1}
    compiled.begin(batch, facts)
    traced(compiled, facts, lambda facts: facts[NOTE])
    facts[NOTE] = np.zeros(2)
    assert compiled.changed(facts) == [NOTE]
    batch = compiled.join({"data": 1}, facts)
    assert batch[CARRIED][NOTE] is facts[NOTE] is compiled.carried[NOTE]
    compiled.begin(batch, facts)
    assert batch == {"data": 1}
    traced(compiled, facts, lambda facts: facts[NOTE])
    facts[NOTE] = np.full(2, 5.0)
    assert compiled.changed(facts) == [], "an input may have other values"


def test_an_input_that_is_no_array_any_more_is_none(compiled):
    facts = State({NOTE: np.ones(2)})
    compiled.inputs.update({NOTE})
    assert NOTE in compiled.join({}, facts)[CARRIED]
    facts[NOTE] = 3
    assert compiled.join({}, facts).get(CARRIED, {}) == {}


def test_the_state_is_a_plain_one_again_after_an_error(compiled):
    facts = State({NOTE: 1})
    with pytest.raises(ZeroDivisionError):
        traced(compiled, facts, lambda facts: 1 / 0)
    assert type(facts) is State


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.ones(2), True),
        ({"a": np.ones(2), "b": [np.ones(1)]}, True),
        ([], False),
        ([np.ones(1), 2], False),
        (3, False),
    ],
)
def test_arrays_are_told_from_other_values(value, wanted):
    assert is_of_arrays(value) is wanted


def test_arrays_that_are_others_are_told_from_those_that_stayed():
    kept = np.ones(1)
    facts = {"kept": kept, "other": np.ones(1), "new": np.ones(1), "number": 4}
    assert written(facts, {"kept": kept, "other": np.ones(1), "number": 3}) == ["other", "new"]
