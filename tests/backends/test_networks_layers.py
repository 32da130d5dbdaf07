"""Layers that ready networks are made of: channels last inside, and nothing else differs between frameworks."""

import importlib

import numpy as np
import pytest

IMAGES = np.arange(2 * 3 * 2 * 4, dtype="f4").reshape(2, 3, 2, 4)


@pytest.fixture(params=["tensorflow", "jax"])
def layers(request):
    pytest.importorskip({"jax": "flax"}.get(request.param, request.param), reason=f"needs {request.param}")
    return importlib.import_module(f"delira.backends.{request.param}.networks.layers")


@pytest.fixture
def inside(layers):
    """Makes images as they are within the networks."""
    if layers.__name__.startswith("delira.backends.jax"):
        return layers.channels_last
    tensorflow = pytest.importorskip("tensorflow")
    return lambda images: layers.channels_last(tensorflow.constant(images))


@pytest.fixture
def images(inside):
    return inside(IMAGES)


def test_channels_go_to_the_end_and_back(layers, images):
    assert tuple(images.shape) == (2, 2, 4, 3)
    np.testing.assert_array_equal(layers.channels_first(images), IMAGES)


def test_an_image_is_doubled_by_copies(layers, images):
    found = np.asarray(layers.channels_first(layers.doubled(images)))
    np.testing.assert_array_equal(found, IMAGES.repeat(2, 2).repeat(2, 3))


def test_an_image_grows_by_zeros_at_its_ends(layers, inside, images):
    larger = inside(np.ones((2, 3, 3, 4), "f4"))
    found = np.asarray(layers.channels_first(layers.grown(images, larger)))
    np.testing.assert_array_equal(found, np.pad(IMAGES, [(0, 0), (0, 0), (0, 1), (0, 0)]))


def test_positions_are_averaged_and_channels_put_side_by_side(layers, images):
    np.testing.assert_allclose(layers.mean(images), IMAGES.mean((2, 3)), rtol=1e-6)
    found = layers.channels_first(layers.side_by_side(images, images))
    np.testing.assert_array_equal(found, np.concatenate([IMAGES, IMAGES], 1))
