"""Losses of segmentation and of rare classes: focal, Dice, Tversky; called as ``loss(prediction, target)``.

Predictions have the shape (B, C, ...). Targets have the same shape (one-hot, several labels at once, or
probabilities), or hold class numbers in the shape (B, ...) or (B, 1, ...). A class number that the prediction has no
channel for makes the loss NaN. Half precision is computed in float32.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from delira.errors import ConfigError, DataError

_REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda values: values,
    "mean": jnp.mean,
    "elementwise_mean": jnp.mean,
    "sum": jnp.sum,
}


class BCEFocalLossJax:
    """Focal loss of probabilities (Lin et al. 2017).

    ``-(alpha t (1-p)^gamma log p + (1-alpha) (1-t) p^gamma log(1-p))`` for each entry. Probabilities are kept the
    machine's precision away from 0 and 1.

    Parameters
    ----------
    alpha
        Weight of positive targets, between 0 and 1; negative ones get ``1 - alpha``. ``None``: both get 1.
    gamma
        How much easy entries count less; 0 is plain binary cross-entropy.
    reduction
        ``"mean"`` (or, as it was called, ``"elementwise_mean"``), ``"sum"`` or ``"none"``.

    Raises
    ------
    ConfigError
        If a setting is outside its range.
    """

    def __init__(self, alpha: float | None = None, gamma: float = 2, reduction: str = "elementwise_mean"):
        if alpha is not None and not 0 <= alpha <= 1:
            raise ConfigError(f"alpha must be between 0 and 1 (or None for no weights), got {alpha!r}")
        if not gamma >= 0:
            raise ConfigError(f"gamma must be at least 0, got {gamma!r}")
        self.alpha, self.gamma, self.reduction = alpha, gamma, reduction
        self._reduce = _reduction(reduction)

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Loss of probabilities."""
        is_half = prediction.dtype == jnp.float16  # whose largest number is 65504
        probability, target = _aligned(prediction, target)
        # keeps logarithms at 0 and 1 finite, and their gradients, 1 / tiny
        tiny = 2.0**-14 if is_half else float(jnp.finfo(probability.dtype).eps)
        positive = tiny + (1 - tiny) * probability
        negative = tiny + (1 - tiny) * (1 - probability)
        return self._reduce(self._entries(jnp.log(positive), jnp.log(negative), target))

    def _entries(self, log_positive: jax.Array, log_negative: jax.Array, target: jax.Array) -> jax.Array:
        weights = (1.0, 1.0) if self.alpha is None else (self.alpha, 1 - self.alpha)
        missed = weights[0] * target * jnp.exp(self.gamma * log_negative) * log_positive
        invented = weights[1] * (1 - target) * jnp.exp(self.gamma * log_positive) * log_negative
        return -(missed + invented)


class BCEFocalLossLogitJax(BCEFocalLossJax):
    """:class:`BCEFocalLossJax` of logits; exact for logits of any size."""

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Loss of logits."""
        logit, target = _aligned(prediction, target)
        return self._reduce(self._entries(jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit), target))


class DiceLossJax:
    """``1 - (2 I + smooth) / (D + smooth)`` for each sample and channel (Milletari et al. 2016).

    ``I`` is the sum of ``p t`` over the positions, ``D`` that of ``p + t``.

    Parameters
    ----------
    activation
        What makes probabilities: ``"softmax"`` over the channels, ``"sigmoid"``, ``None`` if they are ones already;
        ``"auto"`` is softmax for several channels, sigmoid for one.
    include_background
        Whether channel 0 counts.
    smooth
        Keeps the loss of an empty mask finite.
    batch
        Whether the sums go over the samples, too.
    squared
        Whether ``D`` sums ``p^2 + t^2``.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``: shape (B, C), with ``batch`` (C,).

    Raises
    ------
    ConfigError
        If a setting is outside its range.
    """

    def __init__(
        self,
        activation: str | None = "auto",
        include_background: bool = True,
        smooth: float = 1e-5,
        batch: bool = False,
        squared: bool = False,
        reduction: str = "mean",
    ):
        _check(activation, smooth)
        self.activation, self.include_background = activation, include_background
        self.smooth, self.batch, self.squared, self.reduction = smooth, batch, squared, reduction
        self._reduce = _reduction(reduction)

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Loss of the outputs of a network."""
        probability, target = _overlapping(self, prediction, target)
        axes = _summed_axes(probability, self.batch)
        power = 2 if self.squared else 1
        both = jnp.sum(probability * target, axes)
        each = jnp.sum(probability**power, axes) + jnp.sum(target**power, axes)
        return self._reduce(1 - (2 * both + self.smooth) / (each + self.smooth))


