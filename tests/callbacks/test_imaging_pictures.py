"""What is a picture, whatever framework it is of."""

import numpy as np
import pytest

import delira
from delira.callbacks.imaging import (
    ImagingCallback,
    MakeGrid,
    make_grid,
)
from delira.errors import ConfigError
from delira.state import INPUT, Y_PRED

pytest.importorskip("torch", reason="the torch backend needs the package 'torch', which is not installed")
import torch
from pictures_of_fits import Collected, Twice, fit, read
from torch import nn


def test_bytes_and_single_pictures_are_taken():
    class First(ImagingCallback):
        def on_batch(self, state):
            return torch.full((2, 2), 51, dtype=torch.uint8)

    seen = Collected()
    fit(First().with_handler(seen, 0)).run(1)
    assert seen.seen[0][0] == pytest.approx([0.2])


@pytest.mark.parametrize("shape", [(5,), (1, 1, 1, 2, 2)])
def test_what_is_no_picture_is_refused(shape):
    class Odd(ImagingCallback):
        def on_batch(self, state):
            return np.zeros(shape)

    with pytest.raises(ConfigError, match=r"Odd: a picture has the shape \(channels, height, width\)"):
        fit(Odd().with_handler(print)).run(1)


def module_of(backend):
    """A network that returns its input, and the rest of a trial."""
    if backend == "torch":
        net = Twice()
        return net, torch.optim.SGD(net.parameters(), 0.0), nn.MSELoss()
    if backend == "tensorflow":
        pytest.importorskip("tensorflow", reason="the tensorflow backend needs the package 'tensorflow'")
        import keras

        net = keras.Sequential([keras.layers.Input((4, 5, 3)), keras.layers.Dense(3)])
        return net, keras.optimizers.SGD(0.0), keras.losses.MeanSquaredError()
    nnx = pytest.importorskip("flax.nnx", reason="the jax backend needs the package 'flax', which is not installed")
    import optax

    return nnx.Linear(3, 3, rngs=nnx.Rngs(0)), optax.sgd(0.0), lambda p, t: ((p - t) ** 2).mean()


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "jax"])
def test_channels_come_first_whatever_the_framework(backend, tmp_path):
    """Training pictures of a compiled step, too."""
    pictures = np.random.default_rng(0).random((6, 3, 4, 5)).astype("f4")
    x = pictures if backend == "torch" else np.moveaxis(pictures, 1, -1).copy()
    callbacks = [
        MakeGrid(INPUT, 4, nrow=2).on_train().on_val().to_file(tmp_path / "{data}.png"),
        MakeGrid(Y_PRED, 4, nrow=2).on_test().to_file(tmp_path / "{data}.png"),
    ]
    trial = delira.Trial(*module_of(backend), ["loss"], callbacks, seed=0, verbose=0)
    trial.with_train_data(x, x, 3, shuffle=False).with_val_data(x, x, 3).with_test_data(x, 3)
    trial.run(1)
    predicted = trial.trainer.backend.arrays.to_numpy(trial.predict())
    predicted = predicted if backend == "torch" else np.moveaxis(predicted, -1, 1)
    for name, wanted in {"train_data": pictures, "validation_data": pictures, "test_data": predicted}.items():
        np.testing.assert_allclose(read(tmp_path / f"{name}.png"), make_grid(wanted[:4], nrow=2), atol=0.51 / 255)


def test_channels_last_may_be_said(tmp_path):
    class Last(ImagingCallback):
        def on_batch(self, state):
            return np.zeros((4, 6, 3), "f4")

    fit(Last(channels_last=True).to_file(tmp_path / "last.png", 0)).run(1)
    assert read(tmp_path / "last.png").shape == (3, 4, 6)
