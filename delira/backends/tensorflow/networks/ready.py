"""Ready networks: the architectures as layers of the framework, each behind the interface of the backend."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks import layers
from delira.backends.tensorflow.networks.layers import CONVOLUTIONS, xavier_normal
from delira.backends.tensorflow.step import of_each_call
from delira.contract import ByName, needs_losses
from delira.contract import closure as closures
from delira.models import architectures, ready


class Part(keras.layers.Layer):
    """A layer whose layers have their weights when it is made, so that nothing is left to build at its first call."""

    make = layers

    def __init__(self) -> None:
        super().__init__()
        self.built = True


class ResidualBlock(architectures.ResidualBlock, Part):
    """Two convolutions beside a shortcut."""


class ResNet18(architectures.ResNet18, Part):
    """ResNet-18."""

    block = ResidualBlock


class VGG3D(architectures.VGG3D, Part):
    """VGG-11 for volumes."""


class MultilayerPerceptron(architectures.MultilayerPerceptron, Part):
    """Fully connected layers with ReLU between them."""


class DownConv(architectures.DownConv, Part):
    """A level on the way down."""


class UpConv(architectures.UpConv, Part):
    """A level on the way up."""


class UNet(architectures.UNet, Part):
    """U-Nets for images and volumes."""

    down, up = DownConv, UpConv


class ResidualUnit(architectures.ResidualUnit, Part):
    """A residual unit with normalisation."""


class ResidualDown(architectures.ResidualDown, Part):
    """A level of residual units on the way down."""

    unit = ResidualUnit


class ResidualUp(architectures.ResidualUp, Part):
    """A level of residual units on the way up."""

    unit = ResidualUnit


class ResidualUNet(architectures.ResidualUNet, Part):
    """U-Nets of residual units."""

    down, up = ResidualDown, ResidualUp


class Generator(architectures.Generator, Part):
    """The generator of DCGAN."""


class Discriminator(architectures.Discriminator, Part):
    """The discriminator of DCGAN."""


class Encoder(architectures.Encoder, Part):
    """The encoder of an autoencoder."""


class Decoder(architectures.Decoder, Part):
    """The decoder of an autoencoder."""


LABELS = ready.Labels(
    is_numeric=lambda value: isinstance(value, tf.Tensor) and value.dtype is not tf.string,
    integers=lambda label: tf.cast(label, tf.int64),
    floats=lambda label: tf.cast(label, tf.float32),
)


class _ResNet(AbstractTfNetwork):
    #: makes the layer that maps (B, in_channels, ...) to (B, n_outputs); override it for another one
    _build_model: Callable[..., Any] = ResNet18

    def call(self, input_batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@closures.described_by_base
class ClassificationNetworkBaseTf(ready.Classification, _ResNet):
    """A classifier in TensorFlow, for the mean of
    ``tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred)``.
    """

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.class_numbers))


@closures.described_by_base
class VGG3DClassificationNetworkTf(ready.VGG3DClassification, ClassificationNetworkBaseTf):
    """A classifier of volumes in TensorFlow, for the mean of
    ``tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred)``.
    """

    _build_model: Callable[..., Any] = VGG3D


@closures.described_by_base
class RegressionNetworkBaseTf(ready.Regression, _ResNet):
    """A regressor in TensorFlow, for ``keras.losses.MeanSquaredError()`` and its like."""

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.values))


@closures.described_by_base
class MultilayerPerceptronTf(ready.MultilayerPerceptron, AbstractTfNetwork):
    """A multilayer perceptron in TensorFlow, e.g. for
    ``keras.losses.SparseCategoricalCrossentropy(from_logits=True)``.
    """

    #: makes the layer that maps (B, n_features) to (B, n_outputs); override it for another one
    _build_model: Callable[..., Any] = MultilayerPerceptron

    def call(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        x
            Tensor of shape (B, n_features), float32.
        """
        return {"pred": self.module(x)}


