"""Search spaces as values: what is in them, what they refuse, and how files and command lines have them."""

import collections
import copy
import pickle

import pytest

from delira.errors import ConfigError
from delira.utils import spaces, yaml_codec
from delira.utils.spaces import Choice, Float, Int, parse

ALL = [
    Float(1e-5, 0.1, log=True),
    Float(0, 1, step=0.25, default=0.5),
    Int(1, 9, step=2),
    Int(4, 64, log=True, default=16, when={"optimizer_cls": "adam"}),
    Choice(["a", "b", None], default=None),
    Choice([1, 2.5, [1, 2], {"a": 1}]),
]


@pytest.mark.parametrize("space", ALL, ids=repr)
def test_a_space_survives_copies_processes_and_files(space):
    assert copy.deepcopy(space) == space
    again = pickle.loads(pickle.dumps(space))
    assert again == space
    assert again.has_default == space.has_default
    assert yaml_codec.loads(yaml_codec.dumps({"it": space})) == {"it": space}


@pytest.mark.parametrize("space", [space for space in ALL if space.when is None][:5], ids=repr)
def test_a_space_is_parsed_from_what_it_prints(space):
    assert parse(repr(space)) == space


def test_nothing_is_executed_by_parsing():
    with pytest.raises(ConfigError, match="is no space: write Float"):
        parse("Choice([__import__('os').getcwd()])")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Float(2, 1)", "is empty: low is above high"),
        ("Float(0, 1, log=True)", "low must be above 0"),
        ("Float(0.1, 1, log=True, step=0.1)", "logarithmic scale and a step"),
        ("Float('a', 1)", "low of Float must be a finite number, got 'a'"),
        ("Float(0, 1, default=3)", r"default=3 is not in Float\(0.0, 1.0"),
        ("Int(1.5, 2)", "low of Int must be a whole number"),
        ("Int(1, 8, step=2)", "never reaches its end.*write high=7"),
        ("Int(1, 8, step=0)", "step of Int must be a whole number above 0"),
        ("Choice([])", "is empty"),
        ("Choice([1, 1])", "cannot be told apart: 1"),
        ("Choice('ab')", "must be a list"),
        ("Choice([1], default=2)", "default=2 is not in"),
        ("Int(1, 2, when={})", "when must be a dictionary"),
        ("Float(1)", "missing 1 required positional argument"),
        ("Float(1, 2, base=3)", "unexpected keyword argument 'base'"),
        ("Range(1, 2)", "is no space"),
    ],
)
def test_an_impossible_space_is_refused_where_it_is_written(text, why):
    with pytest.raises(ConfigError, match=why):
        parse(text)


def test_an_option_that_holds_a_space_is_refused():
    with pytest.raises(ConfigError, match="entry of its own, with when="):
        Choice([{"lr": Float(0, 1)}, None])


def test_values_are_in_a_space_if_they_are_on_its_steps():
    assert Float(0, 1, step=0.25).has(0.75)
    assert not Float(0, 1, step=0.25).has(0.7)
    assert not Int(1, 9).has(True)
    assert not Int(1, 9).has(2.0)
    assert Float(0, 1).has(1)
    assert Choice([dict, list]).has(dict)
    assert not Choice([dict, list]).has(set)


def test_a_grid_has_all_values_or_is_refused():
    assert [*Int(1, 9, step=4).grid()] == [1, 5, 9]
    assert [*Float(0, 1, step=0.5).grid()] == [0, 0.5, 1]
    with pytest.raises(ConfigError, match="infinitely many values"):
        Float(0, 1).grid()


def test_options_have_names_that_lead_back_to_them():
    space = Choice([dict, collections.OrderedDict, 3, "x:y", None, [1, 2]])
    assert space.labels == ["dict", "OrderedDict", 3, "x:y", None, "[1, 2]"]
    assert [space.valued(space.shown(option)) for option in space.options] == space.options
    with pytest.raises(ConfigError, match="'set' is none of the options"):
        space.valued("set")


def test_an_option_that_a_file_could_not_resolve_has_the_same_name():
    class Local:
        pass

    Local.__qualname__ = "Local"
    plain = yaml_codec.encode(Choice([Local, dict]))
    read = yaml_codec.decode(plain)
    assert read.labels == Choice([Local, dict]).labels == ["Local", "dict"]


def test_a_file_that_names_no_space_is_refused():
    with pytest.raises(ConfigError, match="there is no space 'Range'; known are Float, Int, Choice"):
        yaml_codec.loads("lr: {$space: Range, low: 1, high: 2}")
    with pytest.raises(ConfigError, match="allowed are"):
        yaml_codec.loads("lr: {$space: Float, low: 1, high: 2, hihg: 3}")
    with pytest.raises(ConfigError, match="Float cannot be made of"):
        yaml_codec.loads("lr: {$space: Float, low: 1}")


def test_a_hand_written_file_may_write_whole_numbers_for_ends():
    assert yaml_codec.loads("lr: {$space: Float, low: 0, high: 1}") == {"lr": Float(0.0, 1.0)}


def test_what_is_like_a_space_is_told_from_text():
    assert spaces.is_like(" Float(1, 2)")
    assert not spaces.is_like("Floating")
    assert not spaces.is_like("relu(x)")
