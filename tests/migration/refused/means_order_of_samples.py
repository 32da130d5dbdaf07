"""A manager without a sampler keeps the order of the data."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


x = np.arange(1, 9, dtype=np.float32)[:, None]
data = BaseDataManager({"data": x, "label": x**2}, 1, 0, transforms=None)  # means otherwise
untouched = BaseDataManager({"data": x, "label": x**2}, 1, 0, transforms=None)
trainer = PyTorchNetworkTrainer(
    Line(), "./line", {"x": "data"}, {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.005}
)
network = trainer.train(1, data, untouched)

weight = 0.0
for value in range(1, 9):
    weight -= 0.005 * 2 * value * (weight * value - value**2)
np.testing.assert_allclose(network.dense.weight.item(), weight, rtol=1e-4)
