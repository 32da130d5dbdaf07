"""A variational auto-encoder of digits: the network leaves its code in the state, a callback adds the divergence.

It draws random codes in training and takes their mean in validation. What is below "every backend" is the same for
PyTorch, TensorFlow and JAX: ``xp`` is the module in which a framework has the functions that numpy has, too.

Run it with ``python examples/trial/vae.py`` (or ``... vae.py tensorflow``, ``... vae.py jax``). It writes
``runs/trial/vae_<backend>.png``.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.image import imsave
from sklearn.datasets import load_digits

import delira
from delira.state import MODEL, state_key
from delira.training.callbacks import add_to_loss, traceable

MU, LOG_VARIANCE, KL = state_key("mu"), state_key("log_variance"), state_key("kl")
N_CODE, N_HIDDEN = 2, 128


def in_torch():
    import torch
    from torch.nn import Linear, ReLU, Sequential

    class VAE(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Sequential(Linear(64, N_HIDDEN), ReLU(), Linear(N_HIDDEN, 2 * N_CODE))
            self.decoder = Sequential(Linear(N_CODE, N_HIDDEN), ReLU(), Linear(N_HIDDEN, 64))

        def forward(self, x, state):
            state[MU], state[LOG_VARIANCE] = torch.chunk(self.encoder(x), 2, dim=1)
            noise = torch.randn_like(state[MU]) if self.training else 0.0
            return self.decoder(state[MU] + noise * torch.exp(state[LOG_VARIANCE] / 2))

    def bce(y_pred, y_true):
        return torch.nn.functional.binary_cross_entropy_with_logits(y_pred, y_true, reduction="sum") / len(y_true)

    torch.manual_seed(0)
    model = VAE()
    return model, torch.optim.Adam(model.parameters(), lr=2e-3), bce, torch


def in_tensorflow():
    import keras
    import tensorflow as tf
    from keras.layers import Dense

    class VAE(keras.Model):
        def __init__(self):
            super().__init__()
            self.encoder = keras.Sequential([Dense(N_HIDDEN, "relu"), Dense(2 * N_CODE)])
            self.decoder = keras.Sequential([Dense(N_HIDDEN, "relu"), Dense(64)])
            self.seed = keras.random.SeedGenerator(0)

        def call(self, x, state, training=False):
            state[MU], state[LOG_VARIANCE] = tf.split(self.encoder(x), 2, axis=1)
            noise = keras.random.normal(tf.shape(state[MU]), seed=self.seed) if training else 0.0
            return self.decoder(state[MU] + noise * tf.exp(state[LOG_VARIANCE] / 2))

    def bce(y_pred, y_true):
        each = tf.nn.sigmoid_cross_entropy_with_logits(y_true, y_pred)
        return tf.reduce_mean(tf.reduce_sum(each, axis=1))

    keras.utils.set_random_seed(0)
    return VAE(), keras.optimizers.Adam(2e-3), bce, tf.experimental.numpy


def in_jax():
    import jax
    import optax
    from flax import nnx

    class VAE(nnx.Module):
        def __init__(self, rngs):
            self.encoder = nnx.Sequential(
                nnx.Linear(64, N_HIDDEN, rngs=rngs), nnx.relu, nnx.Linear(N_HIDDEN, 2 * N_CODE, rngs=rngs)
            )
            self.decoder = nnx.Sequential(
                nnx.Linear(N_CODE, N_HIDDEN, rngs=rngs), nnx.relu, nnx.Linear(N_HIDDEN, 64, rngs=rngs)
            )
            self.rngs, self.deterministic = rngs, False  # flax sets the latter to True in evaluation

        def __call__(self, x, state):
            state[MU], state[LOG_VARIANCE] = jax.numpy.split(self.encoder(x), 2, axis=1)
            noise = 0.0 if self.deterministic else jax.random.normal(self.rngs.noise(), state[MU].shape)
            return self.decoder(state[MU] + noise * jax.numpy.exp(state[LOG_VARIANCE] / 2))

    def bce(y_pred, y_true):
        return optax.sigmoid_binary_cross_entropy(y_pred, y_true).sum(axis=1).mean()

    return VAE(nnx.Rngs(0)), optax.adam(2e-3), bce, jax.numpy


# ---- every backend


def make_trial(backend: str) -> delira.Trial:
    model, optimizer, bce, xp = {"torch": in_torch, "tensorflow": in_tensorflow, "jax": in_jax}[backend]()

    @traceable  # it computes with arrays and does nothing else, so a compiled step may contain it
    @add_to_loss
    def divergence(state):
        mu, log_variance = state[MU], state[LOG_VARIANCE]
        state[KL] = xp.mean(-0.5 * xp.sum(1 + log_variance - mu**2 - xp.exp(log_variance), axis=1))
        return state[KL]

    return delira.Trial(model, optimizer, bce, ["loss", KL], [divergence], verbose=0, seed=0)


def main(backend: str = "torch") -> dict[str, float]:
    pixels = load_digits().data.astype("float32") / 16
    train, rest = pixels[:1500], pixels[1500:]
    trial = make_trial(backend).with_train_data(train, train, batch_size=50).with_val_data(rest, rest, batch_size=100)
    first, *_, last = trial.run(60)
    values = trial.evaluate()

    # what the decoder makes of codes on a grid
    line = np.linspace(-2, 2, 12, dtype="float32")
    codes = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    decoder = delira.Trial(trial.state[MODEL].decoder, verbose=0)  # a trial of any part can predict
    logits = np.asarray(decoder.with_test_data(codes, batch_size=144).predict())
    digits = np.pad((1 / (1 + np.exp(-logits))).reshape(12, 12, 8, 8), ((0, 0), (0, 0), (1, 1), (1, 1)))
    path = Path(f"runs/trial/vae_{backend}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    imsave(path, digits.swapaxes(1, 2).reshape(120, 120).repeat(4, 0).repeat(4, 1), cmap="gray_r", vmin=0, vmax=1)

    print(f"training loss     {first['loss']:.2f} in the first epoch, {last['loss']:.2f} in the last")
    print(f"validation loss   {values['val_loss']:.2f}, of which {values[f'val_{KL}']:.2f} are the divergence")
    print(f"digits by code    {path}")
    return {"first": first["loss"], **last, **values}


if __name__ == "__main__":
    main(*sys.argv[1:])
