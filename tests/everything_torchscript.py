"""Networks and optimizers of ``everything`` in TorchScript."""

import torch
from everything_torch import ADAM, closure_of_two, two_optimizers

from delira.models import AbstractTorchScriptNetwork

__all__ = ["ADAM", "Halves", "TwoOptimizers", "two_optimizers"]


class Halves(AbstractTorchScriptNetwork):
    """A network with dropout and normalisation."""

    def __init__(self, dropout: float = 0.0):
        super().__init__(dropout=dropout)
        layers = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Dropout(dropout)
        self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(5, 1)

    @torch.jit.script_method
    def forward(self, x: torch.Tensor):
        return {"pred": self.head(self.body(x))}


class TwoOptimizers(Halves):
    """The same network with an optimizer for each of its halves."""

    closure = staticmethod(closure_of_two)
