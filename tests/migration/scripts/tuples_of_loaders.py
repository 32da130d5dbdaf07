"""Loaders of PyTorch whose batches are tuples, in an experiment; and what is no loader, with the line to type."""

import numpy as np
import torch
from sklearn.datasets import make_regression

from delira.data_loading import BaseDataManager
from delira.errors import ConfigError, DataError
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


x, y = make_regression(24, 3, random_state=0)
x, y = x.astype(np.float32), y.astype(np.float32)[:, None]
samples = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
settings = {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.1},
            "num_epochs": 2, "val_metrics": {"mae": lambda y_true, y_pred: np.abs(y_true - y_pred).mean()},
            "val_score_key": "mae", "val_score_mode": "min"}  # fmt: skip


def weights(data, val=None, **how):
    experiment = PyTorchExperiment({"training": settings}, Net, name="tuples", save_path="runs")
    network = experiment.run(data, val, **how)
    return experiment, network, network.dense.weight.detach().numpy().T


w = np.zeros((3, 1))
for _ in range(2):
    for start in (0, 8, 16):
        part, target = x[start : start + 8].astype(float), y[start : start + 8].astype(float)
        w -= 0.1 * 2 * part.T @ (part @ w - target) / 8

loader = torch.utils.data.DataLoader(samples, batch_size=8)
experiment, network, found = weights(loader, loader, data_keys=("data", "label"))
np.testing.assert_allclose(found, w, rtol=1e-4)
predictions, metrics = experiment.test(network, loader, data_keys=("data", "label"))
np.testing.assert_allclose(metrics["mae"], np.abs(x @ w - y).mean(), rtol=1e-4)
np.testing.assert_allclose(weights(list(loader), list(loader), data_keys=["data", "label"])[2], w, rtol=1e-4)


def refused(data, text, **how):
    try:
        weights(data, **how)
    except (ConfigError, DataError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)


refused(loader, "data_keys=('data', 'label')")
refused(list(loader), "data_keys=('data', 'label')")
refused(samples, "BaseDataManager(dataset, batch_size=")
refused(loader, "names 3 parts of a batch, and a batch is 2 parts", data_keys=("data", "label", "weight"))
wrapped = BaseDataManager(samples, 8)  # the line that it says
assert sorted(next(iter(wrapped))) == ["data", "label"]


refused(wrapped, "names nothing: a data manager names", data_keys=("data", "label"))
refused(loader, "('data', 'label')", data_keys="data")


class Frame(dict):
    iloc = None


refused(Frame(), "frame[features].to_numpy()")
