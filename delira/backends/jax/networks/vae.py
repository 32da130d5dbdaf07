"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.backend import BACKEND
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.layers import (
    channels_first,
    channels_last,
    convolution,
    linear,
    transposed_convolution,
)
from delira.contract import NO_HOOKS, Step
from delira.errors import ConfigError, DataError


class Encoder(nnx.Module):
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
    rngs
        What the weights are drawn from.
    """

    def __init__(
        self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int, rngs: nnx.Rngs
    ) -> None:
        self.conv1 = convolution((in_channels, start_filts), (4, 4), stride=2, padding=1, rngs=rngs)
        self.conv2 = convolution((start_filts, 2 * start_filts), (4, 4), stride=2, padding=1, rngs=rngs)
        self.image_size = (4 * size[0], 4 * size[1])
        n_features = 2 * start_filts * size[0] * size[1]
        self.mean = linear(n_features, latent_dim, rngs)
        self.log_var = linear(n_features, latent_dim, rngs)

    def __call__(self, images: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Map images of shape (B, in_channels, H, W) to two arrays of shape (B, latent_dim)."""
        if images.shape[2:] != self.image_size:
            raise DataError(f"the images are {images.shape[2:]}, but the network takes {self.image_size}")
        hidden = nnx.relu(self.conv2(nnx.relu(self.conv1(channels_last(images)))))
        hidden = jnp.reshape(channels_first(hidden), (len(images), -1))
        return self.mean(hidden), self.log_var(hidden)


class Decoder(nnx.Module):
    """Images out of latent variables.

    Parameters
    ----------
    in_channels, size, latent_dim, start_filts, rngs
        As in :class:`Encoder`.
    """

    def __init__(
        self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int, rngs: nnx.Rngs
    ) -> None:
        self.hidden_shape = (2 * start_filts, *size)
        self.fc = linear(latent_dim, 2 * start_filts * size[0] * size[1], rngs)
        self.conv1 = transposed_convolution((2 * start_filts, start_filts), (4, 4), stride=2, padding=1, rngs=rngs)
        self.conv2 = transposed_convolution((start_filts, in_channels), (4, 4), stride=2, padding=1, rngs=rngs)

    def __call__(self, latent: jax.Array) -> jax.Array:
        """Map latent variables of shape (B, latent_dim) to (B, in_channels, H, W)."""
        hidden = channels_last(jnp.reshape(nnx.relu(self.fc(latent)), (len(latent), *self.hidden_shape)))
        return channels_first(self.conv2(nnx.relu(self.conv1(hidden))))


class VariationalAutoencoderJax(AbstractJaxNetwork):
    """Images as a few normally distributed latent variables, and back.

    It takes images (B, in_channels, H, W) and returns ``{"pred", "mean", "log_var"}``: the reconstruction, and mean and
    logarithm of the variance of the latent variables, both (B, latent_dim). In training the latent variables are drawn;
    in evaluation they are the mean. New images: ``model.decoder(jax.random.normal(key, (n, latent_dim)))``.

    Losses compare ``"pred"`` with ``"data"`` and are means over all values: of
    ``optax.sigmoid_binary_cross_entropy(pred, data)`` for images in [0, 1] (``"pred"`` are logits then), or of
    ``optax.squared_error`` for others. The loss ``"kl"`` is added; with the former the sum of both is the negative
    evidence lower bound, divided by the values of an image.

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
        self.encoder = Encoder(in_channels, size, latent_dim, start_filts, self.rngs)
        self.decoder = Decoder(in_channels, size, latent_dim, start_filts, self.rngs)
        self.deterministic = False  # flax' name of evaluation

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        """Encode, draw, decode.

        Parameters
        ----------
        x
            Array of shape (B, in_channels, H, W), float32.
        """
        mean, log_var = self.encoder(x)
        latent = mean
        if not self.deterministic:
            deviation = jnp.exp(0.5 * log_var.astype(jnp.float32))  # which overflows in half precision
            latent = mean.astype(jnp.float32) + deviation * jax.random.normal(self.rngs.noise(), mean.shape)
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
            ``(metrics, losses, predictions)``: dicts of arrays.
        """
        mapping = kwargs.get("key_mapping") or BACKEND.key_mapping(model)
        images = next(iter(mapping.values()))
        hooks = kwargs.get("hooks") or NO_HOOKS
        kwargs |= {
            "hooks": dataclasses.replace(hooks, criterion=(_add_kl, *hooks.criterion)),
            "loss_keys": dict.fromkeys(losses or {}, ("pred", images)) | dict(kwargs.get("loss_keys") or {}),
            "metric_keys": dict.fromkeys(metrics or {}, (images, "pred")) | dict(kwargs.get("metric_keys") or {}),
        }
        return AbstractJaxNetwork.closure(model, data_dict, optimizers, losses, metrics, fold, **kwargs)


def kl_to_standard_normal(mean: jax.Array, log_var: jax.Array) -> jax.Array:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.astype(jnp.float32), log_var.astype(jnp.float32)  # exp overflows in half precision
    return 0.5 * jnp.sum(jnp.square(mean) + jnp.exp(log_var) - 1 - log_var, 1)


def _add_kl(step: Step) -> None:
    n_values = step.predictions["pred"][0].size
    divergence = kl_to_standard_normal(step.predictions["mean"], step.predictions["log_var"])
    step.losses["kl"] = jnp.mean(divergence) / n_values


_add_kl.traceable = True  # type: ignore[attr-defined]


def _quarter(image_size: int | tuple[int, int]) -> tuple[int, int]:
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(size) != 2 or any(length < 4 or length % 4 for length in size):
        raise ConfigError(f"image_size must be a multiple of 4, or two of them (height, width), got {image_size!r}")
    return size[0] // 4, size[1] // 4
