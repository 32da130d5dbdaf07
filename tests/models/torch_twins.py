"""The ready networks of PyTorch, which those of other backends are compared with; import it only where torch is."""

from typing import Any

import numpy as np
import torch
from ready_networks import Ready

import delira.models
from delira.training import PyTorchNetworkTrainer, create_optims_gan_default_pytorch
from delira.utils.frameworks import find_backend

LOSSES = {
    "ce": torch.nn.CrossEntropyLoss(),
    "mse": torch.nn.MSELoss(),
    "bce": torch.nn.BCEWithLogitsLoss(),
}


def build(ready: Ready) -> Any:
    """The network with weights that are always the same, and with statistics of batch normalisation that matter."""
    torch.manual_seed(0)
    network = ready.build(delira.models, "PyTorch")
    for name, statistic in network.named_buffers():
        if name.endswith("running_mean"):
            statistic.normal_(std=0.1)
        elif name.endswith("running_var"):
            statistic.uniform_(0.5, 1.5)
    return network


def trainer(ready: Ready, network: Any, path: Any) -> Any:
    """What trains it."""
    more = {"optim_fn": create_optims_gan_default_pytorch} if ready.is_gan else {}
    return PyTorchNetworkTrainer(
        network, path, losses={"loss": LOSSES[ready.loss]}, optimizer_cls=torch.optim.SGD,
        optimizer_params={"lr": 0.05, "momentum": 0.5}, key_mapping=ready.key_mapping, save_freq=None,
        num_threads=1, logging_type=None, verbose=False, **more,
    )  # fmt: skip


def predictions(network: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """In evaluation mode."""
    tensors = [torch.from_numpy(array.copy()) for array in inputs.values()]
    with torch.no_grad():
        return {name: value.numpy() for name, value in network.eval()(*tensors).items()}


def weights(network: Any) -> dict[str, np.ndarray]:
    """All weights in the layout of every backend."""
    return find_backend(network).weights.portable(network)
