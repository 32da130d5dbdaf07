"""What a search costs around its trainings: its wall time less what the trainings took, and what it holds.

The trainings sleep for a second and are as small as can be beside that (the toy backend, one epoch of one batch), so
that what is measured is what goes around them: proposals by TPE over all trials so far, the study and the ledger, the
folder of each trial, its test and its result. What is imported once is told apart, as start-up.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from delira.data_loading import BaseDataManager
from delira.search import Choice, Float
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error
from delira.training import Parameters
from delira.training.callbacks import AbstractCallback

#: most of the wall time that may go elsewhere than into trainings, at 200 trials of a second each
LIMIT = 0.03
#: most that the memory may grow, in MB for a thousand trials, from the first third on: of each is known what was
#: proposed and what came out, here, in the study, and in the copy of it that proposals are made of (6 kB of objects)
LIMIT_OF_MEMORY = 20.0


class Sleep(AbstractCallback):
    """Stands for a training that takes its time."""

    only_watches = True

    def __init__(self, seconds: float, memory: Path):
        self.seconds, self.memory = seconds, memory

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        time.sleep(self.seconds)
        with open(self.memory, "a") as file:
            file.write(f"{psutil.Process().memory_info().rss}\n")


def rmse(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each training")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    data = {"data": rng.normal(size=(32, 3)), "label": rng.normal(size=(32, 1))}
    training = {
        "num_epochs": 1, "losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD, "logging_type": None,
        "val_metrics": {"rmse": rmse}, "save_freq": None, "verbose": 0,
    }  # fmt: skip
    spaces = {"optimizer_params": {"lr": Float(1e-4, 0.1, log=True), "momentum": Choice([0.0, 0.5, 0.9])}}
    params = Parameters({"model": {"n_features": 3}, "training": training}, {"training": spaces})
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "memory"

        def search(name: str, n_trials: int, **more: Any) -> Any:
            experiment = ToyExperiment(params, ToyNetwork, name=name, save_path=folder)
            return experiment.tune(BaseDataManager(data, 32), n_trials, "rmse", val_split=0.25, **more)

        began = time.perf_counter()
        search("first", 1)
        start_up = time.perf_counter() - began
        began = time.perf_counter()
        result = search("search", options.trials, callbacks=[Sleep(options.seconds, memory)])
        wall = time.perf_counter() - began
        held = np.array([*map(int, memory.read_text().split())]) / 2**20
    trained = sum(trial.seconds for trial in result.trials)
    third = len(held) // 3
    growth = (held[-third:].mean() - held[third : 2 * third].mean()) / third * 1000
    share = (wall - trained) / wall
    print(f"start-up, a search of one trial that imports scikit-learn, scipy and Optuna: {start_up:.1f} s")
    print(f"{options.trials} trials: {wall:.1f} s, of which trainings {trained:.1f} s: {share:.1%} around them")
    print(f"{(wall - trained) / options.trials * 1000:.1f} ms a trial; memory {growth:+.2f} MB for a thousand trials")
    with_start_up = (wall - trained + start_up) / (wall + start_up)
    found = {"overhead": round(share, 4), "with_start_up": round(with_start_up, 4)}
    kept = {"overhead": bool(share <= LIMIT), "memory": bool(growth <= LIMIT_OF_MEMORY)}
    print(json.dumps({**found, "mb_per_thousand": round(float(growth), 2), "kept": kept}))


if __name__ == "__main__":
    main()
