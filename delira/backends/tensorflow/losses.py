"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``.

A class number that the prediction has no channel for makes the loss NaN.
"""

import numpy as np
import tensorflow as tf

from delira.contract.closure import described_by_base
from delira.training import loss_formulas


def _precise(value: tf.Tensor) -> tf.Tensor:
    return value if value.dtype == tf.float64 else tf.cast(value, tf.float32)


def _one_hot(numbers: tf.Tensor, n_channels: int, like: tf.Tensor) -> tf.Tensor:
    numbers = tf.cast(numbers, tf.int64)
    is_class = tf.expand_dims((numbers >= 0) & (numbers < n_channels), 1)
    return tf.where(is_class, tf.one_hot(numbers, n_channels, axis=1, dtype=like.dtype), tf.cast(np.nan, like.dtype))


OPS = loss_formulas.ArrayOps(
    array=tf.convert_to_tensor,
    precise=_precise,
    cast=lambda value, like: tf.cast(value, like.dtype),
    has_shape=lambda value, shape: value.shape.is_compatible_with(shape),
    one_hot=_one_hot,
    eps=lambda value: float(np.finfo(value.dtype.as_numpy_dtype).eps),
    float16=tf.float16,
    exp=tf.exp,
    log=tf.math.log,
    sigmoid=tf.sigmoid,
    log_sigmoid=tf.math.log_sigmoid,
    softmax=lambda value: tf.nn.softmax(value, axis=1),
    log_softmax=lambda value: tf.nn.log_softmax(value, axis=1),
    sum=tf.reduce_sum,
    mean=tf.reduce_mean,
)


class _TfLoss(loss_formulas.CalledLoss):
    ops = OPS


@described_by_base
class BCEFocalLossTf(loss_formulas.BCEFocalLoss, _TfLoss):
    """Focal loss of probabilities, in TensorFlow."""


@described_by_base
class BCEFocalLossLogitTf(loss_formulas.BCEFocalLossLogit, _TfLoss):
    """Focal loss of logits, in TensorFlow."""


@described_by_base
class DiceLossTf(loss_formulas.DiceLoss, _TfLoss):
    """Dice loss, in TensorFlow."""


@described_by_base
class TverskyLossTf(loss_formulas.TverskyLoss, _TfLoss):
    """Tversky loss, in TensorFlow."""


@described_by_base
class DiceCELossTf(loss_formulas.DiceCELoss, _TfLoss):
    """Dice loss and cross-entropy, in TensorFlow."""

    _dice_cls = DiceLossTf
