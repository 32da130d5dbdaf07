"""Batches shared out to several devices of TensorFlow, and put together again."""

import types

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from delira.backends.tensorflow.devices import Shares  # noqa: E402


@pytest.mark.parametrize("n_samples", [7, 3, 2])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_batch_is_shared_out_and_put_together_again(n_samples, is_told):
    tree = {"data": tf.reshape(tf.range(2 * n_samples), (n_samples, 2)), "table": tf.zeros((5, 1)), "rate": tf.ones(())}
    told = tf.constant(float(n_samples)) if is_told else None
    shares = Shares(tree, told, types.SimpleNamespace(num_replicas_in_sync=3))
    sizes = [len(share["data"]) for share in shares.trees]
    assert sizes == {7: [2, 2, 3], 3: [1, 1, 1], 2: [2, 2, 2]}[n_samples]
    np.testing.assert_allclose(shares.weights, np.array(sizes) / sum(sizes))
    assert all(share["table"].shape == (5, 1) and share["rate"].shape == () for share in shares.trees)
    np.testing.assert_array_equal(shares.join([[share["data"]] for share in shares.trees])[0], tree["data"])
    means = [{"mean": tf.reduce_mean(tf.cast(share["data"], tf.float32))} for share in shares.trees]
    np.testing.assert_allclose(shares.mean(means)["mean"], np.arange(2 * n_samples).mean())
