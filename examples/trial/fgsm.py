"""Adversarial examples: a callback moves every pixel a little, in the direction in which the loss grows (FGSM).

In validation it attacks a network, whose accuracy drops; in training, too, it makes the network resist. On every
framework. Goodfellow, Shlens and Szegedy (2015), https://arxiv.org/abs/1412.6572.

Run it with ``python examples/trial/fgsm.py`` (or ``... fgsm.py tensorflow``, ``... fgsm.py jax``). It writes
``runs/trial/fgsm_<backend>.png``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import delira
from delira.state import MODEL, Y_PRED, Y_TRUE, X
from delira.training.callbacks import Callback

EPSILON = 0.12  # pixels are between 0 and 1


def in_torch():
    import torch
    from torch.nn import Linear, ReLU, Sequential

    criterion = torch.nn.CrossEntropyLoss()

    def slope(model, x, y):
        with torch.enable_grad():  # in a validation it is off
            x = x.detach().requires_grad_()
            return torch.sign(torch.autograd.grad(criterion(model(x), y), x)[0])

    torch.manual_seed(0)
    model = Sequential(Linear(64, 128), ReLU(), Linear(128, 10))
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), criterion, slope


def in_tensorflow():
    import keras
    import tensorflow as tf
    from keras.layers import Dense, Input

    def criterion(y_pred, y_true):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y_true, y_pred))

    @tf.function
    def slope(model, x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = criterion(model(x), y)
        return tf.sign(tape.gradient(loss, x))

    keras.utils.set_random_seed(0)
    model = keras.Sequential([Input((64,)), Dense(128, "relu"), Dense(10)])
    return model, keras.optimizers.Adam(2e-3), criterion, slope


def in_jax():
    import jax
    import optax
    from flax import nnx

    def criterion(y_pred, y_true):
        return optax.softmax_cross_entropy_with_integer_labels(y_pred, y_true).mean()

    @nnx.jit
    def slope(model, x, y):
        return jax.numpy.sign(jax.grad(lambda x: criterion(model(x), y))(x))

    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(64, 128, rngs=rngs), nnx.relu, nnx.Linear(128, 10, rngs=rngs))
    return model, optax.adam(2e-3), criterion, slope


# ---- every backend


class Attack(Callback):
    """Moves the pixels of every batch, where it is told to; ``slope(model, x, y)`` is the sign of the gradient."""

    def __init__(self, slope, in_training: bool):
        self.slope, self.in_training, self.in_validation = slope, in_training, False

    def move(self, state):
        state[X] = state[X] + EPSILON * self.slope(state[MODEL], state[X], state[Y_TRUE])

    def on_sample(self, state):
        if self.in_training:
            self.move(state)

    def on_sample_validation(self, state):
        if self.in_validation:
            self.move(state)

    def on_step_validation(self, state):
        self.seen = [np.asarray(state[key]) for key in (X, Y_TRUE, Y_PRED)]


def make_trial(backend: str, in_training: bool) -> tuple[delira.Trial, Attack]:
    model, optimizer, criterion, slope = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()
    attack = Attack(slope, in_training)
    pixels, labels = load_digits(return_X_y=True)
    x = pixels.astype("float32") / 16
    trial = delira.Trial(model, optimizer, criterion, ["cat_acc"], [attack], verbose=0, seed=0)
    trial.with_train_data(x[:1400], labels[:1400], batch_size=50)
    return trial.with_val_data(x[1400:], labels[1400:], batch_size=397), attack


def main(backend: str = "torch") -> dict[str, float]:
    found = {}
    for name, in_training in (("plain", False), ("hardened", True)):
        trial, attack = make_trial(backend, in_training)
        trial.run(15)
        found[name] = trial.evaluate()["val_acc"]
        attack.in_validation = True
        found[f"{name}_attacked"] = trial.evaluate()["val_acc"]
        print(f"{name:<9} accuracy {found[name]:.3f}, attacked {found[f'{name}_attacked']:.3f}")
        if name == "plain":
            draw(*attack.seen, Path(f"runs/trial/fgsm_{backend}.png"))
    return found


def draw(moved, targets, scores, path: Path) -> None:
    figure = Figure(figsize=(8, 1.4), layout="constrained")
    wrong = np.flatnonzero(scores.argmax(axis=1) != targets)
    for axes, index in zip(figure.subplots(1, 10), wrong, strict=False):
        axes.imshow(moved[index].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"{targets[index]} as {scores[index].argmax()}", fontsize=9)
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    print(f"wrong     {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
