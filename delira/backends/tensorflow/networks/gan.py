"""A generative adversarial network: two networks with an optimizer and a loss each."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.backend import BACKEND
from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.dcgan import Discriminator, Generator
from delira.contract import NO_HOOKS, select_inputs
from delira.errors import ConfigError

Values = dict[str, tf.Tensor]


class GenerativeAdversarialNetworkBaseTf(AbstractTfNetwork):
    """Images like those of the training data, by DCGAN (Radford et al. 2016).

    The images are (B, n_channels, 64, 64), scaled to [-1, 1]. ``gen`` makes images of noise (B, nz), ``discr`` tells
    real from made by one logit for each image, (B, 1). The outputs are ``"fake_images"``, ``"discr_fake"`` and
    ``"discr_real"``. Losses are called as ``loss(logits, target)`` with ones or zeros as target:
    ``lambda logits, target: tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(target, logits))``, or
    ``keras.losses.MeanSquaredError()`` for a least-squares GAN. The optimizers are called ``"gen"`` and ``"discr"``:
    train with ``optim_fn=create_optims_gan_default_tf``.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of, kept in ``nz``.
    **kwargs
        What else :meth:`_build_models` takes: here ``start_filts`` (64), the channels of the widest level.
    """

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels=n_channels, noise_length=noise_length, **kwargs)
        self.nz = noise_length
        self.gen, self.discr = self._build_models(n_channels, noise_length, **kwargs)
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
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: Mapping[str, Any],
        losses: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[Values, Values, Values]:
        """Update the discriminator, then the generator against it; each with the gradient of its own loss only.

        Without ``optimizers`` nothing is learned, and the names get the prefix ``val_``.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``. A loss or metric ``name`` gives three values: ``<name>_discr_real`` and
            ``<name>_discr_fake``, which the discriminator lowers, and ``<name>_adversarial``, which the generator does.
        """
        if kwargs.get("hooks", NO_HOOKS) not in (None, NO_HOOKS):
            raise ConfigError("the closure of a GAN makes two updates, so it runs no hooks of a step; write a closure")
        inputs = select_inputs(kwargs.get("key_mapping") or BACKEND.key_mapping(model), data_dict)
        real = inputs["real_image_batch"]
        noise = model.draw_noise(real) if inputs.get("noise") is None else inputs["noise"]
        with tf.GradientTape() as of_generator:
            fake = model.gen(noise)
            with of_generator.stop_recording():
                with tf.GradientTape() as of_discriminator:
                    logits = {"discr_real": _logits(model, real), "discr_fake": _logits(model, fake)}
                    values = _judge(losses, "discr_real", logits, 1) | _judge(losses, "discr_fake", logits, 0)
                    scaled = _scaled(optimizers, "discr", values)
                _update(optimizers, "discr", scaled, of_discriminator)
            logits["adversarial"] = _logits(model, fake)
            adversarial = _judge(losses, "adversarial", logits, 1)
            scaled = _scaled(optimizers, "gen", adversarial)
        _update(optimizers, "gen", scaled, of_generator)
        measured: Values = {}
        for part, wanted in (("discr_real", 1), ("discr_fake", 0), ("adversarial", 1)):
            measured |= _judge(metrics, part, logits, wanted, target_first=True)
        prefix = "" if optimizers else "val_"
        return (
            {prefix + name: value for name, value in measured.items()},
            {prefix + name: value for name, value in (values | adversarial).items()},
            {"fake_images": fake, "discr_fake": logits["discr_fake"], "discr_real": logits["discr_real"]},
        )


def _logits(model: Any, images: tf.Tensor) -> tf.Tensor:
    return tf.cast(model.discr(images), tf.float32)  # losses are computed in single precision


def _judge(
    functions: Mapping[str, Callable[..., Any]] | None,
    part: str,
    logits: Values,
    wanted: int,
    target_first: bool = False,
) -> Values:
    """Every loss or metric of the logits of a part against ones or zeros."""
    target = tf.fill(tf.shape(logits[part]), float(wanted))
    arguments = (target, logits[part]) if target_first else (logits[part], target)
    return {f"{name}_{part}": function(*arguments) for name, function in (functions or {}).items()}


def _scaled(optimizers: Mapping[str, Any], name: str, losses: Values) -> tf.Tensor | None:
    """What is differentiated: the sum of the losses; nothing where nothing is learned."""
    if not optimizers or not losses:
        return None
    if name not in optimizers:
        raise ConfigError(
            f"a GAN is trained with the optimizers 'gen' and 'discr', but there are only {sorted(optimizers)}; pass "
            "optim_fn=create_optims_gan_default_tf"
        )
    return optimizers[name].scale_loss(tf.add_n(list(losses.values())))


def _update(optimizers: Mapping[str, Any], name: str, scaled: tf.Tensor | None, tape: tf.GradientTape) -> None:
    """Lower the loss by the weights of one network, unless all of them are frozen."""
    if scaled is not None and optimizers[name].trainable_variables:
        optimizers[name].minimize(scaled, tape)
