"""The architectures of the ready networks as modules of flax."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from delira.backends.jax.networks import layers
from delira.models import architectures


class Part(nnx.Module):
    """A module that computes what its method ``call`` says."""

    make = layers
    call: Callable[..., Any]

    def __call__(self, *inputs: jax.Array) -> Any:
        """Call it."""
        return self.call(*inputs)


class ResidualBlock(architectures.ResidualBlock, Part):
    """Two convolutions beside a shortcut."""


class ResNet18(architectures.ResNet18, Part):
    """ResNet-18."""

    block = ResidualBlock


class VGG3D(architectures.VGG3D, Part):
    """VGG-11 for volumes."""


class DownConv(architectures.DownConv, Part):
    """A level on the way down."""


class UpConv(architectures.UpConv, Part):
    """A level on the way up."""


class UNet(architectures.UNet, Part):
    """U-Nets for images and volumes."""

    down, up = DownConv, UpConv


class Generator(architectures.Generator, Part):
    """The generator of DCGAN."""


class Discriminator(architectures.Discriminator, Part):
    """The discriminator of DCGAN."""


class Encoder(architectures.Encoder, Part):
    """The encoder of an autoencoder."""


class Decoder(architectures.Decoder, Part):
    """The decoder of an autoencoder."""
