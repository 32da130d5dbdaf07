"""Without a score the first metric, by the alphabet, says which epoch is the best."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def distance(pred, label):
    return np.abs(pred - label).mean()


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
params = Parameters({"model": {}, "training": {
    "losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 1.1},
    "num_epochs": 3, "val_metrics": {"distance": distance}}})  # fmt: skip
experiment = PyTorchExperiment(params, Line, name="score", save_path="./runs")  # means otherwise
network = experiment.run(data, data)

weight, found = 0.0, []
for _ in range(3):
    weight -= 1.1 * 2 * (weight - 1)  # goes too far, and further each time
    found.append((abs(weight - 1), weight))
np.testing.assert_allclose(network.dense.weight.item(), min(found)[1], rtol=1e-5)
