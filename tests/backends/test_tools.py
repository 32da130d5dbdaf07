"""What frameworks offer beside computing: traces of their profilers, and pictures that learn."""

import numpy as np
import pytest

from delira.state import State


@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
@pytest.mark.slow_cases("tensorflow|jax")
def test_a_picture_is_given_to_what_is_computed_of_it(kit):
    pixels, seen = np.ones((1, 2, 2), "f4"), []

    def compute(image, state):
        seen.append((kit.backend.arrays.to_numpy(image), state))
        return image

    picture = kit.backend.free_image(pixels, compute)
    picture(state=State(epoch=3))
    ((image, state),) = seen
    np.testing.assert_array_equal(image, pixels)
    assert state["epoch"] == 3
    assert picture.make_optimizer() is not None


@pytest.mark.parametrize("kit", ["torch", "tensorflow", "jax"], indirect=True)
@pytest.mark.slow
def test_a_trace_leaves_files_in_its_folder(kit, tmp_path):
    with type(kit.backend).trace(tmp_path / "trace"):
        kit.draw()
    assert any(path.is_file() for path in (tmp_path / "trace").rglob("*"))


@pytest.mark.parametrize("kit", ["toy"], indirect=True)
def test_a_backend_may_offer_nothing(kit):
    assert (kit.backend.trace, kit.backend.write_graph, kit.backend.free_image) == (None, None, None)
