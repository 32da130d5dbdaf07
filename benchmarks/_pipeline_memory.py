"""Memory of a cached dataset with workers, and what thousands of epochs leave behind; a fresh process each.

Run as a script it measures one case and prints it as JSON; `memory` and `epochs` do so in another interpreter.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil

from delira.data_loading import BaseCacheDataset, BaseDataManager

SAMPLE = 250_000  # numbers of 4 bytes: 1 MB
BATCH_SIZE, N_BATCHES = 4, 64
MEGABYTE = 1e6


class TouchesAll(BaseCacheDataset):
    """Reads of every sample whenever one is asked for: what could become a process's own memory does."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        for sample in self.data:
            float(sample["data"][::1024].sum())
        return {**super().__getitem__(index), "process": os.getpid()}


def load_sample(number: int) -> dict[str, np.ndarray]:
    return {"data": np.full(SAMPLE, number, np.float32)}


class Delira:
    def __init__(self, dataset: TouchesAll, order: np.ndarray, workers: int):
        self.manager = BaseDataManager(dataset.get_subset(order), BATCH_SIZE, n_process_augmentation=workers)

    def __iter__(self) -> Iterator[Any]:
        return self.manager.epoch(0, 0, 0)


class TorchLoader:
    def __init__(self, dataset: TouchesAll, order: np.ndarray, workers: int):
        from torch.utils.data import DataLoader, Subset

        self.loader = DataLoader(
            Subset(dataset, order.tolist()), BATCH_SIZE, num_workers=workers, persistent_workers=workers > 0
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)


CONTESTANTS = {"delira": Delira, "DataLoader": TorchLoader}


def measure_memory(name: str, workers: int, n_samples: int) -> float:
    """Largest sum of the proportional set sizes of all processes while batches are made, in megabytes."""
    dataset = TouchesAll(range(n_samples), load_sample)
    order = np.arange(BATCH_SIZE * N_BATCHES) % n_samples
    batches = CONTESTANTS[name](dataset, order, workers)
    seen: set[int] = set()
    largest = 0.0
    for _ in range(2):
        for number, batch in enumerate(batches):
            seen.update(np.asarray(batch["process"]).tolist())
            if number % 8 == 7 and len(seen) == max(1, workers):
                largest = max(largest, proportional_set_size())
    if not largest:
        raise SystemExit(f"only {len(seen)} of {workers} workers of {name} made batches")
    return largest


def measure_epochs(workers: int, n_epochs: int) -> dict[str, Any]:
    """Resident megabytes and open files of all processes after a tenth of the epochs, and after all of them."""
    data = {"data": np.zeros((64, 8), np.float32), "label": np.zeros(64)}
    manager = BaseDataManager(data, 32, n_process_augmentation=workers)
    found = []
    started = time.perf_counter()
    for epoch in range(n_epochs):
        for batch in manager.epoch(0, 0, epoch, shuffle=True):
            float(batch["data"][0, ...].sum())
        if epoch + 1 in (n_epochs // 10, n_epochs):
            processes = tree()
            resident = sum(process.memory_info().rss for process in processes) / MEGABYTE
            found.append((resident, sum(process.num_fds() for process in processes)))
    microseconds = 1e6 * (time.perf_counter() - started) / n_epochs
    manager.close()
    return {"megabytes": [rss for rss, _ in found], "files": [fds for _, fds in found], "us_per_epoch": microseconds}


def tree() -> list[psutil.Process]:
    """List this process and all below it."""
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def proportional_set_size() -> float:
    """Memory of all processes in megabytes; what n of them share counts 1/n in each, thus once."""
    return sum(process.memory_full_info().pss for process in tree()) / MEGABYTE


def memory(name: str, workers: int, n_samples: int) -> float:
    """Measure it in a fresh interpreter."""
    return float(_in_fresh_process("memory", name, workers, n_samples))


def epochs(workers: int, n_epochs: int) -> dict[str, Any]:
    """Measure it in a fresh interpreter."""
    return dict(_in_fresh_process("epochs", workers, n_epochs))


def _in_fresh_process(*arguments: Any) -> Any:
    # without the DataLoader's advice about more workers than cores
    command = [sys.executable, "-W", "ignore", __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


if __name__ == "__main__":
    if sys.argv[1] == "memory":
        print(json.dumps(measure_memory(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        print(json.dumps(measure_epochs(int(sys.argv[2]), int(sys.argv[3]))))
