"""Networks that give each pixel or voxel a class."""

from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.classification import LABELS
from delira.backends.torch.networks.unet import UNet, init_xavier
from delira.contract import backend_default
from delira.contract.kinds import ByName
from delira.models import ready
from delira.utils.docstrings import described_by_base


class _SegmentationNetwork(AbstractPyTorchNetwork):
    """What the U-Nets for images and volumes have in common."""

    module: torch.nn.Module

    @staticmethod
    def _build_model(**kwargs: Any) -> torch.nn.Module:
        """The module that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another."""
        return UNet(**kwargs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Logits of a batch.

        Parameters
        ----------
        x
            Tensor of shape (B, in_channels, *spatial), float32.
        """
        return {"pred": self.module(x)}

    @staticmethod
    def weight_init(m: torch.nn.Module) -> None:
        """Draw the weights of one convolution (Xavier, normal) and set its biases to 0; others stay as they are."""
        init_xavier(m)

    def reset_params(self) -> None:
        """Draw all weights again."""
        self.apply(self.weight_init)


@described_by_base
class UNet2dPyTorch(ready.UNet2d, _SegmentationNetwork):
    """A U-Net for images in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    @staticmethod
    @backend_default
    def prepare_batch(batch: ByName, input_device: torch.device, output_device: torch.device) -> dict[str, Any]:
        """Make tensors of a batch, as every network of the backend; ``"label"`` becomes class numbers.

        Masks of shape (B, 1, H, W) lose the axis of channels, and all without one become int64. Masks with several
        channels (one-hot, or several labels at once) become float32.
        """
        return LABELS.masks(AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device), 2, batch)


@described_by_base
class UNet3dPyTorch(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    @staticmethod
    @backend_default
    def prepare_batch(batch: ByName, input_device: torch.device, output_device: torch.device) -> dict[str, Any]:
        """Make tensors of a batch, as :class:`UNet2dPyTorch`, of masks of shape (B, 1, D, H, W) or (B, D, H, W)."""
        return LABELS.masks(AbstractPyTorchNetwork.prepare_batch(batch, input_device, output_device), 3, batch)
