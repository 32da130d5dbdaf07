"""Networks that give each pixel or voxel a class."""

import functools
from typing import Any

import torch

from delira.backends.torch.network import AbstractPyTorchNetwork
from delira.backends.torch.networks.architectures import UNet, init_xavier
from delira.backends.torch.networks.classification import LABELS
from delira.contract.ready_steps import described_by_base, labelled
from delira.models import ready


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

    prepare_batch = staticmethod(
        labelled(AbstractPyTorchNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=2))
    )


@described_by_base
class UNet3dPyTorch(ready.UNet3d, _SegmentationNetwork):
    """A U-Net for volumes in PyTorch, e.g. for ``torch.nn.CrossEntropyLoss``."""

    prepare_batch = staticmethod(
        labelled(AbstractPyTorchNetwork.prepare_batch, functools.partial(LABELS.masks, n_axes=3))
    )
