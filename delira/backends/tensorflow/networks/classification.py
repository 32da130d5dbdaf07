"""Networks that give each image or volume a few numbers: classes or values."""

from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.network import AbstractTfNetwork
from delira.backends.tensorflow.networks.architectures import VGG3D, ResNet18
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready

LABELS = ready.Labels(
    is_numeric=lambda value: isinstance(value, tf.Tensor) and value.dtype is not tf.string,
    integers=lambda label: tf.cast(label, tf.int64),
    floats=lambda label: tf.cast(label, tf.float32),
)


class _ResNet(AbstractTfNetwork):
    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> keras.Layer:
        """The layer that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def call(self, input_batch: tf.Tensor) -> dict[str, tf.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@described_by_base
class ClassificationNetworkBaseTf(ready.Classification, _ResNet):
    """A classifier in TensorFlow, for the mean of
    ``tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred)``.
    """

    prepare_batch = staticmethod(labelled(AbstractTfNetwork.prepare_batch, LABELS.class_numbers))


@described_by_base
class VGG3DClassificationNetworkTf(ready.VGG3DClassification, ClassificationNetworkBaseTf):
    """A classifier of volumes in TensorFlow, for the mean of
    ``tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=pred)``.
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> keras.Layer:
        return VGG3D(in_channels, n_outputs, **kwargs)


@described_by_base
class RegressionNetworkBaseTf(ready.Regression, _ResNet):
    """A regressor in TensorFlow, for ``keras.losses.MeanSquaredError()`` and its like."""

    prepare_batch = staticmethod(labelled(AbstractTfNetwork.prepare_batch, LABELS.values))
