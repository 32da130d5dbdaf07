"""Trees of arrays: how many samples they have, and what they are as arguments."""

import inspect

import numpy as np
import pytest

from delira.utils.arrays import n_rows, spread
from delira.utils.binding import has_more, needed, positional


def test_the_first_array_that_has_a_length_counts_the_samples():
    images, labels = np.zeros((3, 2, 2)), np.zeros(5)
    assert n_rows(images) == 3
    assert n_rows({"scale": np.float32(2), "name": "a", "images": [None, images]}, labels) == 3
    assert n_rows(None, {}, np.float32(1), labels) == 5
    assert n_rows(None, "text", 3) == 1
    assert type(n_rows(images)) is int


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
def test_arrays_of_frameworks_count_too(framework):
    package = pytest.importorskip(framework, reason=f"needs the package {framework!r}, which is not installed")
    ones = (package.numpy if framework == "jax" else package).ones
    assert n_rows(ones((4, 2))) == 4
    assert n_rows(ones(()), [ones(()), ones((4, 2))]) == 4
    assert n_rows(ones(())) == 1


def test_a_tuple_is_several_arguments_and_none_is_none():
    assert spread((1, 2)) == (1, 2)
    assert spread([1]) == (1,)
    assert spread({"a": 1}) == ({"a": 1},)
    assert spread(None) == ()


def test_parameters_by_position():
    def function(first, /, second, third=3, *rest, named, **others):
        """Has a parameter of every kind."""

    parameters = inspect.signature(function).parameters
    assert [parameter.name for parameter in positional(parameters)] == ["first", "second", "third"]
    assert [parameter.name for parameter in needed(parameters)] == ["first", "second"]
    assert has_more(parameters)
    assert not has_more({"first": parameters["first"], "named": parameters["named"]})
