"""Training on a GPU with batches copied while it computes, and with batches copied when they are needed.

Prints the median seconds of an epoch of both, in turns, and their ratio. Needs a GPU.
"""

import statistics
import sys
import tempfile
import time
from unittest import mock

import numpy as np
import torch

from delira.backends.torch.step import TorchStep
from delira.data_loading import BaseDataManager
from delira.models import AbstractPyTorchNetwork
from delira.training import PyTorchNetworkTrainer

REPEATS = 5
EPOCHS = 3


class Net(AbstractPyTorchNetwork):
    """A few convolutions on images of 3 x 224 x 224."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 64, 7, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(64, 128, 3, stride=2),
            torch.nn.ReLU(), torch.nn.Conv2d(128, 128, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, x):
        """Return class scores, shape (B, 10)."""
        return {"pred": self.layers(x)}


def plain_feed(batches, prepare):
    """Yield the batches and prepare nothing ahead."""
    return ((batch, None) for batch in batches)


def seconds_of(manager: BaseDataManager) -> float:
    """Train a few epochs and return the time of one."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = PyTorchNetworkTrainer(
            Net(), folder, losses={"ce": torch.nn.CrossEntropyLoss()}, optimizer_cls=torch.optim.SGD,
            optimizer_params={"lr": 0.01}, device="cuda", logging_type=None, verbose=False, save_freq=None,
        )  # fmt: skip
        trainer.train(1, manager, None)
        torch.cuda.synchronize()
        started = time.perf_counter()
        trainer.train(1 + EPOCHS, manager, None)
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / EPOCHS


def main() -> None:
    """Measure and print."""
    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    images = np.random.default_rng(0).random((1024, 3, 224, 224), np.float32)
    manager = BaseDataManager({"data": images, "label": np.arange(1024) % 10}, 64)
    ahead, at_once = [], []
    for _ in range(REPEATS):
        ahead.append(seconds_of(manager))
        with mock.patch.object(TorchStep, "feed", staticmethod(plain_feed)):
            at_once.append(seconds_of(manager))
    first, second = statistics.median(ahead), statistics.median(at_once)
    print(torch.cuda.get_device_name())
    print(f"copied ahead {first:.3f} s, copied when needed {second:.3f} s an epoch: ratio {second / first:.2f}")


if __name__ == "__main__":
    main()
