"""Weights of JAX by name: learned, averaged, as arrays and in other layouts, and the layers that hold them."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph, statistics
from delira.backends.jax.arrays import to_device, to_host
from delira.contract import WeightsRole
from delira.contract.kinds import ByName, Network, Tree
from delira.models.layer_settings import Settings, conv_settings
from delira.models.layouts import Layout, Layouts, layout_of, renamed
from delira.models.weights import check_named_weights

_NORMALISATIONS = (nnx.BatchNorm, nnx.LayerNorm, nnx.GroupNorm, nnx.InstanceNorm, nnx.RMSNorm)

_LAYOUTS: Layouts = (
    (_NORMALISATIONS, renamed(scale="weight", mean="running_mean", var="running_var")),
    (nnx.Embed, renamed(embedding="weight")),
    (nnx.Linear, {"kernel": Layout("weight", (1,))}),
    ((nnx.Conv, nnx.ConvTranspose), {"kernel": Layout("weight", (-1, -2))}),
)


class JaxWeights(WeightsRole):
    """Variables of modules by name."""

    statistics_names = staticmethod(statistics.statistics_names)
    renew_statistics = staticmethod(statistics.renew_statistics)
    learned_weights = staticmethod(graph.learned_weights)
    set_learned_names = staticmethod(graph.set_learned_names)

    def learned_names(self, network: Network) -> frozenset[str]:
        return frozenset(graph.learned_weights(network))

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
        parts = _parts(network)
        return {name: layout.to_portable(to_host(variable.get_raw_value())).copy() for name, variable, layout in parts}

    def load_portable(self, network: nnx.Module, weights: Mapping[str, np.ndarray]) -> None:
        for name, variable, layout in _parts(network):
            own = variable.get_raw_value()
            variable.set_raw_value(to_device(layout.from_portable(weights[name], own.shape), own))

    def layers(self, network: nnx.Module) -> dict[str, Any]:
        modules = {graph.dotted(path): module for path, module in nnx.iter_modules(network)}
        return {_without_layers(path, modules): module for path, module in modules.items()}

    def layer_settings(self, layer: object) -> Settings:
        if isinstance(layer, nnx.GroupNorm):
            return {"epsilon": float(layer.epsilon), "groups": int(layer.num_groups)}
        if isinstance(layer, _NORMALISATIONS):
            return {"epsilon": float(layer.epsilon)}
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
