"""A network of TensorFlow with a block of its own."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
from delira.models import AbstractTfNetwork  # noqa: E402


class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = keras.layers.Dense(4), keras.layers.BatchNormalization()

    def call(self, x):
        return self.norm(self.conv(x))


class Net(AbstractTfNetwork):
    """Everything that a name can go through; its weights get their shapes with the first batch."""

    def __init__(self, n=2):
        super().__init__(n=n)
        self.encoder = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.3)])
        self.blocks = [Block() for _ in range(n)]
        self.heads = {"main": keras.layers.Dense(1)}
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, x):
        x = self.encoder(x)
        for block in self.blocks:
            x = block(x)
        return {"pred": self.heads["main"](x) * self.scale}


def data(n=12):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, 3))
    return BaseDataManager({"data": x, "label": x @ np.arange(1.0, 4.0).reshape(-1, 1)}, 4)


def built():
    network = Net()
    network(tf.ones((1, 3)))
    return network
