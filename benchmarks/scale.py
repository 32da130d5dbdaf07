"""What folds in parallel bring: a cross-validation of the digits in this process, and in two processes of the machine.

Ten folds of a perceptron, one thread a process in both, each in an interpreter of its own whose start counts, as does
that of the processes. The results are compared first: they are the same bits.
"""

import argparse
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

PROGRAM = """
import hashlib, sys
import numpy as np
import torch
from sklearn.datasets import load_digits

from delira.data_loading import BaseDataManager
from delira.metrics import accuracy
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchExperiment

class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, x):
        return {"pred": self.layers(x)}

folder, n_jobs, num_epochs, n_folds = sys.argv[1], *map(int, sys.argv[2:])
pixels, digits = load_digits(return_X_y=True)
data = BaseDataManager({"data": pixels.astype("float32") / 16, "label": digits}, batch_size=32)
settings = {
    "losses": {"ce": torch.nn.CrossEntropyLoss()}, "optimizer_cls": torch.optim.Adam, "num_epochs": num_epochs,
    "val_metrics": {"accuracy": accuracy}, "val_score_key": "accuracy", "num_threads": 1, "verbose": 0,
}
experiment = PyTorchExperiment({"training": settings}, Net, name="digits", save_path=folder)
result = experiment.kfold(data, num_splits=n_folds, shuffle=True, random_seed=0, n_jobs=n_jobs)
bits = hashlib.sha256()
for fold in result.folds:
    bits.update(np.ascontiguousarray(fold.predictions["pred"]).tobytes() + repr(fold.history).encode())
print(bits.hexdigest())
"""


def run(n_jobs: int, num_epochs: int) -> tuple[float, str]:
    """Seconds of a whole program, and what its result is known by."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, folder, *map(str, (n_jobs, num_epochs, N_FOLDS))]
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return time.perf_counter() - started, done.stdout.split()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=350, help="of each fold (default 350: two minutes in all)")
    parser.add_argument("--repeats", type=int, default=1, help="how often each is run (default 1)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    seconds: dict[str, list[float]] = {"here": [], "two processes": []}
    for _ in range(given.repeats):
        bits = set()
        for name, n_jobs in zip(seconds, (1, 2), strict=True):
            taken, said = run(n_jobs, given.epochs)
            seconds[name].append(taken)
            bits.add(said)
        if len(bits) != 1:
            raise SystemExit("two processes did not compute what one did")
    here, there = (min(taken) for taken in seconds.values())
    ratio = there / here
    print(f"{N_FOLDS} folds of {given.epochs} epochs, one thread a process, start-up included; the same bits")
    print(f"here            {here:7.1f} s")
    print(f"two processes   {there:7.1f} s   {ratio:.3f}   target <= {LIMIT}: {'kept' if ratio <= LIMIT else 'MISSED'}")
    if given.json:
        given.json.write_text(json.dumps({"seconds": seconds, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
