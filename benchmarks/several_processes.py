"""What a step of two processes that train one network costs, beside ``DistributedDataParallel`` written by hand.

A small convolutional network on the CPU, one thread a process, gloo. Both learn from the same batches in the same order
and their losses are compared; the median time of an epoch counts, the first ones aside, in which both warm up.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: most of the time of the loop by hand that is allowed
LIMIT = 1.1

COMMON = """
import os, statistics, sys, time
import numpy as np
import torch

def layers():
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
    )

rng = np.random.default_rng(0)
n_samples, batch_size, n_epochs = 2048, 64, int(sys.argv[1])
images = rng.normal(size=(n_samples, 1, 28, 28)).astype(np.float32)
labels = images[:, 0, :3, :10].sum(1).argmax(1)
torch.set_num_threads(1)

def tell(seconds, losses):
    print(statistics.median(seconds[2:]) / (n_samples // batch_size), sum(losses) / len(losses))
"""

BY_HAND = """
from torch import distributed
rank = int(sys.argv[2])
store = distributed.FileStore(sys.argv[3], 2)
distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
network = torch.nn.parallel.DistributedDataParallel(layers())
optimizer, criterion = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9), torch.nn.CrossEntropyLoss()
seconds = []
for epoch in range(n_epochs):
    started, losses = time.perf_counter(), []
    for start in range(0, n_samples, batch_size):
        own = slice(start + rank * batch_size // 2, start + (rank + 1) * batch_size // 2)
        loss = criterion(network(torch.from_numpy(images[own])), torch.from_numpy(labels[own]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    means = torch.stack(losses)
    distributed.all_reduce(means)
    seconds.append(time.perf_counter() - started)
if rank == 0:
    tell(seconds, (means / 2).tolist())
distributed.destroy_process_group()
"""

BY_DELIRA = """
from delira.data_loading import BaseDataManager, SequentialSampler
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer

class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        return {"pred": self.layers(x)}

class Clock:
    def __init__(self):
        self.seconds = []

    def at_epoch_begin(self, trainer, **facts):
        self.at = time.perf_counter()

    def at_epoch_end(self, trainer, **facts):
        self.seconds.append(time.perf_counter() - self.at)

data, clock = BaseDataManager({"data": images, "label": labels}, batch_size, sampler_cls=SequentialSampler), Clock()
trainer = PyTorchNetworkTrainer(
    Net(), None, {"x": "data"}, {"ce": torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.SGD,
    optimizer_params={"lr": 0.01, "momentum": 0.9}, devices=2, device="cpu", num_threads=1, verbose=0,
    callbacks=[clock],
)
trainer.train(n_epochs, data)
tell(clock.seconds, [trainer.state.history[-1]["ce"]])
"""


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def by_hand(n_epochs: int) -> tuple[float, float]:
    """Seconds of a step, and the mean loss of the last epoch."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", COMMON + BY_HAND, str(n_epochs), str(rank), f"{folder}/store"],
                env=environment(), stdout=subprocess.PIPE, text=True,
            )
            for rank in range(2)
        ]  # fmt: skip
        said = [process.communicate()[0] for process in started]
    seconds, loss = map(float, said[0].split())
    return seconds, loss


def by_delira(n_epochs: int) -> tuple[float, float]:
    """The same."""
    program = COMMON + BY_DELIRA
    done = subprocess.run(
        [sys.executable, "-c", program, str(n_epochs)], env=environment(), capture_output=True, text=True, check=True
    )
    seconds, loss = map(float, done.stdout.split())
    return seconds, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="of each training (default 10)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each is run, in turns (default 3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    hand, ours = [], []
    for _ in range(given.repeats):
        for runs, measure in ((hand, by_hand), (ours, by_delira)):
            runs.append(measure(given.epochs))
    if abs(hand[0][1] - ours[0][1]) > 1e-4 * abs(hand[0][1]):
        raise SystemExit(f"they did not learn the same: losses of {hand[0][1]} and {ours[0][1]}")
    best = [min(seconds for seconds, _ in runs) for runs in (hand, ours)]
    ratio = best[1] / best[0]
    print("a step of two processes on the CPU, one thread each, a batch of 64 images of 28 x 28")
    print(f"by hand (DDP)   {best[0] * 1e3:7.2f} ms")
    print(f"devices=2       {best[1] * 1e3:7.2f} ms   {ratio:.3f}   target <= {LIMIT}: "
          f"{'kept' if ratio <= LIMIT else 'MISSED'}")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps({"hand": hand, "delira": ours, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
