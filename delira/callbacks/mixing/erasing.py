"""Images with holes, and images with parts of others."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.mixing.batches import images_of, rows_of
from delira.callbacks.mixing.mixed import ImageMixing
from delira.callbacks.mixing.randomness import RandomCallback
from delira.state import State
from delira.utils.arrays import Array, cast, ops_of
from delira.utils.checks import check_flags, check_numbers, check_whole, if_given


def boxes(rng: np.random.Generator, n: int, shape: Sequence[int], lengths: Any) -> np.ndarray:
    """Return where boxes are whose centres are drawn anywhere in an image, so that parts of them may be outside.

    Parameters
    ----------
    rng
        The generator.
    n
        How many images there are.
    shape
        Of an image, without channels.
    lengths
        Of the boxes' sides, for each axis of the image: numbers, or arrays of shape ``(n,)``.

    Returns
    -------
    ndarray of bool of shape ``(n, *shape)``
    """
    inside = np.ones((n, *(1 for _ in shape)), dtype=bool)
    for axis, (size, length) in enumerate(zip(shape, lengths, strict=True)):
        begin = rng.integers(0, size, n) - np.asarray(length) // 2
        places, begin = np.arange(size), begin[:, None]
        along = (places >= begin) & (places < begin + np.broadcast_to(length, n)[:, None])
        inside = inside & along.reshape(n, *(size if at == axis else 1 for at in range(len(shape))))
    return inside


def channels_are_first(images: Array, channels_first: bool | None) -> bool:
    """Where the channels of images are, by the framework if it is not said: only PyTorch and numpy have them first."""
    return ops_of(images).class_axis == 1 if channels_first is None else channels_first


def spatial_shape(images: Array, channels_first: bool | None) -> tuple[int, ...]:
    """Return the shape of an image without its channels."""
    shape = tuple(map(int, images.shape))
    return shape[2:] if channels_are_first(images, channels_first) else shape[1:-1]


def patched(images: Array, mask: np.ndarray, patches: object, channels_first: bool | None) -> Any:
    """Return images with others where a mask of shape ``(B, ...)``, or ``(1, ...)``, is true."""
    keep = np.expand_dims(~mask, 1 if channels_are_first(images, channels_first) else -1)
    ops = ops_of(images)
    return ops.where(ops.asarray(keep, images), images, patches)


class Cutout(RandomCallback):
    """Train on images with square holes of one value, each image with holes of its own.

    A hole's centre is drawn anywhere in the image, so that it may be smaller at the border. Images have any number of
    axes: of volumes, holes are cubes.

    Parameters
    ----------
    n_holes
        Holes of an image.
    length
        Of the sides of a hole, in pixels.
    constant
        What is in the holes.
    channels_first
        Whether images are of shape ``(B, C, ...)`` or ``(B, ..., C)``; None: as the framework has it, first in PyTorch
        and last in Keras and flax.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if the input is no array of images of floating-point numbers.

    References
    ----------
    DeVries and Taylor, Improved regularization of convolutional neural networks with cutout, 2017, arXiv:1708.04552.
    """

    def __init__(self, n_holes: int, length: int, constant: float = 0.0, *, channels_first: bool | None = None):
        check_whole(self, at_least=1, n_holes=n_holes, length=length)
        check_numbers(self, constant=constant)
        check_flags(self, **if_given(channels_first=channels_first))
        self.n_holes, self.length, self.constant, self.channels_first = n_holes, length, constant, channels_first

    def on_sample(self, state: State) -> None:
        """Cut the holes out, in a copy."""
        images, rng = images_of(state, type(self).__name__), self._draw(state)
        shape = spatial_shape(images, self.channels_first)
        lengths = [self.length] * len(shape)
        mask = np.logical_or.reduce([boxes(rng, len(images), shape, lengths) for _ in range(self.n_holes)])
        state[keys.X] = patched(images, mask, self._fill(rng, mask, images), self.channels_first)

    def _fill(self, rng: np.random.Generator, mask: np.ndarray, images: Array) -> Any:
        return self.constant


class RandomErase(Cutout):
    """Train on images with square holes full of noise, from 0 to 1, each pixel and channel with its own.

    Parameters
    ----------
    n_holes, length, channels_first
        As for :class:`Cutout`.

    References
    ----------
    Zhong et al., Random erasing data augmentation, AAAI 2020, arXiv:1708.04896.
    """

    def __init__(self, n_holes: int, length: int, *, channels_first: bool | None = None):
        super().__init__(n_holes, length, channels_first=channels_first)

    def _fill(self, rng: np.random.Generator, mask: np.ndarray, images: Array) -> Any:
        is_first = channels_are_first(images, self.channels_first)
        n_channels = int(images.shape[1 if is_first else -1])
        noise = np.zeros((*mask.shape, n_channels), dtype=np.float32)
        noise[mask] = rng.random((int(mask.sum()), n_channels), dtype=np.float32)
        ops = ops_of(images)
        return cast(ops.asarray(np.moveaxis(noise, -1, 1) if is_first else noise, images), images)


class CutMix(ImageMixing):
    """Train on images in which a box is of another image of the batch, with the label of each by its area.

    A box has ``sqrt(1 - lambda)`` of an image's sides, with lambda from Beta(alpha, alpha), and its centre anywhere;
    the label of the image itself weighs as much as was really kept of it. ``MIXUP_LAMBDA`` and ``MIXUP_PERMUTATION``
    are in the state.

    Parameters
    ----------
    alpha
        Of the Beta distribution.
    classes
        How many classes there are: targets of shape ``(B,)`` become probabilities of shape ``(B, classes)``, in
        validations one-hot ones; ``-1``: targets are one-hot already.
    mixup_loss
        Whether targets become pairs for the criterion :func:`mixup_loss` instead: then the images of a batch have the
        same box, as there is one weight. Otherwise each image has a box of its own, and ``MIXUP_LAMBDA`` the shape
        ``(B,)``.
    channels_first
        As for :class:`Cutout`.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if the input is no array of images of floating-point numbers.

    References
    ----------
    Yun et al., CutMix: Regularization strategy to train strong classifiers with localizable features, ICCV 2019,
    arXiv:1905.04899.
    """

    def __init__(
        self, alpha: float, classes: int = -1, mixup_loss: bool = False, *, channels_first: bool | None = None
    ):
        super().__init__(alpha, classes, mixup_loss)
        check_flags(self, **if_given(channels_first=channels_first))
        self.channels_first = channels_first

    def on_sample(self, state: State) -> None:
        """Put boxes of other images into copies of the images."""
        images, rng = images_of(state, "CutMix"), self._draw(state)
        rows = rng.permutation(len(images))
        shape = spatial_shape(images, self.channels_first)
        n = 1 if self.mixup_loss else len(images)
        side = (1.0 - rng.beta(self.alpha, self.alpha, n)) ** (1.0 / len(shape))
        mask = boxes(rng, n, shape, [(side * size).astype(int) for size in shape])
        state[keys.X] = patched(images, mask, rows_of(images, rows), self.channels_first)
        self._mix_targets(state, 1.0 - mask.reshape(n, -1).mean(axis=1), rows)
