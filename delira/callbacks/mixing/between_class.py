"""Between-class learning: mixtures of images as waves, and the loss for them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from delira import state as keys
from delira.callbacks.mixing.batches import images_of, one_hot, rows_of
from delira.callbacks.mixing.mixed import ImageMixing
from delira.errors import DataError
from delira.state import State
from delira.utils.arrays import Array, cast, log, log_softmax, ops_of, shape_of


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
    log_target = log(ops.where(target > 0, target, 1.0))
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
        images, rng = images_of(state, "BCPlus"), self._draw(state)
        n_samples = len(images)
        rows = rng.permutation(n_samples)
        shares = np.broadcast_to(rng.beta(self.alpha, self.alpha, 1 if self.mixup_loss else n_samples), n_samples)
        state[keys.X] = _mixed(images, rows, shares)
        self._mix_targets(state, shares, rows)

    def on_sample_validation(self, state: State) -> None:
        """Give images zero mean, and make one-hot targets of labels, as in training."""
        images = images_of(state, "BCPlus")
        state[keys.X] = cast(_centred(images), images)
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
