"""Calls of networks in every backend: modes, arguments, and inputs that stay what they are."""

import contextlib

import numpy as np
import pytest


def test_a_network_is_in_its_mode_inside_of_a_scope_and_in_that_of_before_after_an_error(room):
    calls, network = room.backend.calls, room.build(dropout=0.5)
    with calls.training(network):
        assert room.learns(network)
        with contextlib.suppress(KeyError), calls.evaluating(network):
            assert not room.learns(network)
            raise KeyError
        assert room.learns(network)


def test_the_only_argument_gets_the_data(room):
    calls, network = room.backend.calls, room.build()
    assert calls.key_mapping(network) == {"x": "data"}
    assert calls.arguments_of(network) in (None, frozenset({"x"}))
    assert calls.is_ready(network)


def test_a_prediction_is_what_the_network_computes(room):
    calls, network = room.backend.calls, room.build(dropout=0.5)
    x = room.prepared({"data": np.eye(3), "label": np.ones((3, 1))})["data"]
    with calls.evaluating(network):
        predictions = calls.forward(network, {"x": x})
    found = room.backend.arrays.to_numpy(predictions["pred"])
    np.testing.assert_allclose(found, room.read(network), rtol=room.rtol)


@pytest.mark.parametrize("room", ["toy", "torch"], indirect=True)
def test_inputs_stay_what_they_are_where_a_network_changes_them(room):
    network = room.build()
    batch = room.prepared({"data": np.eye(3), "label": np.ones((3, 1))})

    def spoil(own):
        own["x"] *= 0
        return own["x"]

    with room.backend.calls.training(network):
        spoiled = room.backend.calls.call_apart(network, {"x": batch["data"]}, spoil)
    to_numpy = room.backend.arrays.to_numpy
    np.testing.assert_array_equal(to_numpy(spoiled), np.zeros((3, 3)))
    np.testing.assert_array_equal(to_numpy(batch["data"]), np.eye(3))


def test_a_network_without_weights_has_no_losses_of_its_own(room):
    network = room.build()
    assert dict(room.backend.calls.added_losses(network)) == {}


def test_estimators_have_no_modes_and_are_ready_once_they_are_fitted():
    linear = pytest.importorskip("sklearn.linear_model", reason="the room needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    assert BACKEND.calls.key_mapping(network) == {"x": "data"}
    assert not BACKEND.calls.is_ready(network)
    network.estimator.fit([[0.0], [1.0]], [0.0, 1.0])
    with BACKEND.calls.training(network), BACKEND.calls.evaluating(network):
        assert BACKEND.calls.is_ready(network)
