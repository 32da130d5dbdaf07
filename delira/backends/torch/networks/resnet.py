"""ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition"), for images of any size."""

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.networks.images import check_images


class ResNet18(nn.Module):
    """Eight residual blocks of two 3x3 convolutions; weights have the names that torchvision gives them.

    Images of at most 16 pixels are a single position in the last stages. There PyTorch 2.13 reads gradients of strided
    convolutions from memory that was never written, in bfloat16 on a CPU: make them larger, or stay in 32 bit.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Numbers returned for each image.
    start_filts
        Channels of the first stage; each of the three others has twice as many as the one before.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        self.fc = nn.Linear(8 * width, n_outputs)
        self.apply(init_for_relu)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images of shape (B, C, H, W) to (B, n_outputs)."""
        check_images(images, self.conv1.in_channels, 2)
        hidden = self.maxpool(functional.relu(self.bn1(self.conv1(images))))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        return self.fc(hidden.mean(dim=(2, 3)))


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut.

    Parameters
    ----------
    in_channels, out_channels
        Channels of what comes in and goes out.
    stride
        Step of the first convolution.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            projection = nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(out_channels))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, H, W) to (B, out_channels, H / stride, W / stride)."""
        residual = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(hidden)))))
        return functional.relu(residual + self.downsample(hidden))


def _stage(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(in_channels, out_channels, stride), ResidualBlock(out_channels, out_channels, 1))


def init_for_relu(module: nn.Module) -> None:
    """Draw the weights of a convolution as He et al. 2015 do in front of ReLUs; others keep PyTorch's start."""
    if isinstance(module, (nn.Conv2d, nn.Conv3d)):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
