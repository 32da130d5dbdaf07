"""What the ready networks of all backends have in common: arguments, names of their parts, and what labels become.

Each class is the first base of its namesakes, the network of a backend the second. It makes the parts by the methods
``_build_model`` or ``_build_models`` of the backend and keeps them under the names that all backends have, so that
weights can be transferred.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, TypeVar, Unpack

import numpy as np

from delira.errors import ConfigError, DataError, check_choice, check_known, check_whole
from delira.models.unet_plan import UNetDetails, UNetPlan

# ------------------------------------------------------------------ networks


def _sources(network: object) -> Mapping[str, Any]:
    """Arguments of layers that say where weights are drawn from, in backends where a network has ``drawn_from``."""
    return getattr(network, "drawn_from", {})


class WholeImage:
    """A few numbers for each image or volume."""

    _build_model: Callable[..., Any]

    def __init__(self, in_channels: int, n_outputs: int, **kwargs: Any) -> None:
        sizes, further = _sizes(self, in_channels=in_channels, n_outputs=n_outputs), _with_width(self, kwargs)
        super().__init__(**sizes, **further)  # type: ignore[call-arg]
        self.module = self._build_model(*sizes.values(), **_sources(self), **further)


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


class MultilayerPerceptron:
    """Classification of, or regression on, rows of features, by fully connected layers with ReLU between them.

    It takes rows (B, n_features) and returns ``{"pred": logits}``, or values, of shape (B, n_outputs).

    Parameters
    ----------
    n_features
        Numbers in a row.
    n_outputs
        Number of classes, or values to predict for each row.
    hidden
        Size of the hidden layer, or of each; of none the network is linear.

    Raises
    ------
    ConfigError
        If a size is no whole number of at least 1.
    """

    _build_model: Callable[..., Any]

    def __init__(self, n_features: int, n_outputs: int, hidden: int | Sequence[int] = (100,)) -> None:
        sizes = _sizes(self, n_features=n_features, n_outputs=n_outputs)
        given = hidden if isinstance(hidden, Sequence | np.ndarray) and not isinstance(hidden, str) else [hidden]
        widths = tuple(_sizes(self, hidden=width)["hidden"] for width in given)
        super().__init__(**sizes, hidden=widths)  # type: ignore[call-arg]
        self.module = self._build_model([sizes["n_features"], *widths, sizes["n_outputs"]], **_sources(self))


class UNet2d:
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
        If a mode is none of these, or a number is no whole one of at least 1.
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
        sizes = _sizes(self, num_classes=num_classes, in_channels=in_channels, depth=depth, start_filts=start_filts)
        arguments = {**sizes, "up_mode": up_mode, "merge_mode": merge_mode}
        super().__init__(**arguments)
        self.module = self._build_model(n_axes=self._n_axes, **_sources(self), **arguments)


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
        If a mode is none of those, or a number is no whole one of at least 1.
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


class ResidualUNet2d:
    """Segmentation of images, by a U-Net of residual units with normalisation (as in nnU-Net, Isensee et al. 2024).

    It takes images (B, in_channels, H, W) of any size, the strides need not divide it, and returns ``{"pred": logits}``
    of shape (B, num_classes, H, W), for cross-entropy and the losses of ``delira.training.losses``.

    With ``deep_supervision=n`` it returns in training the logits of n coarser levels, too, as ``"pred_1"``,
    ``"pred_2"`` and so on. Every loss that reads ``"pred"`` is then the mean over the scales with the weights 1, 1/2,
    1/4, …, divided by their sum (Isensee et al. 2021). A coarser level is compared with every second (fourth, …) entry
    of the target, as its strides say, and of whatever else the loss reads that has the size of ``"pred"``. In
    evaluation there is ``"pred"`` alone, so that ``val_<loss>`` is the plain loss.

    Parameters
    ----------
    num_classes
        Number of classes, with the background.
    in_channels
        Channels of the images.
    channels
        Channels of each level, which also says how many levels there are.
    strides
        How many entries of a level become one of the next: one number, or one for each step from a level to the next;
        of these each may be one for each axis.
    norm
        ``"instance"``: every channel of every image by itself, also if a batch has one; ``"batch"``: over the batch.
    deep_supervision
        How many coarser levels learn by the losses, too: at most two less than there are levels.
    **details
        ``kernels`` (3): entries of the convolutions, one number, or one for each level; of these each may be one for
        each axis. ``n_units`` (2): residual units of a level on the way down, one number, or one for each level.
        ``activation`` (``"leaky_relu"``, ``"relu"`` or ``"silu"``). ``dropout`` (0.0): share of the channels dropped
        in each unit in training.

    Raises
    ------
    ConfigError
        If one of these is something else.
    """

    _n_axes: ClassVar[int] = 2
    _build_model: Callable[..., Any]

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 1,
        channels: Sequence[int] = (32, 64, 128, 256, 320),
        strides: int | Sequence[int | Sequence[int]] = 2,
        norm: str = "instance",
        deep_supervision: int = 0,
        **details: Unpack[UNetDetails],
    ) -> None:
        check_known(details, UNetDetails.__annotations__, f"{type(self).__name__} has no argument")
        plan = UNetPlan(
            n_axes=self._n_axes,
            num_classes=num_classes,
            in_channels=in_channels,
            channels=channels,
            strides=strides,
            norm=norm,
            deep_supervision=deep_supervision,
            **details,
        )
        super().__init__(**plan.arguments)
        self.n_scales = 1 + plan.deep_supervision
        self.module = self._build_model(plan, **_sources(self))


class ResidualUNet3d(ResidualUNet2d):
    """Segmentation of volumes, by a U-Net of residual units with normalisation (as in nnU-Net, Isensee et al. 2024).

    It takes volumes (B, in_channels, D, H, W) of any size and returns ``{"pred": logits}`` of shape
    (B, num_classes, D, H, W); with ``deep_supervision`` it learns on coarser levels, too, as that for images.

    Parameters
    ----------
    num_classes, in_channels, channels, norm, deep_supervision, **details
        As in the U-Net for images.
    strides
        As there. For thick slices, ``strides=[(1, 2, 2), 2, 2]`` leaves them apart on the first level of four, and
        ``kernels=[(1, 3, 3), 3, 3, 3]`` looks at each by itself there.

    Raises
    ------
    ConfigError
        If one of these is something else.
    """

    _n_axes = 3


class GenerativeAdversarialNetwork:
    """Images like those of the training data, by DCGAN (Radford et al. 2016).

    The images are (B, n_channels, 64, 64), scaled to [-1, 1]. ``gen`` makes images of noise (B, nz), ``discr`` tells
    real from made by one logit for each image, (B, 1). The outputs are ``"fake_images"``, ``"discr_fake"`` and
    ``"discr_real"``. Losses are called as ``loss(logits, target)`` with ones or zeros as target: binary cross-entropy
    of logits, or the mean squared error for a least-squares GAN. The optimizers are called ``"gen"`` and ``"discr"``:
    train with the ``create_optims_gan_default`` of the backend as ``optim_fn``. A loss or metric ``name`` gives three
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
        sizes, further = _sizes(self, n_channels=n_channels, noise_length=noise_length), _with_width(self, kwargs)
        super().__init__(**sizes, **further)  # type: ignore[call-arg]
        self.nz = sizes["noise_length"]
        self.gen, self.discr = self._build_models(*sizes.values(), **_sources(self), **further)


