"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.architectures import Decoder, Encoder
from delira.contract import needs_losses
from delira.contract.kinds import ByName
from delira.contract.ready_steps import autoencoder_closure, described_by_base
from delira.models import ready


def kl_to_standard_normal(mean: tf.Tensor, log_var: tf.Tensor) -> tf.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = tf.cast(mean, tf.float32), tf.cast(log_var, tf.float32)  # exp overflows in half precision
    return 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_var) - 1 - log_var, 1)


def _divergence(predictions: ByName) -> tf.Tensor:
    """The mean of a batch, divided by the values of an image."""
    n_values = tf.size(predictions["pred"]) // tf.shape(predictions["pred"])[0]
    divergence = kl_to_standard_normal(predictions["mean"], predictions["log_var"])
    return tf.reduce_mean(divergence) / tf.cast(n_values, tf.float32)


@described_by_base
class VariationalAutoencoderTf(ready.VariationalAutoencoder, AbstractTfNetwork):
    """An autoencoder in TensorFlow, e.g. for the mean of
    ``tf.nn.sigmoid_cross_entropy_with_logits(data, pred)``.

    New images: ``model.decoder(keras.random.normal((n, latent_dim)))``.
    """

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        super().__init__(in_channels, image_size, latent_dim, start_filts)
        self.noise_generator = keras.random.SeedGenerator()

    @staticmethod
    def _build_models(*args: Any) -> tuple[Encoder, Decoder]:
        """Encoder and decoder, of the same arguments."""
        return Encoder(*args), Decoder(*args)

    def call(self, x: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Encode, draw, decode.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, H, W), float32.
        training
            Whether to draw; Keras says.
        """
        mean, log_var = self.encoder(x)
        latent = mean
        if training:
            noise = keras.random.normal(tf.shape(mean), dtype="float32", seed=self.noise_generator)
            deviation = tf.exp(0.5 * tf.cast(log_var, tf.float32))  # which overflows in half precision
            latent = tf.cast(mean, tf.float32) + deviation * noise
        return {"pred": self.decoder(latent), "mean": mean, "log_var": log_var}

    closure = staticmethod(
        needs_losses("{'bce': keras.losses.BinaryCrossentropy(from_logits=True)}")(
            autoencoder_closure(AbstractTfNetwork.closure, _divergence)
        )
    )
