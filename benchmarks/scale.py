"""What folds in parallel bring: a cross-validation of the digits in one process, in two, and on a cluster of Ray.

Ten folds of a perceptron, one thread a process in all, each in an interpreter of its own whose start counts, as does
that of the processes; the start of Ray's cluster is stated, and left out of its ratio. The results are compared first:
they are the same bits.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

N_FOLDS = 10
#: most of the sequential time that is allowed with two processes on two cores
LIMIT = 0.58
#: most of the time of two processes that is allowed with Ray, its start aside
LIMIT_OF_RAY = 1.15

PROGRAM = """
import hashlib, sys, time
import numpy as np
import torch
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager
from delira.execution import RayExecutor
from delira.metrics import accuracy
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment

class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, x):
        return {"pred": self.layers(x)}

folder, place, num_epochs, n_folds = *sys.argv[1:3], *map(int, sys.argv[3:])
pixels, digits = load_digits(return_X_y=True)
data = BaseDataManager({"data": pixels.astype("float32") / 16, "label": digits}, batch_size=32)
settings = {
    "losses": {"ce": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.Adam, "num_epochs": num_epochs,
    "val_metrics": {"accuracy": accuracy}, "val_score_key": "accuracy", "num_threads": 1, "verbose": 0,
}
experiment = PyTorchExperiment({"training": settings}, Net, name="digits", save_path=folder)
started = time.perf_counter()
where = {"here": {}, "processes": {"n_jobs": 2}}.get(place) if place != "ray" else {"executor": RayExecutor(n_jobs=2)}
begun = time.perf_counter() - started
result = experiment.kfold(data, num_splits=n_folds, shuffle=True, random_seed=0, **where)
bits = hashlib.sha256()
for fold in result.folds:
    bits.update(np.ascontiguousarray(fold.predictions["pred"]).tobytes() + repr(fold.history).encode())
if place == "ray":
    where["executor"].shutdown()
print(bits.hexdigest(), begun)
"""


def run(place: str, num_epochs: int) -> tuple[float, float, str]:
    """Seconds of a whole program, those in which a cluster began, and what its result is known by."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, folder, place, *map(str, (num_epochs, N_FOLDS))]
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        bits, begun = done.stdout.split()[-2:]
        return time.perf_counter() - started, float(begun), bits


def tell(name: str, seconds: float, ratio: float, limit: float) -> None:
    print(f"{name:<15} {seconds:7.1f} s   {ratio:.3f}   target <= {limit}: {'kept' if ratio <= limit else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=350, help="of each fold (default 350: two minutes in all)")
    parser.add_argument("--repeats", type=int, default=1, help="how often each is run (default 1)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    places = ["here", "processes", *(["ray"] if importlib.util.find_spec("ray") else [])]
    seconds: dict[str, list[float]] = {place: [] for place in places}
    begun = dict.fromkeys(places, 0.0)
    for _ in range(given.repeats):
        bits = set()
        for place in places:
            taken, begun[place], said = run(place, given.epochs)
            seconds[place].append(taken - begun[place])
            bits.add(said)
        if len(bits) != 1:
            raise SystemExit("they did not compute the same")
    best = {place: min(taken) for place, taken in seconds.items()}
    ratios = {"processes": best["processes"] / best["here"]}
    print(f"{N_FOLDS} folds of {given.epochs} epochs, one thread a process, start-up included; the same bits")
    print(f"here            {best['here']:7.1f} s")
    tell("two processes", best["processes"], ratios["processes"], LIMIT)
    if "ray" in best:
        ratios["ray"] = best["ray"] / best["processes"]
        tell("two of Ray", best["ray"], ratios["ray"], LIMIT_OF_RAY)
        print(f"Ray's cluster   {begun['ray']:7.1f} s   to begin, left out above")
    if given.json:
        given.json.write_text(json.dumps({"seconds": seconds, "ratios": ratios, "begun": begun}, indent=2))


if __name__ == "__main__":
    main()
