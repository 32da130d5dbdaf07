"""The PyTorch backend for the specification."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from delira.models import AbstractPyTorchNetwork
from delira.testing.spec import BackendUnderTest
from delira.training import PyTorchExperiment, PyTorchNetworkTrainer, create_optims_gan_default_pytorch


class Linear(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_outputs=n_outputs, dropout=dropout)
        self.drop = torch.nn.Dropout(dropout)
        self.dense = torch.nn.Linear(n_features, n_outputs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pred": self.dense(self.drop(x))}


class Mlp(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 3, n_hidden: int = 5, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_outputs=n_outputs, dropout=dropout)
        self.body = torch.nn.Linear(n_features, n_hidden)
        self.norm = torch.nn.BatchNorm1d(n_hidden)
        self.drop = torch.nn.Dropout(dropout)
        self.head = torch.nn.Linear(n_hidden, n_outputs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pred": self.head(self.drop(torch.tanh(self.norm(self.body(x)))))}


class Two(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = torch.nn.Linear(n_features, 1), torch.nn.Linear(n_features, 1)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> dict[str, torch.Tensor]:
        first = self.left(left)
        return {"pred": first + self.right(right), "other": first}


class Nested(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 3):
        super().__init__(n_features=n_features)
        self.left, self.right = torch.nn.Linear(n_features, 1), torch.nn.Linear(n_features, 1)

    def forward(self, pair: dict[str, torch.Tensor]) -> dict[str, Any]:
        parts = {"left": self.left(pair["left"]), "right": self.right(pair["right"])}
        return {"pred": parts["left"] + parts["right"], "parts": parts}


class ByHand(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 3, n_outputs: int = 1):
        super().__init__(n_features=n_features, n_outputs=n_outputs)
        self.dense = torch.nn.Linear(n_features, n_outputs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pred": self.dense(x)}

    @staticmethod
    def closure(  # type: ignore[override]
        model, data_dict, optimizers, losses, metrics=None, fold=0, factor=1.0, iter_num=0, global_iter_num=0
    ):
        pred = model(data_dict["data"])["pred"]
        loss = losses["mse"](pred, data_dict["label"])
        _update(optimizers["default"], loss)
        counted = {"iter_num": iter_num, "global_iter_num": global_iter_num, "fold": fold}
        return counted, {"mse": loss.detach(), "scaled": factor * loss.detach()}, {"pred": pred.detach()}


class Gan(AbstractPyTorchNetwork):
    def __init__(self, n_features: int = 2):
        super().__init__(n_features=n_features)
        self.gen, self.discr = torch.nn.Linear(n_features, n_features), torch.nn.Linear(n_features, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        fake = self.gen(x)
        return {"pred": self.discr(fake), "fake": fake}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore[override]
        with torch.no_grad():
            fake = model.gen(data_dict["data"])
        discr = ((model.discr(data_dict["real"]) - 1) ** 2).mean() + (model.discr(fake) ** 2).mean()
        _update(optimizers["discr"], discr)
        made = model(data_dict["data"])
        gen = ((made["pred"] - 1) ** 2).mean()
        _update(optimizers["gen"], gen)
        detached = {name: value.detach() for name, value in made.items()}
        return {}, {"discr": discr.detach(), "gen": gen.detach()}, detached


def _update(optimizer: Any, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    with optimizer.scale_loss(loss) as scaled:
        scaled.backward()
    optimizer.step()


class TorchUnderTest(BackendUnderTest):
    name = "torch"
    trainer_cls, experiment_cls = PyTorchNetworkTrainer, PyTorchExperiment
    transposed = True
    Linear, Mlp, Two, Nested, ByHand, Gan = Linear, Mlp, Two, Nested, ByHand, Gan
    exports = (".pt2",)

    mse = staticmethod(torch.nn.functional.mse_loss)
    absolute = staticmethod(torch.nn.functional.l1_loss)
    cross_entropy = staticmethod(torch.nn.functional.cross_entropy)

    def sgd(self, lr: float, momentum: float = 0.0) -> dict[str, Any]:
        return {"optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": lr, "momentum": momentum}}

    def adam(self, lr: float) -> dict[str, Any]:
        return {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": lr, "eps": 1e-12}}

    def halving(self) -> dict[str, Any]:
        params = {"step_size": 1, "gamma": 0.5}
        return {"lr_scheduler_cls": torch.optim.lr_scheduler.StepLR, "lr_scheduler_params": params}

    def gan_optimizers(self) -> dict[str, Any]:
        return {"optim_fn": create_optims_gan_default_pytorch}

    def is_learning(self, network: Any) -> bool:
        return network.training or torch.is_grad_enabled()

    def draw(self) -> float:
        return float(torch.rand(()))

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        program = torch.export.load(path).module()
        with torch.no_grad():
            outputs = program(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}


BACKEND = TorchUnderTest()
