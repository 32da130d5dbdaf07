"""What a checkpoint costs: the time of a blocking one, and how long one in the background makes the training wait.

A network of 100 MB is trained by delira without checkpoints, with blocking ones and with ones in the background, in
turns, one checkpoint every so many steps; the yardsticks are plain ``torch.save`` of the same state, and
``torch.save`` with the file synced. A crash during plain ``torch.save`` loses the checkpoint; delira's is written
beside, synced, renamed, and linked as ``checkpoint_last``. In the background the training waits while the state is
copied; what the writing adds beyond that is the memory and the cores that it shares with the steps.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer

LIMITS = {"background": 0.15, "blocking": 1.3}
WIDTH, LAYERS = 1600, 10  # 10 x 1600 x 1600 float32: 102 MB
BATCH_SIZE = 16
STEPS_PER_CHECKPOINT = 20


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))

    def forward(self, x):
        return {"pred": self.layers(x)}


def timed(function: Callable[[], Any]) -> float:
    os.sync()  # what others wrote is not to be waited for
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def save_synced(tree: Any, path: Path) -> None:
    with open(path, "wb") as file:
        torch.save(tree, file)
        file.flush()
        os.fsync(file.fileno())


class Training:
    """One trainer that is timed epoch by epoch: an epoch has one checkpoint, or none."""

    def __init__(self, folder: Path, **settings: Any):
        torch.manual_seed(0)
        self.trainer = PyTorchNetworkTrainer(
            Net(), folder, losses={"mse": torch.nn.functional.mse_loss}, optimizer_cls=torch.optim.SGD,
            optimizer_params={"lr": 1e-4}, logging_type=None, verbose=False, save_freq=None, num_threads=1, **settings,
        )  # fmt: skip
        rng = np.random.default_rng(0)
        x = rng.normal(size=(BATCH_SIZE, WIDTH)).astype(np.float32)
        self.batches = [{"data": x, "label": x}] * STEPS_PER_CHECKPOINT
        self.seconds: list[float] = []
        self.waits: list[float] = []
        self.save, self.trainer.saver.save = self.trainer.saver.save, self.timed_save
        self.trainer.callbacks.append(self)

    def timed_save(self, *args: Any) -> None:
        start = time.perf_counter()
        self.save(*args)
        self.waits.append(time.perf_counter() - start)

    def at_epoch_begin(self, trainer: Any, **facts: Any) -> None:
        self.start = time.perf_counter()

    def at_epoch_end(self, trainer: Any, **facts: Any) -> None:
        self.seconds.append(time.perf_counter() - self.start)

    def train(self, rounds: int) -> list[float]:
        """Seconds of each epoch, the first one left out."""
        self.seconds, self.waits = [], []
        os.sync()
        self.trainer.train(self.trainer.state.epoch + rounds + 1, self.batches)
        self.waits = self.waits[1 : rounds + 1]  # not the first, nor that of the end, which waits for the one before
        return self.seconds[1:]


def measure(folder: Path, rounds: int, epochs: int) -> dict[str, list[float]]:
    """Seconds by contestant; of the trainings, what one checkpoint adds to the steps."""
    middle = {"save_freq_steps": STEPS_PER_CHECKPOINT, "keep_last_checkpoints": 1}
    trainings = {
        "none": Training(folder / "none"),
        "blocking": Training(folder / "blocking", **middle),
        "background": Training(folder / "background", save_in_background=True, **middle),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ("plain", "synced", "save", "wait", *trainings)}
    tree = trainings["none"].trainer.checkpoint_tree()
    saver = trainings["blocking"].trainer.saver
    for number in range(rounds + 1):
        for repeat in range(4):
            found = {
                "plain": timed(lambda: torch.save(tree, folder / "plain.pt")),
                "synced": timed(lambda: save_synced(tree, folder / "synced.pt")),
                "save": timed(lambda: saver.save(tree, ["epoch_0", "last"])),
            }
            for name, value in found.items():
                if repeat:  # after a training the first touches memory anew
                    seconds[name].append(value)
        for name, training in trainings.items():
            values = training.train(epochs)
            if number:
                seconds[name] += values
                seconds["wait"] += training.waits if name == "background" else []
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=4, help="checkpoints of each training in a round")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=".", prefix=".checkpoint-benchmark-") as folder:
        seconds = measure(Path(folder), options.rounds, options.epochs)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    stall = medians["background"] - medians["none"]
    added = medians["blocking"] - medians["none"]
    n_steps = STEPS_PER_CHECKPOINT
    print(f"torch.save                       {1e3 * medians['plain']:8.1f} ms")
    print(f"torch.save, synced               {1e3 * medians['synced']:8.1f} ms")
    ratio = medians["save"] / medians["synced"]
    print(f"blocking checkpoint              {1e3 * medians['save']:8.1f} ms   {ratio:.2f} x synced (limit 1.3)")
    print(f"{n_steps} steps without a checkpoint    {1e3 * medians['none']:8.1f} ms")
    print(f"  a blocking one adds            {1e3 * added:8.1f} ms   {added / medians['plain']:.2f} x torch.save")
    share = medians["wait"] / medians["plain"]
    print(f"  one in the background: it waits{1e3 * medians['wait']:8.1f} ms   {share:.2f} x torch.save (limit 0.15)")
    print(f"    and all that it adds         {1e3 * stall:8.1f} ms   {stall / medians['plain']:.2f} x torch.save")
    if options.json:
        options.json.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
