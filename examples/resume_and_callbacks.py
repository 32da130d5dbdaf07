"""A run that is broken off and continued, bit for bit as if nothing had happened.

With it: a validation split of one's own, early stopping, a schedule, clipping, bf16, and a callback.

Run it with ``python examples/resume_and_callbacks.py``. It writes everything below ``runs/resume``.
"""

import csv

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from delira.data_loading import BaseDataManager
from delira.metrics import accuracy
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment
from delira.training.callbacks import EarlyStopping


class Net(AbstractPyTorchNetwork):
    """A perceptron with dropout, so that the generators must be resumed as well."""

    def __init__(self, n_hidden: int):
        super().__init__(n_hidden=n_hidden)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, n_hidden), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(n_hidden, 10)
        )

    def forward(self, x):
        return {"pred": self.layers(x)}


class BreakOff:
    """Any object with one of the methods of a callback is one; this one is Ctrl-C in a given epoch."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def at_iter_end(self, trainer, *, curr_epoch, iter_num, **facts):
        if curr_epoch == self.epoch and iter_num == 10:
            raise KeyboardInterrupt


def main() -> None:
    pixels, digits = load_digits(return_X_y=True)
    data = BaseDataManager({"data": pixels.astype("float32") / 16, "label": digits}, batch_size=32)
    train, val = train_test_split(range(len(digits)), test_size=0.25, stratify=digits, random_state=0)
    train_data, val_data = data.get_subset(train), data.get_subset(val)

    experiment = PyTorchExperiment(
        {"model": {"n_hidden": 64}}, Net, n_epochs=60, name="resume", save_path="runs", verbose=False,
        losses={"ce": torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.Adam, optimizer_params={"lr": 1e-2},
        val_metrics={"accuracy": accuracy}, val_score_key="accuracy", val_score_mode="max",
        lr_scheduler_cls=torch.optim.lr_scheduler.ReduceLROnPlateau,
        lr_scheduler_params={"factor": 0.5, "patience": 1},
        gradient_clip_norm=1.0, mixed_precision="bf16",
    )  # fmt: skip
    stop = EarlyStopping("accuracy", patience=6, mode="max")
    unbroken = experiment.run(train_data, val_data, callbacks=[stop])

    try:
        experiment.run(train_data, val_data, callbacks=[stop, BreakOff(epoch=5)])
    except KeyboardInterrupt:
        print("broken off in epoch 5")
    # "auto" finds the newest unfinished run with the same parameters and data
    resumed = experiment.run(train_data, val_data, callbacks=[stop], resume="auto")

    theirs = unbroken.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in resumed.state_dict().items())
    print("resumed; the weights equal those of the unbroken run, bit for bit\n")

    trainer = experiment.last_trainer
    with open(trainer.save_path / "history.csv") as file:
        for row in csv.DictReader(file):
            numbers = "".join(f"   {name} {float(row[name]):.4f}" for name in ("ce", "val_accuracy", "lr"))
            print(f"epoch {row['epoch']:>2}{numbers}")
    print(f"\nbest epoch {trainer.state.best_epoch}, stopped after {trainer.state.epoch}  {trainer.save_path}")


if __name__ == "__main__":
    main()
