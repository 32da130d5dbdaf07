"""Methods that were never called, of callbacks of both libraries."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.callbacks import Callback
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment
from delira.training.callbacks import AbstractCallback

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 1, None, sampler_cls=SequentialSampler)
called = []


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


class Ends(AbstractCallback):
    def at_epoch_end(self, trainer, **kwargs):
        self.on_value(1)

    def on_value(self, value):  # refused
        called.append(value)

    def at_epoch_ends(self, trainer, **kwargs):  # refused
        called.append(100)


class Starts(Callback):
    """Never heard."""

    def on_start_epochs(self, state):  # refused
        called.append(1000)


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
network = PyTorchExperiment(params, Net, name="ends", save_path="runs").run(data, callbacks=[Ends(), Starts()])
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-4)
assert called == [1, 1, 1]
