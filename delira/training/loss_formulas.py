"""Losses for classes that are rare and for masks, of every backend: settings, targets and formulas.

A backend derives each class and gives it the functions of its arrays. Losses are called as
``loss(prediction, target)`` and compute in float32 at least: sums over the pixels of an image overflow in half
precision.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from delira.errors import ConfigError, DataError, expect
from delira.utils.arrays import Array, Ops


class BackendLoss:
    """What all losses share: the alignment of targets and the reduction. What differs by framework is attributes."""

    #: operations on its arrays
    ops: ClassVar[Ops]
    #: what has its functions ``sigmoid(array)``, ``softmax(array, axis)`` and ``log_softmax(array, axis)``
    nn: ClassVar[Any]
    #: exact for every number
    log_sigmoid: Callable[[Array], Any]
    #: class numbers (B, *spatial) and the number n of classes as (B, n, *spatial) in the dtype of the third, an array;
    #: a number without channel is an error, or NaN where the values cannot be looked at
    one_hot: Callable[[Array, int, Array], Any]

    def _aligned(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        """Both in the shape and dtype of the prediction, float32 at least; class numbers become one channel each."""
        prediction, target = self.ops.as_float(self.ops.asarray(prediction)), self.ops.asarray(target)
        shape = tuple(prediction.shape)
        if _has_shape(target, shape):
            return prediction, self.ops.cast(target, prediction.dtype)
        if len(shape) > 1:
            if _has_shape(target, (shape[0], 1, *shape[2:])):
                target = target[:, 0]
            if _has_shape(target, (shape[0], *shape[2:])):
                if shape[1] == 1:
                    return prediction, self.ops.cast(target[:, None], prediction.dtype)
                return prediction, self.one_hot(target, shape[1], prediction)
        raise DataError(
            f"the prediction has shape {shape} and the target {tuple(target.shape)}; a target has the same shape, or "
            "class numbers of shape (B, *spatial) or (B, 1, *spatial)"
        )

    def _reduced(self, losses: Any, reduction: str) -> Any:
        if reduction == "none":
            return losses
        return self.ops.sum(losses) if reduction == "sum" else self.ops.mean(losses)


def _has_shape(array: Array, shape: tuple[int, ...]) -> bool:
    """Return True if an array has this shape, as far as it is known."""
    own = array.shape
    return bool(own.is_compatible_with(shape) if hasattr(own, "is_compatible_with") else tuple(own) == shape)


class CalledLoss:
    """A loss that is no module of its framework: to call it is to compute it."""

    forward: Callable[..., Any]

    def __call__(self, prediction: Any, target: Any) -> Any:
        """Compare a prediction with a target, as ``forward`` says."""
        return self.forward(prediction, target)


# ------------------------------------------------------------------ focal losses


class BCEFocalLoss(BackendLoss):
    """Focal loss (Lin et al. 2017) of probabilities.

    ``-alpha * (1 - p)**gamma * log(p)`` where the target is 1, ``-(1 - alpha) * p**gamma * log(1 - p)`` where it is 0.
    Logits in front of a sigmoid have the loss ``BCEFocalLossLogit`` of the backend, which is exact for every logit.

    Parameters
    ----------
    alpha
        Weight of positive targets, between 0 and 1; negative ones get ``1 - alpha``. ``None``: both get 1.
    gamma
        How much easy samples count less; 0 is plain binary cross-entropy.
    reduction
        ``"mean"`` (also called ``"elementwise_mean"``), ``"sum"`` or ``"none"``.

    Raises
    ------
    ConfigError
        If a setting is outside its range.
    """

    def __init__(self, alpha: float | None = None, gamma: float = 2, reduction: str = "elementwise_mean") -> None:
        super().__init__()
        expect(("alpha", alpha, alpha is None or 0 <= alpha <= 1, "between 0 and 1 (or None for no weights)"))
        expect(("gamma", gamma, gamma >= 0, "at least 0"))
        self.alpha, self.gamma, self.reduction = alpha, gamma, _checked(reduction)

    def forward(self, p: Any, t: Any) -> Any:
        """Compare probabilities with targets.

        Parameters
        ----------
        p
            Probabilities of shape (B, C, ...) or any other.
        t
            Targets in [0, 1] of the same shape; or class numbers without the axis of channels.
        """
        is_half = p.dtype == self.ops.xp.float16  # whose largest number is 65504
        p, t = self._aligned(p, t)
        # keeps logarithms at 0 and 1 finite, and their gradients, 1 / tiny: else the precision of the numbers
        tiny = 2.0**-14 if is_half else 2.0**-52 if p.dtype == self.ops.xp.float64 else 2.0**-23
        return self._focal(self.ops.log(tiny + (1 - tiny) * p), self.ops.log(tiny + (1 - tiny) * (1 - p)), t)

    def _focal(self, log_p: Any, log_not_p: Any, target: Any) -> Any:
        """The loss out of the logarithms of the probabilities of a positive and of a negative."""
        positive, negative = (1.0, 1.0) if self.alpha is None else (self.alpha, 1 - self.alpha)
        losses = -positive * target * self.ops.xp.exp(self.gamma * log_not_p) * log_p
        losses = losses - negative * (1 - target) * self.ops.xp.exp(self.gamma * log_p) * log_not_p
        return self._reduced(losses, self.reduction)


class BCEFocalLossLogit(BCEFocalLoss):
    """Focal loss (Lin et al. 2017) of logits: that of probabilities behind a sigmoid, exact for every logit.

    Parameters
    ----------
    alpha, gamma, reduction
        Weight of positive targets, how much easy samples count less, and ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, p: Any, t: Any) -> Any:
        """Compare logits with targets.

        Parameters
        ----------
        p
            Logits of shape (B, C, ...) or any other.
        t
            Targets in [0, 1] of the same shape; or class numbers without the axis of channels.
        """
        p, t = self._aligned(p, t)
        return self._focal(self.log_sigmoid(p), self.log_sigmoid(-p), t)


