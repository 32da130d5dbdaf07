"""An experiment looks for the lowest score, and a trainer for the highest, whatever the score is called."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment, PyTorchNetworkTrainer


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def dice_loss(pred, label):
    return np.abs(pred - label).mean()


def accuracy(pred, label):
    return 1 - np.abs(pred - label).mean()


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
loss, weights = {"l2": torch.nn.MSELoss()}, 1 - 0.8 ** np.arange(1, 4)
params = Parameters({"model": {}, "training": {
    "losses": loss, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1}, "num_epochs": 3,
    "val_metrics": {"dice": dice_loss}}})  # fmt: skip
experiment = PyTorchExperiment(params, Line, name="dice", save_path="./runs", val_score_key="dice")  # means otherwise
np.testing.assert_allclose(experiment.run(data, data).dense.weight.item(), weights[-1], rtol=1e-5)

trainer = PyTorchNetworkTrainer(
    Line(), "./line", {"x": "data"}, loss, torch.optim.SGD, {"lr": 0.1}, val_metrics={"error": accuracy}
)
network = trainer.train(3, data, data, val_score_key="error")  # means otherwise
np.testing.assert_allclose(network.dense.weight.item(), weights[-1], rtol=1e-5)
