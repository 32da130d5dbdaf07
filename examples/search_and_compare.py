"""Search, estimate, compare: which of two networks and a forest is better, chosen honestly on a medical table.

First a search on the digits: trials in three folds, those that are worse given up after an epoch, the best settings.
Then breast cancer by 30 measurements of cell nuclei: in each outer fold each method searches its settings anew, in the
training part alone, so that the numbers at the end are of cases that neither training nor search has seen. All three
methods are tested on the same cases of the same folds, so they can be compared case by case. All is written below
``runs/search``.
"""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

import delira
from delira.data_loading import BaseDataManager
from delira.metrics import AurocMetric, accuracy
from delira.models import AbstractPyTorchNetwork
from delira.search import Choice, Float, Int, Tune
from delira.training import Parameters, PyTorchExperiment, SklearnExperiment


class Perceptron(AbstractPyTorchNetwork):
    def __init__(self, n_features: int, n_classes: int, n_hidden: int = 32, dropout: float = 0.0):
        super().__init__(n_features=n_features, n_classes=n_classes, n_hidden=n_hidden, dropout=dropout)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, n_hidden), torch.nn.ReLU(), torch.nn.Dropout(dropout),
            torch.nn.Linear(n_hidden, n_classes),
        )  # fmt: skip

    def forward(self, x):
        return {"pred": self.layers(x)}


class Linear(AbstractPyTorchNetwork):
    def __init__(self, n_features: int, n_classes: int):
        super().__init__(n_features=n_features, n_classes=n_classes)
        self.layer = torch.nn.Linear(n_features, n_classes)

    def forward(self, x):
        return {"pred": self.layer(x)}


def network(name, network_cls, model, searched, num_epochs):
    """An experiment with a network whose learning rate, and whatever else, a search may change."""
    training = {
        "num_epochs": num_epochs, "losses": {"ce": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.Adam,
        "val_metrics": {"accuracy": accuracy},
    }  # fmt: skip
    variable = {"model": searched, "training": {"optimizer_params": {"lr": Float(1e-3, 1e-1, log=True, default=1e-2)}}}
    params = Parameters({"model": model, "training": training}, variable)
    return PyTorchExperiment(
        params, network_cls, name=name, save_path="runs/search", val_score_key="accuracy", verbose=0
    )


def search_digits(n_trials):
    pixels, digits = load_digits(return_X_y=True)
    data = BaseDataManager({"data": np.float32(pixels / 16), "label": digits}, batch_size=64)
    searched = {"n_hidden": Int(8, 128, log=True, default=32), "dropout": Float(0.0, 0.5, step=0.25, default=0.0)}
    experiment = network("digits", Perceptron, {"n_features": 64, "n_classes": 10}, searched, num_epochs=8)
    result = experiment.tune(
        data, n_trials, num_splits=3, split_type="stratified", shuffle=True, random_seed=0, pruner="median"
    )
    print(result)
    print(f"page     {result.to_html('runs/search/digits.html')}")


def compare_on_cancer(n_trials):
    table = load_breast_cancer()
    data = BaseDataManager({"data": np.float32(table.data), "label": table.target}, batch_size=32)
    sizes = {"n_features": 30, "n_classes": 2}
    linear = network("linear", Linear, sizes, {}, num_epochs=15)
    perceptron = network("perceptron", Perceptron, sizes, {"n_hidden": Int(4, 64, log=True, default=16)}, num_epochs=15)
    forest = SklearnExperiment(
        Parameters(
            {"model": {"random_state": 0}, "training": {"val_metrics": {"accuracy": accuracy}}},
            {"model": {"n_estimators": Choice([50, 100]), "max_features": Float(0.1, 0.9)}},
        ),
        RandomForestClassifier, name="forest", save_path="runs/search", verbose=0,
    )  # fmt: skip
    results = [
        experiment.kfold(
            data, {"accuracy": accuracy, "auroc": AurocMetric()}, num_splits=5, split_type="stratified", shuffle=True,
            random_seed=0, preprocessing={"data": StandardScaler()},
            tune=Tune(n_trials=n_trials, num_splits=3, metric="accuracy"),
        )
        for experiment in (linear, perceptron, forest)
    ]  # fmt: skip
    for result in results:
        print(f"\n{result}")
    found = delira.compare(results)
    print(f"\n{found}")
    print(f"page     {found.to_html('runs/search/cancer.html')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=4, help="of each search")
    options = parser.parse_args()
    search_digits(3 * options.trials)
    compare_on_cancer(options.trials)
