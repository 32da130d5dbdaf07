"""Callbacks that return what the trainer gets as attributes."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment
from delira.training.callbacks import AbstractCallback

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 1, None, sampler_cls=SequentialSampler)
seen = []


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


class Rates(AbstractCallback):
    def at_epoch_begin(self, trainer, **kwargs):
        if kwargs["curr_epoch"] > 2:
            return dict(lr=0.01)  # refused
        return {"lr": 0.1 / kwargs["curr_epoch"], "is_late": False}  # refused

    def at_epoch_end(self, trainer, **kwargs):
        seen.append(trainer.lr)
        found = {"note": "seen", "stop_training": kwargs["curr_epoch"] == 2}
        return found  # refused

    def at_training_end(self, trainer, **kwargs):
        found = {}
        found["last"] = trainer.lr
        return found  # refused


def by_hand(num_epochs, lr=0.1):
    w = np.zeros((2, 1))
    for _ in range(num_epochs):
        for start in (0, 4):
            part, target = x[start : start + 4].astype(float), y[start : start + 4].astype(float)
            w -= lr * 2 * part.T @ (part @ w - target) / 4
    return w


params = Parameters(
    fixed_params={
        "model": {},
        "training": {
            "losses": {"l2": torch.nn.MSELoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.1},
            "num_epochs": 3,
        },
    }
)
network = PyTorchExperiment(params, Net, name="rates", save_path="runs").run(data, callbacks=[Rates()])
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(2), rtol=1e-4)
assert seen == [0.1, 0.05]
