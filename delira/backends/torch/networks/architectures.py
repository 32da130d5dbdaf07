"""The architectures of the ready networks as modules of PyTorch, which TorchScript can read, too."""

import collections
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from delira.backends.torch.networks import layers
from delira.errors import DataError
from delira.models import architectures
from delira.models.unet_plan import UNetPlan


class Part(nn.Module):
    """A module that makes its layers as its architecture says, and computes with them in a ``forward`` of its own."""

    make = layers

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def check_images(images: torch.Tensor, n_channels: int, n_axes: int) -> None:
    """Refuse images of other axes or channels than a network takes, e.g. images that have the channels last.

    PyTorch takes images without an axis of samples too, which some layers would then mistake for others.

    Parameters
    ----------
    images
        What was given.
    n_channels, n_axes
        What the network takes: channels, and axes of an image without them.

    Raises
    ------
    DataError
        Naming both.
    """
    if images.dim() != n_axes + 2:
        raise DataError(
            f"the images have the shape {list(images.shape)}, and the network takes {n_axes + 2} axes: samples, "
            f"{n_channels} channels, and {n_axes} of an image"
        )
    if images.size(1) != n_channels:
        raise DataError(
            f"the images have {images.size(1)} channels (shape {list(images.shape)}), and the network is built for "
            f"{n_channels}; the channels come first"
        )


class ResidualBlock(architectures.ResidualBlock, Part):
    """Two convolutions beside a shortcut.

    Parameters
    ----------
    in_channels, out_channels
        Channels of what comes in and goes out.
    stride
        Step of the first convolution.
    """

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, H, W) to (B, out_channels, H / stride, W / stride)."""
        residual = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(hidden)))))
        return functional.relu(residual + self.downsample(hidden))


class ResNet18(architectures.ResNet18, Part):
    """ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition"), for images of any size.

    It has eight residual blocks of two 3x3 convolutions; weights have the names that torchvision gives them.

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

    block = ResidualBlock

    def __init__(self, in_channels: int, n_outputs: int, start_filts: int = 64) -> None:
        super().__init__(in_channels, n_outputs, start_filts)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.apply(init_for_relu)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images of shape (B, C, H, W) to (B, n_outputs)."""
        check_images(images, self.conv1.in_channels, 2)
        hidden = self.maxpool(functional.relu(self.bn1(self.conv1(images))))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        return self.fc(hidden.mean(dim=(2, 3)))


def init_for_relu(module: nn.Module) -> None:
    """Draw the weights of a convolution as He et al. 2015 do in front of ReLUs; others keep PyTorch's start."""
    if isinstance(module, (nn.Conv2d, nn.Conv3d)):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class VGG3D(architectures.VGG3D, Part):
    """VGG-11 for volumes (after Simonyan & Zisserman 2015, "Very Deep Convolutional Networks", configuration A).

    It has eight 3x3x3 convolutions with batch normalisation in five stages, then two fully connected layers. The mean
    over all positions stands in front of the latter, so that volumes may have any size.

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
        super().__init__(in_channels, n_outputs, start_filts)
        # an odd end is a window of its own: a volume never shrinks to nothing
        self.pool = nn.MaxPool3d(2, ceil_mode=True)
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


class MultilayerPerceptron(nn.Sequential):
    """Fully connected layers with ReLU between them, which map (B, n_features) to (B, n_outputs).

    Parameters
    ----------
    sizes
        Numbers that go in, those of each hidden layer, and those that come out.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        layers: dict[str, nn.Module] = {}
        for number, pair in enumerate(itertools.pairwise(sizes), 1):
            if layers:
                layers[f"relu{number - 1}"] = nn.ReLU()
            layers[f"fc{number}"] = nn.Linear(*pair)
        super().__init__(collections.OrderedDict(layers))


class DownConv(architectures.DownConv, Part):
    """Two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out.
    """

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *spatial) to (B, out_channels, *spatial)."""
        return functional.relu(self.conv2(functional.relu(self.conv1(hidden))))


class UpConv(architectures.UpConv, Part):
    """Doubling of the resolution, merging with the level of that resolution, and two convolutions with ReLU.

    Parameters
    ----------
    n_axes
        2 or 3.
    in_channels, out_channels
        Channels of what comes in and goes out; the level has ``out_channels`` too.
    up_mode, merge_mode
        As in :class:`UNet`.
    """

    def __init__(self, n_axes: int, in_channels: int, out_channels: int, up_mode: str, merge_mode: str) -> None:
        super().__init__(n_axes, in_channels, out_channels, up_mode, merge_mode)
        self.upsample: nn.Module = nn.Upsample(scale_factor=2.0, mode="nearest") if self.upsamples else nn.Identity()

    def forward(self, hidden: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *half) and a level (B, out_channels, *spatial) to (B, out_channels, *spatial)."""
        hidden = self.upsample(self.upconv(hidden))
        missing: list[int] = []  # where the level has an odd size, pooling dropped its last entry
        for axis in range(hidden.dim() - 1, 1, -1):
            missing += [0, skip.size(axis) - hidden.size(axis)]
        hidden = functional.pad(hidden, missing)
        hidden = torch.cat([hidden, skip], 1) if self.concatenates else hidden + skip
        return functional.relu(self.conv2(functional.relu(self.conv1(hidden))))


