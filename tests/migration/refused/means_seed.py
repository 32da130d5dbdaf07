"""The seed of the framework decides how networks begin."""

import argparse

import numpy as np
import torch

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment


class Line(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(1, 1, bias=False)

    def forward(self, x):
        return {"pred": self.dense(x)}


x = np.ones((4, 1), np.float32)
data = BaseDataManager({"data": x, "label": x}, 4, 0, transforms=None, sampler_cls=SequentialSampler)
training = {"losses": {"l2": torch.nn.MSELoss()}, "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.0}}
params = Parameters({"model": {}, "training": training})


def begins_as(number):
    torch.manual_seed(number)  # means otherwise
    experiment = PyTorchExperiment(params, Line, n_epochs=1, name="seed", save_path="./runs")
    return experiment.run(data).dense.weight.item()


weights = [begins_as(number) for number in (1, 2, 3, 3)]
assert len(set(weights)) == 3
assert weights[2] == weights[3]


def begins_as_told(args):
    torch.manual_seed(args.seed)  # means otherwise
    experiment = PyTorchExperiment(params, Line, n_epochs=1, name="told", save_path="./runs")
    return experiment.run(data).dense.weight.item()


assert [begins_as_told(argparse.Namespace(seed=number)) for number in (1, 2)] == weights[:2]
