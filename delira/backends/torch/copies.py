"""Optimizers for copies of networks."""

import torch

from delira.errors import ConfigError


def copy_optimizer(
    optimizer: torch.optim.Optimizer, network: torch.nn.Module, twin: torch.nn.Module
) -> torch.optim.Optimizer:
    """An optimizer as another one is, for a copy of its network.

    Raises
    ------
    ConfigError
        If it has parameters that are not of the network.
    """
    names = {weight: name for name, weight in network.named_parameters()}
    theirs = dict(twin.named_parameters())
    groups = []
    for group in optimizer.param_groups:
        if any(weight not in names for weight in group["params"]):
            raise ConfigError("the optimizer has parameters that are not of the model, so it cannot be copied")
        options = {key: value for key, value in group.items() if key != "params"}
        groups.append({**options, "params": [theirs[names[weight]] for weight in group["params"]]})
    return type(optimizer)(groups)  # type: ignore[call-arg]
