"""The main job: a stratified 5-fold cross-validation of a network on real data.

Run it with ``make demo``. It writes everything below ``runs/digits``.
"""

import torch
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager
from delira.metrics import accuracy
from delira.models import AbstractPyTorchNetwork
from delira.training import Parameters, PyTorchExperiment


class Net(AbstractPyTorchNetwork):
    """A perceptron with one hidden layer."""

    def __init__(self, n_features: int, n_hidden: int, n_classes: int):
        super().__init__(n_features=n_features, n_hidden=n_hidden, n_classes=n_classes)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, n_hidden), torch.nn.ReLU(), torch.nn.Linear(n_hidden, n_classes)
        )

    def forward(self, x):
        return {"pred": self.layers(x)}


def main() -> None:
    pixels, digits = load_digits(return_X_y=True)
    data = BaseDataManager({"data": pixels.astype("float32") / 16, "label": digits}, batch_size=32)

    params = Parameters(
        fixed_params={
            "model": {"n_features": 64, "n_hidden": 128, "n_classes": 10},
            "training": {
                "num_epochs": 40,
                "losses": {"ce": torch.nn.CrossEntropyLoss()},
                "optimizer_cls": torch.optim.Adam,
                "optimizer_params": {"lr": 2e-3},
                "val_metrics": {"accuracy": accuracy},
            },
        }
    )
    params.update_from_argparse()  # python digits_kfold.py --num_epochs 10 --lr 1e-3
    experiment = PyTorchExperiment(
        params, Net, name="digits", save_path="runs", val_score_key="accuracy", val_score_mode="max"
    )
    result = experiment.kfold(data, num_splits=5, split_type="stratified", shuffle=True, random_seed=0)

    print(result)
    report = result.path / "report"
    result.plot(report / "learning_curves.png")
    result.to_html(report / "report.html")
    print(f"\nlearning curves  {report / 'learning_curves.png'}")
    print(f"report           {report / 'report.html'}")
    print(f"checkpoints      {result.path / 'fold_00' / 'checkpoints'} …")


if __name__ == "__main__":
    main()
