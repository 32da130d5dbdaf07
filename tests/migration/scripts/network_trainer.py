"""The page about trainers (0.3.1): positions, own training loops, prediction, states, and the old order of kfold."""

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import AbstractNetworkTrainer, Parameters, PyTorchExperiment, PyTorchNetworkTrainer
from delira.training.callbacks import AbstractCallback

x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(8, 2)
y = (x @ np.array([[1.0], [3.0]], np.float32)).astype(np.float32)
data = BaseDataManager({"data": x, "label": y}, 4, 0, transforms=None, sampler_cls=SequentialSampler)


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}


def by_hand(num_epochs, lr=0.1):
    w = np.zeros((2, 1))
    for _ in range(num_epochs):
        for start in (0, 4):
            part, target = x[start : start + 4].astype(float), y[start : start + 4].astype(float)
            w -= lr * 2 * part.T @ (part @ w - target) / 4
    return w


def mae(y_true, y_pred):
    return np.abs(y_true - y_pred).mean()


class Seen(AbstractCallback):
    def __init__(self):
        self.epochs = []

    def at_epoch_end(self, trainer, **kwargs):
        self.epochs.append(kwargs["curr_epoch"])
        return {"stop_training": False}


# ---- a training loop of one's own on the abstract trainer
class OwnTrainer(AbstractNetworkTrainer):
    def __init__(self, network, fold=0, callbacks=[]):  # noqa: B006
        super().__init__(fold, callbacks)
        self.network = network

    def train(self, num_epochs, datamgr_train, datamgr_valid=None):
        for _ in range(num_epochs):
            for batch in datamgr_train.get_batchgen():
                error = batch["data"] @ self.network - batch["label"]
                self.network = self.network - 0.1 * 2 * batch["data"].T @ error / len(error)
        return self.network


own = OwnTrainer(np.zeros((2, 1)), fold=2)
assert own.fold == 2
np.testing.assert_allclose(own.train(3, data), by_hand(3), rtol=1e-5)

# ---- positions: network, save_path, losses (0.3), optimizer_cls, optimizer_params
seen = Seen()
trainer = PyTorchNetworkTrainer(
    Net(), "./trained", {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.1}, callbacks=[seen],
    val_metrics={"mae": mae},
)  # fmt: skip
network = trainer.train(3, data, data, val_score_key="mae", val_score_mode="lowest")
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-5)
assert seen.epochs == [1, 2, 3]
assert not trainer.stop_training

# ---- prediction of a whole data set: outputs, labels, metrics and mean losses
outputs, labels, metrics = trainer.predict(data, 4)
np.testing.assert_allclose(np.concatenate(outputs), x @ by_hand(3), rtol=1e-5)
np.testing.assert_allclose(np.concatenate(labels), y)
np.testing.assert_allclose(metrics["l2"], ((x @ by_hand(3) - y) ** 2).mean(), rtol=1e-4)
np.testing.assert_allclose(metrics["mae"], np.abs(x @ by_hand(3) - y).mean(), rtol=1e-4)
outputs, labels, metrics = trainer.predict(data.get_batchgen(), 4)
assert len(np.concatenate(outputs)) == 8

# ---- states: a file, and a part of one
file = trainer.save_state("./state", 3)
other = PyTorchNetworkTrainer(Net(), "./other", {"l2": torch.nn.MSELoss()}, torch.optim.SGD, {"lr": 0.1})
assert other.update_state(file) is other
np.testing.assert_allclose(other.module.dense.weight.detach().numpy().T, by_hand(3), rtol=1e-5)
other._update_state({"model": {"dense.weight": torch.zeros(1, 2)}})
assert not other.module.dense.weight.detach().numpy().any()

# ---- an experiment that is continued, and a cross-validation in the old order
params = Parameters({
    "model": {},
    "training": {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD,
                 "optimizer_params": {"lr": 0.1}, "num_epochs": 2, "val_metrics": {"mae": mae}},
})  # fmt: skip
experiment = PyTorchExperiment(params, Net, name="page", save_path="./experiments")
experiment.run(data)
network = experiment.resume(experiment.save_path, data, num_epochs=4)
np.testing.assert_allclose(network.dense.weight.detach().numpy().T, by_hand(4), rtol=1e-5)

experiment.kfold(2, data, num_splits=2)
