"""A GAN: a closure of its own and two optimizers; everything around them stays the same.

The closure runs unchanged in 32 bit, bf16 or fp16, with clipping or accumulation: ``scale_loss`` and ``step`` know.

Run it with ``python examples/gan_with_two_optimizers.py``. It writes everything below ``runs/gan``.
"""

from pathlib import Path

import torch
from matplotlib.image import imsave
from sklearn.datasets import load_digits
from torch.nn import BatchNorm1d, Dropout, LeakyReLU, Linear, ReLU, Sequential, Tanh

from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment, create_optims_gan_default_pytorch


class GAN(AbstractPyTorchNetwork):
    """A generator ``gen`` that draws digits of 8 x 8 pixels, and a discriminator ``discr`` that judges them."""

    def __init__(self, n_noise: int, n_hidden: int):
        super().__init__(n_noise=n_noise, n_hidden=n_hidden)
        self.n_noise = n_noise
        self.gen = Sequential(
            Linear(n_noise, n_hidden), BatchNorm1d(n_hidden), ReLU(),
            Linear(n_hidden, n_hidden), BatchNorm1d(n_hidden), ReLU(), Linear(n_hidden, 64), Tanh(),
        )  # fmt: skip
        self.discr = Sequential(
            Linear(64, n_hidden), LeakyReLU(0.2), Dropout(0.3),
            Linear(n_hidden, n_hidden), LeakyReLU(0.2), Dropout(0.3), Linear(n_hidden, 1),
        )  # fmt: skip

    def forward(self, x):
        """As many new digits as there are rows in ``x``."""
        return {"fake": self.gen(torch.randn(len(x), self.n_noise, device=x.device))}

    @staticmethod
    def closure(model, data_dict, optimizers, losses, **kwargs):
        real, fake, judge = data_dict["data"], model(data_dict["data"])["fake"], losses["adversarial"]
        ones, zeros = torch.ones(len(real), 1, device=real.device), torch.zeros(len(real), 1, device=real.device)

        discr_loss = judge(model.discr(real), 0.9 * ones) + judge(model.discr(fake.detach()), zeros)
        optimizers["discr"].zero_grad()
        with optimizers["discr"].scale_loss(discr_loss) as scaled:
            scaled.backward()
        optimizers["discr"].step()

        gen_loss = judge(model.discr(fake), ones)
        optimizers["gen"].zero_grad()
        with optimizers["gen"].scale_loss(gen_loss) as scaled:
            scaled.backward()
        optimizers["gen"].step()

        return {}, {"discr": discr_loss.detach(), "gen": gen_loss.detach()}, {"fake": fake.detach()}


def save_grid(network: GAN, path: Path, rows: int = 5, columns: int = 16) -> None:
    """Draw digits and save them as a picture, each pixel six times as large."""
    noise = torch.randn(rows * columns, network.n_noise, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        digits = torch.nn.functional.pad(network.gen(noise).reshape(rows, columns, 8, 8), (1, 1, 1, 1), value=-1)
    picture = digits.transpose(1, 2).reshape(rows * 10, columns * 10)
    imsave(path, picture.repeat_interleave(6, 0).repeat_interleave(6, 1).numpy(), cmap="gray_r", vmin=-1, vmax=1)


def main() -> None:
    pixels, _ = load_digits(return_X_y=True)
    data = BaseDataManager({"data": pixels.astype("float32") / 8 - 1}, batch_size=64)
    experiment = PyTorchExperiment(
        {"model": {"n_noise": 32, "n_hidden": 128}}, GAN, n_epochs=80, name="gan", save_path="runs", save_freq=None,
        losses={"adversarial": torch.nn.BCEWithLogitsLoss()}, optim_fn=create_optims_gan_default_pytorch,
        optimizer_cls=torch.optim.Adam, optimizer_params={"lr": 5e-4, "betas": (0.5, 0.999)},
    )  # fmt: skip
    network = experiment.run(data)

    folder = experiment.last_trainer.save_path
    save_grid(network.eval(), folder / "digits.png")
    print(f"losses of the last epoch  {experiment.last_trainer.state.history[-1]}")
    print(f"generated digits          {folder / 'digits.png'}")


if __name__ == "__main__":
    main()
