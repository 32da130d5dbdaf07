"""Running statistics of normalisation layers, computed anew."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.parameter import is_lazy

from delira.errors import ConfigError


def statistics_names(network: torch.nn.Module) -> frozenset[str]:
    """Names of the means and variances that layers keep of the data, under all names that a state has for them."""
    return frozenset(
        f"{name}.{kind}" if name else kind
        for name, layer in network.named_modules(remove_duplicate=False)
        if _keeps_statistics(layer)
        for kind in ("running_mean", "running_var")
    )


def renew_statistics(network: torch.nn.Module, calls: Iterable[Callable[[], Any]]) -> None:
    """Let running statistics be the mean over some calls of the network, as ``torch.optim.swa_utils.update_bn`` does.

    Parameters
    ----------
    network
        In training mode.
    calls
        Each calls the network on a batch.

    Raises
    ------
    ConfigError
        If a layer was traced, so that its momentum is a constant that nobody can read.
    """
    found = {name: layer for name, layer in network.named_modules() if _keeps_statistics(layer)}
    if fixed := [name for name, layer in found.items() if not hasattr(layer, "momentum")]:
        raise ConfigError(
            f"the running statistics of {', '.join(fixed[:3])} cannot be computed anew, since torch.jit.trace has "
            "fixed how these layers compute; script the network (torch.jit.script), or set update_statistics=False"
        )
    counting = [layer for layer in found.values() if isinstance(layer, _BatchNorm) and not _is_script(layer)]
    others = [_Mean(layer) for layer in found.values() if not any(layer is one for one in counting)]
    with torch.no_grad(), _cumulative(counting):
        for call in calls:
            for mean in others:
                mean.begin()
            call()
            for mean in others:
                mean.end()
        for mean in others:
            mean.write()


def _is_script(layer: torch.nn.Module) -> bool:
    return isinstance(layer, torch.jit.ScriptModule)


def _keeps_statistics(layer: torch.nn.Module) -> bool:
    """Return True if a layer follows the data; one with a momentum of 0 does not."""
    if not isinstance(layer, _NormBase) and not _is_script(layer):
        return False
    buffers = {name for name, one in layer.named_buffers(recurse=False) if not is_lazy(one)}  # without those of None
    has_both = "running_mean" in buffers and "running_var" in buffers
    return has_both and getattr(layer, "momentum", None) != 0


@contextlib.contextmanager
def _cumulative(layers: list[Any]) -> Iterator[None]:
    """Scope in which layers begin anew and let each of their calls count alike; those that none reaches keep all."""
    before = [  # without buffers of layers that are part of one
        (layer.momentum, {name: one.clone() for name, one in layer.named_buffers(recurse=False)}) for layer in layers
    ]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        yield
    finally:
        for layer, (momentum, buffers) in zip(layers, before, strict=True):
            layer.momentum, is_reached = momentum, bool(layer.num_batches_tracked)
            for name, value in buffers.items():
                if name == "num_batches_tracked" or not is_reached:
                    getattr(layer, name).copy_(value)


class _Mean:
    """The mean of a layer's statistics over calls of the network, where its momentum is a constant of its program.

    Beginning at 0, a call leaves ``momentum`` times what it saw; of several calls the later count slightly more.
    """

    def __init__(self, layer: Any):
        self._layer, self._number = layer, 0
        counter = getattr(layer, "num_batches_tracked", None)
        self._kept = [layer.running_mean, layer.running_var, torch.zeros(()) if counter is None else counter]
        self._before = [one.clone() for one in self._kept]
        self._sums = [torch.zeros_like(one, dtype=torch.float64) for one in self._kept[:2]]

    def begin(self) -> None:
        for one in self._kept:
            one.zero_()

    def end(self) -> None:
        """Add what the layer saw in one call of the network; nothing if it was not called."""
        mean, variance, counter = self._kept
        if not bool(mean.any()) and not bool(variance.any()):
            return
        number, momentum = int(counter or 1), self._layer.momentum
        share = 1.0 if momentum is None else 1 - (1 - momentum) ** number
        for total, one in zip(self._sums, (mean, variance), strict=True):
            total += one.double() * (number / share)
        self._number += number

    def write(self) -> None:
        """Let the layer have the mean, or what it had before if it was never called."""
        means = [total / self._number for total in self._sums] if self._number else self._before[:2]
        for one, value in zip(self._kept, [*means, self._before[2]], strict=True):
            one.copy_(value)
