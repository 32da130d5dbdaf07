"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``."""

import torch
from torch.nn import functional

from delira.contract.closure import described_by_base
from delira.training import loss_formulas


def _precise(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.promote_types(value.dtype, torch.float32))


def _one_hot(numbers: torch.Tensor, n_channels: int, like: torch.Tensor) -> torch.Tensor:
    return functional.one_hot(numbers.long(), n_channels).movedim(-1, 1).to(like.dtype)


OPS = loss_formulas.ArrayOps(
    array=lambda value: value,
    precise=_precise,
    cast=lambda value, like: value.to(like.dtype),
    has_shape=lambda value, shape: tuple(value.shape) == shape,
    one_hot=_one_hot,
    eps=lambda value: torch.finfo(value.dtype).eps,
    float16=torch.float16,
    exp=torch.exp,
    log=torch.log,
    sigmoid=torch.sigmoid,
    log_sigmoid=functional.logsigmoid,
    softmax=lambda value: value.softmax(1),
    log_softmax=lambda value: value.log_softmax(1),
    sum=lambda value, axes: value.sum(axes),
    mean=torch.mean,
)


class _Loss(torch.nn.Module):
    ops = OPS


@described_by_base
class BCEFocalLossPyTorch(loss_formulas.BCEFocalLoss, _Loss):
    """Focal loss of probabilities, in PyTorch."""


@described_by_base
class BCEFocalLossLogitPyTorch(loss_formulas.BCEFocalLossLogit, _Loss):
    """Focal loss of logits, in PyTorch."""


@described_by_base
class DiceLossPyTorch(loss_formulas.DiceLoss, _Loss):
    """Dice loss, in PyTorch."""


@described_by_base
class TverskyLossPyTorch(loss_formulas.TverskyLoss, _Loss):
    """Tversky loss, in PyTorch."""


@described_by_base
class DiceCELossPyTorch(loss_formulas.DiceCELoss, _Loss):
    """Dice loss and cross-entropy, in PyTorch."""

    _dice_cls = DiceLossPyTorch
