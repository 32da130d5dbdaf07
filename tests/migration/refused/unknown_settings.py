"""Settings that only the script itself reads: in the parameters, of a run, and of a trainer."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 1, None, SequentialSampler, img_shape=(1, 2))  # refused


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


params = Parameters(
    fixed_params={
        "model": {},
        "training": {
            "losses": {"l2": torch.nn.MSELoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.1},
            "my_weight": (0.5),  # refused
            "num_epochs": 3,
            "batch_size": 4,
            "my_name": "it",  # refused
        },
    }
)
assert params.fixed.training.my_weight == 0.5 and params.nested_get("my_name") == "it"
experiment = PyTorchExperiment(params, Net, name="own", save_path="runs")
network = experiment.run(data, my_number=4, my_other=5)  # refused
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-4)
trainer = PyTorchNetworkTrainer(
    Net(),
    "trained",
    {"l2": torch.nn.MSELoss()},
    torch.optim.SGD,
    {"lr": 0.1},
    is_mine=True,  # refused
)
network = trainer.train(3, data)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-4)
