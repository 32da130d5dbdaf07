"""Running averages of a network's weights."""

from collections.abc import Mapping

import torch
from torch.nn.parameter import is_lazy
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
        Its floating parameters are averaged, in their own dtype, under all of their names. Buffers and integers are
        not.
    decay
        Part of the old average that is kept, in [0, 1].

    Raises
    ------
    NetworkError
        If the parameters of the network are not those of the average, or have no shape yet (lazy modules).
    """
    weights = {
        name: weight
        for name, weight in network.named_parameters(remove_duplicate=False)
        if weight.is_floating_point() or weight.is_complex()
    }
    if lazy := [name for name, weight in weights.items() if is_lazy(weight)]:
        raise NetworkError(
            f"the weights {', '.join(lazy)} of {type(network).__name__} have no shape yet, so they have no average; "
            "call the network once with a batch before you give it to the trainer"
        )
    if average is not None and average.keys() != weights.keys():
        raise NetworkError(
            f"the average of the weights does not fit the network {type(network).__name__}: "
            f"{', '.join(sorted(average.keys() ^ weights.keys()))} is in one of them only; begin a new average"
        )
    # by weight, not by name: a tied weight has several names, but moves once
    if average is None:
        averages = {weight: weight.detach().clone() for weight in weights.values()}
    else:
        averages = {weight: average[name].to(weight.device) for name, weight in weights.items()}
        if averages:
            own = [weight.detach() for weight in averages]
            get_ema_multi_avg_fn(decay)(list(averages.values()), own, None)
    return {name: averages[weight] for name, weight in weights.items()}
