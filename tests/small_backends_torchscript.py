"""The TorchScript backend; import it only where torch is installed: TorchScript reads the classes from this file."""

import dataclasses
import functools

import torch
from small_backends import Kit, torch_kit

from delira.models import AbstractTorchScriptNetwork
from delira.training import TorchScriptExperiment, TorchScriptNetworkTrainer


class TorchScriptLinear(AbstractTorchScriptNetwork):
    """``pred = dropped(x) @ weight``."""

    def __init__(self, n_features: int = 3, dropout: float = 0.0):
        super().__init__(n_features=n_features, dropout=dropout)
        self.drop = torch.nn.Dropout(dropout)
        self.linear = torch.nn.Linear(n_features, 1, bias=False)

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.linear(self.drop(x))}


@functools.cache
def torchscript_kit() -> Kit:
    return dataclasses.replace(
        torch_kit(),
        name="torchscript",
        network=TorchScriptLinear,
        trainer_cls=TorchScriptNetworkTrainer,
        experiment_cls=TorchScriptExperiment,
    )
