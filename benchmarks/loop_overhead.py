"""What the loop costs: a whole fit by delira beside two loops written by hand, and by torchbearer.

The same small network is trained on the same digits in turn, with the same start, batch size, optimizer, loss and
accuracy: by a loop over ``torch.utils.data.DataLoader``, by a loop over slices of a tensor (nothing can be faster in
Python), by ``PyTorchNetworkTrainer.train``, by ``delira.Trial`` and by ``torchbearer.Trial`` with the same metrics and
callbacks. The network is so small that what is measured is the loop and not the arithmetic.

``make bench`` installs torchbearer 0.5.5 beside the environment; without it its row is left out.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import torch
from sklearn.datasets import load_digits

import delira
from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer

BATCH_SIZE = 32
LEARNING_RATE = 1e-3
#: contestant, what it is compared with, and the largest ratio that is allowed
LIMITS = [
    ("delira", "DataLoader loop", 1.0), ("delira", "sliced loop", 1.35), ("delira.Trial", "delira", 1.1),
    ("delira.Trial", "torchbearer", 0.7),
]  # fmt: skip
#: where "make bench" puts torchbearer: its wheel also holds a package "tests", which nobody wants on the path
TORCHBEARER = Path(__file__).parents[1] / ".venv" / "torchbearer"
Fit = Callable[[], None]


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def forward(self, x):
        return {"pred": self.layers(x)}


def load() -> tuple[torch.Tensor, torch.Tensor]:
    pixels, digits = load_digits(return_X_y=True)
    return torch.from_numpy(pixels.astype("float32") / 16), torch.from_numpy(digits)


def new_network() -> Net:
    torch.manual_seed(0)
    return Net()


def accuracy(target: torch.Tensor, prediction: torch.Tensor) -> torch.Tensor:
    return (prediction.argmax(dim=1) == target).float().mean()


# ------------------------------------------------------------------ the contestants


class SlicedLoop:
    """Shuffle all samples once an epoch, then cut slices off."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, num_epochs: int, folder: Path):
        self.x, self.y, self.num_epochs = x, y, num_epochs
        self.network = new_network()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)
        self.loss_fn = torch.nn.CrossEntropyLoss()
        self.history: list[dict[str, float]] = []

    def batches(self) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(self.x))
        return zip(self.x[order].split(BATCH_SIZE), self.y[order].split(BATCH_SIZE), strict=True)

    def fit(self) -> None:
        torch.manual_seed(0)
        self.network.train()
        for _ in range(self.num_epochs):
            # sums stay tensors: .item() at every step would be slower
            loss_sum, correct = torch.zeros(()), torch.zeros(())
            for x, y in self.batches():
                pred = self.network(x)["pred"]
                loss = self.loss_fn(pred, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                loss_sum += loss.detach() * len(x)
                correct += (pred.detach().argmax(dim=1) == y).sum()
            n = len(self.x)
            self.history.append({"ce": loss_sum.item() / n, "accuracy": correct.item() / n})


class DataLoaderLoop(SlicedLoop):
    """The loop of the tutorials."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, num_epochs: int, folder: Path):
        super().__init__(x, y, num_epochs, folder)
        dataset = torch.utils.data.TensorDataset(x, y)
        self.loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)

    def batches(self) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        return self.loader


class Delira:
    """The trainer, told to write as little as the loops do: history files and one last checkpoint."""

    settings: ClassVar = {"save_freq": None, "logging_type": None}

    def __init__(self, x: torch.Tensor, y: torch.Tensor, num_epochs: int, folder: Path):
        self.num_epochs = num_epochs
        self.data = BaseDataManager({"data": x.numpy(), "label": y.numpy()}, batch_size=BATCH_SIZE)
        self.trainer = PyTorchNetworkTrainer(
            new_network(), folder, losses={"ce": torch.nn.CrossEntropyLoss()},
            train_metrics={"accuracy": accuracy}, optimizer_cls=torch.optim.Adam,
            optimizer_params={"lr": LEARNING_RATE}, **self.settings,
        )  # fmt: skip

    def fit(self) -> None:
        self.trainer.train(self.num_epochs, self.data, verbose=False)

    @property
    def history(self) -> list[dict[str, float]]:
        return self.trainer.state.history


class DeliraTrial:
    """The Trial, with the metrics that the others compute."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, num_epochs: int, folder: Path):
        self.num_epochs, self.network = num_epochs, new_network().layers
        optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)
        self.trial = self.make(optimizer).with_train_data(x, y, batch_size=BATCH_SIZE, **self.loading)

    loading: ClassVar[dict[str, int]] = {}

    def make(self, optimizer: torch.optim.Optimizer) -> Any:
        return delira.Trial(self.network, optimizer, torch.nn.CrossEntropyLoss(), ["acc", "loss"], verbose=0)

    def fit(self) -> None:
        self.records = self.trial.run(self.num_epochs)

    @property
    def history(self) -> list[dict[str, float]]:
        return [{"ce": record["loss"], "accuracy": record["acc"]} for record in self.records]


