"""The same tutorial for a backend of numpy: nothing but network, functions of files, trainer and experiment."""

import os
import pickle

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models.abstract_network import AbstractNetwork
from delira.training import BaseExperiment, BaseNetworkTrainer, Parameters


class NumpyOptimizer:
    def __init__(self, network, lr=0.1, momentum=0.0):
        self.network, self.lr, self.momentum = network, lr, momentum
        self.velocity = np.zeros_like(network.weight)

    def step(self, gradient):
        self.velocity = self.momentum * self.velocity - self.lr * gradient
        self.network.weight += self.velocity

    def state_dict(self):
        return {"velocity": self.velocity.copy()}

    def load_state_dict(self, state):
        self.velocity = np.array(state["velocity"])


def create_optims_default_numpy(network, optim_cls, **optim_params):
    return {"default": optim_cls(network, **optim_params)}


class NumpyNetwork(AbstractNetwork):
    def __init__(self, n_features):
        super().__init__(n_features=n_features)
        self.weight = np.full((n_features, 1), 0.5)

    def __call__(self, x):
        return {"pred": x @ self.weight}

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        return {key: np.asarray(value, dtype=float) for key, value in batch.items()}

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        preds = model(data_dict["data"])
        error = preds["pred"] - data_dict["label"]
        loss_vals = {key: fn(preds["pred"], data_dict["label"]) for key, fn in losses.items()}
        optimizers["default"].step(2 * data_dict["data"].T @ error / len(error))
        return {}, loss_vals, preds


def save_checkpoint_numpy(file, model=None, optimizers={}, epoch=None):  # noqa: B006
    with open(file + ".npk", "wb") as f:
        pickle.dump(
            {"model": model.weight, "optimizer": {k: v.velocity for k, v in optimizers.items()}, "epoch": epoch}, f
        )


def load_checkpoint_numpy(file):
    with open(file + ".npk", "rb") as f:
        return pickle.load(f)


class NumpyNetworkTrainer(BaseNetworkTrainer):
    def save_state(self, file_name, epoch, **kwargs):
        save_checkpoint_numpy(file_name, self.module, self.optimizers, epoch)

    @staticmethod
    def load_state(file_name, **kwargs):
        return load_checkpoint_numpy(file_name)

    def _update_state(self, new_state):
        self.updates = [*getattr(self, "updates", []), new_state["epoch"]]
        self.module.weight = new_state["model"]
        for key, velocity in new_state["optimizer"].items():
            self.optimizers[key].velocity = velocity


class NumpyExperiment(BaseExperiment):
    def __init__(self, params, model_cls, n_epochs=None, name=None, save_path=None, key_mapping=None,
                 val_score_key=None, optim_builder=create_optims_default_numpy, checkpoint_freq=1,
                 trainer_cls=NumpyNetworkTrainer, **kwargs):  # fmt: skip
        if key_mapping is None:
            key_mapping = {"x": "data"}
        super().__init__(params=params, model_cls=model_cls, n_epochs=n_epochs, name=name, save_path=save_path,
                         key_mapping=key_mapping, val_score_key=val_score_key, optim_builder=optim_builder,
                         checkpoint_freq=checkpoint_freq, trainer_cls=trainer_cls, **kwargs)  # fmt: skip


def l2(pred, label):
    return float(((pred - label) ** 2).mean())


def mae(pred, label):
    return np.abs(pred - label).mean()


x = np.linspace(-1, 1, 24).reshape(12, 2)
y = x @ np.array([[2.0], [-1.0]])


def by_hand(num_epochs):
    weight, velocity = np.full((2, 1), 0.5), np.zeros((2, 1))
    for _ in range(num_epochs):
        for start in range(0, 12, 4):
            part, target = x[start : start + 4], y[start : start + 4]
            velocity = 0.5 * velocity - 0.1 * 2 * part.T @ (part @ weight - target) / 4
            weight = weight + velocity
    return weight


params = Parameters(fixed_params={
    "model": {"n_features": 2},
    "training": {"losses": {"L2": l2}, "optimizer_cls": NumpyOptimizer,
                 "optimizer_params": {"lr": 0.1, "momentum": 0.5}, "num_epochs": 2, "val_metrics": {"mae": mae}},
})  # fmt: skip
data = BaseDataManager({"data": x, "label": y}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
experiment = NumpyExperiment(params, NumpyNetwork, name="Numpy", save_path="./tmp", val_score_key="mae",
                             val_score_mode="lowest")  # fmt: skip
network = experiment.run(data, data)
np.testing.assert_allclose(network.weight, by_hand(2), rtol=1e-12)
folder = experiment.last_trainer.save_path
assert os.path.isfile(os.path.join(folder, "checkpoint_epoch_1.npk"))
assert load_checkpoint_numpy(os.path.join(folder, "checkpoint_epoch_1"))["epoch"] == 1

network = experiment.resume(folder, data, data, num_epochs=5)
np.testing.assert_allclose(network.weight, by_hand(5), rtol=1e-12)
assert experiment.last_trainer.updates[0] == 2

outputs, metrics = experiment.kfold(data, {"mae": mae}, num_splits=3, metric_keys={"mae": ("pred", "label")})
assert sorted(outputs) == sorted(metrics) == ["0", "1", "2"]
assert sum(len(fold["pred"]) for fold in outputs.values()) == 12
