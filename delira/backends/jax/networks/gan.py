"""A generative adversarial network: two networks with an optimizer and a loss each."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.backend import BACKEND
from delira.backends.jax.graph import LEARNED
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.dcgan import Discriminator, Generator
from delira.contract import NO_HOOKS, select_inputs
from delira.errors import ConfigError

Values = dict[str, jax.Array]


class GenerativeAdversarialNetworkBaseJax(AbstractJaxNetwork):
    """Images like those of the training data, by DCGAN (Radford et al. 2016).

    The images are (B, n_channels, 64, 64), scaled to [-1, 1]. ``gen`` makes images of noise (B, nz), ``discr`` tells
    real from made by one logit for each image, (B, 1). The outputs are ``"fake_images"``, ``"discr_fake"`` and
    ``"discr_real"``. Losses are called as ``loss(logits, target)`` with ones or zeros as target: the mean of
    ``optax.sigmoid_binary_cross_entropy``, or of ``optax.squared_error`` for a least-squares GAN. The optimizers are
    called ``"gen"`` and ``"discr"``: train with ``optim_fn=create_optims_gan_default_jax``.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of, kept in ``nz``.
    **kwargs
        What else :meth:`_build_models` takes: here ``start_filts`` (64), the channels of the widest level. It gets
        ``rngs``, too, which the weights are drawn from.
    """

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels=n_channels, noise_length=noise_length, **kwargs)
        self.nz = noise_length
        self.gen, self.discr = self._build_models(n_channels, noise_length, rngs=self.rngs, **kwargs)

    @staticmethod
    def _build_models(in_channels: int, noise_length: int, **kwargs: Any) -> tuple[nnx.Module, nnx.Module]:
        """Generator and discriminator; override it for others."""
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
        fake, to_generator = _generate(model.gen, noise)

        def discriminate(discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            logits = {"discr_real": _logits(discr, real), "discr_fake": _logits(discr, fake)}
            values = _judge(losses, "discr_real", logits, 1) | _judge(losses, "discr_fake", logits, 0)
            return _total(values), (logits, values)

        def fool(images: jax.Array, discr: nnx.Module) -> tuple[jax.Array, tuple[Values, Values]]:
            logits = {"adversarial": _logits(discr, images)}
            values = _judge(losses, "adversarial", logits, 1)
            return _total(values), (logits, values)

        by_weights = nnx.value_and_grad(discriminate, argnums=nnx.DiffState(0, LEARNED), has_aux=True)
        by_images = nnx.value_and_grad(fool, has_aux=True)
        if optimizers and losses:
            (total, (logits, values)), gradients = by_weights(model.discr)
            _named(optimizers, "discr").update(model.discr, gradients, value=total)
            (total, (fooled, adversarial)), gradient = by_images(fake, model.discr)
            _named(optimizers, "gen").update(model.gen, to_generator(gradient), value=total)
        else:
            _, (logits, values) = discriminate(model.discr)
            _, (fooled, adversarial) = fool(fake, model.discr)
        logits |= fooled
        measured: Values = {}
        for part, wanted in (("discr_real", 1), ("discr_fake", 0), ("adversarial", 1)):
            measured |= _judge(metrics, part, logits, wanted, target_first=True)
        prefix = "" if optimizers else "val_"
        return (
            {prefix + name: value for name, value in measured.items()},
            {prefix + name: value for name, value in (values | adversarial).items()},
            {"fake_images": fake, "discr_fake": logits["discr_fake"], "discr_real": logits["discr_real"]},
        )


def _generate(gen: nnx.Module, noise: jax.Array) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Images, and what makes a gradient by the weights of a gradient by the images.

    The images are made once, before the discriminator's update; their gradient is known only after it.
    """
    graphdef, learned, rest = nnx.split(gen, LEARNED, ...)

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


def _judge(
    functions: Mapping[str, Callable[..., Any]] | None,
    part: str,
    logits: Values,
    wanted: int,
    target_first: bool = False,
) -> Values:
    """Every loss or metric of the logits of a part against ones or zeros."""
    target = jnp.full_like(logits[part], wanted)
    arguments = (target, logits[part]) if target_first else (logits[part], target)
    return {f"{name}_{part}": function(*arguments) for name, function in (functions or {}).items()}


def _named(optimizers: Mapping[str, Any], name: str) -> Any:
    if name not in optimizers:
        raise ConfigError(
            f"a GAN is trained with the optimizers 'gen' and 'discr', but there are only {sorted(optimizers)}; pass "
            "optim_fn=create_optims_gan_default_jax"
        )
    return optimizers[name]
