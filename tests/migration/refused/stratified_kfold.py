"""The folds of 0.3 with the shares of the classes, which were methods of their own."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment

x = np.random.RandomState(0).randn(12, 2).astype(np.float32)
y = np.arange(12).reshape(12, 1) % 3 == 0
data = BaseDataManager({"data": x, "label": y.astype(np.float32)}, 4, 1, None, sampler_cls=SequentialSampler)


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
            "losses": {"l2": torch.nn.MSELoss()},
            "optimizer_cls": torch.optim.SGD,
            "optimizer_params": {"lr": 0.1},
            "num_epochs": 1,
            "val_metrics": {"mae": lambda y_true, y_pred: float(np.abs(y_true - y_pred).mean())},
        },
    }
)
experiment = PyTorchExperiment(params, Net, name="folds", save_path="runs")
experiment.stratified_kfold(1, data, 2, True, 0)  # refused
outputs, labels, metrics = experiment.stratified_kfold_predict(1, data, split_val=0.5, num_splits=2)  # refused
assert sorted(outputs) == sorted(labels) == sorted(metrics) == ["0", "1"]
for fold in ("0", "1"):
    truth, predicted = np.concatenate(labels[fold]), np.concatenate(outputs[fold])
    assert truth.sum() == 2 and len(truth) == 6
    np.testing.assert_allclose(metrics[fold]["mae"], np.abs(truth - predicted).mean(), rtol=1e-5)