class UNet(architectures.UNet, Part):
    """A U-Net for images (Ronneberger et al. 2015) or volumes (Çiçek et al. 2016), with padded convolutions.

    It has levels of two convolutions, down with pooling and up again, each beside the level it came from.

    Parameters
    ----------
    n_axes
        2 for images, 3 for volumes.
    num_classes, in_channels
        Channels that go out and come in.
    depth
        Number of levels; every spatial axis needs at least ``2 ** (depth - 1)`` entries.
    start_filts
        Channels of the first level; each further one has twice as many.
    up_mode
        ``"transpose"``: transposed convolutions; ``"upsample"``: every entry twice, and a 1x1 convolution.
    merge_mode
        ``"concat"``: channels side by side; ``"add"``: sums.
    """

    down, up = DownConv, UpConv

    def __init__(
        self,
        n_axes: int,
        num_classes: int,
        in_channels: int,
        depth: int,
        start_filts: int,
        up_mode: str,
        merge_mode: str,
    ) -> None:
        super().__init__(n_axes, num_classes, in_channels, depth, start_filts, up_mode, merge_mode)
        self.in_channels, self.n_axes = in_channels, n_axes
        self.down_convs = nn.ModuleList(self.down_convs.children())
        self.up_convs = nn.ModuleList(self.up_convs.children())
        self.pool = nn.MaxPool2d(2) if n_axes == 2 else nn.MaxPool3d(2)
        self.apply(init_xavier)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (B, in_channels, *spatial) to logits of shape (B, num_classes, *spatial)."""
        check_images(images, self.in_channels, self.n_axes)
        if min(images.shape[2:]) < self.min_size:
            raise DataError(
                f"images of shape {list(images.shape[2:])} are too small: every axis needs at least {self.min_size} "
                "entries (2 ** (depth - 1)); pad them, or build the network with a smaller depth"
            )
        skips: list[torch.Tensor] = []
        hidden = images
        for level, down in enumerate(self.down_convs):
            hidden = down(hidden if level == 0 else self.pool(hidden))
            skips.append(hidden)
        for level, up in enumerate(self.up_convs):
            hidden = up(hidden, skips[-2 - level])
        return self.conv_final(hidden)


def init_xavier(module: nn.Module) -> None:
    """Draw the weights of a convolution as Glorot & Bengio 2010 do, biases 0; other modules stay as they are."""
    if isinstance(module, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        nn.init.xavier_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class ResidualUnit(architectures.ResidualUnit, Part):
    """Two convolutions with normalisation beside a shortcut.

    Parameters
    ----------
    channels, kernel, stride, plan
        As in the base.
    """

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, C, *spatial) to (B, channels, *strided), the lengths divided by the stride and rounded up."""
        residual = self.activate(self.norm1(self.conv1(hidden)))
        residual = self.norm2(self.conv2(self.dropout(residual)))
        return self.activate(residual + self.shortcut(hidden))


class ResidualDown(architectures.ResidualDown, Part):
    """A level of residual units on the way down.

    Parameters
    ----------
    plan, level
        As in the base.
    """

    unit = ResidualUnit

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (B, C, *spatial) to (B, channels, *strided), the lengths divided by the stride and rounded up."""
        return self.units(hidden)


class ResidualUp(architectures.ResidualUp, Part):
    """A level of residual units on the way up.

    Parameters
    ----------
    plan, level
        As in the base.
    """

    unit = ResidualUnit

    def forward(self, hidden: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Map the deeper level, and this one (B, C, *spatial) of the way down, to (B, C, *spatial)."""
        hidden = self.upconv(hidden)
        for axis in range(2, skip.dim()):
            hidden = hidden.narrow(axis, 0, skip.size(axis))
        return self.merge(torch.cat([hidden, skip], 1))


