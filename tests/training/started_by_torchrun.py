"""A script that torchrun starts: it calls delira as any script does; each process writes down what came of it."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from problems import linear_problem, mae
from trained_in_processes import Net, Raises, mse_of_epoch, weights_of

from delira.data_loading import BaseDataManager
from delira.errors import DeliraError
from delira.training import Float, Parameters, PyTorchExperiment, PyTorchNetworkTrainer, launched

FOLDER, WHAT = Path(sys.argv[1]), sys.argv[2]
RANK = int(os.environ["RANK"])


class Scaled(Net):
    """Of the script itself."""

    def forward(self, x):
        return {name: 2 * value for name, value in super().forward(x).items()}


def experiment(variable=None, **how):
    training = {
        "losses": {"mse": torch.nn.MSELoss()}, "val_metrics": {"squares": mse_of_epoch}, "num_epochs": 3, "verbose": 0,
        "optimizer_cls": torch.optim.SGD, "optimizer_params": {"lr": 0.01}, "num_threads": 1, "device": "cpu", **how,
    }  # fmt: skip
    params = Parameters({"training": training}, variable or {})
    return PyTorchExperiment(params, Scaled, save_path=FOLDER, key_mapping={"x": "data"})


def run(data):
    own = experiment()
    network = own.run(data, data)
    predictions, metrics = own.test(network, data, metrics={"mae": mae})
    return {
        "weights": {name: one.tolist() for name, one in network.state_dict().items()},
        "predictions": predictions["pred"].tolist(),
        "metrics": {name: float(one[0]) for name, one in metrics.items()},
    }


def kfold(data, **how):
    found = experiment().kfold(data, num_splits=3, random_seed=0, shuffle=True, metrics={"mae": mae}, **how)
    metrics = {
        str(fold): {name: np.ravel(one).tolist() for name, one in values.items()} for fold, values in found[1].items()
    }
    return {"metrics": metrics, "path": str(found.path)}


def tune(data):
    variable = {"training": {"optimizer_params": {"lr": Float(1e-3, 1e-1, log=True)}}}
    found = experiment(variable).tune(data, 4, "mae", num_splits=2, random_seed=0, shuffle=True, metrics={"mae": mae})
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in found.table()]
    return {"trials": rows, "best": found.best.number, "path": str(found.path)}


def pruned(data):
    variable = {"training": {"optimizer_params": {"lr": Float(1e-4, 1e-1, log=True)}}}
    asked = {"sampler": "random", "pruner": "median", "direction": "min", "val_split": 0.25}
    found = experiment(variable).tune(data, 10, "squares", random_seed=0, **asked)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in found.table()]
    assert {trial.state for trial in found.trials} == {"finished", "pruned"}
    return {"trials": rows, "path": str(found.path)}


def learning_curve(data):
    asked = {"num_splits": 2, "random_seed": 0, "shuffle": True, "metrics": {"mae": mae}}
    found = experiment().learning_curve(data, (10, 1.0), **asked)
    return {"rows": found.to_dataframe().to_dict("records"), "path": str(found.path)}


def trainer(data, **how):
    made = PyTorchNetworkTrainer(
        Net(), FOLDER / "trainer", {"x": "data"}, losses={"mse": torch.nn.MSELoss()}, optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.01}, num_threads=1, device="cpu", verbose=0, **how,
    )  # fmt: skip
    network = made.train(3, data, data)
    assert network is made.network
    return {
        "weights": {name: one.tolist() for name, one in weights_of(made).items()},
        "epochs": [epoch["mse"] for epoch in made.state.history],
    }


def raises(data):
    return trainer(data, callbacks=[Raises(rank=1)])


def goes_on(data):
    """A script that lives with a training that failed."""
    try:
        raises(data)
    except ZeroDivisionError as error:
        return {**trainer(data), "first": str(error)}


def different(data):
    return run(data) if RANK == 0 else kfold(data)


def leaves(data):
    launched._SIGNS_IN_WITHIN = 3.0
    return {} if RANK == 0 else run(data)


def leaves_later(data):
    trainer(data)
    return leaves(data)


def four(data):
    return trainer(data, devices=4)


def elsewhere(data):
    return kfold(data, executor="processes", n_jobs=2)


def resumed(data):
    """Ends by itself in the midst of the second epoch, when it runs the first time; torchrun starts it again."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    own = experiment(callbacks=[Dies()] if attempt == 0 else [], save_freq_steps=1)
    network = own.run(data, data, resume="auto", allow_changes=True)
    return {"weights": {name: one.tolist() for name, one in network.state_dict().items()}, "attempt": attempt}


class Dies(Raises):
    def __init__(self):
        super().__init__(rank=1)

    def at_iter_begin(self, trainer, *, curr_epoch, iter_num, **facts):
        # its globals are those of the first process, as it is a class of the script
        if (curr_epoch, iter_num) == (2, 2) and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), 9)


if __name__ == "__main__":
    arrays = {name: array.astype(np.float32) for name, array in linear_problem(43).items()}
    try:
        told = globals()[WHAT](BaseDataManager(arrays, 8))
    except (DeliraError, ZeroDivisionError) as error:
        told = {"error": f"{type(error).__name__}: {error}", "notes": getattr(error, "__notes__", [])}
    (FOLDER / f"{RANK}.json").write_text(json.dumps(told))
