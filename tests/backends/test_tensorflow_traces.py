"""Functions of TensorFlow as graphs: one for each kind of batch."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import keras
import tensorflow as tf
from tensorflow_trainings import N_CLASSES, N_FEATURES

from delira.models import AbstractTfNetwork


class AnyLength(AbstractTfNetwork):
    def __init__(self) -> None:
        super().__init__()
        self.last = keras.layers.Dense(N_CLASSES)
        self.n_traces = 0

    def call(self, x: Any) -> dict[str, Any]:
        self.n_traces += 1
        return {"pred": self.last(tf.reduce_mean(x, axis=1))}


def test_many_lengths_share_a_graph() -> None:
    network = AnyLength()
    backend = network.__delira_backend__
    with backend.calls.evaluating(network):
        for length in (*range(1, 31), 30):
            x = np.ones((2, length, N_FEATURES), np.float32)
            found = backend.calls.forward(network, {"x": tf.constant(x)})
            assert found["pred"].shape == (2, N_CLASSES)
    assert network.n_traces < 15
