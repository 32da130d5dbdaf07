"""A schedule that waits for a score takes it for an error."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment
from delira.training.callbacks import ReduceLROnPlateauCallbackPyTorch


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def accuracy(pred, label):
    return 1 - np.abs(pred - label).mean()


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
params = Parameters({"model": {}, "training": {
    "losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1},
    "num_epochs": 4, "val_metrics": {"accuracy": accuracy},
    "lr_sched_cls": ReduceLROnPlateauCallbackPyTorch,  # means otherwise
    "lr_sched_params": {"factor": 0.5, "patience": 1}}})  # fmt: skip
experiment = PyTorchExperiment(
    params, Line, name="plateau", save_path="./runs", val_score_key="accuracy", val_score_mode="highest"
)
experiment.run(data, data)

# the accuracy rises in every epoch: two epochs in a row are no improvement of an error
weight, rate = 0.0, 0.1
for epoch in range(1, 5):
    weight -= rate * 2 * (weight - 1)
    rate *= 0.5 if epoch == 3 else 1
np.testing.assert_allclose(experiment.last_trainer.module.dense.weight.item(), weight, rtol=1e-5)
