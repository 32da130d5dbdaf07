"""The network of the golden checkpoints of TorchScript, which reads it from this file."""

import torch

from delira.models import AbstractTorchScriptNetwork


class Golden(AbstractTorchScriptNetwork):
    def __init__(self) -> None:
        super().__init__()
        linear = torch.nn.Linear(3, 4, bias=False)
        self.body = torch.nn.Sequential(linear, torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3))
        self.head = torch.nn.Linear(4, 1)

    @torch.jit.script_method
    def forward(self, x: torch.Tensor):
        return {"pred": self.head(self.body(x))}


class GoldenOfTwo(Golden):
    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):  # type: ignore
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


def network(features: set[str]) -> Golden:
    return GoldenOfTwo() if "two optimizers" in features else Golden()
