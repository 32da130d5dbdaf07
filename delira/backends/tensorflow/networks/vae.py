"""A variational autoencoder (Kingma & Welling 2014, "Auto-Encoding Variational Bayes") with convolutions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.backend import BACKEND
from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.layers import (
    Part,
    channels_first,
    channels_last,
    convolution,
    linear,
    padded,
    transposed_convolution,
)
from delira.contract import NO_HOOKS, Step
from delira.errors import ConfigError, DataError


class Encoder(Part):
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
        self.conv1 = convolution((in_channels, start_filts), 4, stride=2)
        self.conv2 = convolution((start_filts, 2 * start_filts), 4, stride=2)
        self.image_size = (4 * size[0], 4 * size[1])
        self.n_features = 2 * start_filts * size[0] * size[1]
        self.mean = linear(self.n_features, latent_dim)
        self.log_var = linear(self.n_features, latent_dim)

    def call(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Map images of shape (B, in_channels, H, W) to two tensors of shape (B, latent_dim)."""
        if not images.shape[2:].is_compatible_with(self.image_size):
            raise DataError(f"the images are {tuple(images.shape[2:])}, but the network takes {self.image_size}")
        hidden = tf.nn.relu(self.conv1(padded(channels_last(images), 1)))
        hidden = tf.nn.relu(self.conv2(padded(hidden, 1)))
        hidden = tf.reshape(channels_first(hidden), [-1, self.n_features])
        return self.mean(hidden), self.log_var(hidden)


class Decoder(Part):
    """Images out of latent variables.

    Parameters
    ----------
    in_channels, size, latent_dim, start_filts
        As in :class:`Encoder`.
    """

    def __init__(self, in_channels: int, size: tuple[int, int], latent_dim: int, start_filts: int) -> None:
        super().__init__()
        self.hidden_shape = (2 * start_filts, *size)
        self.fc = linear(latent_dim, 2 * start_filts * size[0] * size[1])
        self.conv1 = transposed_convolution((2 * start_filts, start_filts), 4, stride=2)
        self.conv2 = transposed_convolution((start_filts, in_channels), 4, stride=2)

    def call(self, latent: tf.Tensor) -> tf.Tensor:
        """Map latent variables of shape (B, latent_dim) to (B, in_channels, H, W)."""
        hidden = channels_last(tf.reshape(tf.nn.relu(self.fc(latent)), [-1, *self.hidden_shape]))
        return channels_first(self.conv2(tf.nn.relu(self.conv1(hidden))))


class VariationalAutoencoderTf(AbstractTfNetwork):
    """Images as a few normally distributed latent variables, and back.

    It takes images (B, in_channels, H, W) and returns ``{"pred", "mean", "log_var"}``: the reconstruction, and mean and
    logarithm of the variance of the latent variables, both (B, latent_dim). In training the latent variables are drawn;
    in evaluation they are the mean. New images: ``model.decoder(keras.random.normal((n, latent_dim)))``.

    Losses compare ``"pred"`` with ``"data"`` and are means over all values: of
    ``tf.nn.sigmoid_cross_entropy_with_logits(data, pred)`` for images in [0, 1] (``"pred"`` are logits then), or of the
    squared difference for others. The loss ``"kl"`` is added; with the former the sum of both is the negative evidence
    lower bound, divided by the values of an image.

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
        self.noise_generator = keras.random.SeedGenerator()

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
            ``(metrics, losses, predictions)``: dicts of tensors.
        """
        mapping = kwargs.get("key_mapping") or BACKEND.key_mapping(model)
        images = next(iter(mapping.values()))
        hooks = kwargs.get("hooks") or NO_HOOKS
        kwargs |= {
            "hooks": dataclasses.replace(hooks, criterion=(_add_kl, *hooks.criterion)),
            "loss_keys": dict.fromkeys(losses or {}, ("pred", images)) | dict(kwargs.get("loss_keys") or {}),
            "metric_keys": dict.fromkeys(metrics or {}, (images, "pred")) | dict(kwargs.get("metric_keys") or {}),
        }
        return AbstractTfNetwork.closure(model, data_dict, optimizers, losses, metrics, fold, **kwargs)


def kl_to_standard_normal(mean: tf.Tensor, log_var: tf.Tensor) -> tf.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = tf.cast(mean, tf.float32), tf.cast(log_var, tf.float32)  # exp overflows in half precision
    return 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_var) - 1 - log_var, 1)


def _add_kl(step: Step) -> None:
    reconstruction = step.predictions["pred"]
    n_values = tf.size(reconstruction) // tf.shape(reconstruction)[0]
    divergence = kl_to_standard_normal(step.predictions["mean"], step.predictions["log_var"])
    step.losses["kl"] = tf.reduce_mean(divergence) / tf.cast(n_values, tf.float32)


_add_kl.traceable = True  # type: ignore[attr-defined]


def _quarter(image_size: int | tuple[int, int]) -> tuple[int, int]:
    size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(size) != 2 or any(length < 4 or length % 4 for length in size):
        raise ConfigError(f"image_size must be a multiple of 4, or two of them (height, width), got {image_size!r}")
    return size[0] // 4, size[1] // 4
