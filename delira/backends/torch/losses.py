"""Losses for classes that are rare and for masks; called as ``loss(prediction, target)``."""

import torch
from torch.nn import functional

from delira.contract.closure import described_by_base
from delira.training import loss_formulas
from delira.utils.arrays import ops_of_type


class _Loss(torch.nn.Module):
    ops, nn = ops_of_type(torch.Tensor), torch
    log_sigmoid = staticmethod(functional.logsigmoid)

    @staticmethod
    def one_hot(numbers: torch.Tensor, n_channels: int, like: torch.Tensor) -> torch.Tensor:
        return functional.one_hot(numbers.long(), n_channels).movedim(-1, 1).to(like.dtype)


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