class _SegmentationNetwork(AbstractTfNetwork):
    """What the U-Nets for images and volumes have in common."""

    #: makes the layer that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another
    _build_model: Callable[..., Any] = UNet

    def call(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Logits of a batch.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, *spatial), float32.
        """
        return {"pred": self.module(x)}

    @staticmethod
    def weight_init(m: keras.Layer) -> None:
        """Draw the weights of one convolution (Xavier, normal) and set its biases to 0; others stay as they are."""
        if isinstance(m, CONVOLUTIONS):
            m.kernel.assign(xavier_normal()(m.kernel.shape))
            if m.bias is not None:
                m.bias.assign(tf.zeros(m.bias.shape))

    def reset_params(self) -> None:
        """Draw all weights again."""
        for layer in self._flatten_layers(include_self=False):
            self.weight_init(layer)


@closures.described_by_base
class UNet2dTf(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in TensorFlow."""

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class UNet3dTf(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in TensorFlow."""

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.masks, n_axes=3))


class _ResidualUNet(AbstractTfNetwork):
    """What the U-Nets of residual units have in common."""

    #: makes of a plan the layer that maps images and a number of scales to their logits, the finest first; override it
    _build_model: Callable[..., Any] = ResidualUNet
    n_scales: int

    def call(self, x: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Logits of a batch; in training also those of coarser levels, if they learn.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, *spatial), float32.
        training
            Whether it is training; Keras says.
        """
        return closures.named_scales(self.module(x, n_scales=self.n_scales if training else 1))

    closure = staticmethod(closures.closure_over_scales(AbstractTfNetwork.closure))


@closures.described_by_base
class ResidualUNet2dTf(ready.ResidualUNet2d, _ResidualUNet):
    """A U-Net of today for images in TensorFlow."""

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class ResidualUNet3dTf(ready.ResidualUNet3d, _ResidualUNet):
    """A U-Net of today for volumes in TensorFlow."""

    prepare_batch = staticmethod(closures.labelled(AbstractTfNetwork.prepare_batch, LABELS.masks, n_axes=3))


Values = dict[str, tf.Tensor]


@closures.described_by_base
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
        real, noise = closures.gan_inputs(model, data_dict, kwargs)
        noise = model.draw_noise(real) if noise is None else noise
        with tf.GradientTape() as of_generator:
            fake = model.gen(noise)
            with of_generator.stop_recording():
                with tf.GradientTape() as of_discriminator:
                    logits = {"discr_real": _logits(model, real), "discr_fake": _logits(model, fake)}
                    values = closures.gan_losses(losses, logits, _full_like)
                    scaled = _scaled(optimizers, "discr", values)
                _update(optimizers, "discr", scaled, of_discriminator)
            fooled = {"adversarial": _logits(model, fake)}
            adversarial = closures.gan_losses(losses, fooled, _full_like)
            scaled = _scaled(optimizers, "gen", adversarial)
        _update(optimizers, "gen", scaled, of_generator)
        return closures.gan_results(
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
    optimizer = closures.gan_optimizer(optimizers, name, "create_optims_gan_default_tf")
    return optimizer.scale_loss(tf.add_n(list(losses.values())))


def _update(optimizers: ByName, name: str, scaled: tf.Tensor | None, tape: tf.GradientTape) -> None:
    """Lower the loss by the weights of one network, unless all of them are frozen."""
    if scaled is not None and optimizers[name].trainable_variables:
        optimizers[name].minimize(scaled, tape)


def kl_to_standard_normal(mean: tf.Tensor, log_var: tf.Tensor) -> tf.Tensor:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = tf.cast(mean, tf.float32), tf.cast(log_var, tf.float32)  # exp overflows in half precision
    return 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_var) - 1 - log_var, 1)


def _divergence(predictions: ByName) -> tf.Tensor:
    """The mean of a batch, divided by the values of an image."""
    n_values = tf.size(predictions["pred"]) // tf.shape(predictions["pred"])[0]
    divergence = kl_to_standard_normal(predictions["mean"], predictions["log_var"])
    return tf.reduce_mean(divergence) / tf.cast(n_values, tf.float32)


@closures.described_by_base
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
            closures.autoencoder_closure(AbstractTfNetwork.closure, _divergence)
        )
    )
