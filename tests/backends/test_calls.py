"""Calls of networks in every backend: modes, arguments, and inputs that stay what they are."""

import contextlib

import numpy as np
import pytest


def test_a_network_is_in_its_mode_inside_of_a_scope_and_in_that_of_before_after_an_error(kit):
    calls, network = kit.backend.calls, kit.build(dropout=0.5)
    with calls.training(network):
        assert kit.learns(network)
        with contextlib.suppress(KeyError), calls.evaluating(network):
            assert not kit.learns(network)
            raise KeyError
        assert kit.learns(network)


def test_the_only_argument_gets_the_data(kit):
    calls, network = kit.backend.calls, kit.build()
    assert calls.key_mapping(network) == {"x": "data"}
    assert calls.arguments_of(network) in (None, frozenset({"x"}))
    assert calls.is_ready(network)


def test_a_prediction_is_what_the_network_computes(kit):
    calls, network = kit.backend.calls, kit.build(dropout=0.5)
    x = kit.prepared({"data": np.eye(3), "label": np.ones((3, 1))})["data"]
    with calls.evaluating(network):
        predictions = calls.forward(network, {"x": x})
    found = kit.backend.arrays.to_numpy(predictions["pred"])
    np.testing.assert_allclose(found, kit.read(network), rtol=kit.rtol)


@pytest.mark.parametrize("kit", ["toy", "torch"], indirect=True)
def test_inputs_stay_what_they_are_where_a_network_changes_them(kit):
    network = kit.build()
    batch = kit.prepared({"data": np.eye(3), "label": np.ones((3, 1))})

    def spoil(own):
        own["x"] *= 0
        return own["x"]

    with kit.backend.calls.training(network):
        spoiled = kit.backend.calls.call_apart(network, {"x": batch["data"]}, spoil)
    to_numpy = kit.backend.arrays.to_numpy
    np.testing.assert_array_equal(to_numpy(spoiled), np.zeros((3, 3)))
    np.testing.assert_array_equal(to_numpy(batch["data"]), np.eye(3))


def test_a_network_without_weights_has_no_losses_of_its_own(kit):
    network = kit.build()
    assert dict(kit.backend.calls.added_losses(network)) == {}


def test_estimators_have_no_modes_and_are_ready_once_they_are_fitted():
    linear = pytest.importorskip("sklearn.linear_model", reason="the backend needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    assert BACKEND.calls.key_mapping(network) == {"x": "data"}
    assert not BACKEND.calls.is_ready(network)
    network.estimator.fit([[0.0], [1.0]], [0.0, 1.0])
    with BACKEND.calls.training(network), BACKEND.calls.evaluating(network):
        assert BACKEND.calls.is_ready(network)
