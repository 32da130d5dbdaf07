"""A test gives the metrics of each sample."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(3, 3, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def distance(pred, label):
    return np.abs(pred - label).sum(axis=1).max()


x = np.random.RandomState(0).randn(8, 3).astype(np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
training = {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.0}}
params = Parameters({"model": {}, "training": training})
experiment = PyTorchExperiment(params, Line, n_epochs=1, name="samples", save_path="./runs")
network = experiment.run(data)
predictions, metrics = experiment.test(network, data, {"distance": distance})
spread = np.std(metrics["distance"])  # means otherwise
np.testing.assert_allclose(spread, np.abs(x).sum(axis=1).std(), rtol=1e-5)

outputs, folds = experiment.kfold(data, {"distance": distance}, num_splits=2, val_split=None)
spreads = [folds[fold]["distance"].std() for fold in ("0", "1")]  # means otherwise
np.testing.assert_allclose(spreads, [np.abs(part).sum(axis=1).std() for part in (x[:4], x[4:])], rtol=1e-5)
