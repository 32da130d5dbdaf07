"""The networks of the comparison in PyTorch."""

import torch

from delira.models import AbstractPyTorchNetwork


class Mlp(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = torch.nn.Linear(64, 32), torch.nn.Linear(32, 10)

    def forward(self, x):
        return {"pred": self.head(torch.relu(self.hidden(x)))}


class Convnet(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 8, 3, padding=1)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        x = torch.nn.functional.avg_pool2d(torch.relu(self.first(x)), 2)
        x = torch.nn.functional.avg_pool2d(torch.relu(self.second(x)), 2)
        return {"pred": self.head(x.flatten(1))}


NETWORKS = {"mlp": Mlp, "convnet": Convnet}
SETTINGS = {
    "SGD": {"optimizer_cls": torch.optim.SGD, "optimizer_params": {"momentum": 0.9}},
    "Adam": {"optimizer_cls": torch.optim.Adam, "optimizer_params": {"eps": 1e-12}},
}
RATE = "lr"
LOSS = torch.nn.functional.cross_entropy
TRAINER = "PyTorchNetworkTrainer"
