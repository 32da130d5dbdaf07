"""Batches without what is no array: names and texts go, and what holds them as far as it is of no use without."""

from typing import Any, NamedTuple

import numpy as np

from delira.contract.arrays import only_arrays


class Pair(NamedTuple):
    left: Any
    right: Any


def numbers(leaf):
    return leaf * 2 if isinstance(leaf, (int, np.ndarray)) else None


def test_leaves_are_converted_and_others_left_out():
    assert only_arrays({"a": 1, "b": "text", "c": {"d": 2, "e": "text"}}, numbers) == {"a": 2, "c": {"d": 4}}


def test_a_list_that_holds_a_text_goes_as_a_whole_and_a_named_tuple_stays_one():
    found = only_arrays({"a": [1, "text"], "b": Pair(1, (2, 3))}, numbers)
    assert found == {"b": Pair(2, (4, 6))}
    assert isinstance(found["b"], Pair)


def test_what_is_empty_stays_unless_it_is_not_wanted():
    batch = {"a": {"b": "text"}, "c": []}
    assert only_arrays(batch, numbers) == {"a": {}, "c": []}
    assert only_arrays(batch, numbers, keeps_empty=False) is None
