"""Fits on images, and the pictures that were written of them."""

import numpy as np
import pytest

import delira

pytest.importorskip("tensorboardX", reason="needs the package 'tensorboardX'")
pytest.importorskip("tensorboard", reason="needs the package 'tensorboard', which reads the files")

IMAGES = np.random.default_rng(0).uniform(size=(10, 3, 6, 4)).astype("f4")
LABELS = np.arange(10) % 2


def trial_of(backend, *callbacks, channels=3, images=IMAGES, y=LABELS, **settings):
    """A trial on images, as the backend wants them; its network is a linear one of all pixels."""
    images = images[:, :channels]
    if backend == "torch":
        torch = pytest.importorskip("torch", reason="the torch backend needs the package 'torch'")
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * 24, 2))
        parts = net, torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss()
    elif backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the TensorFlow backend needs the package 'tensorflow'")
        import keras

        net = keras.Sequential([keras.layers.Input((6, 4, channels)), keras.layers.Flatten(), keras.layers.Dense(2)])
        parts = net, keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    else:
        pytest.importorskip("jax", reason="the JAX backend needs the package 'jax'")
        optax, nnx = pytest.importorskip("optax"), pytest.importorskip("flax.nnx")

        class Net(nnx.Module):
            def __init__(self):
                self.linear = nnx.Linear(channels * 24, 2, rngs=nnx.Rngs(0))

            def __call__(self, x):
                return self.linear(x.reshape(len(x), -1))

        loss = optax.softmax_cross_entropy_with_integer_labels
        parts = Net(), optax.sgd(0.1), lambda pred, target: loss(pred, target).mean()
    x = images if backend == "torch" else np.moveaxis(images, 1, -1)
    trial = delira.Trial(*parts, callbacks=callbacks, verbose=0, **{"seed": 0, **settings})
    return trial.with_train_data(x, y, 4).with_val_data(x, y, 4, shuffle=False)


backends = pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
