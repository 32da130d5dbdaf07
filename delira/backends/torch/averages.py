"""Running averages of a network's weights."""

from collections.abc import Mapping

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

from delira.errors import NetworkError


def average(
    average: Mapping[str, torch.Tensor] | None, network: torch.nn.Module, decay: float
) -> dict[str, torch.Tensor]:
    """Take the weights of a network into their exponential moving average, in place.

    Parameters
    ----------
    average
        The average so far, by name of the parameter; it is moved to the parameters' devices. ``None``: begin with a
        copy of the weights.
    network
        Its floating parameters are averaged, in their own dtype. Buffers and integers are not.
    decay
        Part of the old average that is kept, in [0, 1].

    Raises
    ------
    NetworkError
        If the parameters of the network are not those of the average.
    """
    weights = {
        name: weight.detach()
        for name, weight in network.named_parameters()
        if weight.is_floating_point() or weight.is_complex()
    }
    if average is None:
        return {name: weight.clone() for name, weight in weights.items()}
    if average.keys() != weights.keys():
        raise NetworkError(
            f"the average of the weights does not fit the network {type(network).__name__}: "
            f"{', '.join(sorted(average.keys() ^ weights.keys()))} is in one of them only; begin a new average"
        )
    averages = {name: average[name].to(weight.device) for name, weight in weights.items()}
    if averages:
        get_ema_multi_avg_fn(decay)(list(averages.values()), list(weights.values()), None)
    return averages
