"""Networks that give each image or volume a few numbers: classes or values."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.architectures import VGG3D, ResNet18
from delira.contract.kinds import ByName
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready

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
    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> nnx.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one.

        Its weights are drawn from the argument ``rngs``.
        """
        return ResNet18(in_channels, n_outputs, **kwargs)

    def __call__(self, input_batch: jax.Array) -> dict[str, jax.Array]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Array of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@described_by_base
class ClassificationNetworkBaseJax(ready.Classification, _ResNet):
    """A classifier in JAX, for the mean of
    ``optax.softmax_cross_entropy_with_integer_labels(pred, label)``.
    """

    prepare_batch = staticmethod(labelled(AbstractJaxNetwork.prepare_batch, LABELS.class_numbers))


@described_by_base
class VGG3DClassificationNetworkJax(ready.VGG3DClassification, ClassificationNetworkBaseJax):
    """A classifier of volumes in JAX, for the mean of
    ``optax.softmax_cross_entropy_with_integer_labels(pred, label)``.
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> nnx.Module:
        return VGG3D(in_channels, n_outputs, **kwargs)


@described_by_base
class RegressionNetworkBaseJax(ready.Regression, _ResNet):
    """A regressor in JAX, for the mean of ``optax.squared_error(pred, label)`` and its like."""

    prepare_batch = staticmethod(labelled(AbstractJaxNetwork.prepare_batch, LABELS.values))
