"""Ready networks: the architectures as layers of the framework, each behind the interface of the backend."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.generators import GENERATOR
from delira.backends.jax.graph import is_learned
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks import layers
from delira.backends.jax.networks.layers import xavier_normal
from delira.contract import ByName, needs_losses
from delira.contract import closure as closures
from delira.models import architectures, ready


class Part(nnx.Module):
    """A module that computes what its method ``call`` says."""

    make = layers
    call: Callable[..., Any]

    def __call__(self, *inputs: jax.Array) -> Any:
        """Call it."""
        return self.call(*inputs)


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
    is_numeric=lambda value: isinstance(value, jax.Array),
    integers=lambda label: label.astype(jnp.int32),
    floats=lambda label: label.astype(jnp.float32),
)


class ReadyJaxNetwork(AbstractJaxNetwork):
    """What all ready networks of the backend share."""

    @property
    def drawn_from(self) -> ByName:
        """What layers draw their weights from."""
        return {"rngs": self.rngs}


class _ResNet(ReadyJaxNetwork):
    #: makes the module that maps (B, in_channels, ...) to (B, n_outputs), its weights drawn from the argument ``rngs``;
    #: override it for another one
    _build_model: Callable[..., Any] = ResNet18

    def __call__(self, input_batch: jax.Array) -> dict[str, jax.Array]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Array of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@closures.described_by_base
class ClassificationNetworkBaseJax(ready.Classification, _ResNet):
    """A classifier in JAX, for the mean of
    ``optax.softmax_cross_entropy_with_integer_labels(pred, label)``.
    """

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.class_numbers))


@closures.described_by_base
class VGG3DClassificationNetworkJax(ready.VGG3DClassification, ClassificationNetworkBaseJax):
    """A classifier of volumes in JAX, for the mean of
    ``optax.softmax_cross_entropy_with_integer_labels(pred, label)``.
    """

    _build_model: Callable[..., Any] = VGG3D


@closures.described_by_base
class RegressionNetworkBaseJax(ready.Regression, _ResNet):
    """A regressor in JAX, for the mean of ``optax.squared_error(pred, label)`` and its like."""

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.values))


@closures.described_by_base
class MultilayerPerceptronJax(ready.MultilayerPerceptron, ReadyJaxNetwork):
    """A multilayer perceptron in JAX, e.g. for the mean of
    ``optax.softmax_cross_entropy_with_integer_labels(pred, label)``.
    """

    #: makes the module that maps (B, n_features) to (B, n_outputs), its weights drawn from the argument ``rngs``;
    #: override it for another one
    _build_model: Callable[..., Any] = MultilayerPerceptron

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        """Logits or values of a batch.

        Parameters
        ----------
        x
            Array of shape (B, n_features), float32.
        """
        return {"pred": self.module(x)}


class _SegmentationNetwork(ReadyJaxNetwork):
    """What the U-Nets for images and volumes have in common."""

    #: makes the module that maps (B, in_channels, *spatial) to (B, num_classes, *spatial), its weights drawn from the
    #: argument ``rngs``; override it for another
    _build_model: Callable[..., Any] = UNet

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        """Logits of a batch.

        Parameters
        ----------
        x
            Array of shape (B, in_channels, *spatial), float32.
        """
        return {"pred": self.module(x)}

    @staticmethod
    def weight_init(m: nnx.Module) -> None:
        """Draw the weights of one convolution (Xavier, normal) and set its biases to 0; others stay as they are."""
        if isinstance(m, (nnx.Conv, nnx.ConvTranspose)):
            m.kernel[...] = xavier_normal(GENERATOR.next_key(), m.kernel.shape, m.kernel.dtype)
            if m.bias is not None:
                m.bias[...] = jnp.zeros_like(m.bias[...])

    def reset_params(self) -> None:
        """Draw all weights again."""
        for _, module in nnx.iter_modules(self):
            self.weight_init(module)


@closures.described_by_base
class UNet2dJax(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in JAX."""

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class UNet3dJax(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in JAX."""

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.masks, n_axes=3))


class _ResidualUNet(ReadyJaxNetwork):
    """What the U-Nets of residual units have in common."""

    #: makes of a plan the module that maps images and a number of scales to their logits, the finest first, its weights
    #: drawn from the argument ``rngs``; override it
    _build_model: Callable[..., Any] = ResidualUNet
    n_scales: int
    #: flax' name of evaluation
    deterministic = False

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        """Logits of a batch; in training also those of coarser levels, if they learn.

        Parameters
        ----------
        x
            Array of shape (B, in_channels, *spatial), float32.
        """
        return closures.named_scales(self.module(x, 1 if self.deterministic else self.n_scales))

    closure = staticmethod(closures.closure_over_scales(AbstractJaxNetwork.closure))


@closures.described_by_base
class ResidualUNet2dJax(ready.ResidualUNet2d, _ResidualUNet):
    """A U-Net of today for images in JAX."""

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.masks, n_axes=2))


@closures.described_by_base
class ResidualUNet3dJax(ready.ResidualUNet3d, _ResidualUNet):
    """A U-Net of today for volumes in JAX."""

    prepare_batch = staticmethod(closures.labelled(AbstractJaxNetwork.prepare_batch, LABELS.masks, n_axes=3))


_BUILDER = "create_optims_gan_default_jax"
Values = dict[str, jax.Array]


@closures.described_by_base
class GenerativeAdversarialNetworkBaseJax(ready.GenerativeAdversarialNetwork, ReadyJaxNetwork):
    """A GAN in JAX, e.g. for the mean of ``optax.sigmoid_binary_cross_entropy``.

    Train with ``optim_fn=create_optims_gan_default_jax``.
    """

    @staticmethod
    def _build_models(in_channels: int, noise_length: int, **kwargs: Any) -> tuple[nnx.Module, nnx.Module]:
        """Generator and discriminator, their weights drawn from ``rngs``; override it for others."""
        return Generator(in_channels, noise_length, **kwargs), Discriminator(in_channels, **kwargs)

    def __call__(self, real_image_batch: jax.Array, noise: jax.Array | None = None) -> Values:
        """Make as many images as there are real ones, and judge both.

        Parameters
        ----------
        real_image_batch
            Array of shape (B, n_channels, 64, 64), float32.
        noise
            Array of shape (B, nz); drawn from the normal distribution if ``None``.
        """
        fake = self.gen(self.draw_noise(real_image_batch) if noise is None else noise)
        return {"fake_images": fake, "discr_fake": self.discr(fake), "discr_real": self.discr(real_image_batch)}

    def draw_noise(self, images: jax.Array) -> jax.Array:
        """Noise for as many images, of shape (B, nz), from the random streams of the network."""
        return jax.random.normal(self.rngs.noise(), (len(images), self.nz))

    @staticmethod
    @needs_losses("{'bce': lambda pred, target: optax.sigmoid_binary_cross_entropy(pred, target).mean()}")
    def closure(
        model: nnx.Module,
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
        fake, to_generator = _generate(model.gen, noise)

        def judged(logits: Values) -> tuple[jax.Array, tuple[Values, Values]]:
            values = closures.gan_losses(losses, logits, jnp.full_like)
            return jnp.sum(jnp.stack(list(values.values()))) if values else jnp.zeros(()), (logits, values)

        def discriminate(discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            return judged({"discr_real": _logits(discr, real), "discr_fake": _logits(discr, fake)})

        def fool(images: jax.Array, discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            return judged({"adversarial": _logits(discr, images)})

        by_weights = nnx.value_and_grad(discriminate, argnums=nnx.DiffState(0, is_learned), has_aux=True)
        by_images = nnx.value_and_grad(fool, has_aux=True)
        if optimizers and losses:
            (total, (logits, values)), gradients = by_weights(model.discr)
            closures.gan_optimizer(optimizers, "discr", _BUILDER).update(model.discr, gradients, value=total)
            (total, (fooled, adversarial)), gradient = by_images(fake, model.discr)
            closures.gan_optimizer(optimizers, "gen", _BUILDER).update(model.gen, to_generator(gradient), value=total)
        else:
            _, (logits, values) = discriminate(model.discr)
            _, (fooled, adversarial) = fool(fake, model.discr)
        logits |= fooled
        return closures.gan_results(fake, logits, values | adversarial, metrics, bool(optimizers), jnp.full_like)


def _generate(gen: nnx.Module, noise: jax.Array) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Images, and what makes a gradient by the weights of a gradient by the images.

    The images are made once, before the discriminator's update; their gradient is known only after it.
    """
    graphdef, learned, rest = nnx.split(gen, is_learned, ...)

    def images_of(weights: nnx.State) -> tuple[jax.Array, nnx.State]:
        whole = nnx.merge(graphdef, weights, rest, copy=True)
        images = whole(noise)
        return images, nnx.state(whole, nnx.Not(nnx.Param))

    images, pull_back, changed = jax.vjp(images_of, learned, has_aux=True)
    nnx.update(gen, changed)
    return images, lambda gradient: pull_back(gradient)[0]


def _logits(discr: nnx.Module, images: jax.Array) -> jax.Array:
    return discr(images).astype(jnp.float32)  # losses are computed in single precision


def kl_to_standard_normal(mean: jax.Array, log_var: jax.Array) -> jax.Array:
    """Divergence of N(mean, exp(log_var)) from N(0, 1) in nats, summed over the latent variables: shape (B,)."""
    mean, log_var = mean.astype(jnp.float32), log_var.astype(jnp.float32)  # exp overflows in half precision
    return 0.5 * jnp.sum(jnp.square(mean) + jnp.exp(log_var) - 1 - log_var, 1)


def _divergence(predictions: ByName) -> jax.Array:
    """The mean of a batch, divided by the values of an image."""
    n_values = predictions["pred"][0].size
    return jnp.mean(kl_to_standard_normal(predictions["mean"], predictions["log_var"])) / n_values


@closures.described_by_base
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
            closures.autoencoder_closure(AbstractJaxNetwork.closure, _divergence)
        )
    )
