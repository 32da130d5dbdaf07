"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``.

A class number that the prediction has no channel for makes the loss NaN.
"""

import numpy as np
import tensorflow as tf

from delira.contract.closure import described_by_base
from delira.training import loss_formulas
from delira.utils.arrays import ops_of_type


class _TfLoss(loss_formulas.CalledLoss):
    ops, nn = ops_of_type(tf.Tensor), tf.nn
    log_sigmoid = staticmethod(tf.math.log_sigmoid)

    @staticmethod
    def one_hot(numbers: tf.Tensor, n_channels: int, like: tf.Tensor) -> tf.Tensor:
        numbers = tf.cast(numbers, tf.int64)
        is_class = tf.expand_dims((numbers >= 0) & (numbers < n_channels), 1)
        return tf.where(
            is_class, tf.one_hot(numbers, n_channels, axis=1, dtype=like.dtype), tf.cast(np.nan, like.dtype)
        )


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
