"""Labels of whole numbers for a loss that takes none: they were made float32 on their way."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
label = np.int64(x[:, :1] > 0)
data = BaseDataManager({"data": x, "label": label}, 8, 1, None, sampler_cls=SequentialSampler)  # refused
own = BaseDataManager({"data": x, "label": (x[:, :1] > 0).astype(int)}, 8, 1, None)  # refused
assert len(own.dataset) == 8


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


params = Parameters(
    fixed_params={
        "model": {},
        "training": {
            "losses": {"bce": torch.nn.BCEWithLogitsLoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.1},
            "num_epochs": 1,
        },
    }
)
network = PyTorchExperiment(params, Net, name="binary", save_path="runs").run(data)
expected = -0.1 * x.T @ (0.5 - label) / 8
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, expected, rtol=1e-4)
