"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.classification import ReadyJaxNetwork
from delira.backends.jax.networks.layers import (
    channels_first,
    channels_last,
    convolution,
    linear,
    transposed_convolution,
)
from delira.contract import needs_losses
from delira.contract.ready_steps import autoencoder_closure
from delira.errors import DataError
from delira.models import ready
from delira.utils.docstrings import described_by_base


def kl_to_standard_normal(mean: jax.Array, log_var: jax.Array) -> jax.Array:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.astype(jnp.float32), log_var.astype(jnp.float32)  # exp overflows in half precision
    return 0.5 * jnp.sum(jnp.square(mean) + jnp.exp(log_var) - 1 - log_var, 1)


def _divergence(predictions: Mapping[str, Any]) -> jax.Array:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].size
    return jnp.mean(kl_to_standard_normal(predictions["mean"], predictions["log_var"])) / n_values


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
        last = channels_last(images, self.conv1)
        if images.shape[2:] != self.image_size:
            raise DataError(f"the images are {images.shape[2:]}, but the network takes {self.image_size}")
        hidden = nnx.relu(self.conv2(nnx.relu(self.conv1(last))))
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


@described_by_base
class VariationalAutoencoderJax(ready.VariationalAutoencoder, ReadyJaxNetwork):
    """An autoencoder in JAX, e.g. for the mean of
    ``optax.sigmoid_binary_cross_entropy(pred, data)``.

    New images: ``model.decoder(jax.random.normal(key, (n, latent_dim)))``.
    """

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        super().__init__(in_channels, image_size, latent_dim, start_filts)
        self.deterministic = False  # flax' name of evaluation

    @staticmethod
    def _build_models(*args: Any, **kwargs: Any) -> tuple[Encoder, Decoder]:
        """Encoder and decoder, of the same arguments."""
        return Encoder(*args, **kwargs), Decoder(*args, **kwargs)

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

    closure = staticmethod(
        needs_losses("{'bce': lambda pred, target: optax.sigmoid_binary_cross_entropy(pred, target).mean()}")(
            autoencoder_closure(AbstractJaxNetwork.closure, _divergence)
        )
    )
