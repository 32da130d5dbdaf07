"""Weights in the layout of every room (:meth:`delira.contract.Backend.portable_weights`)."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from delira.backends.tensorflow.names import layers_of, named_variables
from delira.models.layer_settings import Settings, conv_settings

_NORMALISED = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
_NORMALISATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.LayerNormalization,
    keras.layers.GroupNormalization,
)
_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_TRANSPOSED = (keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose)
_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)

_Change = Callable[[np.ndarray], np.ndarray]


class _Portable(NamedTuple):
    """One weight: its variable, and the way from its array to the portable one and back."""

    variable: Any
    out: _Change
    back: _Change


def portable_weights(network: Any) -> dict[str, np.ndarray]:
    """All weights in the layout of every room; states of generators are none."""
    return {name: part.out(part.variable.numpy().copy()) for name, part in _parts(network)}


def load_portable_weights(network: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Put weights of :func:`portable_weights` into the network."""
    for name, part in _parts(network):
        part.variable.assign(part.back(weights[name]))


def layers(network: Any) -> dict[str, Any]:
    """The layers that have weights, by the paths of these."""
    owners = _owners(network)
    return {
        name.rpartition(".")[0]: owners[id(variable)]
        for name, variable in named_variables(network).items()
        if id(variable) in owners
    }


def layer_settings(layer: Any) -> Settings:
    """Settings of a normalisation or a convolution by the names of every backend; of others none."""
    if isinstance(layer, keras.layers.GroupNormalization):
        return {"epsilon": float(layer.epsilon), "groups": int(layer.groups)}
    if isinstance(layer, _NORMALISATIONS):
        return {"epsilon": float(layer.epsilon)}
    if not isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED, *_DEPTHWISE)):
        return {}
    is_transposed = isinstance(layer, _TRANSPOSED)
    how = layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding
    found = conv_settings(*how, is_transposed=is_transposed)
    return {**found, "groups": int(layer.groups)} if isinstance(layer, _CONVOLUTIONS) else found


def _owners(network: Any) -> dict[int, Any]:
    """Each variable's layer, by the id of the variable."""
    return {
        id(variable): layer
        for layer in layers_of(network)
        for variable in [*layer._trainable_variables, *layer._non_trainable_variables]
    }


def _parts(network: Any) -> Iterator[tuple[str, _Portable]]:
    owners = _owners(network)
    for name, variable in named_variables(network).items():
        if id(variable) in owners:  # states of generators have no layer
            prefix, _, entry = name.rpartition(".")
            entry, out, back = _layout(owners[id(variable)], entry, tuple(variable.shape))
            yield f"{prefix}.{entry}" if prefix else entry, _Portable(variable, out, back)


def _layout(layer: Any, entry: str, shape: tuple[int, ...]) -> tuple[str, _Change, _Change]:
    if isinstance(layer, _NORMALISATIONS):
        return _NORMALISED.get(entry, entry), _same, _same
    if isinstance(layer, keras.layers.Embedding) and entry == "embeddings":
        return "weight", _same, _same
    if entry == "kernel":
        if isinstance(layer, keras.layers.Dense):
            return "weight", np.transpose, np.transpose
        if isinstance(layer, _DEPTHWISE):  # (kernel axes, in, multiplier) -> (in * multiplier, 1, kernel axes)
            *size, _, _ = shape
            return "weight", _depthwise, lambda array: np.moveaxis(array.reshape(*shape[-2:], *size), (0, 1), (-2, -1))
        if isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED)):  # the last axis first, the one before it second
            return "weight", _axes_first, lambda array: np.moveaxis(array, (0, 1), (-1, -2))
    return entry, _same, _same


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _axes_first(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, (-1, -2), (0, 1))


def _depthwise(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, (-2, -1), (0, 1)).reshape(math.prod(array.shape[-2:]), 1, *array.shape[:-2])
