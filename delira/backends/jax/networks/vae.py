"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

from typing import Any

import jax
import jax.numpy as jnp

from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.architectures import Decoder, Encoder
from delira.backends.jax.networks.classification import ReadyJaxNetwork
from delira.contract import needs_losses
from delira.contract.kinds import ByName
from delira.contract.ready_steps import autoencoder_closure, described_by_base
from delira.models import ready


def kl_to_standard_normal(mean: jax.Array, log_var: jax.Array) -> jax.Array:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.astype(jnp.float32), log_var.astype(jnp.float32)  # exp overflows in half precision
    return 0.5 * jnp.sum(jnp.square(mean) + jnp.exp(log_var) - 1 - log_var, 1)


def _divergence(predictions: ByName) -> jax.Array:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].size
    return jnp.mean(kl_to_standard_normal(predictions["mean"], predictions["log_var"])) / n_values


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
