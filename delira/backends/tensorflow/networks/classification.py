"""Networks that give each image or volume a few numbers: classes or values."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.resnet import ResNet18
from delira.backends.tensorflow.networks.vgg import VGG3D
from delira.contract import room_default


class ClassificationNetworkBaseTf(AbstractTfNetwork):
    """Classification of images, by a ResNet-18; another layer is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs), for
    the mean of ``tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred)`` or, with several labels
    at once, a network of your own ``prepare_batch``.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)
        self.module = self._build_model(in_channels, n_outputs, **kwargs)

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> keras.Layer:
        """The layer that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def call(self, input_batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Logits of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, as every network of the room; ``"label"`` becomes class numbers.

        Labels of shape (B, 1) lose their last axis, and all become int64.
        """
        prepared = AbstractTfNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), tf.Tensor) and label.dtype is not tf.string:
            if label.shape.rank > 1 and label.shape[-1] == 1:
                label = tf.squeeze(label, -1)
            prepared["label"] = tf.cast(label, tf.int64)
        return prepared


class VGG3DClassificationNetworkTf(ClassificationNetworkBaseTf):
    """Classification of volumes, by a VGG-11 with 3-D convolutions and batch normalisation.

    It takes volumes of any size, (B, in_channels, D, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs),
    without softmax, as :class:`ClassificationNetworkBaseTf`.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> keras.Layer:
        return VGG3D(in_channels, n_outputs, **kwargs)


class RegressionNetworkBaseTf(AbstractTfNetwork):
    """Regression on images, by a ResNet-18; another layer is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": values}`` of shape (B, n_outputs), for
    ``keras.losses.MeanSquaredError()`` and its like.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Values to predict for each image.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)
        self.module = self._build_model(in_channels, n_outputs, **kwargs)

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> keras.Layer:
        """The layer that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def call(self, input_batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, as every network of the room; ``"label"`` becomes float32 of shape (B, n_outputs).

        Labels of shape (B,) get a last axis: beside predictions of shape (B, 1) they would be broadcast to (B, B).
        """
        prepared = AbstractTfNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), tf.Tensor) and label.dtype is not tf.string:
            prepared["label"] = tf.cast(tf.expand_dims(label, -1) if label.shape.rank == 1 else label, tf.float32)
        return prepared
