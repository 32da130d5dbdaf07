"""Small trainings with PyTorch that are broken off and go on."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from delira.models import AbstractPyTorchNetwork  # noqa: E402
from delira.training import PyTorchNetworkTrainer  # noqa: E402

MSE = torch.nn.functional.mse_loss
_lr = torch.optim.lr_scheduler


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x):
        return {"pred": self.linear(self.drop(x))}


def build(cls=Net):
    torch.manual_seed(0)
    return cls()


def batches_of(*sizes):
    rng = np.random.default_rng(1)
    shapes = {"data": 3, "label": 1}
    return [
        {name: rng.normal(size=(size, width)).astype(np.float32) for name, width in shapes.items()} for size in sizes
    ]


def trainer_of(path, network=None, **settings):
    defaults = {
        "losses": {"mse": MSE},
        "optimizer_cls": torch.optim.SGD,
        "optimizer_params": {"lr": 0.1, "momentum": 0.5},
        "logging_type": None,
        "verbose": False,
        "save_freq": None,
    }
    return PyTorchNetworkTrainer(network or build(), path, **{**defaults, **settings})


def last_of(trainer):
    return trainer.load_state(trainer.checkpoints.path("last"))


def assert_same(left, right):
    """Bit for bit."""
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for name in left:
            assert_same(left[name], right[name])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    elif isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    else:
        assert left == right
