"""Weights of JAX by name: learned, averaged, as arrays and in other layouts, and the layers that hold them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph, statistics
from delira.backends.jax.arrays import to_device, to_host
from delira.contract import WeightsRole
from delira.contract.kinds import Network, Tree
from delira.models.layer_settings import Settings, conv_settings
from delira.models.weights import check_named_weights

_NORMALISED = {"scale": "weight", "mean": "running_mean", "var": "running_var"}

_NORMALISATIONS = (nnx.BatchNorm, nnx.LayerNorm, nnx.GroupNorm, nnx.InstanceNorm, nnx.RMSNorm)

_Change = Callable[[np.ndarray], np.ndarray]


class JaxWeights(WeightsRole):
    """Variables of modules by name."""

    statistics_names = staticmethod(statistics.statistics_names)
    renew_statistics = staticmethod(statistics.renew_statistics)
    learned_names = staticmethod(graph.learned_names)
    learned_weights = staticmethod(graph.learned_weights)
    set_learned_names = staticmethod(graph.set_learned_names)

    def averaged(self, network: Network) -> dict[str, Any]:
        return {
            name: variable.get_raw_value()
            for name, variable in graph.state_variables(network).items()
            if isinstance(variable, nnx.Param) and jnp.issubdtype(variable.get_raw_value().dtype, jnp.inexact)
        }

    def moved(self, average: Mapping[str, Any] | None, weights: Mapping[str, Any], decay: float) -> dict[str, Any]:
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
        return {name: part.out(to_host(part.variable.get_raw_value())).copy() for name, part in _parts(network)}

    def load_portable(self, network: nnx.Module, weights: Mapping[str, np.ndarray]) -> None:
        for name, part in _parts(network):
            own = part.variable.get_raw_value()
            part.variable.set_raw_value(to_device(np.ascontiguousarray(part.back(weights[name])), own))

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


class _Portable(NamedTuple):
    """One weight: its variable, and the way from its array to the portable one and back."""

    variable: Any
    out: _Change
    back: _Change


def _by_axis(value: Tree, n_axes: int) -> tuple[int, ...]:
    return (value or 1,) * n_axes if value is None or isinstance(value, int) else tuple(value)


def _parts(network: nnx.Module) -> Iterator[tuple[str, _Portable]]:
    modules = {graph.dotted(path): module for path, module in nnx.iter_modules(network)}
    for name, variable in graph.state_variables(network).items():
        prefix, _, entry = name.rpartition(".")
        entry, out, back = _layout(modules.get(prefix), entry)
        place = _without_layers(prefix, modules)
        yield f"{place}.{entry}" if place else entry, _Portable(variable, out, back)


def _without_layers(path: str, modules: Mapping[str, Any]) -> str:
    """The path as other frameworks have it: what is in a sequence is ``body.0`` there, ``body.layers.0`` in flax."""
    parts: list[str] = []
    steps = path.split(".")
    for number, step in enumerate(steps):
        if step == "layers" and isinstance(modules.get(".".join(steps[:number])), nnx.Sequential):
            continue
        parts.append(step)
    return ".".join(parts)


def _layout(layer: object, entry: str) -> tuple[str, _Change, _Change]:
    if isinstance(layer, _NORMALISATIONS):
        return _NORMALISED.get(entry, entry), _same, _same
    if isinstance(layer, nnx.Embed) and entry == "embedding":
        return "weight", _same, _same
    if entry == "kernel":
        if isinstance(layer, nnx.Linear):
            return "weight", np.transpose, np.transpose
        if isinstance(layer, nnx.Conv):  # (kernel axes, in, out) -> (out, in, kernel axes)
            return "weight", _last_first, lambda array: np.moveaxis(array, (0, 1), (-1, -2))
        if isinstance(layer, nnx.ConvTranspose) and layer.transpose_kernel:  # (kernel axes, out, in)
            return "weight", _last_first, lambda array: np.moveaxis(array, (0, 1), (-1, -2))
        if isinstance(layer, nnx.ConvTranspose):  # (kernel axes, in, out), and mirrored
            return "weight", _mirrored, lambda array: _flip(np.moveaxis(array, (0, 1), (-2, -1)), 0)
    return entry, _same, _same


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _last_first(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, (-1, -2), (0, 1))


def _mirrored(array: np.ndarray) -> np.ndarray:
    return _flip(np.moveaxis(array, (-2, -1), (0, 1)), 2)


def _flip(array: np.ndarray, first: int) -> np.ndarray:
    """Mirror the kernel axes, the first of which is ``first``."""
    return np.flip(array, tuple(range(first, first + array.ndim - 2)))
