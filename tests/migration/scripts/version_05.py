"""A script of version 0.5: configuration, data manager, closures of two values, iteration callbacks, scikit-learn."""

import argparse
import os

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from delira.data_loading import BatchSampler, DataLoader, DataManager, RandomSampler, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment, SklearnExperiment
from delira.training.callbacks import AbstractCallback
from delira.utils import DeliraConfig

# ---- the configuration
config = DeliraConfig(fixed_model={"n_features": 2}, variable_training={"lr": 0.1})
config.fixed_params = {"model": {"n_features": 3}, "training": {"num_epochs": 2}}
assert config.fixed_params["model"]["n_features"] == config.nested_get("n_features") == 3
assert config.model_params == {"fixed": {"n_features": 3}, "variable": {}}
assert config.training_params["variable"] == config.variable_training == {"lr": 0.1}
assert config.params == {"fixed": config.fixed_params, "variable": config.variable_params}
config.variable_params["training"]["lr"] = 0.2  # a view
assert config["variable.training.lr"] == 0.2 and "variable.training.lr" in config
try:
    config.update({"variable": {"training": {"lr": 0.3}}})
except ValueError as error:
    assert "variable.training.lr" in str(error) and "overwrite" in str(error)
else:
    raise AssertionError("what is there is replaced in silence")
config.update({"variable": {"training": {"lr": 0.3}}}, overwrite=True)
config.update({"variable": {"training": {"momentum": 0.5}}})
assert config.variable_training == {"lr": 0.3, "momentum": 0.5}
config["model.lr"] = 7
assert sorted(config.nested_get("lr", allow_multiple=True)) == [0.3, 7]
del config["model"]
config.dump("config.yml")
assert DeliraConfig.create_from_file("config.yml") == config == DeliraConfig().load("config.yml")
assert DeliraConfig.create_from_str(config.dumps()) == config
assert DeliraConfig.create_from_dict({"fixed": {"model": {"a": 1}}}).fixed_model == {"a": 1}
assert DeliraConfig.create_from_argparse(argparse.Namespace(depth=3)).fixed_training == {"depth": 3}
assert "momentum" in config.log_as_string() and "n_features" in config.log_as_string(full_config=True)
assert "--training.lr" in config.create_argparser().format_help()

# ---- data
x = np.random.RandomState(0).randn(60, 2).astype(np.float32)
label = (x @ np.array([2.0, -1.0]) > 0).astype(np.int64)
data = DataManager({"data": x, "label": label}, 20, 0, None, sampler_cls=SequentialSampler)
assert [len(batch["label"]) for batch in data] == [20, 20, 20]
assert DataLoader({"data": x})([0, 5])["data"].shape == (2, 2)
assert list(BatchSampler(SequentialSampler(5), 2)) == [[0, 1], [2, 3], [4]]
assert sorted(RandomSampler(5)) == [0, 1, 2, 3, 4]  # since 0.5 without replacement


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(2, 2, bias=False)
        torch.nn.init.zeros_(self.dense.weight)

    def forward(self, x):
        return {"pred": self.dense(x)}

    @staticmethod
    def closure(model, data_dict, optimizers, losses, iter_num, fold=0, **kwargs):
        loss_vals, total_loss = {}, 0
        preds = model(data_dict["data"])
        for key, function in losses.items():
            loss = function(preds["pred"], data_dict["label"])
            loss_vals[key] = loss.item()
            total_loss += loss
        optimizers["default"].zero_grad()
        total_loss.backward()
        optimizers["default"].step()
        return loss_vals, {key: value.detach() for key, value in preds.items()}


class Iterations(AbstractCallback):
    def __init__(self):
        self.train, self.test = [], []

    def at_iter_begin(self, trainer, *, train, iter_num, **kwargs):
        (self.train if train else self.test).append(iter_num)


def accuracy(y_true, y_pred):
    return float((y_true == y_pred.argmax(1)).mean())


def by_hand(num_epochs, lr=0.5):
    w = np.zeros((2, 2))
    for _ in range(num_epochs):
        for start in (0, 20, 40):
            part, target = x[start : start + 20].astype(float), np.eye(2)[label[start : start + 20]]
            scores = np.exp(part @ w.T)
            w -= lr * (scores / scores.sum(1, keepdims=True) - target).T @ part / 20
    return w


config = DeliraConfig()
config.fixed_params = {
    "model": {},
    "training": {"losses": {"CE": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.SGD,
                 "optimizer_params": {"lr": 0.5}, "num_epochs": 3, "metrics": {"acc": accuracy}},
}  # fmt: skip
callback = Iterations()
experiment = PyTorchExperiment(config, Line, name="v05", save_path="./runs", key_mapping={"x": "data"})
network = experiment.run(data, data, callbacks=[callback])
np.testing.assert_allclose(network.dense.weight.detach().numpy(), by_hand(3), rtol=1e-4)
record = experiment.last_trainer.state.history[-1]
assert record["val_acc"] == accuracy(label, x @ by_hand(3).T)
heard = experiment.last_trainer.callbacks
told = next(one for one in heard if isinstance(one, Iterations))
assert len(told.train) == 9 and told.test == []  # of a validation nothing is told here
predictions, metrics = experiment.test(network, data, {"acc": accuracy})
assert metrics["acc"] == record["val_acc"]

# the experiment's own callbacks hear of the batches of a test
own = Iterations()
experiment = PyTorchExperiment(config, Line, name="heard", save_path="./runs", callbacks=[own])
experiment.test(network, data, {"acc": accuracy})
assert own.test == [0, 1, 2] and own.train == []
experiment = PyTorchExperiment(config=config, model_cls=Line, name="named", save_path="./runs")
assert experiment.params == config

# ---- an estimator of scikit-learn as it is
config = DeliraConfig(fixed_model={"C": 1e6}, fixed_training={"num_epochs": 1})
experiment = SklearnExperiment(config, LogisticRegression, key_mapping={"X": "X"}, name="sk", save_path="./runs")
whole = DataManager({"X": x, "y": label}, 60, 0, None)
model = experiment.run(whole)
expected = LogisticRegression(C=1e6).fit(x, label)
np.testing.assert_array_equal(model.estimator.predict(x), expected.predict(x))
assert os.path.isdir("./runs/sk")
