"""Networks of every backend: their arguments, and batches as they take them."""

import numpy as np


def test_a_network_keeps_the_arguments_it_was_made_with(kit):
    assert kit.build(4, 0.25).init_kwargs == {"n_features": 4, "dropout": 0.25}


def test_a_prepared_batch_is_a_new_one_whose_data_are_of_the_framework(kit):
    batch = {"data": np.ones((2, 3)), "label": np.arange(2), "name": "a"}
    prepared = kit.prepared(batch)
    assert prepared is not batch
    assert prepared.keys() == batch.keys()
    assert prepared["name"] == "a"
    assert type(batch["data"]) is np.ndarray
    found = kit.backend.arrays.to_numpy(prepared["data"])
    np.testing.assert_array_equal(found, batch["data"])
    assert found.dtype in (np.float32, np.float64)


def test_predictions_have_names(kit):
    network = kit.build()
    x = kit.prepared({"data": np.ones((2, 3)), "label": np.ones((2, 1))})["data"]
    with kit.backend.calls.evaluating(network):
        assert list(kit.backend.calls.forward(network, {"x": x})) == ["pred"]
