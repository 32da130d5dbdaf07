"""The TorchScript backend for the specification; losses and optimizers are those of PyTorch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from spec_backends import torch as torch_spec

from delira.models import AbstractTorchScriptNetwork
from delira.training import TorchScriptExperiment, TorchScriptNetworkTrainer


class Linear(AbstractTorchScriptNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_outputs=n_outputs, dropout=dropout)
        self.drop = torch.nn.Dropout(dropout)
        self.dense = torch.nn.Linear(n_features, n_outputs)

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.dense(self.drop(x))}


class Mlp(AbstractTorchScriptNetwork):
    def __init__(self, n_features: int = 3, n_hidden: int = 5, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs, dropout=dropout)
        self.body = torch.nn.Linear(n_features, n_hidden)
        self.norm = torch.nn.BatchNorm1d(n_hidden)
        self.drop = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(n_hidden, n_outputs)

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.head(self.drop(torch.tanh(self.norm(self.body(x)))))}


class Two(AbstractTorchScriptNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = torch.nn.Linear(n_features, 1), torch.nn.Linear(n_features, 1)

    @torch.jit.script_method
    def forward(self, left, right):
        first = self.left(left)
        return {"pred": first + self.right(right), "other": first}


class ByHand(AbstractTorchScriptNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1):
        super().__init__(n_features=n_features, n_outputs=n_outputs)
        self.dense = torch.nn.Linear(n_features, n_outputs)

    @torch.jit.script_method
    def forward(self, x):
        return {"pred": self.dense(x)}

    closure = staticmethod(torch_spec.ByHand.closure)  # type: ignore[assignment]


class Gan(AbstractTorchScriptNetwork):
    def __init__(self, n_features: int = 2):
        super().__init__(n_features=n_features)
        self.gen, self.discr = torch.nn.Linear(n_features, n_features), torch.nn.Linear(n_features, 1)

    @torch.jit.script_method
    def forward(self, x):
        fake = self.gen(x)
        return {"pred": self.discr(fake), "fake": fake}

    closure = staticmethod(torch_spec.Gan.closure)


def cross_entropy(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of classes by number, which the backend's ``prepare_batch`` makes float32 as it does everything."""
    return torch.nn.functional.cross_entropy(prediction, target.long())


class TorchScriptUnderTest(torch_spec.TorchUnderTest):
    name = "torchscript"
    trainer_cls, experiment_cls = TorchScriptNetworkTrainer, TorchScriptExperiment  # type: ignore[assignment]
    Linear, Mlp, Two, ByHand, Gan = Linear, Mlp, Two, ByHand, Gan  # type: ignore[assignment]
    exports = (".ptj",)
    lacks: ClassVar[Mapping[str, str]] = {
        "nested": "the values of a TorchScript dict are of one type: tensors, or dicts of tensors",
        "compiled": "TorchScript is a compiled program already",
    }

    cross_entropy = staticmethod(cross_entropy)

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
        program = torch.jit.load(path)
        with torch.no_grad():
            outputs = program(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}


BACKEND = TorchScriptUnderTest()
