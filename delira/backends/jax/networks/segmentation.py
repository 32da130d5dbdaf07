"""Networks that give each pixel or voxel a class."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.generators import GENERATOR
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.architectures import UNet
from delira.backends.jax.networks.classification import LABELS, ReadyJaxNetwork
from delira.backends.jax.networks.layers import xavier_normal
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready


class _SegmentationNetwork(ReadyJaxNetwork):
    """What the U-Nets for images and volumes have in common."""

    @staticmethod
    def _build_model(**kwargs: Any) -> nnx.Module:
        """The module that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another.

        Its weights are drawn from the argument ``rngs``.
        """
        return UNet(**kwargs)

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


@described_by_base
class UNet2dJax(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in JAX."""

    prepare_batch = staticmethod(labelled(AbstractJaxNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=2)))


@described_by_base
class UNet3dJax(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in JAX."""

    prepare_batch = staticmethod(labelled(AbstractJaxNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=3)))
