"""Networks of flax taken apart into arrays by name."""

import pytest

pytest.importorskip("flax", reason="the JAX backend needs the package 'flax', which is not installed")

import jax.numpy as jnp
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.backend import BACKEND
from delira.errors import NetworkError


class Tied(nnx.Module):
    def __init__(self):
        self.first = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
        self.norm, self.second = nnx.BatchNorm(2, rngs=nnx.Rngs(0)), self.first


def test_variables_have_the_names_of_their_places_and_the_first_of_several():
    network = Tied()
    names = {"first.kernel", "first.bias", "norm.scale", "norm.bias", "norm.mean", "norm.var"}
    assert graph.state_variables(network).keys() == names
    assert graph.aliases(network) == {"second.kernel": "first.kernel", "second.bias": "first.bias"}


def test_statistics_are_no_weights_and_frozen_weights_do_not_learn():
    network = Tied()
    learned = {"first.kernel", "first.bias", "norm.scale", "norm.bias"}
    assert graph.weights_of(network).keys() == graph.learned_weights(network).keys() == learned
    BACKEND.weights.set_learned_names(network, frozenset({"norm.scale"}))
    assert graph.learned_weights(network).keys() == {"norm.scale"}
    BACKEND.weights.set_learned_names(network, learned)
    assert graph.learned_weights(network).keys() == learned


def test_a_network_is_taken_apart_once_in_a_scope_and_anew_when_it_was_frozen():
    network = Tied()
    assert graph.parts_of(network) is not graph.parts_of(network)
    with graph.mode(network, learns=True):
        parts = graph.parts_of(network)
        assert graph.parts_of(network) is parts
        assert not network.norm.use_running_average
        graph.forget_parts(network)
        assert graph.parts_of(network) is not parts


def test_layers_compute_in_another_format_inside_of_a_scope_only():
    network = Tied()
    before = network.first.dtype
    with graph.computing_in(network, jnp.bfloat16):
        assert network.first.dtype == jnp.bfloat16
    assert network.first.dtype == before


def test_what_are_no_gradients_is_refused():
    with pytest.raises(NetworkError, match=r"the gradients are a dict; pass what nnx\.grad"):
        graph.flat_state({})
