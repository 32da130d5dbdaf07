"""Arrays of every backend on their way to the host."""

import numpy as np
import pytest

from delira.errors import NetworkError


def prepared(kit, n=5):
    rng = np.random.default_rng(0)
    return kit.prepared({"data": rng.normal(size=(n, 3)).astype("f4"), "label": np.ones((n, 1), "f4"), "name": "a"})


def test_every_array_of_a_tree_becomes_one_of_numpy_and_the_rest_stays(kit):
    tree = kit.backend.arrays.to_numpy({"batch": prepared(kit), "list": [1, "b"]})
    assert isinstance(tree["batch"]["data"], np.ndarray)
    assert tree["batch"]["name"] == "a"
    assert tree["list"] == [1, "b"]


def test_parts_of_a_batch_are_joined_to_the_whole(kit):
    arrays, batch = kit.backend.arrays, prepared(kit)
    whole = {"data": batch["data"], "more": (batch["label"],)}
    parts = [{"data": batch["data"][s], "more": (batch["label"][s],)} for s in (slice(0, 2), slice(2, 5))]
    assert kit.same(arrays.concatenate(parts), whole)


def test_single_numbers_are_read_together_as_float64(kit):
    batch = prepared(kit)
    found = kit.backend.arrays.read_scalars([batch["data"][0, 0], 2, batch["label"][0]])
    assert (found.shape, found.dtype) == ((3,), np.float64)
    assert found[1:].tolist() == [2.0, 1.0]


def test_a_number_that_is_several_is_refused_by_its_shape(kit):
    with pytest.raises(NetworkError, match=r"has the shape \(5, 1\)"):
        kit.backend.arrays.read_scalars([prepared(kit)["label"]])


def test_a_copy_is_not_changed_by_what_comes_later(kit):
    network = kit.build()
    weights = kit.backend.checkpoints.state_tree(network, {})["model"]
    copy = kit.backend.arrays.snapshot(weights)
    kit.write(network, np.full((3, 1), 7.0))
    np.testing.assert_array_equal(kit.weight_in(copy), kit.read(kit.build()))


def test_weights_that_are_no_numbers_are_named(kit):
    network = kit.build()
    kit.write(network, np.array([[1.0], [np.nan], [2.0]]))
    weights = kit.backend.checkpoints.state_tree(network, {})["model"]
    assert kit.backend.arrays.nonfinite(weights) == [kit.weight_name]
    assert kit.backend.arrays.nonfinite(kit.backend.checkpoints.state_tree(kit.build(), {})["model"]) == []


def test_a_number_of_an_estimator_is_a_metric():
    pytest.importorskip("sklearn", reason="the backend needs the package 'scikit-learn'")
    from delira.backends.sklearn.backend import BACKEND

    with pytest.raises(NetworkError, match=r"a training metric has the shape \(2,\)"):
        BACKEND.arrays.read_scalars([np.ones(2)])


def test_converted_single_numbers_have_one_axis(kit):
    batch = prepared(kit)
    (first,), named = kit.backend.arrays.convert([batch["data"][0, 0]], {"whole": batch["label"], "text": "a"})
    if kit.name != "toy":  # whose arrays are numpy's already
        assert first.shape == (1,)
    assert (named["whole"].shape, named["text"]) == ((5, 1), "a")
