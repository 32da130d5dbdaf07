"""Two inputs and two outputs: which of two digits is the larger one, and what is their sum? On every framework.

A batch ``((a, b), (larger, total))`` calls ``model(a, b)`` and ``criterion(larger_pred, total_pred, larger, total)``.

Run it with ``python examples/trial/several_inputs.py`` (or ``... several_inputs.py tensorflow``, ``... jax``).
"""

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import delira
from delira.metrics import lambda_metric


def in_torch():
    import torch
    from torch.nn import Linear, ReLU, Sequential
    from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

    class Compare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Sequential(Linear(64, 64), ReLU(), Linear(64, 32), ReLU())
            self.larger, self.total = Linear(64, 1), Linear(64, 1)

        def forward(self, a, b):
            both = torch.cat([self.encoder(a), self.encoder(b)], dim=1)
            return self.larger(both), self.total(both)

    def criterion(larger_pred, total_pred, larger, total):
        return binary_cross_entropy_with_logits(larger_pred, larger) + 0.1 * mse_loss(total_pred, total)

    torch.manual_seed(0)
    model = Compare()
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), criterion


def in_tensorflow():
    import keras
    import tensorflow as tf
    from keras.layers import Dense

    class Compare(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder = keras.Sequential([Dense(64, "relu"), Dense(32, "relu")])
            self.larger, self.total = Dense(1), Dense(1)

        def call(self, a, b):
            both = tf.concat([self.encoder(a), self.encoder(b)], axis=1)
            return self.larger(both), self.total(both)

    def criterion(larger_pred, total_pred, larger, total):
        bce = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(larger, larger_pred))
        return bce + 0.1 * tf.reduce_mean((total_pred - total) ** 2)

    keras.utils.set_random_seed(0)
    return Compare(), keras.optimizers.Adam(2e-3), criterion


def in_jax():
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Compare(nnx.Module):
        def __init__(self, rngs):
            self.encoder = nnx.Sequential(
                nnx.Linear(64, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 32, rngs=rngs), nnx.relu
            )
            self.larger, self.total = nnx.Linear(64, 1, rngs=rngs), nnx.Linear(64, 1, rngs=rngs)

        def __call__(self, a, b):
            both = jnp.concatenate([self.encoder(a), self.encoder(b)], axis=1)
            return self.larger(both), self.total(both)

    def criterion(larger_pred, total_pred, larger, total):
        bce = optax.sigmoid_binary_cross_entropy(larger_pred, larger).mean()
        return bce + 0.1 * ((total_pred - total) ** 2).mean()

    return Compare(nnx.Rngs(0)), optax.adam(2e-3), criterion


# ---- every backend


@lambda_metric("larger_acc")
def larger_acc(y_pred, y_true):
    return (y_pred[0] > 0) == (y_true[0] > 0.5)


@lambda_metric("total_error")
def total_error(y_pred, y_true):
    return abs(y_pred[1] - y_true[1])


def pairs(pixels, labels, n_batches: int, seed: int):
    """Batches of 50 pairs of pictures."""
    rng, x, y = np.random.default_rng(seed), pixels.astype("float32") / 16, labels.astype("float32")[:, None]
    for _ in range(n_batches):
        a, b = rng.integers(0, len(x), size=(2, 50))
        yield (x[a], x[b]), ((y[a] > y[b]).astype("float32"), y[a] + y[b])


def main(backend: str = "torch") -> dict[str, Any]:
    model, optimizer, criterion = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()
    pixels, labels = load_digits(return_X_y=True)
    train, rest = [*pairs(pixels[:1400], labels[:1400], 60, 0)], [*pairs(pixels[1400:], labels[1400:], 20, 1)]

    trial = delira.Trial(model, optimizer, criterion, ["loss", larger_acc, total_error], verbose=0, seed=0)
    first, *_, last = trial.with_train_generator(train).with_val_generator(rest).with_test_generator(rest).run(20)
    larger, total = trial.predict()

    for name in ("val_loss", "val_larger_acc", "val_total_error"):
        print(f"{name:<16} {first[name]:.3f} in the first epoch, {last[name]:.3f} in the last")
    print(f"predicted        {tuple(larger.shape)} and {tuple(total.shape)}")
    return {**last, "first": first["val_loss"], "larger": np.asarray(larger), "total": np.asarray(total)}


if __name__ == "__main__":
    main(*sys.argv[1:])
