"""Weights of every backend: by name, learned, averaged."""

import numpy as np
import pytest

from delira.errors import CheckpointError, ConfigError


def test_weights_by_name_are_copies(kit):
    network = kit.build()
    named = kit.backend.weights.named(network)
    named[kit.weight_name][...] = 9.0
    np.testing.assert_array_equal(kit.read(network), kit.read(kit.build()))


def test_weights_go_from_one_network_to_another_by_name(kit):
    network, other = kit.build(), kit.build()
    kit.write(network, np.full((3, 1), 0.25))
    kit.backend.weights.load_named(other, kit.backend.weights.named(network))
    np.testing.assert_array_equal(kit.read(other), np.full((3, 1), 0.25))


def test_weights_of_another_shape_are_refused_and_nothing_changes(kit):
    network = kit.build()
    with pytest.raises(CheckpointError, match=r"weight|kernel"):
        kit.backend.weights.load_named(network, kit.backend.weights.named(kit.build(4)))
    np.testing.assert_array_equal(kit.read(network), kit.read(kit.build()))


def test_what_learns_is_named_as_in_a_checkpoint(kit):
    network = kit.build()
    assert kit.backend.weights.learned_names(network) == {kit.weight_name}
    assert list(kit.backend.weights.learned_weights(network)) == [kit.weight_name]


def test_an_average_begins_with_a_copy_and_moves_by_its_decay(kit):
    network, weights = kit.build(), kit.backend.weights
    average = weights.average(None, network, 0.75)
    first = kit.weight_in(average).copy()
    np.testing.assert_array_equal(first, kit.read(network))
    kit.write(network, kit.read(network) + 4.0)
    np.testing.assert_allclose(kit.weight_in(weights.average(average, network, 0.75)), first + 1.0, rtol=1e-6)


def test_a_network_without_normalisation_has_no_statistics(kit):
    assert kit.backend.weights.statistics_names(kit.build()) == frozenset()


@pytest.mark.parametrize("kit", ["toy"], indirect=True)
def test_the_plain_case_refuses_what_it_cannot_do(kit):
    with pytest.raises(ConfigError, match="the backend 'toy' does not show its layers"):
        kit.backend.weights.layers(kit.build())
    with pytest.raises(ConfigError, match="'toy' cannot compute running statistics anew"):
        kit.backend.weights.renew_statistics(kit.build(), [])


def test_numbers_of_estimators_are_found_by_their_attributes():
    linear = pytest.importorskip("sklearn.linear_model", reason="the backend needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    network.estimator.fit([[0.0], [1.0]], [1.0, 3.0])
    weights = BACKEND.weights.named(network)
    assert {name: np.round(value, 6).tolist() for name, value in weights.items()} == {"coef_": [2.0], "intercept_": 1.0}
    BACKEND.weights.load_named(network, {"coef_": np.array([5.0]), "intercept_": np.array(0.5)})
    assert network.estimator.predict([[2.0]]).tolist() == [10.5]
