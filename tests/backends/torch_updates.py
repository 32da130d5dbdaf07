"""Networks of PyTorch and their updates by hand."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from delira.backends.torch.backend import BACKEND  # noqa: E402
from delira.contract import UpdateConfig  # noqa: E402
from delira.models import AbstractPyTorchNetwork  # noqa: E402

MSE = torch.nn.functional.mse_loss
#: of losses in fp16, so small that no gradient here overflows: an overflow is an update that is left out
SCALE = 256.0


class Net(AbstractPyTorchNetwork):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))

    def forward(self, x):
        return {"pred": self.layers(x)}


class HandWritten(Net):
    @staticmethod
    def closure(model, data_dict, optimizers, losses=None, **kwargs):
        loss = losses["mse"](model(data_dict["data"])["pred"], data_dict["label"])
        optimizers["default"].zero_grad()
        with optimizers["default"].scale_loss(loss) as scaled:
            scaled.backward()
        optimizers["default"].step()
        return {"mse": loss.detach()}, {}


def build(cls=Net, seed=0):
    torch.manual_seed(seed)
    return cls()


def batches_of(*sizes, seed=1, scale=1.0):
    """Float32 batches of a regression, of these sizes."""
    rng = np.random.default_rng(seed)
    shapes = {"data": 3, "label": 1}
    return [
        {name: (scale * rng.normal(size=(size, width))).astype(np.float32) for name, width in shapes.items()}
        for size in sizes
    ]


def assert_equal(left, right):
    """Bit for bit."""
    for ours, theirs in zip(left.parameters(), right.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def optimizers_of(network, builder=None, optimizer_cls=torch.optim.SGD, params=None, **update):
    if params is None:
        params = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    optimizers = BACKEND.optimizers.build(network, builder, optimizer_cls, params, UpdateConfig(**update))
    for optimizer in optimizers.values():
        if optimizer.scaler.is_enabled():
            optimizer.scaler.load_state_dict(optimizer.scaler.state_dict() | {"scale": SCALE})
    return optimizers


def compute(network, optimizers, batch, is_last=False, part=False):
    """One closure call."""
    tensors = {name: torch.from_numpy(values) for name, values in batch.items()}
    with BACKEND.optimizers.scope(optimizers, len(batch["data"]), is_last, part):
        network.closure(network, tensors, optimizers, losses={"mse": MSE})