# ------------------------------------------------------------------ losses of overlap


class _OverlapLoss(BackendLoss):
    """What Dice and Tversky losses have in common: probabilities and targets, by sample and channel."""

    def __init__(
        self, activation: str | None, include_background: bool, smooth: float, batch: bool, reduction: str
    ) -> None:
        super().__init__()
        is_known = activation in ("auto", "softmax", "sigmoid", None)
        expect(("activation", activation, is_known, "'auto', 'softmax', 'sigmoid' or None"))
        expect(("smooth", smooth, smooth >= 0, "at least 0"))
        self.activation, self.include_background = activation, include_background
        self.smooth, self.batch, self.reduction = smooth, batch, _checked(reduction)

    def forward(self, prediction: Any, target: Any) -> Any:
        """Compare a prediction with masks.

        Parameters
        ----------
        prediction
            Logits (or probabilities, with ``activation=None``) of shape (B, C, *spatial).
        target
            Class numbers of shape (B, *spatial) or (B, 1, *spatial), or masks of the shape of the prediction.

        Returns
        -------
        array
            One number; with ``reduction="none"`` of shape (B, C), with ``batch`` too of shape (C,).
        """
        prediction, target = self._aligned(prediction, target)
        kind = _activation_for(self.activation, prediction)
        if kind is not None:
            prediction = self.nn.softmax(prediction, 1) if kind == "softmax" else self.nn.sigmoid(prediction)
        if not self.include_background:
            if prediction.shape[1] == 1:
                raise DataError("include_background=False leaves nothing of a prediction with one channel")
            prediction, target = prediction[:, 1:], target[:, 1:]
        axes = tuple(axis for axis in range(len(prediction.shape)) if axis > 1 or (axis == 0 and self.batch))
        if not axes:  # one number for each class: nothing to sum over
            prediction, target, axes = prediction[..., None], target[..., None], (2,)
        return self._reduced(1 - self._overlap(prediction, target, axes), self.reduction)

    def _overlap(self, p: Any, t: Any, axes: tuple[int, ...]) -> Any:
        """Overlap of each class, from 0 to 1, summed over the axes."""
        raise NotImplementedError


