"""Networks of ours in each framework, which a trial fits, too."""

import numpy as np
import pytest

import delira


def regression():
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("f4")
    return delira.data_loading.BaseDataManager({"data": x, "label": x[:, :2]}, 4)


def torch_network():
    torch = pytest.importorskip("torch")

    class Net(delira.models.AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            return {"pred": self.layer(x)}

    return Net()


def keras_network():
    keras = pytest.importorskip("keras")

    class Net(delira.models.AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.layer = keras.layers.Dense(2)

        def call(self, x):
            return {"pred": self.layer(x)}

    return Net()


def flax_network():
    nnx = pytest.importorskip("flax.nnx")

    class Net(delira.models.AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.layer = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return {"pred": self.layer(x)}

    return Net()


OWN_NETWORKS = {"torch": torch_network, "tensorflow": keras_network, "jax": flax_network}
