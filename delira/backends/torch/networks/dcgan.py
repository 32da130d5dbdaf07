"""Generator and discriminator of DCGAN (Radford et al. 2016), for images of 64 x 64 pixels."""

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.networks.images import check_images
from delira.errors import DataError


class Generator(nn.Module):
    """Images out of noise, by five transposed convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of.
    start_filts
        Channels in front of the last convolution; each one before has twice as many.
    """

    def __init__(self, n_channels: int, noise_length: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = nn.ConvTranspose2d(noise_length, 8 * width, 4, bias=False)
        self.bn1 = nn.BatchNorm2d(8 * width)
        self.conv2, self.bn2 = _normalised(nn.ConvTranspose2d, 8 * width, 4 * width)
        self.conv3, self.bn3 = _normalised(nn.ConvTranspose2d, 4 * width, 2 * width)
        self.conv4, self.bn4 = _normalised(nn.ConvTranspose2d, 2 * width, width)
        self.conv5 = nn.ConvTranspose2d(width, n_channels, 4, stride=2, padding=1, bias=False)
        self.apply(init_dcgan)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Map noise of shape (B, noise_length) to images of shape (B, n_channels, 64, 64) in [-1, 1]."""
        hidden = noise[:, :, None, None]
        hidden = functional.relu(self.bn1(self.conv1(hidden)))
        hidden = functional.relu(self.bn2(self.conv2(hidden)))
        hidden = functional.relu(self.bn3(self.conv3(hidden)))
        hidden = functional.relu(self.bn4(self.conv4(hidden)))
        return torch.tanh(self.conv5(hidden))


class Discriminator(nn.Module):
    """One logit for each image, high for real ones, by five convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    start_filts
        Channels behind the first convolution; each one after has twice as many.
    """

    def __init__(self, n_channels: int, start_filts: int = 64) -> None:
        super().__init__()
        width = start_filts
        self.conv1 = nn.Conv2d(n_channels, width, 4, stride=2, padding=1, bias=False)
        self.conv2, self.bn2 = _normalised(nn.Conv2d, width, 2 * width)
        self.conv3, self.bn3 = _normalised(nn.Conv2d, 2 * width, 4 * width)
        self.conv4, self.bn4 = _normalised(nn.Conv2d, 4 * width, 8 * width)
        self.conv5 = nn.Conv2d(8 * width, 1, 4, bias=False)
        self.apply(init_dcgan)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images of shape (B, n_channels, 64, 64) to logits of shape (B, 1)."""
        check_images(images, self.conv1.in_channels, 2)
        if images.size(2) != 64 or images.size(3) != 64:
            raise DataError(f"the images have {images.size(2)} x {images.size(3)} pixels; resize them to 64 x 64")
        hidden = functional.leaky_relu(self.conv1(images), 0.2)
        hidden = functional.leaky_relu(self.bn2(self.conv2(hidden)), 0.2)
        hidden = functional.leaky_relu(self.bn3(self.conv3(hidden)), 0.2)
        hidden = functional.leaky_relu(self.bn4(self.conv4(hidden)), 0.2)
        return self.conv5(hidden).flatten(1)


def _normalised(layer: type[nn.Module], in_channels: int, out_channels: int) -> tuple[nn.Module, nn.BatchNorm2d]:
    """A convolution that halves or doubles the resolution, and the normalisation behind it."""
    return layer(in_channels, out_channels, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(out_channels)


def init_dcgan(module: nn.Module) -> None:
    """Draw weights as Radford et al. do: N(0, 0.02) in convolutions, N(1, 0.02) as scale of batch normalisation."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
