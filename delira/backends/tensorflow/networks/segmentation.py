"""Networks that give each pixel or voxel a class."""

import functools
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.architectures import UNet
from delira.backends.tensorflow.networks.classification import LABELS
from delira.backends.tensorflow.networks.layers import CONVOLUTIONS, xavier_normal
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready


class _SegmentationNetwork(AbstractTfNetwork):
    """What the U-Nets for images and volumes have in common."""

    @staticmethod
    def _build_model(**kwargs: Any) -> keras.Layer:
        """The layer that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another."""
        return UNet(**kwargs)

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


@described_by_base
class UNet2dTf(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in TensorFlow."""

    prepare_batch = staticmethod(labelled(AbstractTfNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=2)))


@described_by_base
class UNet3dTf(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in TensorFlow."""

    prepare_batch = staticmethod(labelled(AbstractTfNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=3)))