class TverskyLossJax:
    """``1 - (I + smooth) / (I + alpha FP + beta FN + smooth)`` for each sample and channel (Salehi et al. 2017).

    ``I`` is the sum of ``p t`` over the positions, ``FP`` that of ``p (1-t)``, ``FN`` that of ``(1-p) t``.

    Parameters
    ----------
    alpha
        Weight of what was found and is not there.
    beta
        Weight of what is there and was not found.
    activation, include_background, smooth, batch, reduction
        As in :class:`DiceLossJax`.

    Raises
    ------
    ConfigError
        If a setting is outside its range.
    """

    def __init__(
        self,
        alpha: float = 0.3,
        beta: float = 0.7,
        activation: str | None = "auto",
        include_background: bool = True,
        smooth: float = 1e-5,
        batch: bool = False,
        reduction: str = "mean",
    ):
        if not (alpha >= 0 and beta >= 0):
            raise ConfigError(f"alpha and beta must be at least 0, got {alpha!r} and {beta!r}")
        self.alpha, self.beta = alpha, beta
        _check(activation, smooth)
        self.activation, self.include_background = activation, include_background
        self.smooth, self.batch, self.reduction = smooth, batch, reduction
        self._reduce = _reduction(reduction)

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Loss of the outputs of a network."""
        probability, target = _overlapping(self, prediction, target)
        axes = _summed_axes(probability, self.batch)
        both = jnp.sum(probability * target, axes)
        invented = self.alpha * jnp.sum(probability * (1 - target), axes)
        missed = self.beta * jnp.sum((1 - probability) * target, axes)
        return self._reduce(1 - (both + self.smooth) / (both + invented + missed + self.smooth))


class DiceCELossJax:
    """``dice_weight`` x Dice loss + ``ce_weight`` x cross entropy, of logits.

    Parameters
    ----------
    dice_weight, ce_weight
        Weights of the two.
    activation
        ``"softmax"``: classes exclude each other; ``"sigmoid"``: they do not, and the cross entropy is the binary one
        of every entry; ``"auto"`` is softmax for several channels, sigmoid for one.
    include_background, smooth, batch, squared
        As in :class:`DiceLossJax`; the cross entropy always counts every channel.

    Raises
    ------
    ConfigError
        If the activation is none of these.
    """

    def __init__(
        self,
        dice_weight: float = 1.0,
        ce_weight: float = 1.0,
        activation: str = "auto",
        include_background: bool = True,
        smooth: float = 1e-5,
        batch: bool = False,
        squared: bool = False,
    ):
        if activation not in ("auto", "softmax", "sigmoid"):
            raise ConfigError(f"activation must be 'auto', 'softmax' or 'sigmoid', got {activation!r}")
        self.dice_weight, self.ce_weight = dice_weight, ce_weight
        self.dice = DiceLossJax(activation, include_background, smooth, batch, squared)

    def __call__(self, prediction: jax.Array, target: jax.Array) -> jax.Array:
        """Loss of logits."""
        logit, aligned = _aligned(prediction, target)
        if _activation_for(self.dice.activation, logit) == "softmax":
            entropy = -jnp.sum(aligned * jax.nn.log_softmax(logit, axis=1), axis=1)
        else:
            entropy = -(aligned * jax.nn.log_sigmoid(logit) + (1 - aligned) * jax.nn.log_sigmoid(-logit))
        return self.dice_weight * self.dice(prediction, target) + self.ce_weight * jnp.mean(entropy)


def _reduction(name: str) -> Callable[[Any], Any]:
    if name not in _REDUCTIONS:
        raise ConfigError(f"reduction must be 'none', 'mean', 'elementwise_mean' or 'sum', got {name!r}")
    return _REDUCTIONS[name]


def _check(activation: str | None, smooth: float) -> None:
    if activation not in ("auto", "softmax", "sigmoid", None):
        raise ConfigError(f"activation must be 'auto', 'softmax', 'sigmoid' or None, got {activation!r}")
    if not smooth >= 0:
        raise ConfigError(f"smooth must be at least 0, got {smooth!r}")


def _activation_for(name: str | None, prediction: jax.Array) -> str | None:
    if name != "auto":
        return name
    return "softmax" if prediction.shape[1] > 1 else "sigmoid"


def _aligned(prediction: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Both in float32 or better, the target in the shape of the prediction."""
    prediction, target = jnp.asarray(prediction), jnp.asarray(target)
    prediction = prediction.astype(jnp.promote_types(prediction.dtype, jnp.float32))
    if target.shape == prediction.shape:
        return prediction, target.astype(prediction.dtype)
    numbers = target.squeeze(1) if target.ndim == prediction.ndim and target.shape[1] == 1 else target
    if prediction.ndim < 2 or numbers.shape != (prediction.shape[0], *prediction.shape[2:]):
        raise DataError(
            f"the prediction has shape {prediction.shape} and the target {target.shape}; a target has the "
            "same shape, or class numbers of shape (B, *spatial) or (B, 1, *spatial)"
        )
    n_channels = prediction.shape[1]
    if n_channels == 1:
        return prediction, jnp.expand_dims(numbers, 1).astype(prediction.dtype)
    numbers = numbers.astype(jnp.int32)
    one_hot = jax.nn.one_hot(numbers, n_channels, axis=1, dtype=prediction.dtype)
    is_class = jnp.expand_dims((numbers >= 0) & (numbers < n_channels), 1)
    return prediction, jnp.where(is_class, one_hot, jnp.nan)


def _overlapping(loss: Any, prediction: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Probabilities and target of the channels that count."""
    prediction, target = _aligned(prediction, target)
    activation = _activation_for(loss.activation, prediction)
    if activation is not None:
        prediction = jax.nn.softmax(prediction, axis=1) if activation == "softmax" else jax.nn.sigmoid(prediction)
    if loss.include_background:
        return prediction, target
    if prediction.shape[1] == 1:
        raise DataError("include_background=False leaves nothing of a prediction with one channel")
    return prediction[:, 1:], target[:, 1:]


def _summed_axes(values: jax.Array, batch: bool) -> list[int]:
    """The axes of the positions, and of the samples if ``batch``."""
    return [axis for axis in range(values.ndim) if axis > 1 or (axis == 0 and batch)]
