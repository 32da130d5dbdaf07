"""Weights of JAX by name: learned, averaged, as arrays and in other layouts, and the layers that hold them."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.arrays import to_device, to_host
from delira.backends.jax.calls import EAGER
from delira.backends.jax.generators import GENERATOR
from delira.contract import ByName, Network, Tree, WeightsRole
from delira.models.weights import Layout, Layouts, Settings, check_named_weights, conv_settings, layout_of, renamed

_NORMALISATIONS = (nnx.BatchNorm, nnx.LayerNorm, nnx.GroupNorm, nnx.InstanceNorm, nnx.RMSNorm)

_LAYOUTS: Layouts = (
    (_NORMALISATIONS, renamed(scale="weight", mean="running_mean", var="running_var")),
    (nnx.Embed, renamed(embedding="weight")),
    (nnx.Linear, {"kernel": Layout("weight", (1,))}),
    ((nnx.Conv, nnx.ConvTranspose), {"kernel": Layout("weight", (-1, -2))}),
)


class JaxWeights(WeightsRole):
    """Variables of modules by name."""

    learned_weights = staticmethod(graph.learned_weights)

    def learned_names(self, network: Network) -> frozenset[str]:
        return frozenset(graph.learned_weights(network))

    def set_learned_names(self, network: Network, names: frozenset[str]) -> None:
        for name, variable in graph.state_variables(network).items():
            if isinstance(variable, nnx.Param):
                if name not in names:
                    variable.set_metadata(graph.FROZEN, True)
                elif graph.FROZEN in variable.get_metadata():
                    variable.del_metadata(graph.FROZEN)
        graph.forget_parts(network)

    def statistics_names(self, network: Network) -> frozenset[str]:
        kept = {id(variable) for layer in _following(network) for variable in (layer.mean, layer.var)}
        return frozenset(name for name, variable in graph.state_variables(network).items() if id(variable) in kept)

    def renew_statistics(self, network: Network, calls: Iterable[Callable[[], Any]]) -> None:
        """Compute operation by operation, since a compiled prediction leaves the network as it is.

        Random streams get their keys from the generator of the backend, as in training.
        """
        was_eager = network in EAGER
        streams = [leaf for leaf in graph.parts_of(network).leaves if isinstance(leaf, nnx.RngState)]
        before = [leaf.get_raw_value() for leaf in streams]
        EAGER.add(network)
        try:
            with contextlib.ExitStack() as scopes:
                for layer in _following(network):
                    scopes.enter_context(_cumulative(layer))
                for call in calls:
                    graph.reseed(network, GENERATOR.next_key())
                    call()
        finally:
            if not was_eager:
                EAGER.discard(network)
            for leaf, value in zip(streams, before, strict=True):
                leaf.set_raw_value(value)

    def averaged(self, network: Network) -> dict[str, Any]:
        return {
            name: variable.get_raw_value()
            for name, variable in graph.state_variables(network).items()
            if isinstance(variable, nnx.Param) and jnp.issubdtype(variable.get_raw_value().dtype, jnp.inexact)
        }

    def moved(self, average: ByName | None, weights: ByName, decay: float) -> dict[str, Any]:
        if average is None:
            return {name: jnp.copy(weight) for name, weight in weights.items()}
        return dict(_moved(dict(average), dict(weights), np.float32(1 - decay)))

    def named(self, network: nnx.Module) -> dict[str, np.ndarray]:
        weights = {name: to_host(variable.get_raw_value()) for name, variable in graph.state_variables(network).items()}
        return weights | {name: weights[first].copy() for name, first in graph.aliases(network).items()}

    def load_named(self, network: nnx.Module, weights: Mapping[str, np.ndarray]) -> None:
        own = {name: (array.shape, array.dtype.name) for name, array in self.named(network).items()}
        check_named_weights(network, own, weights, {name: name for name in own} | graph.aliases(network))
        for name, variable in graph.state_variables(network).items():
            variable.set_raw_value(to_device(weights[name], variable.get_raw_value()))

    def portable(self, network: nnx.Module) -> dict[str, np.ndarray]:
        return {
            name: layout.to_portable(to_host(variable.get_raw_value())).copy()
            for name, variable, layout in _parts(network)
        }

    def load_portable(self, network: nnx.Module, weights: Mapping[str, np.ndarray]) -> None:
        for name, variable, layout in _parts(network):
            own = variable.get_raw_value()
            variable.set_raw_value(to_device(layout.from_portable(weights[name], own.shape), own))

    def layers(self, network: nnx.Module) -> dict[str, Any]:
        modules = {graph.dotted(path): module for path, module in nnx.iter_modules(network)}
        return {_without_layers(path, modules): module for path, module in modules.items()}

    def layer_settings(self, layer: object) -> Settings:
        if isinstance(layer, _NORMALISATIONS):
            groups = {"groups": int(layer.num_groups)} if isinstance(layer, nnx.GroupNorm) else {}
            return {"epsilon": float(layer.epsilon), **groups}
        if not isinstance(layer, (nnx.Conv, nnx.ConvTranspose)):
            return {}
        is_transposed = isinstance(layer, nnx.ConvTranspose)
        kernel = (layer.kernel_size,) if isinstance(layer.kernel_size, int) else tuple(layer.kernel_size)
        strides, dilation = (_by_axis(value, len(kernel)) for value in (layer.strides, layer.kernel_dilation))
        padding: Any = layer.padding
        if isinstance(padding, str):
            padding = padding if padding in ("SAME", "VALID", "CAUSAL") else None  # others repeat the image
        else:
            pairs = [padding] * len(kernel) if isinstance(padding, int) else padding
            padding = [(one, one) if isinstance(one, int) else tuple(one) for one in pairs]
            if is_transposed:  # said of the image with gaps, not of the result
                padding = [(size - 1 - low, size - 1 - high) for size, (low, high) in zip(kernel, padding, strict=True)]
        found = conv_settings(kernel, strides, dilation, padding, is_transposed=is_transposed)
        return found if is_transposed else {**found, "groups": int(layer.feature_group_count)}


@jax.jit
def _moved(average: Any, weights: Tree, part: Any) -> Any:
    return jax.tree.map(lambda mean, weight: mean + (weight - mean) * part.astype(mean.dtype), average, weights)


def _by_axis(value: Tree, n_axes: int) -> tuple[int, ...]:
    return (value or 1,) * n_axes if value is None or isinstance(value, int) else tuple(value)


def _parts(network: nnx.Module) -> Iterator[tuple[str, nnx.Variable, Layout]]:
    """Each weight by its portable name, and its layout."""
    modules = {graph.dotted(path): module for path, module in nnx.iter_modules(network)}
    for name, variable in graph.state_variables(network).items():
        prefix, _, entry = name.rpartition(".")
        layer, place = modules.get(prefix), _without_layers(prefix, modules)
        layout = layout_of(layer, entry, _LAYOUTS)
        if isinstance(layer, nnx.ConvTranspose) and layout.first and not layer.transpose_kernel:
            layout = Layout("weight", (-2, -1), is_mirrored=True)
        yield f"{place}.{layout.entry}" if place else layout.entry, variable, layout


def _without_layers(path: str, modules: ByName) -> str:
    """The path as other frameworks have it: what is in a sequence is ``body.0`` there, ``body.layers.0`` in flax."""
    steps = path.split(".")

    def is_of_sequence(number: int) -> bool:
        return steps[number] == "layers" and isinstance(modules.get(".".join(steps[:number])), nnx.Sequential)

    return ".".join(step for number, step in enumerate(steps) if not is_of_sequence(number))


def _following(network: nnx.Module) -> list[Any]:
    """Layers that keep statistics of the data; one with a momentum of 1 does not follow them."""
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
