"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``.

A class number that the prediction has no channel for makes the loss NaN.
"""

import jax
import jax.numpy as jnp

from delira.contract.closure import described_by_base
from delira.training import loss_formulas


def _precise(value: jax.Array) -> jax.Array:
    return value.astype(jnp.promote_types(value.dtype, jnp.float32))


def _one_hot(numbers: jax.Array, n_channels: int, like: jax.Array) -> jax.Array:
    numbers = numbers.astype(jnp.int32)
    is_class = jnp.expand_dims((numbers >= 0) & (numbers < n_channels), 1)
    return jnp.where(is_class, jax.nn.one_hot(numbers, n_channels, axis=1, dtype=like.dtype), jnp.nan)


OPS = loss_formulas.ArrayOps(
    array=jnp.asarray,
    precise=_precise,
    cast=lambda value, like: value.astype(like.dtype),
    has_shape=lambda value, shape: value.shape == shape,
    one_hot=_one_hot,
    eps=lambda value: float(jnp.finfo(value.dtype).eps),
    float16=jnp.float16,
    exp=jnp.exp,
    log=jnp.log,
    sigmoid=jax.nn.sigmoid,
    log_sigmoid=jax.nn.log_sigmoid,
    softmax=lambda value: jax.nn.softmax(value, axis=1),
    log_softmax=lambda value: jax.nn.log_softmax(value, axis=1),
    sum=jnp.sum,
    mean=jnp.mean,
)


class _JaxLoss(loss_formulas.CalledLoss):
    ops = OPS


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
