"""Networks that give each image or volume a few numbers: classes or values."""

from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.architectures import VGG3D, ResNet18
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready

LABELS = ready.Labels(
    is_numeric=lambda value: isinstance(value, torch.Tensor),
    integers=lambda label: label.long(),
    floats=lambda label: label.float(),
)


class _ResNet(AbstractPyTorchNetwork):
    module: torch.nn.Module

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits or values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}


@described_by_base
class ClassificationNetworkBasePyTorch(ready.Classification, _ResNet):
    """A classifier in PyTorch, for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.class_numbers))


@described_by_base
class VGG3DClassificationNetworkPyTorch(ready.VGG3DClassification, ClassificationNetworkBasePyTorch):
    """A classifier of volumes in PyTorch, for ``torch.nn.CrossEntropyLoss``.

    (The network of this name in delira 0.4 returned probabilities. With ``CrossEntropyLoss``, which applies softmax
    itself, it hardly learned.)
    """

    @staticmethod
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        return VGG3D(in_channels, n_outputs, **kwargs)


@described_by_base
class RegressionNetworkBasePyTorch(ready.Regression, _ResNet):
    """A regressor in PyTorch, for ``torch.nn.MSELoss`` and its like."""

    prepare_batch = staticmethod(labelled(AbstractPyTorchNetwork.prepare_batch, LABELS.values))
