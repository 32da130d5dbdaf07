"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``.

A class number that the prediction has no channel for makes the loss NaN.
"""

import jax
import jax.numpy as jnp

from delira.contract.closure import described_by_base
from delira.training import loss_formulas
from delira.utils.arrays import ops_of_type


class _JaxLoss(loss_formulas.CalledLoss):
    ops, nn = ops_of_type(jax.Array), jax.nn
    log_sigmoid = staticmethod(jax.nn.log_sigmoid)

    @staticmethod
    def one_hot(numbers: jax.Array, n_channels: int, like: jax.Array) -> jax.Array:
        numbers = numbers.astype(jnp.int32)
        is_class = jnp.expand_dims((numbers >= 0) & (numbers < n_channels), 1)
        return jnp.where(is_class, jax.nn.one_hot(numbers, n_channels, axis=1, dtype=like.dtype), jnp.nan)


@described_by_base
class BCEFocalLossJax(loss_formulas.BCEFocalLoss, _JaxLoss):
    """Focal loss of probabilities, in JAX."""


@described_by_base
class BCEFocalLossLogitJax(loss_formulas.BCEFocalLossLogit, _JaxLoss):
    """Focal loss of logits, in JAX."""


@described_by_base
class DiceLossJax(loss_formulas.DiceLoss, _JaxLoss):
    """Dice loss, in JAX."""


@described_by_base
class TverskyLossJax(loss_formulas.TverskyLoss, _JaxLoss):
    """Tversky loss, in JAX."""


@described_by_base
class DiceCELossJax(loss_formulas.DiceCELoss, _JaxLoss):
    """Dice loss and cross-entropy, in JAX."""

    _dice_cls = DiceLossJax
