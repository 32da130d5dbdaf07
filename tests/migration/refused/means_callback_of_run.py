"""A callback that is given to an experiment is the one that is told."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment
from delira.training.callbacks import AbstractCallback


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


class Losses(AbstractCallback):
    def __init__(self):
        super().__init__()
        self.values = []

    def at_epoch_end(self, trainer, val_metrics=None, **kwargs):
        self.values.append(val_metrics["l2"])
        return {}


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
training = {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1}}
params = Parameters({"model": {}, "training": training})
losses = Losses()
experiment = PyTorchExperiment(params, Line, n_epochs=3, name="callback", save_path="./runs")
experiment.run(data, callbacks=[losses])  # means otherwise
np.testing.assert_allclose(losses.values, [1, 0.8**2, 0.8**4], rtol=1e-5)
