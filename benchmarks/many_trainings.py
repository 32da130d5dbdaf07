"""What a program holds and spends that drives ten thousand trainings: memory, seconds and files for each.

The trainings are real and as small as can be (the toy backend, one epoch of four batches), so that what is measured is
what goes around them: a hundred cross-validations of a hundred folds, each handed to an executor that has a hundred at
work at a time, as a cluster of so many nodes would, and whose tasks end out of order. Whatever a cross-validation
returned is dropped before the next one.
"""

import argparse
import gc
import json
import os
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from delira.data_loading import BaseDataManager
from delira.execution import Executor, Handle, Resources
from delira.testing import ToyExperiment, ToyNetwork, ToySGD, mean_squared_error

N_NODES = 100
#: most that the memory of the driver may grow, in MB for a thousand trainings, once a fifth of them is done
LIMIT = 1.0


class Cluster(Executor):
    """Runs tasks in this process, when somebody has asked for them some random number of times."""

    n_jobs = N_NODES

    def __init__(self, seed: int):
        self._rng = random.Random(seed)

    def submit(self, task: Callable[[], Any], resources: Resources) -> "Task":
        return Task(task, self._rng.randrange(10))

    def shutdown(self) -> None:
        """Nothing is held."""


class Task(Handle[Any]):
    """One task."""

    def __init__(self, task: Callable[[], Any], n_looks: int):
        self._task, self._n_looks, self._is_done, self._value = task, n_looks, False, None

    def done(self) -> bool:
        self._n_looks -= 1
        return self._n_looks < 0

    def result(self) -> Any:
        if not self._is_done:
            self._is_done, self._value = True, self._task()
        return self._value

    def cancel(self) -> None:
        """It has not begun, or has ended."""


def cross_validate(folder: Path, number: int, n_folds: int) -> float:
    """Run a cross-validation; its mean error."""
    rng = np.random.default_rng(number)
    values = rng.normal(size=(2 * n_folds, 3))
    data = BaseDataManager({"data": values, "label": values.sum(axis=1, keepdims=True)}, n_folds // 2)
    training = {
        "losses": {"mse": mean_squared_error}, "optimizer_cls": ToySGD, "num_epochs": 1, "verbose": 0,
        "logging_type": None, "num_threads": None, "seed": number,
    }  # fmt: skip
    experiment = ToyExperiment({"training": training}, ToyNetwork, save_path=folder, name=f"search_{number:04d}")
    result = experiment.kfold(data, num_splits=n_folds, shuffle=True, random_seed=number, executor=Cluster(number))
    return float(np.mean([fold.history[-1]["mse"] for fold in result.folds]))


def memory() -> float:
    """MB that this process holds; on Linux without files that are mapped, whose pages come and go."""
    gc.collect()
    status = Path("/proc/self/status")
    if status.exists():
        kilobytes = re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB", status.read_text(), re.MULTILINE)
        return sum(map(int, kilobytes)) * 1024 / 1e6
    return float(psutil.Process().memory_full_info().uss) / 1e6


def size_of(folder: Path) -> tuple[int, int]:
    """Number of files, and their bytes."""
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names]
    return len(sizes), sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainings", type=int, default=10_000, help="in all (default 10,000)")
    parser.add_argument("--folds", type=int, default=100, help="of a cross-validation (default 100)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    n_runs = max(1, given.trainings // given.folds)
    table = []
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        for number in range(n_runs):
            cross_validate(Path(folder), number, given.folds)
            if (number + 1) % max(1, n_runs // 10) == 0:
                n_done = (number + 1) * given.folds
                table.append((n_done, memory(), (time.perf_counter() - started) / n_done))
                print(
                    f"{n_done:>7,} trainings   {table[-1][1]:7.1f} MB   {table[-1][2] * 1e3:6.1f} ms each", flush=True
                )
        n_files, n_bytes = (total / (n_runs * given.folds) for total in size_of(Path(folder)))
    done = np.array(table)
    late = done[len(done) // 5 :]
    growth = float(np.polyfit(late[:, 0], late[:, 1], 1)[0] * 1000) if len(late) > 1 else 0.0
    print(f"on disk: {n_files:.1f} files and {n_bytes / 1e3:.1f} kB for each training, that of the run included")
    print(f"memory: {growth:+.3f} MB for a thousand trainings   target <= {LIMIT}: "
          f"{'kept' if growth <= LIMIT else 'MISSED'}")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps({"table": table, "growth": growth, "files": n_files, "bytes": n_bytes}))


if __name__ == "__main__":
    main()
