"""What the ready networks of all rooms have in common: arguments, names of their parts, and what labels become.

Each class is the first base of its namesakes, the network of a room the second. It makes the parts by the methods
``_build_model`` or ``_build_models`` of the room and keeps them under the names that all rooms have, so that weights
can be transferred.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from delira.errors import ConfigError, DataError

# ------------------------------------------------------------------ networks


class ReadyNetwork:
    """What all ready networks share."""

    def _sources(self) -> Mapping[str, Any]:
        """Arguments of layers that say where weights are drawn from, in rooms where a network has ``drawn_from``."""
        return getattr(self, "drawn_from", {})


class WholeImage(ReadyNetwork):
    """A few numbers for each image or volume."""

    _build_model: Callable[..., Any]

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        super().__init__(in_channels=in_channels, n_outputs=n_outputs, **kwargs)  # type: ignore[call-arg]
        self.module = self._build_model(in_channels, n_outputs, **self._sources(), **kwargs)


class Classification(WholeImage):
    """Classification of images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs), for
    cross-entropy of logits and class numbers or, with several labels at once, a network of your own ``prepare_batch``.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """


class VGG3DClassification(WholeImage):
    """Classification of volumes, by a VGG-11 with 3-D convolutions and batch normalisation.

    It takes volumes of any size, (B, in_channels, D, H, W), and returns ``{"pred": logits}`` of shape (B, n_outputs),
    for cross-entropy of logits and class numbers.

    Parameters
    ----------
    in_channels
        Channels of the volumes.
    n_outputs
        Number of classes.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """


class Regression(WholeImage):
    """Regression on images, by a ResNet-18; another module is one overridden :meth:`_build_model` away.

    It takes images of any size, (B, in_channels, H, W), and returns ``{"pred": values}`` of shape (B, n_outputs), for
    the mean squared error and its like.

    Parameters
    ----------
    in_channels
        Channels of the images.
    n_outputs
        Values to predict for each image.
    **kwargs
        What else :meth:`_build_model` takes: here ``start_filts`` (64), the channels of the first stage.
    """


class UNet2d(ReadyNetwork):
    """Segmentation of images, by a U-Net (Ronneberger et al. 2015) with padded convolutions.

    It takes images (B, in_channels, H, W), H and W at least ``2 ** (depth - 1)`` and otherwise of any size, and returns
    ``{"pred": logits}`` of shape (B, num_classes, H, W), for cross-entropy and the losses of
    ``delira.training.losses``.

    Parameters
    ----------
    num_classes
        Number of classes, with the background.
    in_channels
        Channels of the images.
    depth
        Number of levels.
    start_filts
        Channels of the first level; each further one has twice as many.
    up_mode
        ``"transpose"``: transposed convolutions; ``"upsample"``: every pixel twice in each direction, and a 1x1
        convolution.
    merge_mode
        How a level on the way up meets the one on the way down: ``"concat"`` or ``"add"`` (not with ``"upsample"``).

    Raises
    ------
    ConfigError
        If a mode is none of these.
    """

    _n_axes: ClassVar[int] = 2
    _build_model: Callable[..., Any]

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 1,
        depth: int = 5,
        start_filts: int = 64,
        up_mode: str = "transpose",
        merge_mode: str = "concat",
    ) -> None:
        arguments = {
            "num_classes": num_classes,
            "in_channels": in_channels,
            "depth": depth,
            "start_filts": start_filts,
            "up_mode": up_mode,
            "merge_mode": merge_mode,
        }
        super().__init__(**arguments)
        self.module = self._build_model(n_axes=self._n_axes, **self._sources(), **arguments)


class UNet3d(UNet2d):
    """Segmentation of volumes, by a U-Net (Çiçek et al. 2016) with padded convolutions and no batch normalisation.

    It takes volumes (B, in_channels, D, H, W), each axis at least ``2 ** (depth - 1)`` and otherwise of any size, and
    returns ``{"pred": logits}`` of shape (B, num_classes, D, H, W).

    Parameters
    ----------
    num_classes
        Number of classes, with the background.
    in_channels
        Channels of the volumes.
    depth, start_filts, up_mode, merge_mode
        As in the U-Net for images.

    Raises
    ------
    ConfigError
        If a mode is none of those.
    """

    _n_axes = 3

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 3,
        depth: int = 5,
        start_filts: int = 64,
        up_mode: str = "transpose",
        merge_mode: str = "concat",
    ) -> None:
        super().__init__(num_classes, in_channels, depth, start_filts, up_mode, merge_mode)


class GenerativeAdversarialNetwork(ReadyNetwork):
    """Images like those of the training data, by DCGAN (Radford et al. 2016).

    The images are (B, n_channels, 64, 64), scaled to [-1, 1]. ``gen`` makes images of noise (B, nz), ``discr`` tells
    real from made by one logit for each image, (B, 1). The outputs are ``"fake_images"``, ``"discr_fake"`` and
    ``"discr_real"``. Losses are called as ``loss(logits, target)`` with ones or zeros as target: binary cross-entropy
    of logits, or the mean squared error for a least-squares GAN. The optimizers are called ``"gen"`` and ``"discr"``:
    train with the ``create_optims_gan_default`` of the room as ``optim_fn``. A loss or metric ``name`` gives three
    values: ``<name>_discr_real`` and ``<name>_discr_fake``, which the discriminator lowers, and
    ``<name>_adversarial``, which the generator does.

    Parameters
    ----------
    n_channels
        Channels of the images.
    noise_length
        Numbers that an image is made of, kept in ``nz``.
    **kwargs
        What else :meth:`_build_models` takes: here ``start_filts`` (64), the channels of the widest level.
    """

    _build_models: Callable[..., tuple[Any, Any]]

    def __init__(self, n_channels: int, noise_length: int, **kwargs: Any) -> None:
        super().__init__(n_channels=n_channels, noise_length=noise_length, **kwargs)  # type: ignore[call-arg]
        self.nz = noise_length
        self.gen, self.discr = self._build_models(n_channels, noise_length, **self._sources(), **kwargs)


class VariationalAutoencoder(ReadyNetwork):
    """Images as a few normally distributed latent variables, and back.

    It takes images (B, in_channels, H, W) and returns ``{"pred", "mean", "log_var"}``: the reconstruction, and mean and
    logarithm of the variance of the latent variables, both (B, latent_dim). In training the latent variables are drawn;
    in evaluation they are the mean.

    Losses compare ``"pred"`` with ``"data"`` and are means over all values: binary cross-entropy of logits for images
    in [0, 1] (``"pred"`` are logits then), the squared error for others. The loss ``"kl"`` is added; with the former
    the sum of both is the negative evidence lower bound, divided by the values of an image.

    Parameters
    ----------
    in_channels
        Channels of the images.
    image_size
        Height and width in pixels, or one number for both; multiples of 4.
    latent_dim
        Number of latent variables.
    start_filts
        Channels of the first convolution; the second has twice as many.

    Raises
    ------
    ConfigError
        If the size is no multiple of 4.
    """

    _build_models: Callable[..., tuple[Any, Any]]

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            in_channels=in_channels, image_size=image_size, latent_dim=latent_dim, start_filts=start_filts
        )
        size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
        if len(size) != 2 or any(length < 4 or length % 4 for length in size):
            raise ConfigError(f"image_size must be a multiple of 4, or two of them (height, width), got {image_size!r}")
        quarter = (size[0] // 4, size[1] // 4)
        self.encoder, self.decoder = self._build_models(
            in_channels, quarter, latent_dim, start_filts, **self._sources()
        )


def check_channels(shape: Sequence[int | None], n_channels: int) -> None:
    """Refuse images of other channels than a network takes, e.g. images that have them last.

    Parameters
    ----------
    shape
        Of the images, (B, C, ...).
    n_channels
        What the network takes.

    Raises
    ------
    DataError
        Naming both.
    """
    if shape[1] != n_channels:
        axes = ", ".join(map(str, shape[1:]))
        raise DataError(
            f"the images have {shape[1]} channels (shape (B, {axes})), and the network is built for {n_channels}; the "
            f"channels come first: (B, {n_channels}, …)"
        )


# ------------------------------------------------------------------ labels


@dataclasses.dataclass(frozen=True)
class Labels:
    """What networks make of ``"label"`` in a prepared batch, whatever the arrays."""

    is_numeric: Callable[[Any], bool]
    """Whether a value is an array of numbers."""
    integers: Callable[[Any], Any]
    """The same numbers as the integers that losses take."""
    floats: Callable[[Any], Any]
    """The same numbers in float32."""

    def class_numbers(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """For classification: integers, of shape (B,) instead of (B, 1)."""
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            has_axis = len(label.shape) > 1 and label.shape[-1] == 1
            prepared["label"] = self.integers(label[..., 0] if has_axis else label)
        return prepared

    def values(self, prepared: dict[str, Any]) -> dict[str, Any]:
        """For regression: float32, of shape (B, 1) instead of (B,)."""
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            prepared["label"] = self.floats(label[:, None] if len(label.shape) == 1 else label)
        return prepared

    def masks(self, prepared: dict[str, Any], n_axes: int) -> dict[str, Any]:
        """For segmentation of ``n_axes`` dimensions: class numbers instead of masks of one channel, else float32."""
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            if len(label.shape) != n_axes + 2:
                prepared["label"] = self.integers(label)
            else:
                prepared["label"] = self.integers(label[:, 0]) if label.shape[1] == 1 else self.floats(label)
        return prepared
