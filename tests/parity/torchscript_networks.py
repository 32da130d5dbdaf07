"""The networks of the comparison in TorchScript."""

import warnings

import torch
from parity.torch_networks import RATE, SETTINGS

from delira.models import AbstractTorchScriptNetwork

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyTorch's, of TorchScript as a whole

    class Mlp(AbstractTorchScriptNetwork):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = torch.nn.Linear(64, 32), torch.nn.Linear(32, 10)

        @torch.jit.script_method
        def forward(self, x: torch.Tensor):
            return {"pred": self.head(torch.relu(self.hidden(x)))}

    class Convnet(AbstractTorchScriptNetwork):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 8, 3, padding=1)
            self.head = torch.nn.Linear(32, 10)

        @torch.jit.script_method
        def forward(self, x: torch.Tensor):
            x = torch.nn.functional.avg_pool2d(torch.relu(self.first(x)), 2)
            x = torch.nn.functional.avg_pool2d(torch.relu(self.second(x)), 2)
            return {"pred": self.head(x.flatten(1))}


def cross_entropy(pred, label):
    """The backend's labels are float32."""
    return torch.nn.functional.cross_entropy(pred, label.long())


NETWORKS = {"mlp": Mlp, "convnet": Convnet}
LOSS = cross_entropy
TRAINER = "TorchScriptNetworkTrainer"
__all__ = ["LOSS", "NETWORKS", "RATE", "SETTINGS", "TRAINER"]
