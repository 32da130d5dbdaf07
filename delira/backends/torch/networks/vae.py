"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.architectures import Decoder, Encoder
from delira.contract import ByName, needs_losses
from delira.contract.ready_steps import autoencoder_closure, described_by_base
from delira.models import ready


def kl_to_standard_normal(mean: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.float(), log_var.float()  # exp overflows in half precision
    return 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1)


def _divergence(predictions: ByName) -> torch.Tensor:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].numel()
    return kl_to_standard_normal(predictions["mean"], predictions["log_var"]).mean() / n_values


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
