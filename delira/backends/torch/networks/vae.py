"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.contract import NO_HOOKS, Step
from delira.errors import ConfigError


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
        n_features = 2 * start_filts * size[0] * size[1]
        self.mean = nn.Linear(n_features, latent_dim)
        self.log_var = nn.Linear(n_features, latent_dim)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map images of shape (B, in_channels, H, W) to two tensors of shape (B, latent_dim)."""
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


class VariationalAutoencoderPyTorch(AbstractPyTorchNetwork):
    """Images as a few normally distributed latent variables, and back.

    It takes images (B, in_channels, H, W) and returns ``{"pred", "mean", "log_var"}``: the reconstruction, and mean and
    logarithm of the variance of the latent variables, both (B, latent_dim). In training the latent variables are drawn;
    in evaluation they are the mean. New images: ``model.decoder(torch.randn(n, latent_dim))``.

    Losses compare ``"pred"`` with ``"data"`` and are means over all values: ``torch.nn.BCEWithLogitsLoss`` for images
    in [0, 1] (``"pred"`` are logits then), ``torch.nn.MSELoss`` for others. The loss ``"kl"`` is added; with
    ``BCEWithLogitsLoss`` the sum of both is the negative evidence lower bound, divided by the values of an image.

    Parameters
    ----------
    in_channels
        Channels of the images.
    image_size
        Height and width in pixels, or one number for both; multiples of 4.
    latent_dim
        Number of latent variables.
    start_filts
        Channels of the first convolution; the second has twice as many.

    Raises
    ------
    ConfigError
        If the size is no multiple of 4.
    """

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        super().__init__(in_channels=in_channels, image_size=image_size, latent_dim=latent_dim, start_filts=start_filts)
        size = _quarter(image_size)
        self.encoder = Encoder(in_channels, size, latent_dim, start_filts)
        self.decoder = Decoder(in_channels, size, latent_dim, start_filts)

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

    @staticmethod
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: Mapping[str, Any],
        losses: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The default closure with one more loss, ``"kl"``; ``loss_keys`` and ``metric_keys`` default to the images.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of detached tensors.
        """
        mapping = kwargs.get("key_mapping") or model.__delira_backend__.key_mapping(model)
        images = next(iter(mapping.values()))
        hooks = kwargs.get("hooks") or NO_HOOKS
        kwargs |= {
            "hooks": dataclasses.replace(hooks, criterion=(_add_kl, *hooks.criterion)),
            "loss_keys": dict.fromkeys(losses or {}, ("pred", images)) | dict(kwargs.get("loss_keys") or {}),
            "metric_keys": dict.fromkeys(metrics or {}, (images, "pred")) | dict(kwargs.get("metric_keys") or {}),
        }
        return AbstractPyTorchNetwork.closure(model, data_dict, optimizers, losses, metrics, fold, **kwargs)


def kl_to_standard_normal(mean: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.float(), log_var.float()  # exp overflows in half precision
    return 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1)


def _add_kl(step: Step) -> None:
    n_values = step.predictions["pred"][0].numel()
    divergence = kl_to_standard_normal(step.predictions["mean"], step.predictions["log_var"])
    step.losses["kl"] = divergence.mean() / n_values


_add_kl.traceable = True  # type: ignore[attr-defined]


def _quarter(image_size: int | tuple[int, int]) -> tuple[int, int]:
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(size) != 2 or any(length < 4 or length % 4 for length in size):
        raise ConfigError(f"image_size must be a multiple of 4, or two of them (height, width), got {image_size!r}")
    return size[0] // 4, size[1] // 4
