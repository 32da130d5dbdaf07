"""The plain case of calls: arguments that a batch fills, found by the signature alone."""

import contextlib

import pytest

from delira.contract import CallsRole
from delira.errors import ConfigError
from delira.testing.toy.backend import BACKEND


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
