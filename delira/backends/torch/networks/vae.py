"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.images import check_images
from delira.contract import needs_losses
from delira.contract.kinds import ByName
from delira.contract.ready_steps import autoencoder_closure
from delira.errors import DataError
from delira.models import ready
from delira.utils.docstrings import described_by_base


def kl_to_standard_normal(mean: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.float(), log_var.float()  # exp overflows in half precision
    return 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1)


def _divergence(predictions: ByName) -> torch.Tensor:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].numel()
    return kl_to_standard_normal(predictions["mean"], predictions["log_var"]).mean() / n_values


class Encoder(nn.Module):
    """Mean and logarithm of the variance of the latent variables of an image.

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        A quarter of their height and of their width.
    latent_dim
        Number of latent variables.
    start_filts
        Channels of the first convolution.
    """

    def __init__(self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, start_filts, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(start_filts, 2 * start_filts, 4, stride=2, padding=1)
        self.height, self.width = 4 * size[0], 4 * size[1]
        n_features = 2 * start_filts * size[0] * size[1]
        self.mean = nn.Linear(n_features, latent_dim)
        self.log_var = nn.Linear(n_features, latent_dim)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map images of shape (B, in_channels, H, W) to two tensors of shape (B, latent_dim)."""
        check_images(images, self.conv1.in_channels, 2)
        if images.size(2) != self.height or images.size(3) != self.width:
            raise DataError(
                f"the images have {images.size(2)} x {images.size(3)} pixels, but the network takes {self.height} x "
                f"{self.width}"
            )
        hidden = functional.relu(self.conv2(functional.relu(self.conv1(images)))).flatten(1)
        return self.mean(hidden), self.log_var(hidden)


class Decoder(nn.Module):
    """Images out of latent variables.

    Parameters
    ----------
    in_channels, size, latent_dim, start_filts
        As in :class:`Encoder`.
    """

    def __init__(self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int) -> None:
        super().__init__()
        self.height, self.width = size
        self.fc = nn.Linear(latent_dim, 2 * start_filts * size[0] * size[1])
        self.conv1 = nn.ConvTranspose2d(2 * start_filts, start_filts, 4, stride=2, padding=1)
        self.conv2 = nn.ConvTranspose2d(start_filts, in_channels, 4, stride=2, padding=1)

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        """Map latent variables of shape (B, latent_dim) to (B, in_channels, H, W)."""
        hidden = functional.relu(self.fc(latent)).reshape(latent.size(0), -1, self.height, self.width)
        return self.conv2(functional.relu(self.conv1(hidden)))


@described_by_base
class VariationalAutoencoderPyTorch(ready.VariationalAutoencoder, AbstractPyTorchNetwork):
    """An autoencoder in PyTorch, e.g. for ``torch.nn.BCEWithLogitsLoss``.

    New images: ``model.decoder(torch.randn(n, latent_dim))``.
    """

    @staticmethod
    def _build_models(*args: Any) -> tuple[Encoder, Decoder]:
        """Encoder and decoder, of the same arguments."""
        return Encoder(*args), Decoder(*args)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Encode, draw, decode.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, H, W), float32.
        """
        mean, log_var = self.encoder(x)
        latent = mean
        if self.training:
            latent = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        return {"pred": self.decoder(latent), "mean": mean, "log_var": log_var}

    closure = staticmethod(
        needs_losses("{'bce': torch.nn.BCEWithLogitsLoss()}")(
            autoencoder_closure(AbstractPyTorchNetwork.closure, _divergence)
        )
    )
