"""Running statistics of batch normalisation, computed anew."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.calls import be_eager, is_eager
from delira.backends.jax.generators import GENERATOR


def statistics_names(network: nnx.Module) -> frozenset[str]:
    """Names of the means and variances that layers keep of the data."""
    kept = {id(variable) for layer in _layers(network) for variable in (layer.mean, layer.var)}
    return frozenset(name for name, variable in graph.state_variables(network).items() if id(variable) in kept)


def renew_statistics(network: nnx.Module, calls: Iterable[Callable[[], Any]]) -> None:
    """Let running statistics be the mean over all calls of their layers.

    Operation by operation, since a compiled prediction leaves the network as it is. Random streams get their keys from
    the generator of the backend, as in training.

    Parameters
    ----------
    network
        In training mode.
    calls
        Each calls the network on a batch.
    """
    was_eager = is_eager(network)
    streams = [leaf for leaf in graph.parts_of(network).leaves if isinstance(leaf, nnx.RngState)]
    before = [leaf.get_raw_value() for leaf in streams]
    be_eager(network)
    try:
        with contextlib.ExitStack() as scopes:
            for layer in _layers(network):
                scopes.enter_context(_cumulative(layer))
            for call in calls:
                graph.reseed(network, GENERATOR.next_key())
                call()
    finally:
        be_eager(network, was_eager)
        for leaf, value in zip(streams, before, strict=True):
            leaf.set_raw_value(value)


def _layers(network: nnx.Module) -> list[Any]:
    """Layers that follow the data; one with a momentum of 1 does not."""
    found = {id(layer): layer for _, layer in nnx.iter_modules(network) if isinstance(layer, nnx.BatchNorm)}
    return [layer for layer in found.values() if layer.momentum != 1]


#: number of calls of each layer that is counted, by its identity
_CALLS: dict[int, int] = {}


@functools.cache
def _counting(cls: Any) -> Any:
    """A class of layers whose calls count alike."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        number = _CALLS[id(self)]
        self.momentum = number / (number + 1)
        _CALLS[id(self)] = number + 1
        return cls.__call__(self, *args, **kwargs)

    return type(cls)(f"Counting{cls.__name__}", (cls,), {"__call__": call})


@contextlib.contextmanager
def _cumulative(layer: Any) -> Iterator[None]:
    """Scope in which each call of a layer counts alike, those from before not at all."""
    momentum = layer.momentum
    cls: Any = type(layer)
    _CALLS[id(layer)] = 0
    object.__setattr__(layer, "__class__", _counting(cls))
    try:
        yield
    finally:
        object.__setattr__(layer, "__class__", cls)
        layer.momentum = momentum
        del _CALLS[id(layer)]
