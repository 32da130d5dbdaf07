"""A generative adversarial network: two networks with an optimizer and a loss each."""

from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.architectures import Discriminator, Generator
from delira.backends.tensorflow.step import of_each_call
from delira.contract import needs_losses
from delira.contract.kinds import ByName
from delira.contract.ready_steps import described_by_base, gan_inputs, gan_losses, gan_optimizer, gan_results
from delira.models import ready

Values = dict[str, tf.Tensor]


@described_by_base
class GenerativeAdversarialNetworkBaseTf(ready.GenerativeAdversarialNetwork, AbstractTfNetwork):
    """A GAN in TensorFlow, e.g. for the mean of
    ``tf.nn.sigmoid_cross_entropy_with_logits(target, logits)``.

    Train with ``optim_fn=create_optims_gan_default_tf``.
    """

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels, noise_length, **kwargs)
        self.noise_generator = keras.random.SeedGenerator()

    @staticmethod
    def _build_models(in_channels: int, noise_length: int, **kwargs: Any) -> tuple[keras.Layer, keras.Layer]:
        """Generator and discriminator; override it for others."""
        return Generator(in_channels, noise_length, **kwargs), Discriminator(in_channels, **kwargs)

    def call(self, real_image_batch: tf.Tensor, noise: tf.Tensor | None = None) -> Values:
        """Make as many images as there are real ones, and judge both.

        Parameters
        ----------
        real_image_batch
            Tensor of shape (B, n_channels, 64, 64), float32.
        noise
            Tensor of shape (B, nz); drawn from the normal distribution if ``None``.
        """
        fake = self.gen(self.draw_noise(real_image_batch) if noise is None else noise)
        return {"fake_images": fake, "discr_fake": self.discr(fake), "discr_real": self.discr(real_image_batch)}

    def draw_noise(self, images: tf.Tensor) -> tf.Tensor:
        """Noise for as many images, of shape (B, nz), from the generator of the network."""
        return keras.random.normal((tf.shape(images)[0], self.nz), dtype="float32", seed=self.noise_generator)

    @staticmethod
    @needs_losses("{'bce': keras.losses.BinaryCrossentropy(from_logits=True)}")
    def closure(
        model: keras.Model,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[Values, Values, Values]:
        """Update the discriminator, then the generator against it; each with the gradient of its own loss only."""
        real, noise = gan_inputs(model, data_dict, kwargs)
        noise = model.draw_noise(real) if noise is None else noise
        with tf.GradientTape() as of_generator:
            fake = model.gen(noise)
            with of_generator.stop_recording():
                with tf.GradientTape() as of_discriminator:
                    logits = {"discr_real": _logits(model, real), "discr_fake": _logits(model, fake)}
                    values = gan_losses(losses, logits, _full_like)
                    scaled = _scaled(optimizers, "discr", values)
                _update(optimizers, "discr", scaled, of_discriminator)
            fooled = {"adversarial": _logits(model, fake)}
            adversarial = gan_losses(losses, fooled, _full_like)
            scaled = _scaled(optimizers, "gen", adversarial)
        _update(optimizers, "gen", scaled, of_generator)
        return gan_results(
            fake, logits | fooled, values | adversarial, of_each_call(metrics), bool(optimizers), _full_like
        )


def _logits(model: keras.Model, images: tf.Tensor) -> tf.Tensor:
    return tf.cast(model.discr(images), tf.float32)  # losses are computed in single precision


def _full_like(logits: tf.Tensor, number: int) -> tf.Tensor:
    return tf.fill(tf.shape(logits), float(number))


def _scaled(optimizers: ByName, name: str, losses: Values) -> tf.Tensor | None:
    """What is differentiated: the sum of the losses; nothing where nothing is learned."""
    if not optimizers or not losses:
        return None
    optimizer = gan_optimizer(optimizers, name, "create_optims_gan_default_tf")
    return optimizer.scale_loss(tf.add_n(list(losses.values())))


def _update(optimizers: ByName, name: str, scaled: tf.Tensor | None, tape: tf.GradientTape) -> None:
    """Lower the loss by the weights of one network, unless all of them are frozen."""
    if scaled is not None and optimizers[name].trainable_variables:
        optimizers[name].minimize(scaled, tape)
