"""Weight decay in three lines: a callback that adds the norm of every weight to the loss. On every framework.

Run it with ``python examples/trial/weight_decay.py`` (or ``... weight_decay.py tensorflow``, ``... jax``).
"""

import sys

from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import delira
from delira.state import LOSS
from delira.training.callbacks import L2WeightDecay, learned_weights, on_criterion, traceable


def in_torch():
    import torch
    from torch.nn import Linear, ReLU, Sequential

    torch.manual_seed(0)
    model = Sequential(Linear(10, 64), ReLU(), Linear(64, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-2), torch


def in_tensorflow():
    import keras
    import tensorflow as tf
    from keras.layers import Dense, Input

    keras.utils.set_random_seed(0)
    model = keras.Sequential([Input((10,)), Dense(64, "relu"), Dense(1)])
    return model, keras.optimizers.Adam(1e-2), tf.experimental.numpy


def in_jax():
    import jax
    import optax
    from flax import nnx

    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(10, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 1, rngs=rngs))
    return model, optax.adam(1e-2), jax.numpy


# ---- every backend


def is_matrix(name: str) -> bool:
    return name.endswith(("weight", "kernel"))  # biases begin at 0, where a norm has no slope


def make_trial(backend: str, decay: str) -> delira.Trial:
    # xp is the module in which a framework has the functions that numpy has, too
    model, optimizer, xp = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()

    def mse(y_pred, y_true):
        return xp.mean((y_pred - y_true) ** 2)

    @traceable  # it computes with arrays and does nothing else, so a compiled step may contain it
    @on_criterion
    def add_norms(state):
        for name, weight in learned_weights(state).items():
            if is_matrix(name):
                state[LOSS] = state[LOSS] + 0.05 * xp.sum(weight**2) ** 0.5

    callbacks = {"none": [], "own": [add_norms], "built-in": [L2WeightDecay(0.05, params=is_matrix)]}[decay]
    return delira.Trial(model, optimizer, mse, ["mse"], callbacks, verbose=0, seed=0)


def main(backend: str = "torch") -> dict[str, float]:
    x, y = load_diabetes(return_X_y=True)
    # means and spreads are those of the 80 that are trained on: the others are not to be known
    x, y = (StandardScaler().fit(values[:80]).transform(values).astype("float32") for values in (x, y[:, None]))
    found = {}
    for decay in ("none", "own", "built-in"):
        trial = make_trial(backend, decay).with_train_data(x[:80], y[:80], batch_size=16)
        last = trial.with_val_data(x[80:], y[80:], batch_size=100).run(60)[-1]
        found[decay] = last["val_mse"]
        print(f"decay {decay:<9} error {last['mse']:.4f} in training, {last['val_mse']:.4f} in validation")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