class DiceLoss(_OverlapLoss):
    """``1 - (2 * sum(p * t) + smooth) / (sum(p) + sum(t) + smooth)`` of every class.

    Parameters
    ----------
    activation
        What makes probabilities ``p`` of the prediction: ``"softmax"``, ``"sigmoid"``, ``None`` if it holds some, or
        ``"auto"``: softmax, but sigmoid for a single channel.
    include_background
        Whether channel 0 counts.
    smooth
        Added above and below, so that a class that is neither there nor predicted has loss 0.
    batch
        Whether the sums go over all samples of the batch, not over each sample.
    squared
        Whether the denominator has ``sum(p**2) + sum(t**2)``, as Milletari et al. 2016 (V-Net).
    reduction
        Over samples and classes: ``"mean"`` (also called ``"elementwise_mean"``), ``"sum"`` or ``"none"``.

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
    ) -> None:
        super().__init__(activation, include_background, smooth, batch, reduction)
        self.squared = squared

    def _overlap(self, p: Any, t: Any, axes: tuple[int, ...]) -> Any:
        sizes = self.ops.sum(p * p + t * t if self.squared else p + t, axes)
        return (2 * self.ops.sum(p * t, axes) + self.smooth) / (sizes + self.smooth)


class TverskyLoss(_OverlapLoss):
    """``1 - (TP + smooth) / (TP + alpha * FP + beta * FN + smooth)`` of every class (Salehi et al. 2017).

    ``TP = sum(p * t)``, ``FP = sum(p * (1 - t))``, ``FN = sum((1 - p) * t)``. With both weights 0.5 it is the Dice loss
    (with half of its ``smooth``).

    Parameters
    ----------
    alpha
        Weight of false positives.
    beta
        Weight of false negatives; more than ``alpha`` for small structures that should not be missed.
    activation, include_background, smooth, batch, reduction
        As in the Dice loss.

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
    ) -> None:
        super().__init__(activation, include_background, smooth, batch, reduction)
        if not (alpha >= 0 and beta >= 0):
            raise ConfigError(f"alpha and beta must be at least 0, got {alpha!r} and {beta!r}")
        self.alpha, self.beta = alpha, beta

    def _overlap(self, p: Any, t: Any, axes: tuple[int, ...]) -> Any:
        hits = self.ops.sum(p * t, axes)
        misses = self.alpha * self.ops.sum(p * (1 - t), axes) + self.beta * self.ops.sum((1 - p) * t, axes)
        return (hits + self.smooth) / (hits + misses + self.smooth)


class DiceCELoss(BackendLoss):
    """Weighted sum of the Dice loss and of cross-entropy, both of logits.

    Parameters
    ----------
    dice_weight, ce_weight
        Weights of the two.
    activation
        ``"softmax"`` (classes that exclude each other), ``"sigmoid"`` (each channel for itself) or ``"auto"``: softmax,
        but sigmoid for a single channel.
    include_background
        Whether channel 0 counts in the Dice loss; in the cross-entropy it always does.
    smooth, batch, squared
        As in the Dice loss.

    Raises
    ------
    ConfigError
        If a setting is outside its range.
    """

    _dice_cls: ClassVar[type[DiceLoss]]

    def __init__(
        self,
        dice_weight: float = 1.0,
        ce_weight: float = 1.0,
        activation: str = "auto",
        include_background: bool = True,
        smooth: float = 1e-5,
        batch: bool = False,
        squared: bool = False,
    ) -> None:
        super().__init__()
        is_known = activation in ("auto", "softmax", "sigmoid")
        expect(("activation", activation, is_known, "'auto', 'softmax' or 'sigmoid'"))
        self.dice_weight, self.ce_weight, self.activation = dice_weight, ce_weight, activation
        # also those that are handed on: a file has the arguments of a loss by these names
        self.include_background, self.smooth, self.batch, self.squared = include_background, smooth, batch, squared
        self.dice = self._dice_cls(activation, include_background, smooth, batch, squared)

    def forward(self, prediction: Any, target: Any) -> Any:
        """Compare logits with masks.

        Parameters
        ----------
        prediction
            Logits of shape (B, C, *spatial).
        target
            Class numbers of shape (B, *spatial) or (B, 1, *spatial), or masks of the shape of the prediction.
        """
        prediction, target = self._aligned(prediction, target)
        if _activation_for(self.activation, prediction) == "softmax":
            entropy = -self.ops.sum(target * self.nn.log_softmax(prediction, 1), 1)
        else:
            entropy = -target * self.log_sigmoid(prediction) - (1 - target) * self.log_sigmoid(-prediction)
        return self.dice_weight * self.dice.forward(prediction, target) + self.ce_weight * self.ops.mean(entropy)


def _activation_for(activation: str | None, prediction: Any) -> str | None:
    """The activation that ``"auto"`` means for a prediction of shape (B, C, *spatial)."""
    if activation != "auto":
        return activation
    return "softmax" if prediction.shape[1] > 1 else "sigmoid"


def _checked(reduction: str) -> str:
    is_known = reduction in ("none", "mean", "elementwise_mean", "sum")
    expect(("reduction", reduction, is_known, "'none', 'mean', 'elementwise_mean' or 'sum'"))
    return reduction
