"""The toy backend's trainings: what they are made of, and the same in numpy."""

import numpy as np
from fuzz_training import BATCH, EPOCHS, INPUTS, TARGETS

from delira.data_loading import BaseDataManager, SequentialSampler
from delira.testing import ToyNetwork, ToySGD, mean_squared_error

WEIGHT = np.array([[0.5], [-1.0], [2.0]])


def data():
    """The small problem, in order."""
    return BaseDataManager({"data": INPUTS, "label": TARGETS}, BATCH, sampler_cls=SequentialSampler)


def train(trainer, folder):
    """Train the toy for two epochs, with a validation."""
    network = trainer.train(EPOCHS, data(), data())
    return network.weight.ravel()


def descended(weight=WEIGHT, inputs=INPUTS, momentum=0.0):
    """Two epochs in numpy: the gradient of the mean squared error of a linear network."""
    velocity = 0.0
    for _ in range(EPOCHS):
        for start in range(0, len(inputs), BATCH):
            x, y = inputs[start : start + BATCH].astype(float), TARGETS[start : start + BATCH].astype(float)
            velocity = momentum * velocity + 2 * x.T @ (x @ weight - y) / len(y)
            weight = weight - 0.1 * velocity
    return weight.ravel()


def toy():
    """The network, whose weight is always the same."""
    network = ToyNetwork(3)
    network.weight = WEIGHT.copy()
    return network


def of_toy(folder):
    return {
        "network": toy(),
        "save_path": None,
        "key_mapping": {"x": "data"},
        "losses": {"loss": mean_squared_error},
        "optimizer_cls": ToySGD,
        "optimizer_params": {"lr": 0.1},
        "verbose": 0,
    }


def of_experiment(folder):
    own = of_toy(folder)
    return {
        "params": {"training": {"num_epochs": EPOCHS, **{name: own[name] for name in ("losses", "optimizer_params")}}},
        "model_cls": ToyNetwork,
        "name": "fuzz",
        "save_path": folder,
        "key_mapping": {"x": "data"},
        "verbose": 0,
    }
