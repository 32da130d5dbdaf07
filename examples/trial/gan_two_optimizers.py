"""A GAN with two optimizers: first the discriminator learns, then the generator, each from its own loss.

A closure is a forward pass, a criterion and its gradients; it is told under which keys of the state it finds its parts.

Run it with ``python examples/trial/gan_two_optimizers.py``. It writes ``runs/trial/gan_two_optimizers.png``.
"""

from pathlib import Path

import torch
from matplotlib.image import imsave
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch.nn import BatchNorm1d, Dropout, LeakyReLU, Linear, ReLU, Sequential, Tanh
from torch.nn.functional import softplus

import delira
from delira.state import MODEL, Y_PRED, X, state_key
from delira.training.callbacks import on_sample
from delira.training.trial import base_closure, combined_closure

GENERATOR, FOOL, G_LOSS = map(state_key, ("generator", "fool", "g_loss"))
DISCRIMINATOR, TELL_APART, D_LOSS = map(state_key, ("discriminator", "tell_apart", "d_loss"))
NOISE = state_key("noise")
N_NOISE = 32


class GAN(torch.nn.Module):
    def __init__(self, n_hidden: int = 128):
        super().__init__()
        self.generator = Sequential(
            Linear(N_NOISE, n_hidden), BatchNorm1d(n_hidden), ReLU(),
            Linear(n_hidden, n_hidden), BatchNorm1d(n_hidden), ReLU(), Linear(n_hidden, 64), Tanh(),
        )  # fmt: skip
        self.discriminator = Sequential(
            Linear(64, n_hidden), LeakyReLU(0.2), Dropout(0.3),
            Linear(n_hidden, n_hidden), LeakyReLU(0.2), Dropout(0.3), Linear(n_hidden, 1),
        )  # fmt: skip

    def forward(self, noise):  # what predict() calls
        return self.generator(noise)


@on_sample
def draw_noise(state):
    state[NOISE] = torch.randn(len(state[X]), N_NOISE)


def tell_apart(state):  # Y_PRED is what the discriminator says of real digits
    fake = state[MODEL].generator(state[NOISE]).detach()
    return softplus(state[MODEL].discriminator(fake)).mean() + softplus(-state[Y_PRED]).mean()


def fool(state):  # Y_PRED is what the generator has drawn
    return softplus(-state[MODEL].discriminator(state[Y_PRED])).mean()


def make_trial() -> delira.Trial:
    torch.manual_seed(0)
    gan = GAN()
    optimizers = {
        name: torch.optim.Adam(network.parameters(), lr=5e-4, betas=(0.5, 0.999))
        for name, network in gan.named_children()
    }
    trial = delira.Trial(gan, optimizers, None, ["loss", G_LOSS, D_LOSS], [draw_noise], verbose=0)
    trial.state.update({DISCRIMINATOR: gan.discriminator, GENERATOR: gan.generator, TELL_APART: tell_apart, FOOL: fool})
    return trial.with_closure(
        combined_closure(
            base_closure(X, DISCRIMINATOR, criterion=TELL_APART, loss=D_LOSS, optimizer="discriminator"),
            base_closure(NOISE, GENERATOR, criterion=FOOL, loss=G_LOSS, optimizer="generator"),
        )
    )


def main() -> dict[str, float]:
    pixels, labels = load_digits(return_X_y=True)
    real = pixels.astype("float32") / 8 - 1
    noise = torch.randn(80, N_NOISE, generator=torch.Generator().manual_seed(1))
    neighbours = KNeighborsClassifier(1).fit(real, labels)

    trial = make_trial().with_train_data(real, None, batch_size=64).with_test_data(noise, batch_size=80)
    before = neighbours.kneighbors(trial.predict())[0].mean()
    history = trial.run(60)
    digits = trial.predict()
    after = neighbours.kneighbors(digits)[0].mean()
    n_kinds = len(set(neighbours.predict(digits)))

    path = Path("runs/trial/gan_two_optimizers.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = torch.nn.functional.pad(digits.reshape(5, 16, 8, 8), (1, 1, 1, 1), value=-1).transpose(1, 2)
    imsave(path, rows.reshape(50, 160).repeat_interleave(4, 0).repeat_interleave(4, 1).numpy(), cmap="gray_r")
    print(f"losses in the last epoch        G {history[-1][G_LOSS]:.3f}, D {history[-1][D_LOSS]:.3f}")
    print(f"distance to the nearest digit   {before:.2f} before, {after:.2f} after")
    print(f"kinds of digits                 {n_kinds} of 10  {path}")
    return {**history[-1], "before": before, "after": after, "n_kinds": n_kinds}


if __name__ == "__main__":
    main()
