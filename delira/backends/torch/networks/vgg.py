"""VGG-11 for volumes (after Simonyan & Zisserman 2015, "Very Deep Convolutional Networks", configuration A)."""

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.networks.images import check_images
from delira.backends.torch.networks.resnet import init_for_relu


class VGG3D(nn.Module):
    """Eight 3x3x3 convolutions with batch normalisation in five stages, then two fully connected layers.

    The mean over all positions stands in front of the latter, so that volumes may have any size.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Numbers returned for each volume.
    start_filts
        Channels of the first stage; the last two have eight times as many.
    """

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1, self.bn1 = _convolution(in_channels, width)
        self.conv2, self.bn2 = _convolution(width, 2 * width)
        self.conv3, self.bn3 = _convolution(2 * width, 4 * width)
        self.conv4, self.bn4 = _convolution(4 * width, 4 * width)
        self.conv5, self.bn5 = _convolution(4 * width, 8 * width)
        self.conv6, self.bn6 = _convolution(8 * width, 8 * width)
        self.conv7, self.bn7 = _convolution(8 * width, 8 * width)
        self.conv8, self.bn8 = _convolution(8 * width, 8 * width)
        # an odd end is a window of its own: a volume never shrinks to nothing
        self.pool = nn.MaxPool3d(2, ceil_mode=True)
        self.fc1 = nn.Linear(8 * width, 8 * width)
        self.fc2 = nn.Linear(8 * width, n_outputs)
        self.apply(init_for_relu)

    def forward(self, volumes: torch.Tensor) -> torch.Tensor:
        """Map volumes of shape (B, C, D, H, W) to (B, n_outputs)."""
        check_images(volumes, self.conv1.in_channels, 3)
        hidden = self.pool(functional.relu(self.bn1(self.conv1(volumes))))
        hidden = self.pool(functional.relu(self.bn2(self.conv2(hidden))))
        hidden = functional.relu(self.bn3(self.conv3(hidden)))
        hidden = self.pool(functional.relu(self.bn4(self.conv4(hidden))))
        hidden = functional.relu(self.bn5(self.conv5(hidden)))
        hidden = self.pool(functional.relu(self.bn6(self.conv6(hidden))))
        hidden = functional.relu(self.bn7(self.conv7(hidden)))
        hidden = self.pool(functional.relu(self.bn8(self.conv8(hidden))))
        return self.fc2(functional.relu(self.fc1(hidden.mean(dim=(2, 3, 4)))))


def _convolution(in_channels: int, out_channels: int) -> tuple[nn.Conv3d, nn.BatchNorm3d]:
    return nn.Conv3d(in_channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm3d(out_channels)
