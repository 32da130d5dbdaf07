"""Networks that give each image or volume a few numbers: classes or values."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.resnet import ResNet18
from delira.backends.jax.networks.vgg import VGG3D
from delira.contract import room_default


class ClassificationNetworkBaseJax(AbstractJaxNetwork):
    """Classification of images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs), for
    the mean of ``optax.softmax_cross_entropy_with_integer_labels(pred, label)`` or, with several labels
    at once, a network of your own ``prepare_batch``.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
        It gets ``rngs``, too, which the weights are drawn from.
    """

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)
        self.module = self._build_model(in_channels, n_outputs, rngs=self.rngs, **kwargs)

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> nnx.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def __call__(self, input_batch: jax.Array) -> dict[str, jax.Array]:
        """Logits of a batch.

        Parameters
        ----------
        input_batch
            Array of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of a batch, as every network of the room; ``"label"`` becomes class numbers.

        Labels of shape (B, 1) lose their last axis, and all become int32.
        """
        prepared = AbstractJaxNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), jax.Array):
            prepared["label"] = (label[..., 0] if label.ndim > 1 and label.shape[-1] == 1 else label).astype(jnp.int32)
        return prepared


class VGG3DClassificationNetworkJax(ClassificationNetworkBaseJax):
    """Classification of volumes, by a VGG-11 with 3-D convolutions and batch normalisation.

    It takes volumes of any size, (B, in_channels, D, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs),
    without softmax, as :class:`ClassificationNetworkBaseJax`.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
        It gets ``rngs``, too, which the weights are drawn from.
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> nnx.Module:
        return VGG3D(in_channels, n_outputs, **kwargs)


class RegressionNetworkBaseJax(AbstractJaxNetwork):
    """Regression on images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": values}`` of shape (B, n_outputs), for
    the mean of ``optax.squared_error(pred, label)`` and its like.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Values to predict for each image.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
        It gets ``rngs``, too, which the weights are drawn from.
    """

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)
        self.module = self._build_model(in_channels, n_outputs, rngs=self.rngs, **kwargs)

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> nnx.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def __call__(self, input_batch: jax.Array) -> dict[str, jax.Array]:
        """Values of a batch.

        Parameters
        ----------
        input_batch
            Array of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of a batch, as every network of the room; ``"label"`` becomes float32 of shape (B, n_outputs).

        Labels of shape (B,) get a last axis: beside predictions of shape (B, 1) they would be broadcast to (B, B).
        """
        prepared = AbstractJaxNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), jax.Array):
            prepared["label"] = (label[:, None] if label.ndim == 1 else label).astype(jnp.float32)
        return prepared
