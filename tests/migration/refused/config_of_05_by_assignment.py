"""Settings of a configuration of 0.5 that get there by assignment."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment
from delira.utils import DeliraConfig

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 1, None, sampler_cls=SequentialSampler)


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def by_hand(num_epochs, lr=0.1):
    w = np.zeros((2, 1))
    for _ in range(num_epochs):
        for start in (0, 4):
            part, target = x[start : start + 4].astype(float), y[start : start + 4].astype(float)
            w -= lr * 2 * part.T @ (part @ w - target) / 4
    return w


config = DeliraConfig()
config.fixed_params = {
    "model": {},
    "training": {
        "losses": {"l2": torch.nn.MSELoss()},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1},
        "my_weight": 0.5,  # refused
    },
}
config.variable_params = {"model": {}, "training": {"num_epochs": 3, "my_name": "it"}}  # refused
assert config.fixed_params["training"]["my_weight"] == 0.5 and config.nested_get("my_name") == "it"
network = PyTorchExperiment(config, Net, name="own", save_path="runs").run(data)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-4)
