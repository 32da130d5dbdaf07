"""Weights of every backend: by name, learned, averaged."""

import numpy as np
import pytest

from delira.errors import CheckpointError, ConfigError


def test_weights_by_name_are_copies(room):
    network = room.build()
    named = room.backend.weights.named(network)
    named[room.weight_name][...] = 9.0
    np.testing.assert_array_equal(room.read(network), room.read(room.build()))


def test_weights_go_from_one_network_to_another_by_name(room):
    network, other = room.build(), room.build()
    room.write(network, np.full((3, 1), 0.25))
    room.backend.weights.load_named(other, room.backend.weights.named(network))
    np.testing.assert_array_equal(room.read(other), np.full((3, 1), 0.25))


def test_weights_of_another_shape_are_refused_and_nothing_changes(room):
    network = room.build()
    with pytest.raises(CheckpointError, match=r"weight|kernel"):
        room.backend.weights.load_named(network, room.backend.weights.named(room.build(4)))
    np.testing.assert_array_equal(room.read(network), room.read(room.build()))


def test_what_learns_is_named_as_in_a_checkpoint(room):
    network = room.build()
    assert room.backend.weights.learned_names(network) == {room.weight_name}
    assert list(room.backend.weights.learned_weights(network)) == [room.weight_name]


def test_an_average_begins_with_a_copy_and_moves_by_its_decay(room):
    network, weights = room.build(), room.backend.weights
    average = weights.average(None, network, 0.75)
    first = room.weight_in(average).copy()
    np.testing.assert_array_equal(first, room.read(network))
    room.write(network, room.read(network) + 4.0)
    np.testing.assert_allclose(room.weight_in(weights.average(average, network, 0.75)), first + 1.0, rtol=1e-6)


def test_a_network_without_normalisation_has_no_statistics(room):
    assert room.backend.weights.statistics_names(room.build()) == frozenset()


@pytest.mark.parametrize("room", ["toy"], indirect=True)
def test_the_plain_case_refuses_what_it_cannot_do(room):
    with pytest.raises(ConfigError, match="the room 'toy' does not show its layers"):
        room.backend.weights.layers(room.build())
    with pytest.raises(ConfigError, match="'toy' cannot compute running statistics anew"):
        room.backend.weights.renew_statistics(room.build(), [])


def test_numbers_of_estimators_are_found_by_their_attributes():
    linear = pytest.importorskip("sklearn.linear_model", reason="the room needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND
    from delira.models import SklearnEstimator

    network = SklearnEstimator(linear.LinearRegression())
    network.estimator.fit([[0.0], [1.0]], [1.0, 3.0])
    weights = BACKEND.weights.named(network)
    assert {name: np.round(value, 6).tolist() for name, value in weights.items()} == {"coef_": [2.0], "intercept_": 1.0}
    BACKEND.weights.load_named(network, {"coef_": np.array([5.0]), "intercept_": np.array(0.5)})
    assert network.estimator.predict([[2.0]]).tolist() == [10.5]
