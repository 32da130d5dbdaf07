"""Running statistics of normalisation layers, computed anew: the mean over calls, whatever was there before."""

import numpy as np
import pytest

BATCHES = np.random.default_rng(0).normal(3.0, 2.0, (2, 6, 2)).astype("f4")


def torch_layer():
    torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
    from delira.backends.torch.backend import BACKEND

    layer, weights = torch.nn.BatchNorm1d(2), BACKEND.weights
    calls = [lambda batch=batch: layer(torch.from_numpy(batch)) for batch in BATCHES]
    return layer, calls, weights.renew_statistics, weights.statistics_names, lambda: layer.running_mean.numpy()


def tensorflow_layer():
    pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow', not installed")
    import keras

    from delira.backends.tensorflow.backend import BACKEND

    role = BACKEND.weights
    layer = keras.layers.BatchNormalization()
    network = keras.Sequential([keras.layers.Input((2,)), layer])
    calls = [lambda batch=batch: network(batch, training=True) for batch in BATCHES]
    return network, calls, role.renew_statistics, role.statistics_names, lambda: layer.moving_mean.numpy()


def jax_layer():
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    from delira.backends.jax.backend import BACKEND

    role = BACKEND.weights
    layer = nnx.BatchNorm(2, rngs=nnx.Rngs(0))
    calls = [lambda batch=batch: layer(batch) for batch in BATCHES]
    return layer, calls, role.renew_statistics, role.statistics_names, lambda: np.array(layer.mean.get_value())


@pytest.mark.slow_cases("tensorflow|jax")
@pytest.mark.parametrize("make", [torch_layer, tensorflow_layer, jax_layer])
def test_they_are_the_mean_over_the_calls_and_stay_without_any(make):
    network, calls, renew, names, mean = make()
    assert len(names(network)) == 2
    renew(network, calls)
    np.testing.assert_allclose(mean(), BATCHES.mean((0, 1)), rtol=1e-5)
    renew(network, [])
    np.testing.assert_allclose(mean(), BATCHES.mean((0, 1)), rtol=1e-5)


def test_a_scripted_layer_of_two_names_has_the_mean_too_and_keeps_all_if_there_is_no_batch():
    torch = pytest.importorskip("torch")
    from delira.backends.torch.backend import BACKEND

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.BatchNorm1d(2)
            self.second = self.first

        def forward(self, x):
            return self.second(x)

    network = torch.jit.script(Twice())
    calls = [lambda batch=batch: network(torch.from_numpy(batch)) for batch in BATCHES]
    BACKEND.weights.renew_statistics(network, calls)
    np.testing.assert_allclose(network.first.running_mean.numpy(), BATCHES.mean((0, 1)), rtol=1e-5)

    def broken():
        raise OSError("no such disk")
        yield

    with pytest.raises(OSError, match="no such disk"):
        BACKEND.weights.renew_statistics(network, broken())
    np.testing.assert_allclose(network.first.running_mean.numpy(), BATCHES.mean((0, 1)), rtol=1e-5)


def test_a_layer_of_torch_that_no_call_reaches_may_hold_another_layer():
    layer, calls, renew_statistics, _, mean = torch_layer()
    import torch

    class Outer(torch.nn.BatchNorm1d):
        def __init__(self):
            super().__init__(2)
            self.inner = torch.nn.BatchNorm1d(2)

    unused = Outer()
    unused.running_mean.fill_(5.0)
    renew_statistics(torch.nn.ModuleList([layer, unused]), calls)
    np.testing.assert_allclose(mean(), BATCHES.mean((0, 1)), rtol=1e-5)
    assert unused.running_mean.tolist() == [5.0, 5.0]