class VariationalAutoencoder:
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
        If the size is no multiple of 4, or another number is no whole one of at least 1.
    """

    _build_models: Callable[..., tuple[Any, Any]]

    def __init__(
        self, in_channels: int, image_size: int | tuple[int, int], latent_dim: int = 20, start_filts: int = 32
    ) -> None:
        height, width = _image_size(image_size)
        sizes = _sizes(self, in_channels=in_channels, latent_dim=latent_dim, start_filts=start_filts)
        size = height if isinstance(image_size, Integral) else (height, width)
        super().__init__(**sizes, image_size=size)  # type: ignore[call-arg]
        self.encoder, self.decoder = self._build_models(
            sizes["in_channels"],
            (height // 4, width // 4),
            sizes["latent_dim"],
            sizes["start_filts"],
            **_sources(self),
        )


# ------------------------------------------------------------------ arguments and images


def _sizes(network: object, **given: Any) -> dict[str, int]:
    """Numbers of channels, classes and levels, as integers of Python: frameworks refuse those of numpy."""
    check_whole(network, at_least=1, **given)
    return {name: int(value) for name, value in given.items()}


def _with_width(network: object, arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in arguments.items() if name == "start_filts"}
    return {**arguments, **_sizes(network, **given)}


def _image_size(given: object) -> tuple[int, int]:
    """Height and width."""
    one_or_none = [given, given] if isinstance(given, Integral) else []
    lengths: list[Any] = list(given) if isinstance(given, Iterable) else one_or_none
    are_right = [isinstance(length, Integral) and int(length) >= 4 and int(length) % 4 == 0 for length in lengths]
    if are_right != [True, True]:
        raise ConfigError(f"image_size must be a multiple of 4, or two of them (height, width), got {given!r}")
    return int(lengths[0]), int(lengths[1])


_Value = TypeVar("_Value")


def by_axis(given: _Value | tuple[_Value, ...], n_axes: int) -> tuple[_Value, ...]:
    """A value for each axis, of one for all of them or one for each."""
    return given if isinstance(given, tuple) else (given,) * n_axes


def check_modes(up_mode: str, merge_mode: str) -> None:
    """Refuse ways of a U-Net to go up that there are not.

    Raises
    ------
    ConfigError
        Naming the mode, or that two do not go together.
    """
    check_choice("UNet", ("transpose", "upsample"), up_mode=up_mode)
    check_choice("UNet", ("concat", "add"), merge_mode=merge_mode)
    if (up_mode, merge_mode) == ("upsample", "add"):
        raise ConfigError(
            "up_mode='upsample' does not go with merge_mode='add': copied entries would be added to a level of full "
            "resolution; use merge_mode='concat' or up_mode='transpose'"
        )


def check_images(shape: Sequence[int | None], n_channels: int, n_axes: int) -> None:
    """Refuse images of other channels than a network takes, e.g. images that have them last, and of other axes.

    Parameters
    ----------
    shape
        Of the images, (B, C, ...).
    n_channels, n_axes
        What the network takes: channels, and axes of an image without them.

    Raises
    ------
    DataError
        Naming both.
    """
    if len(shape) != n_axes + 2:
        raise DataError(
            f"the images have the shape {tuple(shape)}, and the network takes {n_axes + 2} axes: (B, {n_channels}, "
            f"{'H, W' if n_axes == 2 else 'D, H, W'})"
        )
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

    def class_numbers(self, prepared: dict[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
        """For classification, integers of shape (B,), also of those of shape (B, 1); ``batch`` is what was prepared."""
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            _check_classes(batch["label"])
            has_axis = len(label.shape) > 1 and label.shape[-1] == 1
            prepared["label"] = self.integers(label[..., 0] if has_axis else label)
        return prepared

    def values(self, prepared: dict[str, Any], batch: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """For regression, float32 of shape (B, n_outputs).

        Those of shape (B,) get a last axis: beside predictions of shape (B, 1) they would be broadcast to (B, B).
        """
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            prepared["label"] = self.floats(label[:, None] if len(label.shape) == 1 else label)
        return prepared

    def masks(self, prepared: dict[str, Any], n_axes: int, batch: Mapping[str, Any]) -> dict[str, Any]:
        """For segmentation of ``n_axes`` dimensions, class numbers instead of masks of one channel, else float32."""
        label: Any = prepared.get("label")
        if self.is_numeric(label):
            has_axis = len(label.shape) == n_axes + 2
            if has_axis and label.shape[1] != 1:
                prepared["label"] = self.floats(label)
                return prepared
            _check_classes(batch["label"])
            prepared["label"] = self.integers(label[:, 0] if has_axis else label)
        return prepared


def _check_classes(label: object) -> None:
    """Refuse what would become another class: 0.9 would be 0, and NaN any. On the host, where a look is cheap."""
    if not isinstance(label, (np.ndarray, list, tuple)) or (values := np.asarray(label)).dtype.kind != "f":
        return
    is_whole = np.isfinite(values) & (values == np.rint(values))
    if not is_whole.all():
        place = tuple(int(axis[0]) for axis in np.nonzero(~is_whole))
        raise DataError(
            f"batch entry 'label' holds {values[place]} (sample {place[0]} of the batch), which is no class: class "
            "numbers are whole. Round them if that is meant, or let a prepare_batch of your own keep them as they are"
        )