class ResidualUNet(architectures.ResidualUNet, Part):
    """U-Nets of residual units with normalisation, strided convolutions, and outputs of several levels.

    Parameters
    ----------
    plan
        What it is made of.
    """

    down, up = ResidualDown, ResidualUp

    def __init__(self, plan: UNetPlan) -> None:
        super().__init__(plan)
        self.in_channels, self.n_axes, self.lengths = plan.in_channels, plan.n_axes, list(plan.reach)
        self.downs = nn.ModuleList(self.downs.children())
        self.ups = nn.ModuleList(self.ups.children())
        self.heads = nn.ModuleList(self.heads.children())
        self.apply(init_residual_unet)

    def forward(self, images: torch.Tensor, n_scales: int) -> list[torch.Tensor]:
        """Map (B, in_channels, *spatial) to logits of the first ``n_scales`` levels, each (B, num_classes, *level)."""
        check_images(images, self.in_channels, self.n_axes)
        is_too_small = True
        for axis, stride in enumerate(self.lengths):
            is_too_small = is_too_small and images.size(axis + 2) <= stride
        if is_too_small:
            raise DataError(
                f"images of shape {list(images.shape[2:])} are too small: the strides make one entry of "
                f"{self.lengths}, and normalisation of a single entry leaves nothing of it; pad them, or build the "
                "network with fewer channels (levels) or smaller strides"
            )
        skips: list[torch.Tensor] = []
        hidden = images
        for down in self.downs:
            hidden = down(hidden)
            skips.append(hidden)
        merged: list[torch.Tensor] = []
        for step, up in enumerate(self.ups):
            hidden = up(hidden, skips[-2 - step])
            merged.append(hidden)
        outputs: list[torch.Tensor] = []
        for level, head in enumerate(self.heads):
            if level < n_scales:
                outputs.append(head(merged[-1 - level]))
        return outputs


def init_residual_unet(module: nn.Module) -> None:
    """Draw the weights in front of normalisation as He et al. 2015 do, others as Glorot & Bengio 2010."""
    if getattr(module, "bias", None) is None:
        init_for_relu(module)
    else:
        init_xavier(module)


class Generator(architectures.Generator, Part):
    """The generator of DCGAN (Radford et al. 2016): images of 64 x 64 pixels out of noise.

    It has five transposed convolutions.

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
        super().__init__(n_channels, noise_length, start_filts)
        self.apply(init_dcgan)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Map noise of shape (B, noise_length) to images of shape (B, n_channels, 64, 64) in [-1, 1]."""
        hidden = noise[:, :, None, None]
        hidden = functional.relu(self.bn1(self.conv1(hidden)))
        hidden = functional.relu(self.bn2(self.conv2(hidden)))
        hidden = functional.relu(self.bn3(self.conv3(hidden)))
        hidden = functional.relu(self.bn4(self.conv4(hidden)))
        return torch.tanh(self.conv5(hidden))


class Discriminator(architectures.Discriminator, Part):
    """The discriminator of DCGAN: one logit for each image of 64 x 64 pixels, high for real ones.

    It has five convolutions.

    Parameters
    ----------
    n_channels
        Channels of the images.
    start_filts
        Channels behind the first convolution; each one after has twice as many.
    """

    def __init__(self, n_channels: int, start_filts: int = 64) -> None:
        super().__init__(n_channels, start_filts)
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


def init_dcgan(module: nn.Module) -> None:
    """Draw weights as Radford et al. do: N(0, 0.02) in convolutions, N(1, 0.02) as scale of batch normalisation."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


class Encoder(architectures.Encoder, Part):
    """Mean and logarithm of the variance of the latent variables of an image (Kingma & Welling 2014).

    Parameters
    ----------
    in_channels
        Channels of the images.
    size
        A quarter of their height and of their width.
    latent_dim
        Number of latent variables.
    start_filts
        Channels of the first convolution.
    """

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map images of shape (B, in_channels, H, W) to two tensors of shape (B, latent_dim)."""
        check_images(images, self.conv1.in_channels, 2)
        height, width = self.image_size
        if images.size(2) != height or images.size(3) != width:
            raise DataError(
                f"the images have {images.size(2)} x {images.size(3)} pixels, but the network takes {height} x {width}"
            )
        hidden = functional.relu(self.conv2(functional.relu(self.conv1(images)))).flatten(1)
        return self.mean(hidden), self.log_var(hidden)


class Decoder(architectures.Decoder, Part):
    """Images out of latent variables.

    Parameters
    ----------
    in_channels, size, latent_dim, start_filts
        As in :class:`Encoder`.
    """

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        """Map latent variables of shape (B, latent_dim) to (B, in_channels, H, W)."""
        _, height, width = self.hidden_shape
        hidden = functional.relu(self.fc(latent)).reshape(latent.size(0), -1, height, width)
        return self.conv2(functional.relu(self.conv1(hidden)))
