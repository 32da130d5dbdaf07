"""Networks and optimizers of ``everything`` in PyTorch."""

from typing import Any

import torch

from delira.models import AbstractPyTorchNetwork


class Halves(AbstractPyTorchNetwork):
    """A network with dropout and normalisation."""

    def __init__(self, dropout: float = 0.0):
        super().__init__(dropout=dropout)
        layers = torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Dropout(dropout)
        self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(5, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pred": self.head(self.body(x))}


def closure_of_two(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore
    """One update by each optimizer."""
    values = {}
    for name, optimizer in optimizers.items():
        pred = model(data_dict["data"])["pred"]
        loss = losses["mse"](pred, data_dict["label"])
        optimizer.zero_grad()
        with optimizer.scale_loss(loss) as scaled:
            scaled.backward()
        optimizer.step()
        values[f"mse {name}"] = loss.detach()
    return {}, values, {"pred": pred.detach()}


class TwoOptimizers(Halves):
    """The same network with an optimizer for each of its halves."""

    closure = staticmethod(closure_of_two)


def two_optimizers(network: Any, cls: Any, **params: Any) -> dict[str, Any]:
    return {
        "body": cls(network.body.parameters(), **params),
        "head": torch.optim.SGD(network.head.parameters(), lr=0.05, momentum=0.9),
    }


ADAM = {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"lr": 0.01}}
