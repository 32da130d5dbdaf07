"""How networks and criteria are called: decided by their signatures."""

import contextlib

import numpy as np
import pytest

from delira.contract import CallsRole
from delira.contract.calls import ModelCall, bind_criterion, needed_inputs, single_output, takes_state
from delira.errors import ConfigError
from delira.state import State
from delira.testing.toy.backend import BACKEND

STATE = State({"y_pred": 3.0, "y_true": 1.0})


@pytest.mark.parametrize(
    ("network", "x", "expected"),
    [
        (lambda x: x, 5, 5),
        (lambda a, b: (b, a), (1, 2), (2, 1)),
        (lambda x, state: (x, state is STATE), 5, (5, True)),
        (lambda x, state=7: (x, state), 5, (5, 7)),
        (lambda x, *, state=7: (x, state is STATE), 5, (5, True)),
        (lambda x, state: (x, state), (5, 6), (5, 6)),
        (lambda x: x, None, None),
        (lambda x: x["a"], {"a": 4}, 4),
    ],
)
def test_inputs_are_spread_and_the_state_goes_where_it_is_asked_for(network, x, expected):
    assert ModelCall()(network, x, STATE) == expected


def test_no_network_gives_nothing():
    assert ModelCall()(None, 1, STATE) is None


def test_a_call_follows_the_network_that_it_is_given():
    call = ModelCall()
    assert call(lambda x: x, 1, STATE) == 1
    assert call(lambda x, state: state is STATE, 1, STATE) is True


def test_the_only_output_loses_its_name():
    assert single_output({"pred": 1}) == 1
    assert single_output({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert single_output((1,)) == (1,)


def test_inputs_that_are_needed_are_counted_without_the_state():
    assert needed_inputs(lambda x, y, z=1, state=None: None) == 2
    assert needed_inputs(lambda x, state: None) == 1


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (lambda y_pred, y_true: y_pred - 2 * y_true, 1.0),
        (lambda y_true, y_pred: y_pred - 2 * y_true, 1.0),
        (lambda y_pred: y_pred + 1, 4.0),
        (lambda state: state["y_pred"] * 2, 6.0),
    ],
)
def test_a_criterion_gets_what_the_names_of_its_arguments_say(criterion, expected):
    assert bind_criterion(criterion)(STATE) == expected


def test_a_function_of_the_state_is_known_by_its_argument():
    assert takes_state(lambda state: None)
    assert not takes_state(lambda y_pred, y_true: None)


@pytest.mark.parametrize(("criterion", "match"), [(3, "got 3"), (lambda: 0, "takes nothing")])
def test_what_is_no_criterion_is_refused(criterion, match):
    with pytest.raises(ConfigError, match=match):
        bind_criterion(criterion)


def test_an_error_of_a_network_of_ones_own_stays_as_it_is():
    def network(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        ModelCall()(network, np.array(["text"]), STATE)


class Calls(CallsRole):
    """The plain case, with the two scopes that it lacks."""

    def training(self, network):
        return contextlib.nullcontext()

    def evaluating(self, network):
        return contextlib.nullcontext()


CALLS = Calls(BACKEND)


class Network:
    """Calls what it was made of, by the name of its arguments."""

    def __init__(self, forward):
        self.forward = forward

    def __call__(self, **inputs):
        return self.forward(**inputs)


@pytest.mark.parametrize(
    ("forward", "mapping"),
    [
        (lambda image: None, {"image": "data"}),
        (lambda image, scale=1: None, {"image": "data"}),
        (lambda x=None, y=None: None, {"x": "data"}),
        (lambda *, image: None, {"image": "data"}),
    ],
)
def test_the_only_argument_that_is_needed_or_x_gets_the_data(forward, mapping):
    assert CALLS.key_mapping(Network(forward)) == mapping


@pytest.mark.parametrize("forward", [lambda left, right: None, lambda a=1, b=2: None])
def test_several_arguments_need_a_key_mapping(forward):
    with pytest.raises(ConfigError, match=r"Network\.forward takes .* pass key_mapping=\{argument: batch entry\}"):
        CALLS.key_mapping(Network(forward))


def test_a_network_that_takes_any_argument_has_no_names_of_them():
    assert CALLS.arguments_of(Network(lambda x, scale=1: None)) == {"x", "scale"}
    assert CALLS.arguments_of(Network(lambda x, **more: None)) is None


def test_a_network_is_called_with_named_inputs():
    assert CALLS.forward(Network(lambda x, y: {"pred": x - y}), {"y": 1, "x": 3}) == {"pred": 2}


def test_the_plain_case_needs_a_network():
    with pytest.raises(ConfigError, match="the backend 'toy' cannot train without a network"):
        CALLS.no_network()
    assert CALLS.is_ready(None)
    assert CALLS.added_losses(None) == {}
    assert CALLS.constants_of(None) == ()
