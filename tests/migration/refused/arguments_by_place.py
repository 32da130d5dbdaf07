"""More arguments by their places than are taken so: of an experiment, and of its methods."""

import functools

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer

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


def mae(y_true, y_pred):
    return np.abs(y_true - y_pred).mean()


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
experiment = PyTorchExperiment(  # refused
    params, Net, 3, "e", "runs", {"x": "data"}, None, None, 1, (PyTorchNetworkTrainer)
)
network = experiment.run(data)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-4)
prepared = functools.partial(network.prepare_batch, input_device="cpu", output_device="cpu")
_, metrics = experiment.test(network, data, {"mae": mae}, None, False, prepared, None)  # refused
np.testing.assert_allclose(metrics["mae"], np.abs(x @ by_hand(3) - y).mean(), rtol=1e-4)
outputs, _ = experiment.kfold(data, {"mae": mae}, 1, 2, True, 0, "random", None)  # refused
assert sorted(outputs) == ["0", "1"] and sum(len(one["pred"]) for one in outputs.values()) == 8
outputs, _ = experiment.kfold(1, data, 2)  # refused
assert sorted(outputs) == ["0", "1"]
