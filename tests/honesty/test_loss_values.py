"""A loss that is no single number is refused by its name, in every framework, before it has changed a weight."""

import importlib
from fractions import Fraction

import numpy as np
import pytest
from trial_makers import DIFFERENTIABLE, line, line_trial, need, squared_error, weights

from delira.contract.arrays import read_numbers
from delira.errors import NetworkError
from delira.utils.optimizing import added


def squares(prediction, target):
    return (prediction - target) ** 2


def as_whole(framework, value):
    """A value of the framework as int32."""
    if framework == "torch":
        return value.int()
    if framework == "tensorflow":
        return importlib.import_module("tensorflow").cast(value, "int32")
    return value.astype("int32")


def as_complex(framework, value):
    """A value of the framework with an imaginary part."""
    if framework == "tensorflow":
        return importlib.import_module("tensorflow").cast(value, "complex64")
    return value + 0j


WRONG = {
    "vector": lambda framework, p, t: squares(p, t)[:, 0],
    "table": lambda framework, p, t: squares(p, t),
    "none of it": lambda framework, p, t: squares(p, t)[:0, 0],
    "tuple": lambda framework, p, t: (squared_error(p, t), squared_error(p, t)),
    "list": lambda framework, p, t: [squared_error(p, t)],
    "dict": lambda framework, p, t: {"a": squared_error(p, t)},
    "None": lambda framework, p, t: None,
    "text": lambda framework, p, t: "0.5",
    "NaN": lambda framework, p, t: float("nan"),
    "number": lambda framework, p, t: 3.0,
    "yes": lambda framework, p, t: True,
    "array": lambda framework, p, t: np.zeros(3, "f4"),
    "whole": lambda framework, p, t: as_whole(framework, squared_error(p, t)),
    "complex": lambda framework, p, t: as_complex(framework, squared_error(p, t)),
    "function": lambda framework, p, t: squared_error,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("framework", DIFFERENTIABLE)
def test_a_loss_that_is_no_single_number_is_refused_by_name(framework, kind):
    need(framework)
    net = line(framework)
    before = weights(framework, net)
    trial = line_trial(framework, net=net, criterion=lambda p, t: WRONG[kind](framework, p, t))
    with pytest.raises(NetworkError, match=r"the loss \(loss\) "):
        trial.run(1)
    np.testing.assert_array_equal(weights(framework, net), before)


@pytest.mark.parametrize("value", [None, "0.5", {}], ids=repr)
def test_of_several_losses_the_wrong_one_is_named(value):
    with pytest.raises(NetworkError, match=r"the loss \(wrong\) is a "):
        added({"right": np.ones(()), "wrong": value}, (), "one number")


@pytest.mark.parametrize("value", [None, "0.5", (0.5,), {}, 0.5j, np.array("0.5"), np.array(None)], ids=repr)
def test_what_is_no_real_number_is_not_read_as_one(value):
    with pytest.raises(NetworkError, match="a loss or training metric is a "):
        read_numbers([0.5, value])


def test_numbers_of_any_kind_are_read():
    found = read_numbers([1, True, 0.5, np.float32(2), np.ones((1, 1)), Fraction(1, 4), float("nan")])
    np.testing.assert_array_equal(found, [1, 1, 0.5, 2, 1, 0.25, np.nan])
    assert found.dtype == np.float64
