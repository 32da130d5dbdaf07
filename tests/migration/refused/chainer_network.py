"""A network of plain Python whose base was that of chainer."""

import numpy as np

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractChainerNetwork  # refused
from delira.training import BaseExperiment, BaseNetworkTrainer, Parameters

x = np.linspace(-1, 1, 8).reshape(8, 1)
data = BaseDataManager({"data": x, "label": 2 * x}, 8, 1, None, sampler_cls=SequentialSampler)


class Descent:
    def __init__(self, network, lr):
        self.network, self.lr = network, lr

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Slope(AbstractChainerNetwork):
    def __init__(self):
        super().__init__()
        self.weight = np.zeros((1, 1))

    def __call__(self, x):
        return {"pred": x @ self.weight}

    @staticmethod
    def prepare_batch(batch, input_device, output_device):
        return batch

    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, metrics=None, fold=0, **kwargs):
        error = model(data_dict["data"])["pred"] - data_dict["label"]
        model.weight = model.weight - optimizers["default"].lr * 2 * data_dict["data"].T @ error / len(error)
        return {}, {"l2": (error**2).mean()}, {"pred": error}


def optimizers(network, optim_cls, **optim_params):
    return {"default": optim_cls(network, **optim_params)}


params = Parameters(
    fixed_params={
        "model": {},
        "training": {
            "losses": {"l2": np.subtract},
            "optimizer_cls": Descent,
            "optimizer_params": {"lr": 0.5},
            "num_epochs": 2,
        },
    }
)
experiment = BaseExperiment(
    params,
    Slope,
    name="slope",
    save_path="runs",
    key_mapping={"x": "data"},
    optim_builder=optimizers,
    trainer_cls=BaseNetworkTrainer,
)
network = experiment.run(data)
w = 0.0
for _ in range(2):
    w -= 0.5 * 2 * (x * (w * x - 2 * x)).mean()
np.testing.assert_allclose(network.weight, [[w]])