class Torchbearer(DeliraTrial):
    """The Trial of torchbearer, without the worker process that it starts by default."""

    loading: ClassVar = {"num_workers": 0}

    def make(self, optimizer: torch.optim.Optimizer) -> Any:
        import torchbearer

        return torchbearer.Trial(
            self.network, optimizer, torch.nn.CrossEntropyLoss(), metrics=["acc", "loss"], verbose=0
        )


class DeliraAsItComes(Delira):
    """The trainer with its defaults: a checkpoint after each epoch, TensorBoard if it is installed."""

    settings: ClassVar = {}


CONTESTANTS: dict[str, Any] = {
    "sliced loop": SlicedLoop,
    "DataLoader loop": DataLoaderLoop,
    "delira": Delira,
    "delira, as it comes": DeliraAsItComes,
    "delira.Trial": DeliraTrial,
}
if TORCHBEARER.exists():
    sys.path.append(str(TORCHBEARER))
    CONTESTANTS["torchbearer"] = Torchbearer

# ------------------------------------------------------------------ the race


def race(num_epochs: int, repeats: int) -> tuple[dict[str, list[float]], dict[str, dict[str, float]]]:
    """Seconds of each fit and last values of the training, by contestant.

    The contestants take turns, so that a slow minute of the machine hits all of them, and each round begins with
    another one: none always runs in the wake of the same one, which leaves garbage, and files that are still being
    written. The first round warms up and is not counted.
    """
    x, y = load()
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    last = {}
    for repeat in range(repeats + 1):
        shift = repeat % len(CONTESTANTS)
        for name, contestant in [*CONTESTANTS.items()][shift:] + [*CONTESTANTS.items()][:shift]:
            with tempfile.TemporaryDirectory() as folder:
                runner = contestant(x, y, num_epochs, Path(folder))
                gc.collect()
                started = time.perf_counter()
                runner.fit()
                taken = time.perf_counter() - started
            last[name] = {key: runner.history[-1][key] for key in ("ce", "accuracy")}
            if repeat:
                seconds[name].append(taken)
    return seconds, last


def check_equal_learning(last: dict[str, dict[str, float]]) -> None:
    """All learned the same, up to the order of the samples; otherwise the times mean nothing."""
    losses = [values["ce"] for values in last.values()]
    if max(losses) > 1.2 * min(losses) + 0.01:
        raise SystemExit(f"the fits are not comparable: {last}")


def ratio(seconds: dict[str, list[float]], name: str, to: str) -> float:
    """Median over the rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[to], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="epochs of one fit (default 30)")
    parser.add_argument("--repeats", type=int, default=21, help="fits of each kind that count (default 21)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()

    torch.set_num_threads(1)
    seconds, last = race(given.epochs, given.repeats)
    check_equal_learning(last)
    steps = given.epochs * -(-len(load()[0]) // BATCH_SIZE)
    microseconds = {name: 1e6 * statistics.median(taken) / steps for name, taken in seconds.items()}

    print(f"whole fits of {given.epochs} epochs, {steps} steps; median of {given.repeats}, in turns, one thread")
    print(f"{'':22}{'us/step':>8}{'to sliced':>11}{'to DataLoader':>15}{'loss':>8}{'accuracy':>10}")
    for name in CONTESTANTS:
        print(
            f"{name:22}{microseconds[name]:8.1f}{ratio(seconds, name, 'sliced loop'):11.2f}"
            f"{ratio(seconds, name, 'DataLoader loop'):15.2f}{last[name]['ce']:8.4f}{last[name]['accuracy']:10.4f}"
        )
    ratios = {}
    for name, to, limit in LIMITS:
        if to in seconds:
            value = ratios[f"{name} / {to}"] = ratio(seconds, name, to)
            print(f"{name:12} / {to:16}{value:6.2f}   target <= {limit:.2f}: {'kept' if value <= limit else 'MISSED'}")
    if given.json:
        figures = {"us_per_step": microseconds, "ratios": ratios, "seconds": seconds, "last": last}
        given.json.write_text(json.dumps({**vars(given), "json": str(given.json), **figures}, indent=2))


if __name__ == "__main__":
    main()
