"""A GAN as one model: its forward pass leaves everything in the state, a callback adds both losses.

One optimizer learns, yet each network gets the gradient of its own loss and of no other: the generator's loss goes
*through* the discriminator with its weights held fixed, the discriminator's sees the generated digits without their
history.

Run it with ``python examples/trial/gan_one_model.py``. It writes ``runs/trial/gan_one_model.png``.
"""

from pathlib import Path

import torch
from matplotlib.image import imsave
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from torch.func import functional_call
from torch.nn import BatchNorm1d, Dropout, LeakyReLU, Linear, ReLU, Sequential, Tanh
from torch.nn.functional import softplus

import delira
from delira.state import MODEL, state_key
from delira.training.callbacks import add_to_loss

FAKE, FOOLING, ON_FAKE, ON_REAL = map(state_key, ("fake", "fooling", "on_fake", "on_real"))
G_LOSS, D_LOSS = state_key("g_loss"), state_key("d_loss")


class GAN(torch.nn.Module):
    def __init__(self, n_noise: int = 32, n_hidden: int = 128):
        super().__init__()
        self.n_noise = n_noise
        self.generator = Sequential(
            Linear(n_noise, n_hidden), BatchNorm1d(n_hidden), ReLU(),
            Linear(n_hidden, n_hidden), BatchNorm1d(n_hidden), ReLU(), Linear(n_hidden, 64), Tanh(),
        )  # fmt: skip
        self.discriminator = Sequential(
            Linear(64, n_hidden), LeakyReLU(0.2), Dropout(0.3),
            Linear(n_hidden, n_hidden), LeakyReLU(0.2), Dropout(0.3), Linear(n_hidden, 1),
        )  # fmt: skip

    def forward(self, real, state):  # a parameter named "state" gets it; nothing is returned
        state[FAKE] = self.generator(torch.randn(len(real), self.n_noise))
        fixed = {name: weight.detach() for name, weight in self.discriminator.named_parameters()}
        state[FOOLING] = functional_call(self.discriminator, fixed, state[FAKE])
        state[ON_FAKE] = self.discriminator(state[FAKE].detach())
        state[ON_REAL] = self.discriminator(real)


@add_to_loss
def both_losses(state):
    state[G_LOSS] = softplus(-state[FOOLING]).mean()
    state[D_LOSS] = softplus(state[ON_FAKE]).mean() + softplus(-state[ON_REAL]).mean()
    return state[G_LOSS] + state[D_LOSS]


def make_trial() -> delira.Trial:
    torch.manual_seed(0)
    gan = GAN()
    optimizer = torch.optim.Adam(gan.parameters(), lr=5e-4, betas=(0.5, 0.999))
    # no criterion: the loss is 0, and what callbacks add to it
    return delira.Trial(gan, optimizer, None, ["loss", G_LOSS, D_LOSS], [both_losses], verbose=0)


def draw(gan: GAN, n_digits: int = 80) -> torch.Tensor:
    noise = torch.randn(n_digits, gan.n_noise, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return gan.eval().generator(noise)


def main() -> dict[str, float]:
    pixels, labels = load_digits(return_X_y=True)
    real = pixels.astype("float32") / 8 - 1
    neighbours = KNeighborsClassifier(1).fit(real, labels)
    trial = make_trial()
    gan = trial.state[MODEL]

    before = neighbours.kneighbors(draw(gan))[0].mean()
    history = trial.with_train_data(real, None, batch_size=64).run(60)
    digits = draw(gan)
    after = neighbours.kneighbors(digits)[0].mean()
    n_kinds = len(set(neighbours.predict(digits)))

    path = Path("runs/trial/gan_one_model.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = torch.nn.functional.pad(digits.reshape(5, 16, 8, 8), (1, 1, 1, 1), value=-1).transpose(1, 2)
    imsave(path, rows.reshape(50, 160).repeat_interleave(4, 0).repeat_interleave(4, 1).numpy(), cmap="gray_r")
    print(f"losses in the last epoch        G {history[-1][G_LOSS]:.3f}, D {history[-1][D_LOSS]:.3f}")
    print(f"distance to the nearest digit   {before:.2f} before, {after:.2f} after")
    print(f"kinds of digits                 {n_kinds} of 10  {path}")
    return {**history[-1], "before": before, "after": after, "n_kinds": n_kinds}


if __name__ == "__main__":
    main()
