"""Networks that give each pixel or voxel a class."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from delira.backends.jax.generator import GENERATOR
from delira.backends.jax.network import AbstractJaxNetwork
from delira.backends.jax.networks.layers import xavier_normal
from delira.backends.jax.networks.unet import UNet
from delira.contract import room_default


class _SegmentationNetwork(AbstractJaxNetwork):
    """What the U-Nets for images and volumes have in common."""

    _n_axes: ClassVar[int]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.module = self._build_model(n_axes=self._n_axes, rngs=self.rngs, **kwargs)

    @staticmethod
    def _build_model(**kwargs: Any) -> nnx.Module:
        """The module that maps (B, in_channels, *spatial) to (B, num_classes, *spatial); override it for another."""
        modes = (kwargs.pop("up_mode"), kwargs.pop("merge_mode"))
        return UNet(modes=modes, **kwargs)

    def __call__(self, x: jax.Array) -> dict[str, jax.Array]:
        """Logits of a batch.

        Parameters
        ----------
        x
            Array of shape (B, in_channels, *spatial), float32.
        """
        return {"pred": self.module(x)}

    @staticmethod
    def weight_init(m: nnx.Module) -> None:
        """Draw the weights of one convolution (Xavier, normal) and set its biases to 0; others stay as they are."""
        if isinstance(m, (nnx.Conv, nnx.ConvTranspose)):
            m.kernel[...] = xavier_normal(GENERATOR.next_key(), m.kernel.shape, m.kernel.dtype)
            if m.bias is not None:
                m.bias[...] = jnp.zeros_like(m.bias[...])

    def reset_params(self) -> None:
        """Draw all weights again."""
        for _, module in nnx.iter_modules(self):
            self.weight_init(module)


class UNet2dJax(_SegmentationNetwork):
    """Segmentation of images, by a U-Net (Ronneberger et al. 2015) with padded convolutions.

    It takes images (B, in_channels, H, W), H and W at least ``2 ** (depth - 1)`` and otherwise of any size, and returns
    ``{"pred": logits}`` of shape (B, num_classes, H, W), for the losses of ``delira.training.losses``.

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

    _n_axes = 2

    def __init__(
        self,
        num_classes: int,
        in_channels: int = 1,
        depth: int = 5,
        start_filts: int = 64,
        up_mode: str = "transpose",
        merge_mode: str = "concat",
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            in_channels=in_channels,
            depth=depth,
            start_filts=start_filts,
            up_mode=up_mode,
            merge_mode=merge_mode,
        )

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of a batch, as every network of the room; ``"label"`` becomes class numbers.

        Masks of shape (B, 1, H, W) lose the axis of channels, and all without one become int32. Masks with several
        channels (one-hot, or several labels at once) become float32.
        """
        return _with_classes(AbstractJaxNetwork.prepare_batch(batch, input_device, output_device), n_axes=2)


class UNet3dJax(_SegmentationNetwork):
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
        As in :class:`UNet2dJax`.

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
        super().__init__(
            num_classes=num_classes,
            in_channels=in_channels,
            depth=depth,
            start_filts=start_filts,
            up_mode=up_mode,
            merge_mode=merge_mode,
        )

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of a batch, as every network of the room; ``"label"`` becomes class numbers.

        Masks of shape (B, 1, D, H, W) lose the axis of channels, and all without one become int32. Masks with several
        channels (one-hot, or several labels at once) become float32.
        """
        return _with_classes(AbstractJaxNetwork.prepare_batch(batch, input_device, output_device), n_axes=3)


def _with_classes(prepared: dict[str, Any], n_axes: int) -> dict[str, Any]:
    """The batch with class numbers instead of masks of one channel."""
    if isinstance(label := prepared.get("label"), jax.Array):
        has_channels = label.ndim == n_axes + 2
        if has_channels and label.shape[1] == 1:
            prepared["label"] = label[:, 0].astype(jnp.int32)
        else:
            prepared["label"] = label.astype(jnp.float32 if has_channels else jnp.int32)
    return prepared
