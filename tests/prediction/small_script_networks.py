"""A network of TorchScript, which reads classes from the file that they stand in."""

import torch

from delira.models import AbstractTorchScriptNetwork


class ScriptNet(AbstractTorchScriptNetwork):
    """Scores of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    @torch.jit.script_method
    def forward(self, x: torch.Tensor):
        return {"pred": self.linear(x)}
