"""Many pictures as one."""

import numpy as np
import pytest

from delira.callbacks.imaging import make_grid
from delira.errors import ConfigError


def test_a_grid_by_hand():
    images = np.array([[[[0.1, 0.2]]], [[[0.3, 0.4]]], [[[0.5, 0.6]]]])
    wanted = np.array([
        [9, 9, 9, 9, 9, 9, 9],
        [9, 1, 2, 9, 3, 4, 9],
        [9, 9, 9, 9, 9, 9, 9],
        [9, 5, 6, 9, 9, 9, 9],
        [9, 9, 9, 9, 9, 9, 9],
    ]) / 10  # fmt: skip
    found = make_grid(images, nrow=2, padding=1, pad_value=0.9)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted[None], rtol=1e-6)


@pytest.mark.parametrize(("n", "nrow", "padding", "shape"), [
    (1, 8, 2, (3, 9, 10)), (3, 8, 2, (3, 9, 26)), (9, 4, 0, (3, 15, 24)), (16, 4, 3, (3, 35, 39)),
])  # fmt: skip
def test_every_picture_is_where_it_belongs(n, nrow, padding, shape):
    images = np.random.default_rng(0).random((n, 3, 5, 6))
    grid = make_grid(images, nrow=nrow, padding=padding)
    assert grid.shape == shape
    for number, image in enumerate(images):
        top = padding + (number // nrow) * (5 + padding)
        left = padding + (number % nrow) * (6 + padding)
        np.testing.assert_allclose(grid[:, top : top + 5, left : left + 6], image, rtol=1e-6)


def test_numbers_are_stretched_together_each_or_from_a_range():
    images = np.array([0.0, 1.0, 2.0, -2.0]).reshape(2, 1, 1, 2)
    inner = {"padding": 0, "normalize": True}
    np.testing.assert_allclose(make_grid(images, **inner), [[[0.5, 0.75, 1, 0]]])
    np.testing.assert_allclose(make_grid(images, **inner, scale_each=True), [[[0, 1, 1, 0]]])
    np.testing.assert_allclose(make_grid(images, **inner, norm_range=(0.0, 1.5)), [[[0, 2 / 3, 1, 0]]], rtol=1e-6)
    np.testing.assert_allclose(make_grid(np.full((1, 1, 1, 2), 7.0), **inner), [[[0, 0]]])


def test_bytes_are_in_0_to_1_and_what_is_beyond_is_cut_off():
    np.testing.assert_allclose(make_grid(np.array([0, 51, 255], "u1").reshape(1, 1, 1, 3), padding=0), [[[0, 0.2, 1]]])
    odd = np.array([-1, 2, np.nan, np.inf]).reshape(1, 1, 1, 4)
    np.testing.assert_allclose(make_grid(odd, padding=0), [[[0, 1, 0, 1]]])
    np.testing.assert_allclose(make_grid(odd, padding=0, normalize=True), [[[0, 1, 0, 1]]])


def test_the_pictures_are_not_changed():
    images = np.random.default_rng(0).random((2, 1, 3, 3))
    before = images.copy()
    make_grid(images, normalize=True, scale_each=True)
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize(("layout", "message"), [
    ({"nrow": 0}, "nrow"), ({"padding": -1}, "padding"), ({"norm_range": (1.0, 0.0)}, "norm_range"),
])  # fmt: skip
def test_impossible_layouts_are_refused(layout, message):
    with pytest.raises(ConfigError, match=message):
        make_grid(np.zeros((1, 1, 2, 2)), **layout)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2, 2), (0, 1, 2, 2)])
def test_what_are_no_pictures_is_refused(shape):
    with pytest.raises(ConfigError, match=r"\(n, c, h, w\)"):
        make_grid(np.zeros(shape))
