"""Metrics of 0.4 get the prediction first."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(self.dense.weight, 2)

    def forward(self, x):
        return {"pred": self.dense(x)}


def too_large(a, b):
    return (a > b).mean()


x = np.linspace(1, 2, 8, dtype=np.float32)[:, None]
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
params = Parameters({"model": {}, "training": {
    "losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.0},
    "val_metrics": {
        "bias": lambda a, b: (a - b).mean(),  # means otherwise
        "error": lambda pred, label: np.abs(pred - label).mean(),
    }}})  # fmt: skip
experiment = PyTorchExperiment(
    params, Line, n_epochs=1, name="metrics", save_path="./runs", val_score_key="error", val_score_mode="lowest"
)
network = experiment.run(data, data)
np.testing.assert_allclose(experiment.last_trainer.state.history[0]["val_bias"], (2 * x - x).mean(), rtol=1e-6)
predictions, values = experiment.test(network, data, {"above": too_large})  # means otherwise
assert values["above"].mean() == 1
