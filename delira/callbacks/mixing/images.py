"""Images with holes, with parts of others, and mixed as waves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delira.callbacks.mixing.mixed import ImageMixing, RandomCallback, images_of, one_hot, refuse_weights, rows_of
from delira.errors import DataError, check_flags, check_numbers, check_whole, if_given
from delira.state import State, X
from delira.utils.arrays import Array, cast, log_softmax, ops_of, shape_of


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
        state[X] = patched(images, mask, self._fill(rng, mask, images), self.channels_first)

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
        return cast(ops_of(images).asarray(np.moveaxis(noise, -1, 1) if is_first else noise, images), images)


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
        refuse_weights(state, "CutMix")
        images, rng = images_of(state, "CutMix"), self._draw(state)
        rows, shape = rng.permutation(len(images)), spatial_shape(images, self.channels_first)
        n = 1 if self.mixup_loss else len(images)
        side = (1.0 - rng.beta(self.alpha, self.alpha, n)) ** (1.0 / len(shape))
        mask = boxes(rng, n, shape, [(side * size).astype(int) for size in shape])
        state[X] = patched(images, mask, rows_of(images, rows), self.channels_first)
        self._mix_targets(state, 1.0 - mask.reshape(n, -1).mean(axis=1), rows)


def bc_loss(prediction: Array, target: Array) -> Any:
    """Return the Kullback-Leibler divergence of predicted classes from the targets, a mean over the samples.

    Parameters
    ----------
    prediction
        Scores of shape ``(B, C, ...)``, of TensorFlow and JAX ``(B, ..., C)``, before any softmax.
    target
        Probabilities of the same shape, or labels of shape ``(B, ...)``; labels of no class do not count.

    Returns
    -------
    Array of one number.

    Raises
    ------
    DataError
        If they are no arrays of these shapes.

    References
    ----------
    Tokozume et al., Between-class learning for image classification, CVPR 2018, arXiv:1711.10284.
    """
    given, of_target = shape_of(prediction), shape_of(target)
    allowed = (given, (*given[:1], *given[2:]), given[:-1])
    if len(given) < 2 or not any(_may_be(of_target, shape) for shape in allowed):
        raise DataError(
            "bc_loss: prediction has the shape (B, C, ...), or (B, ..., C), and target the same, or one without C; got "
            f"{given} and {of_target}"
        )
    ops = ops_of(prediction)
    axis = ops.class_axis
    if len(target.shape) < len(prediction.shape):
        target = one_hot(target, int(prediction.shape[axis]), "bc_loss")
    scores = ops.as_float(prediction)
    target = cast(target, scores)
    log_target = ops.log(ops.where(target > 0, target, 1.0))
    return ops.sum(target * (log_target - log_softmax(scores, axis))) / ops.sum(target)


def _may_be(shape: Sequence[int | None], other: Sequence[int | None]) -> bool:
    """Return True if shapes are equal; axes whose length is open while ``tf.function`` compiles, ``None``, fit all."""
    return len(shape) == len(other) and all(a == b or a is None or b is None for a, b in zip(shape, other, strict=True))


class BCPlus(ImageMixing):
    """Train on mixtures of pairs of images, taken as waves: ``(p * a + (1 - p) * b) / sqrt(p**2 + (1 - p)**2)``.

    ``a`` and ``b`` have zero mean, and ``p`` is so that they are heard as ``r`` to ``1 - r`` though one may have the
    higher standard deviation: ``p = 1 / (1 + std_a / std_b * (1 - r) / r)``. The targets are mixed as ``r`` to
    ``1 - r``. In validations, evaluations and predictions of a trial, images have zero mean, too: the network knows no
    others.

    Parameters
    ----------
    mixup_loss
        Whether targets become pairs for the criterion :func:`mixup_loss`, with one ``r`` for a batch. Otherwise each
        image has its own, and targets are probabilities, for :func:`bc_loss` or a cross entropy.
    alpha
        ``r`` is drawn from Beta(alpha, alpha); 1: all are equally likely.
    classes
        How many classes there are: targets of shape ``(B,)`` become probabilities of shape ``(B, classes)``, in
        validations one-hot ones; ``-1``: targets are one-hot already.

    Raises
    ------
    ConfigError
        If a number is impossible.
    DataError
        At a step, if the input is no array of images of floating-point numbers.

    References
    ----------
    Tokozume et al., Between-class learning for image classification, CVPR 2018, arXiv:1711.10284 (there BC+).
    """

    bc_loss = staticmethod(bc_loss)

    def __init__(self, mixup_loss: bool = False, alpha: float = 1, classes: int = -1):
        super().__init__(alpha, classes, mixup_loss)

    def on_sample(self, state: State) -> None:
        """Mix the batch."""
        refuse_weights(state, "BCPlus")
        images, rng = images_of(state, "BCPlus"), self._draw(state)
        n_samples = len(images)
        rows = rng.permutation(n_samples)
        shares = np.broadcast_to(rng.beta(self.alpha, self.alpha, 1 if self.mixup_loss else n_samples), n_samples)
        state[X] = _mixed(images, rows, shares)
        self._mix_targets(state, shares, rows)

    def on_sample_validation(self, state: State) -> None:
        """Give images zero mean, and make one-hot targets of labels, as in training."""
        images = images_of(state, "BCPlus")
        state[X] = cast(_centred(images), images)
        super().on_sample_validation(state)


def _centred(images: Array) -> Any:
    """Images of zero mean, exact enough to calculate with."""
    images = ops_of(images).as_float(images)
    return images - _per_image(_mean(images), images)


def _mixed(images: Array, rows: np.ndarray, shares: np.ndarray) -> Any:
    ops, first = ops_of(images), _centred(images)
    deviation = _mean(first**2) ** 0.5
    share = cast(ops.asarray(shares.astype(np.float32), first), first)
    own, other = share * rows_of(deviation, rows), (1.0 - share) * deviation
    total = own + other  # 0 only for two images of one value each, which are 0 by now
    weight = _per_image(own / ops.where(total > 0, total, 1.0), first)
    mixed = weight * first + (1.0 - weight) * rows_of(first, rows)
    return cast(mixed / (weight**2 + (1.0 - weight) ** 2) ** 0.5, images)


def _mean(images: Array) -> Any:
    """Of each image, shape ``(B,)``."""
    flat = ops_of(images).reshape(images, (len(images), -1))
    return ops_of(flat).sum(flat, 1) / float(flat.shape[1])


def _per_image(values: object, images: Array) -> Any:
    return ops_of(values).reshape(values, (len(images), *(1 for _ in images.shape[1:])))
