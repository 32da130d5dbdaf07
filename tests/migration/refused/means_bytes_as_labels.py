"""All entries of a batch are floats in the network, labels of bytes, too."""

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

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        preds = model(data_dict["data"])
        loss = losses["l2"](preds["pred"], 2 * data_dict["label"] - 1)
        optimizers["default"].zero_grad()
        loss.backward()
        optimizers["default"].step()
        return {}, {"l2": loss.item()}, preds


x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
data = BaseDataManager(
    {
        "data": x,
        "label": (x > 0).astype(np.uint8),  # means otherwise
    },
    8, 0, None, sampler_cls=SequentialSampler,
)  # fmt: skip
training = {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1}}
params = Parameters({"model": {}, "training": training})
network = PyTorchExperiment(params, Line, n_epochs=1, name="bytes", save_path="./runs").run(data)
np.testing.assert_allclose(network.dense.weight.item(), 0.1 * 2 * (x * np.sign(x)).mean(), rtol=1e-5)
