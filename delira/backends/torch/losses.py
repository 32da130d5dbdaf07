"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``.

They compute in float32 at least: sums over the pixels of an image overflow in half precision.
"""

import torch
from torch.nn import functional

from delira.errors import ConfigError, DataError

# ------------------------------------------------------------------ focal losses


class _FocalLoss(torch.nn.Module):
    """What both focal losses have in common.

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
        if alpha is not None and not 0 <= alpha <= 1:
            raise ConfigError(f"alpha must be between 0 and 1 (or None for no weights), got {alpha!r}")
        if not gamma >= 0:
            raise ConfigError(f"gamma must be at least 0, got {gamma!r}")
        self.alpha, self.gamma, self.reduction = alpha, gamma, _checked(reduction)

    def _focal(self, log_p: torch.Tensor, log_not_p: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss out of the logarithms of the probabilities of a positive and of a negative."""
        positive, negative = (1.0, 1.0) if self.alpha is None else (self.alpha, 1 - self.alpha)
        losses = -positive * target * (self.gamma * log_not_p).exp() * log_p
        losses = losses - negative * (1 - target) * (self.gamma * log_p).exp() * log_not_p
        return _reduced(losses, self.reduction)


class BCEFocalLossPyTorch(_FocalLoss):
    """Focal loss (Lin et al. 2017) of probabilities.

    ``-alpha * (1 - p)**gamma * log(p)`` where the target is 1, ``-(1 - alpha) * p**gamma * log(1 - p)`` where it is 0.
    Logits in front of a sigmoid have :class:`BCEFocalLossLogitPyTorch`, which is exact for every logit.

    Parameters
    ----------
    alpha, gamma, reduction
        Weight of positive targets, how much easy samples count less, and ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Compare probabilities with targets.

        Parameters
        ----------
        p
            Probabilities of shape (B, C, ...) or any other.
        t
            Targets in [0, 1] of the same shape; or class numbers without the axis of channels.
        """
        is_half = p.dtype is torch.float16  # whose largest number is 65504
        p, t = _aligned(p, t)
        # keeps logarithms at 0 and 1 finite, and their gradients, 1 / tiny
        tiny = 2.0**-14 if is_half else torch.finfo(p.dtype).eps
        return self._focal((tiny + (1 - tiny) * p).log(), (tiny + (1 - tiny) * (1 - p)).log(), t)


class BCEFocalLossLogitPyTorch(_FocalLoss):
    """Focal loss (Lin et al. 2017) of logits: that of :class:`BCEFocalLossPyTorch` behind a sigmoid.

    Parameters
    ----------
    alpha, gamma, reduction
        Weight of positive targets, how much easy samples count less, and ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Compare logits with targets.

        Parameters
        ----------
        p
            Logits of shape (B, C, ...) or any other.
        t
            Targets in [0, 1] of the same shape; or class numbers without the axis of channels.
        """
        p, t = _aligned(p, t)
        return self._focal(functional.logsigmoid(p), functional.logsigmoid(-p), t)


# ------------------------------------------------------------------ losses of overlap


class _OverlapLoss(torch.nn.Module):
    """What Dice and Tversky losses have in common: probabilities and targets, by sample and channel.

    Parameters
    ----------
    activation
        What makes probabilities of the prediction: ``"softmax"``, ``"sigmoid"``, ``None`` if it holds some, or
        ``"auto"``: softmax, but sigmoid for a single channel.
    include_background
        Whether channel 0 counts.
    smooth
        Added to numerator and denominator, so that a class that is neither there nor predicted has loss 0.
    batch
        Whether the overlap is computed over all samples of the batch at once.
    reduction
        ``"mean"`` (also called ``"elementwise_mean"``), ``"sum"`` or ``"none"``.
    """

    def __init__(
        self, activation: str | None, include_background: bool, smooth: float, batch: bool, reduction: str
    ) -> None:
        super().__init__()
        if activation not in ("auto", "softmax", "sigmoid", None):
            raise ConfigError(f"activation must be 'auto', 'softmax', 'sigmoid' or None, got {activation!r}")
        if not smooth >= 0:
            raise ConfigError(f"smooth must be at least 0, got {smooth!r}")
        self.activation, self.include_background = activation, include_background
        self.smooth, self.batch, self.reduction = smooth, batch, _checked(reduction)

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Compare a prediction with masks.

        Parameters
        ----------
        prediction
            Logits (or probabilities, with ``activation=None``) of shape (B, C, *spatial).
        target
            Class numbers of shape (B, *spatial) or (B, 1, *spatial), or masks of the shape of the prediction.

        Returns
        -------
        Tensor
            One number; with ``reduction="none"`` of shape (B, C), with ``batch`` too of shape (C,).
        """
        prediction, target = _aligned(prediction, target)
        kind = activation_of(self.activation, prediction)
        if kind == "softmax":
            prediction = prediction.softmax(1)
        elif kind == "sigmoid":
            prediction = prediction.sigmoid()
        if not self.include_background:
            if prediction.shape[1] == 1:
                raise DataError("include_background=False leaves nothing of a prediction with one channel")
            prediction, target = prediction[:, 1:], target[:, 1:]
        axes = [axis for axis in range(prediction.ndim) if axis > 1 or (axis == 0 and self.batch)]
        if not axes:  # one number for each class: nothing to sum over
            prediction, target, axes = prediction[..., None], target[..., None], [2]
        return _reduced(1 - self._overlap(prediction, target, axes), self.reduction)

    def _overlap(self, p: torch.Tensor, t: torch.Tensor, axes: list[int]) -> torch.Tensor:
        """Overlap of each class, from 0 to 1, summed over the axes."""
        raise NotImplementedError


class DiceLossPyTorch(_OverlapLoss):
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

    def _overlap(self, p: torch.Tensor, t: torch.Tensor, axes: list[int]) -> torch.Tensor:
        sizes = (p.square() + t.square() if self.squared else p + t).sum(axes)
        return (2 * (p * t).sum(axes) + self.smooth) / (sizes + self.smooth)


class TverskyLossPyTorch(_OverlapLoss):
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
        As in :class:`DiceLossPyTorch`.
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

    def _overlap(self, p: torch.Tensor, t: torch.Tensor, axes: list[int]) -> torch.Tensor:
        hits = (p * t).sum(axes)
        misses = self.alpha * (p * (1 - t)).sum(axes) + self.beta * ((1 - p) * t).sum(axes)
        return (hits + self.smooth) / (hits + misses + self.smooth)


class DiceCELossPyTorch(torch.nn.Module):
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
        As in :class:`DiceLossPyTorch`.
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
    ) -> None:
        super().__init__()
        if activation not in ("auto", "softmax", "sigmoid"):
            raise ConfigError(f"activation must be 'auto', 'softmax' or 'sigmoid', got {activation!r}")
        self.dice_weight, self.ce_weight, self.activation = dice_weight, ce_weight, activation
        self.dice = DiceLossPyTorch(activation, include_background, smooth, batch, squared)

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Compare logits with masks.

        Parameters
        ----------
        prediction
            Logits of shape (B, C, *spatial).
        target
            Class numbers of shape (B, *spatial) or (B, 1, *spatial), or masks of the shape of the prediction.
        """
        prediction, target = _aligned(prediction, target)
        if activation_of(self.activation, prediction) == "softmax":
            cross_entropy = -(target * prediction.log_softmax(1)).sum(1).mean()
        else:
            cross_entropy = functional.binary_cross_entropy_with_logits(prediction, target)
        return self.dice_weight * self.dice(prediction, target) + self.ce_weight * cross_entropy


# ------------------------------------------------------------------ what all need


def activation_of(activation: str | None, prediction: torch.Tensor) -> str | None:
    """The activation that ``"auto"`` means for a prediction of shape (B, C, *spatial)."""
    if activation != "auto":
        return activation
    return "softmax" if prediction.shape[1] > 1 else "sigmoid"


def _checked(reduction: str) -> str:
    if reduction not in ("none", "mean", "elementwise_mean", "sum"):
        raise ConfigError(f"reduction must be 'none', 'mean', 'elementwise_mean' or 'sum', got {reduction!r}")
    return reduction


def _reduced(losses: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


def _aligned(prediction: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both of the shape of the prediction and as floating point numbers; class numbers become one channel each."""
    dtype = torch.promote_types(prediction.dtype, torch.float32)
    prediction = prediction.to(dtype)
    if prediction.shape == target.shape:
        return prediction, target.to(dtype)
    shape = tuple(prediction.shape)
    if len(shape) > 1 and tuple(target.shape) in ((shape[0], *shape[2:]), (shape[0], 1, *shape[2:])):
        numbers = target.reshape(shape[0], *shape[2:])
        if shape[1] == 1:
            return prediction, numbers.unsqueeze(1).to(dtype)
        return prediction, functional.one_hot(numbers.long(), shape[1]).movedim(-1, 1).to(dtype)
    raise DataError(
        f"the prediction has shape {shape} and the target {tuple(target.shape)}; a target has the same shape, or class "
        "numbers of shape (B, *spatial) or (B, 1, *spatial)"
    )
