"""Networks that give each image or volume a few numbers: classes or values."""

from collections.abc import Mapping
from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.resnet import ResNet18
from delira.backends.torch.networks.vgg import VGG3D
from delira.contract import room_default


class ClassificationNetworkBasePyTorch(AbstractPyTorchNetwork):
    """Classification of images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs), for
    ``torch.nn.CrossEntropyLoss`` or, with several labels at once, a network of your own ``prepare_batch``.

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
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(
        batch: Mapping[str, Any], input_device: torch.device, output_device: torch.device
    ) -> dict[str, Any]:
        """Make tensors of a batch, as every network of the room; ``"label"`` becomes class numbers.

        Labels of shape (B, 1) lose their last axis, and all become int64.
        """
        prepared = AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), torch.Tensor):
            if label.ndim > 1 and label.shape[-1] == 1:
                label = label.squeeze(-1)
            prepared["label"] = label.long()
        return prepared


class VGG3DClassificationNetworkPyTorch(ClassificationNetworkBasePyTorch):
    """Classification of volumes, by a VGG-11 with 3-D convolutions and batch normalisation.

    It takes volumes of any size, (B, in_channels, D, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs),
    for ``torch.nn.CrossEntropyLoss``. (The network of this name in delira 0.4 returned probabilities. With
    ``CrossEntropyLoss``, which applies softmax itself, it hardly learned.)

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
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        return VGG3D(in_channels, n_outputs, **kwargs)


class RegressionNetworkBasePyTorch(AbstractPyTorchNetwork):
    """Regression on images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": values}`` of shape (B, n_outputs), for
    ``torch.nn.MSELoss`` and its like.

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
    def _build_model(in_channels: int, n_outputs: int, **kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, ...) to (B, n_outputs); override it for another one."""
        return ResNet18(in_channels, n_outputs, **kwargs)

    def forward(self, input_batch: torch.Tensor) -> dict[str, torch.Tensor]:
        """Values of a batch.

        Parameters
        ----------
        input_batch
            Tensor of shape (B, in_channels, H, W), float32.
        """
        return {"pred": self.module(input_batch)}

    @staticmethod
    @room_default
    def prepare_batch(
        batch: Mapping[str, Any], input_device: torch.device, output_device: torch.device
    ) -> dict[str, Any]:
        """Make tensors of a batch, as every network of the room; ``"label"`` becomes float32 of shape (B, n_outputs).

        Labels of shape (B,) get a last axis: beside predictions of shape (B, 1) they would be broadcast to (B, B).
        """
        prepared = AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device)
        if isinstance(label := prepared.get("label"), torch.Tensor):
            prepared["label"] = (label.unsqueeze(-1) if label.ndim == 1 else label).float()
        return prepared
