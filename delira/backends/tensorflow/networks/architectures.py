"""The architectures of the ready networks as layers of Keras."""

import keras

from delira.backends.tensorflow.networks import layers
from delira.models import architectures


class Part(keras.layers.Layer):
    """A layer whose layers have their weights when it is made, so that nothing is left to build at its first call."""

    make = layers

    def __init__(self) -> None:
        super().__init__()
        self.built = True


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
