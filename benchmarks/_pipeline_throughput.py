"""Batches per second of delira and its peers: the same samples, the same transforms, one after the other."""

import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from delira.data_loading import BaseDataManager

Arrays = dict[str, np.ndarray]
HAS_TORCH = importlib.util.find_spec("torch") is not None
SHORT = 0.2  # seconds; the system counts what all programs take in steps of 0.01
HAS_BATCHGENERATORS = importlib.util.find_spec("batchgenerators") is not None


class Task(NamedTuple):
    """What is measured; an epoch is timed ``passes`` times in a row."""

    arrays: Arrays
    batch_size: int
    transforms: Callable[..., Arrays] | None
    passes: int = 1

    @property
    def n_batches(self) -> int:
        return -(-len(self.arrays["data"]) // self.batch_size)


class Figures(NamedTuple):
    rate: float
    """Batches per second."""
    cpu: float
    """CPU milliseconds per batch, of this process and its workers."""
    others: float | None
    """Share of the machine that other programs took meanwhile, between 0 and 1; None if it was too short to tell."""


# ------------------------------------------------------------------ the tasks


def images() -> Task:
    return Task(_noise(32 * 16, (3, 224, 224)), 16, augmentation((224, 224)))


def volumes() -> Task:
    return Task(_noise(32 * 2, (1, 96, 96, 96)), 2, augmentation((96, 96, 96)))


def digits() -> Task:
    pixels, labels = load_digits(return_X_y=True)
    return Task({"data": pixels.astype("float32") / 16, "label": labels}, 32, None, passes=20)


def augmentation(patch_size: Sequence[int]) -> Callable[..., Arrays]:
    """Rotation and scaling (linear interpolation), mirroring, brightness and noise of batchgenerators."""
    from batchgenerators.transforms.abstract_transforms import Compose
    from batchgenerators.transforms.color_transforms import BrightnessTransform
    from batchgenerators.transforms.noise_transforms import GaussianNoiseTransform
    from batchgenerators.transforms.spatial_transforms import MirrorTransform, SpatialTransform

    angle = (-0.3, 0.3)
    spatial = SpatialTransform(
        patch_size, None, do_elastic_deform=False, angle_x=angle, angle_y=angle, angle_z=angle, scale=(0.8, 1.2),
        order_data=1, random_crop=False,
    )  # fmt: skip
    mirror = MirrorTransform(axes=tuple(range(len(patch_size))))
    return Compose([spatial, mirror, BrightnessTransform(0, 0.2), GaussianNoiseTransform((0, 0.05))])


def _noise(number: int, shape: Sequence[int]) -> Arrays:
    rng = np.random.default_rng(0)
    return {"data": rng.random((number, *shape), np.float32), "label": rng.integers(0, 10, number)}


# ------------------------------------------------------------------ the contestants


class Delira:
    def __init__(self, task: Task, workers: int):
        self.manager = BaseDataManager(
            task.arrays, task.batch_size, n_process_augmentation=workers, transforms=task.transforms
        )
        self.epochs = 0

    def __iter__(self) -> Iterator[Arrays]:
        self.epochs += 1
        return self.manager.epoch(0, 0, self.epochs, shuffle=True)

    def close(self) -> None:
        self.manager.close()


class MultiThreaded:
    """batchgenerators' MultiThreadedAugmenter as it comes, around the loader of its examples."""

    def __init__(self, task: Task, workers: int):
        from batchgenerators.dataloading.data_loader import DataLoader
        from batchgenerators.dataloading.multi_threaded_augmenter import MultiThreadedAugmenter

        class Loader(DataLoader):
            def __init__(self):
                super().__init__(task.arrays, task.batch_size, workers, return_incomplete=True, infinite=False)
                self.indices = list(range(len(task.arrays["data"])))

            def generate_train_batch(self):
                indices = self.get_indices()
                return {key: values[indices] for key, values in task.arrays.items()}

        self.augmenter = MultiThreadedAugmenter(Loader(), task.transforms, workers)

    def __iter__(self) -> Iterator[Arrays]:
        return iter(self.augmenter)

    def close(self) -> None:
        self.augmenter._finish()


class MapStyle:
    """A dataset of torch as the tutorials write it: a sample per index, transformed there."""

    def __init__(self, arrays: Arrays, transforms: Callable[..., Arrays] | None):
        self.arrays, self.transforms = arrays, transforms

    def __len__(self) -> int:
        return len(self.arrays["data"])

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.transforms is None:
            return {key: values[index] for key, values in self.arrays.items()}
        batch = self.transforms(**{key: values[index : index + 1] for key, values in self.arrays.items()})
        return {key: values[0] for key, values in batch.items()}


class TorchLoader:
    """torch's DataLoader with its own collate function, around a map-style dataset."""

    def __init__(self, task: Task, workers: int):
        from torch.utils.data import DataLoader

        self.loader: Iterable[Any] = DataLoader(
            self.dataset(task), task.batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )

    def dataset(self, task: Task) -> Any:
        return MapStyle(task.arrays, task.transforms)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def close(self) -> None:
        del self.loader  # which ends its workers


class TorchTensors(TorchLoader):
    """torch's DataLoader around its own TensorDataset."""

    def dataset(self, task: Task) -> Any:
        import torch

        return torch.utils.data.TensorDataset(*map(torch.from_numpy, task.arrays.values()))

    def __iter__(self) -> Iterator[Any]:
        return ({"data": data, "label": label} for data, label in self.loader)


class Contestant(NamedTuple):
    cls: Any
    workers: int
    is_there: bool = True

    def build(self, task: Task) -> Any:
        return self.cls(task, self.workers)


AUGMENTED = {
    # the four that targets compare run one after the other
    "delira, in process": Contestant(Delira, 0),
    "delira, 2 workers": Contestant(Delira, 2),
    "MultiThreadedAugmenter, 2": Contestant(MultiThreaded, 2, HAS_BATCHGENERATORS),
    "DataLoader, 2 workers": Contestant(TorchLoader, 2, HAS_TORCH),
    "delira, 1 worker": Contestant(Delira, 1),
    "DataLoader, in process": Contestant(TorchLoader, 0, HAS_TORCH),
}
PLAIN = {
    "delira, in process": Contestant(Delira, 0),
    "DataLoader, TensorDataset": Contestant(TorchTensors, 0, HAS_TORCH),
    "DataLoader, map-style": Contestant(TorchLoader, 0, HAS_TORCH),
}

# ------------------------------------------------------------------ the race


def race(task: Task, contestants: dict[str, Contestant], rounds: int) -> dict[str, list[Figures]]:
    """Figures of each round, by contestant.

    The contestants take turns, so that a slow minute of the machine hits all of them, and only one is there
    at a time: workers that make batches ahead would do so while another one is timed.
    """
    figures: dict[str, list[Figures]] = {name: [] for name in contestants}
    with threadpool_limits(1):  # what workers do too
        for _ in range(rounds):
            for name, contestant in contestants.items():
                figures[name].append(measure(contestant.build(task), task))
    return figures


def measure(runner: Any, task: Task) -> Figures:
    """Time one contestant, from the end of its first epoch on."""
    try:
        consume(runner, task)
        cpu, (busy, whole), started = cpu_seconds(), machine_seconds(), time.perf_counter()
        for _ in range(task.passes):
            consume(runner, task)
        taken = time.perf_counter() - started
        cpu, busy, whole = cpu_seconds() - cpu, machine_seconds()[0] - busy, machine_seconds()[1] - whole
    finally:
        runner.close()
    number = task.passes * task.n_batches
    others = max(0.0, busy - cpu) / whole if taken > SHORT else None
    return Figures(number / taken, 1000 * cpu / number, others)


def consume(runner: Iterable[Any], task: Task) -> None:
    """Go through one epoch and read of each batch."""
    number = 0
    for batch in runner:
        float(batch["data"][0, ...].sum())
        number += 1
    if number != task.n_batches:
        raise SystemExit(f"{type(runner).__name__} made {number} batches of {task.n_batches}: nothing to compare")


def cpu_seconds() -> float:
    """CPU time so far of this process and of its children, those that live and those that ended."""
    children = psutil.Process().children(recursive=True)
    ended = sum(os.times()[2:4])
    return time.process_time() + ended + sum(sum(child.cpu_times()[:2]) for child in children)


def machine_seconds() -> tuple[float, float]:
    """CPU time of all cores that was used (or taken by other guests of the host), and that there was."""
    times = psutil.cpu_times()._asdict()
    whole = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)  # which user time contains
    return whole - times["idle"] - times.get("iowait", 0.0), whole


def ratio(figures: dict[str, list[Figures]], name: str, to: str) -> float:
    """Median over the rounds of the ratio of batches per second within a round."""
    return statistics.median(a.rate / b.rate for a, b in zip(figures[name], figures[to], strict=True))
