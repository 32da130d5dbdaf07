"""Layers that count how often they were called: what the trainer tries before the first step does not count."""

import numpy as np
import pytest

from delira.data_loading import BaseDataManager
from delira.models import named_weights


def torch_kit():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from delira.models import AbstractPyTorchNetwork
    from delira.training import PyTorchNetworkTrainer

    class Counting(AbstractPyTorchNetwork):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(2, 1)
            torch.nn.init.constant_(self.dense.weight, 0.5)
            torch.nn.init.zeros_(self.dense.bias)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return {"pred": self.dense(x) * self.calls / 16}

    settings = {"optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1}}
    return PyTorchNetworkTrainer, Counting, settings | {"losses": {"mse": torch.nn.MSELoss()}}


def tensorflow_kit():
    tf = pytest.importorskip(
        "tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed"
    )
    import keras

    from delira.models import AbstractTfNetwork
    from delira.training import TfNetworkTrainer

    class Counting(AbstractTfNetwork):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))
            self.dense.build((None, 2))
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

        def call(self, x):
            self.calls.assign_add(1.0)
            return {"pred": self.dense(x) * self.calls / 16}

    def mse(prediction, target):
        return tf.reduce_mean((prediction - target) ** 2)

    settings = {"optimizer_cls": keras.optimizers.SGD, "optimizer_params": {"learning_rate": 0.1}}
    return TfNetworkTrainer, Counting, settings | {"losses": {"mse": mse}}


def jax_kit():
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import jax.numpy as jnp
    import optax

    from delira.models import AbstractJaxNetwork
    from delira.training import JaxNetworkTrainer

    class Counting(AbstractJaxNetwork):
        def __init__(self):
            super().__init__()
            self.dense = nnx.Linear(2, 1, kernel_init=nnx.initializers.constant(0.5), rngs=nnx.Rngs(0))
            self.calls = nnx.BatchStat(jnp.zeros(()))

        def __call__(self, x):
            self.calls[...] = self.calls[...] + 1
            return {"pred": self.dense(x) * self.calls[...] / 16}

    def mse(prediction, target):
        return jnp.mean((prediction - target) ** 2)

    settings = {"optimizer_cls": optax.sgd, "optimizer_params": {"learning_rate": 0.1}}
    return JaxNetworkTrainer, Counting, settings | {"losses": {"mse": mse}}


def managers():
    numbers = np.random.default_rng(0)
    arrays = {"data": numbers.normal(size=(12, 2)).astype(np.float32), "label": np.ones((12, 1), np.float32)}
    return BaseDataManager(arrays, 4), BaseDataManager(arrays, 12)


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("backend", [torch_kit, tensorflow_kit, jax_kit])
def test_calls_are_counted_the_same_in_a_continued_run(backend, tmp_path):
    cls, network, settings = backend()

    def trained(path, *lengths):
        for n_epochs in lengths:
            trainer = cls(network(), path, seed=3, **settings)
            trainer.train(n_epochs, *managers())
        return named_weights(trainer.module)

    whole, continued = trained(tmp_path / "whole", 4), trained(tmp_path / "continued", 2, 4)
    assert whole["calls"] == 4 * (3 + (backend is not jax_kit))  # JAX forgets what changes in a validation
    assert all(np.array_equal(array, continued[name]) for name, array in whole.items())
