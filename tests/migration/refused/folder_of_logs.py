"""The folder of the events of TensorBoard, and a scope of a log that is there."""

import os

import numpy as np
import tensorboardX
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.logging import LoggingContext, MultiStreamHandler, close_logger, log, make_logger
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 8, 1, None, sampler_cls=SequentialSampler)


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


training = {
    "losses": {"l2": torch.nn.MSELoss()},
    "optimizer_cls": torch.optim.SGD,
    "optimizer_params": {"lr": 0.1},
    "num_epochs": 1,
    "logging_type": "tensorboardx",
    "logging_kwargs": {"logdir": "events"},  # refused
}
network = PyTorchExperiment(Parameters({"model": {}, "training": training}), Net, name="l", save_path="runs").run(data)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, 0.1 * 2 * x.T @ y / 8, rtol=1e-4)
assert tensorboardX and os.listdir("events")
make_logger("mine", MultiStreamHandler())
with LoggingContext("mine", initialize_if_missing=False, destroy_on_exit=None):  # refused
    log({"text": "said"})
close_logger("mine")
