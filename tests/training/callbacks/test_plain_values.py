"""Metrics as callbacks read them: plain numbers and lists, whatever framework they are of."""

import numpy as np
import pytest

from delira.training.callbacks.monitor import number, plain_values
from delira.utils.lazy_value import Lazy

REASON = "the {} room needs the package {!r}, which is not installed"


def numpy_arrays():
    return np.asarray


def torch_arrays():
    torch = pytest.importorskip("torch", reason=REASON.format("torch", "torch"))
    return lambda values: torch.tensor(values, requires_grad=True) * 1.0


def tensorflow_arrays():
    tensorflow = pytest.importorskip("tensorflow", reason=REASON.format("tensorflow", "tensorflow"))
    return tensorflow.constant


def jax_arrays():
    jax = pytest.importorskip("jax", reason=REASON.format("jax", "jax"))
    return jax.numpy.asarray


@pytest.mark.parametrize("arrays_of", [numpy_arrays, torch_arrays, tensorflow_arrays, jax_arrays])
def test_arrays_of_one_value_are_numbers_and_others_lists(arrays_of):
    array = arrays_of()
    given = {
        "scalar": array(0.5), "row": array([0.25]), "cell": array([[2.0]]), "several": array([1.0, 2.0]),
        "nested": {"classes": [array(1.5), 3]}, "plain": 7,
    }  # fmt: skip
    found = plain_values(given)
    wanted = {
        "scalar": 0.5, "row": 0.25, "cell": 2.0, "several": [1.0, 2.0], "nested": {"classes": [1.5, 3]}, "plain": 7,
    }  # fmt: skip
    assert found == wanted
    assert [type(found[name]) for name in ("scalar", "row", "cell", "several")] == [float, float, float, list]


def test_whole_numbers_texts_and_what_is_computed_late_stay_what_they_are():
    given = {"n": np.int64(3), "name": "a", "text": np.str_("b"), "late": Lazy(lambda: [1.0]), "none": None}
    found = plain_values(given)
    assert found == {"n": 3, "name": "a", "text": "b", "late": [1.0], "none": None}
    assert type(found["n"]) is int
    assert type(found["text"]) is str


def test_nothing_is_left_out():
    assert plain_values({"epoch": np.float32(2)}) == {"epoch": 2.0}


def test_a_watched_value_may_be_an_array_of_one_value():
    assert number(np.array([0.5])) == 0.5
