"""A metric of one's own, decorated: the accuracy as a running mean and a spread over all samples. On every framework.

A metric says what it is for each sample of a batch; decorators say what is reported of that. It is computed once per
batch, whatever hangs on it, and exact over batches of different sizes.

Run it with ``python examples/trial/decorated_metric.py`` (or ``... decorated_metric.py tensorflow``, ``... jax``).
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

import delira
from delira.metrics import Metric, default_for_key, running_mean, std
from delira.state import Y_PRED, Y_TRUE


@default_for_key("acc")  # from here on the string "acc" means this one
@running_mean
@std
class Right(Metric):
    """Whether each sample is right, as 0.0 or 1.0, shape (B,)."""

    def __init__(self):
        super().__init__("acc")

    def process(self, state):
        return (np.asarray(state[Y_PRED]).argmax(axis=1) == np.asarray(state[Y_TRUE])).astype("float64")


def in_torch():
    import torch
    from torch.nn import Linear, ReLU, Sequential

    torch.manual_seed(0)
    model = Sequential(Linear(64, 64), ReLU(), Linear(64, 10))
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), torch.nn.CrossEntropyLoss()


def in_tensorflow():
    import keras
    import tensorflow as tf
    from keras.layers import Dense, Input

    def cross_entropy(y_pred, y_true):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y_true, y_pred))

    keras.utils.set_random_seed(0)
    return keras.Sequential([Input((64,)), Dense(64, "relu"), Dense(10)]), keras.optimizers.Adam(2e-3), cross_entropy


def in_jax():
    import optax
    from flax import nnx

    def cross_entropy(y_pred, y_true):
        return optax.softmax_cross_entropy_with_integer_labels(y_pred, y_true).mean()

    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(64, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 10, rngs=rngs))
    return model, optax.adam(2e-3), cross_entropy


# ---- every backend


def make_trial(backend: str) -> delira.Trial:
    model, optimizer, criterion = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()
    pixels, y = load_digits(return_X_y=True)
    x = pixels.astype("float32") / 16
    trial = delira.Trial(model, optimizer, criterion, ["acc", "loss"], verbose=0, seed=0)
    return trial.with_data(x[:1500], y[:1500], x[1500:], y[1500:], batch_size=64)


def main(backend: str = "torch") -> list[dict[str, float]]:
    trial = make_trial(backend)
    history = trial.run(5)
    for record in history:
        numbers = "  ".join(f"{name} {record[name]:.4f}" for name in ("running_acc", "acc_std", "val_acc_std"))
        print(f"epoch {record['epoch']}  {numbers}")
    print(f"there is no 'acc' among them, as no mean hangs on the metric: {'acc' not in history[-1]}")
    return history


if __name__ == "__main__":
    main(*sys.argv[1:])
