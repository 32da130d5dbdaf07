"""A generative adversarial network: two networks with an optimizer and a loss each."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.graph import is_learned
from delira.backends.jax.networks.architectures import Discriminator, Generator
from delira.backends.jax.networks.classification import ReadyJaxNetwork
from delira.contract import needs_losses
from delira.contract.kinds import ByName
from delira.contract.ready_steps import described_by_base, gan_inputs, gan_losses, gan_optimizer, gan_results
from delira.models import ready

_BUILDER = "create_optims_gan_default_jax"
Values = dict[str, jax.Array]


@described_by_base
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
        real, noise = gan_inputs(model, data_dict, kwargs)
        noise = model.draw_noise(real) if noise is None else noise
        fake, to_generator = _generate(model.gen, noise)

        def discriminate(discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            logits = {"discr_real": _logits(discr, real), "discr_fake": _logits(discr, fake)}
            values = gan_losses(losses, logits, jnp.full_like)
            return _total(values), (logits, values)

        def fool(images: jax.Array, discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            logits = {"adversarial": _logits(discr, images)}
            values = gan_losses(losses, logits, jnp.full_like)
            return _total(values), (logits, values)

        by_weights = nnx.value_and_grad(discriminate, argnums=nnx.DiffState(0, is_learned), has_aux=True)
        by_images = nnx.value_and_grad(fool, has_aux=True)
        if optimizers and losses:
            (total, (logits, values)), gradients = by_weights(model.discr)
            gan_optimizer(optimizers, "discr", _BUILDER).update(model.discr, gradients, value=total)
            (total, (fooled, adversarial)), gradient = by_images(fake, model.discr)
            gan_optimizer(optimizers, "gen", _BUILDER).update(model.gen, to_generator(gradient), value=total)
        else:
            _, (logits, values) = discriminate(model.discr)
            _, (fooled, adversarial) = fool(fake, model.discr)
        logits |= fooled
        return gan_results(fake, logits, values | adversarial, metrics, bool(optimizers), jnp.full_like)


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


def _total(losses: Values) -> jax.Array:
    return jnp.sum(jnp.stack(list(losses.values()))) if losses else jnp.zeros(())
