"""Weights of TensorFlow by name: learned, averaged, as arrays and in other layouts, and the layers that hold them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.arrays import exact
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.runtime import (
    generators_of,
    is_built,
    layers_of,
    learnable,
    named_variables,
    owners_of,
    runtime_of,
)
from delira.contract import ByName, Network, WeightsRole
from delira.errors import NetworkError
from delira.models.weights import Layout, Layouts, Settings, check_named_weights, conv_settings, layout_of, renamed

_NORMALISATIONS = (keras.layers.BatchNormalization, keras.layers.LayerNormalization, keras.layers.GroupNormalization)

_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)

_TRANSPOSED = (keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose, keras.layers.Conv3DTranspose)

_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)

_LAYOUTS: Layouts = (
    (_NORMALISATIONS, renamed(gamma="weight", beta="bias", moving_mean="running_mean", moving_variance="running_var")),
    (keras.layers.Embedding, renamed(embeddings="weight")),
    (keras.layers.Dense, {"kernel": Layout("weight", (1,))}),
    (_DEPTHWISE, {"kernel": Layout("weight", (-2, -1), is_merged=True)}),
    ((*_CONVOLUTIONS, *_TRANSPOSED), {"kernel": Layout("weight", (-1, -2))}),
)


def refuse_lazy(network: Network, error: type[Exception], consequence: str) -> None:
    """Refuse a network whose layers have not seen a batch."""
    if not is_built(network):
        lazy = [layer.name for layer in layers_of(network)[1:] if not layer.built]
        raise error(
            f"the layers {', '.join(lazy)} of {type(network).__name__} have no weights yet, {consequence}; call the "
            "network once with a batch first"
        )


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Give variables values."""
    for variable, value in zip(variables, values, strict=True):
        variable.value.assign(exact(value))


class TfWeights(WeightsRole):
    """Variables of layers by name."""

    @staticmethod
    def set_learned_names(network: Network, names: frozenset[str]) -> None:
        """Freeze and unfreeze variables; a layer that has none left that learns is frozen as a whole.

        Weights that have no shape yet follow when they get theirs.
        """
        if not is_built(network):
            runtime_of(network).learned = names
            return
        learned = {id(variable) for name, variable in named_variables(network).items() if name in names}
        for layer in layers_of(network):
            inside = [v for part in layer._flatten_layers() for v in part._trainable_variables]
            if inside:
                layer._trainable = any(id(variable) in learned for variable in inside)
            for variable in layer._trainable_variables:
                variable.trainable = id(variable) in learned

    def learned_names(self, network: Network) -> frozenset[str]:
        if not is_built(network):
            return frozenset()
        ids = {id(variable) for variable in learnable(network).values()}
        return frozenset(name for name, v in named_variables(network).items() if id(v) in ids and v.trainable)

    def statistics_names(self, network: Network) -> frozenset[str]:
        if not is_built(network):
            return frozenset()
        kept = {id(one) for layer in _following(network) for one in (layer.moving_mean, layer.moving_variance)}
        return frozenset(name for name, variable in named_variables(network).items() if id(variable) in kept)

    def renew_statistics(self, network: Network, calls: Iterable[Callable[[], Any]]) -> None:
        """Compute operation by operation: a compiled function has the momentum of the training in it."""
        runtime = runtime_of(network)
        compiled, runtime.compiled = runtime.compiled, False
        GENERATORS.may_draw = True
        try:
            with contextlib.ExitStack() as scopes:
                for layer in _following(network):
                    scopes.enter_context(_cumulative(layer))
                for call in calls:
                    call()
        finally:
            runtime.compiled = compiled

    def averaged(self, network: Network) -> dict[str, Any]:
        refuse_lazy(network, NetworkError, "so they have no average")
        ids = {id(variable) for variable in learnable(network).values()}
        return {
            name: variable.value.read_value()
            for name, variable in named_variables(network).items()
            if id(variable) in ids and variable.value.dtype.is_floating
        }

    def moved(self, average: ByName | None, weights: ByName, decay: float) -> dict[str, Any]:
        if average is None:
            return dict(weights)
        moved = _move(list(average.values()), list(weights.values()), tf.constant(1.0 - decay, tf.float32))
        return dict(zip(weights, moved, strict=True))

    def named(self, network: Network) -> dict[str, np.ndarray]:
        refuse_lazy(network, NetworkError, "so there is nothing to show")
        return {name: np.array(exact(variable)) for name, variable in _weights(network).items()}

    def load_named(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        refuse_lazy(network, NetworkError, "so they cannot get values")
        own = _weights(network)
        shapes = {name: (tuple(variable.shape), variable.dtype) for name, variable in own.items()}
        check_named_weights(network, shapes, weights, {name: id(variable) for name, variable in own.items()})
        assign(list(own.values()), [weights[name] for name in own])

    def portable(self, network: Network) -> dict[str, np.ndarray]:
        return {name: layout.to_portable(variable.numpy()).copy() for name, variable, layout in _parts(network)}

    def load_portable(self, network: Network, weights: Mapping[str, np.ndarray]) -> None:
        for name, variable, layout in _parts(network):
            variable.assign(layout.from_portable(weights[name], variable.shape))

    def layers(self, network: Network) -> dict[str, Any]:
        owners = owners_of(network)
        return {
            name.rpartition(".")[0]: owners[id(variable)]
            for name, variable in named_variables(network).items()
            if id(variable) in owners
        }

    def layer_settings(self, layer: Any) -> Settings:
        if isinstance(layer, _NORMALISATIONS):
            groups = {"groups": int(layer.groups)} if isinstance(layer, keras.layers.GroupNormalization) else {}
            return {"epsilon": float(layer.epsilon), **groups}
        if not isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED, *_DEPTHWISE)):
            return {}
        is_transposed = isinstance(layer, _TRANSPOSED)
        how = layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding
        found = conv_settings(*how, is_transposed=is_transposed)
        return {**found, "groups": int(layer.groups)} if isinstance(layer, _CONVOLUTIONS) else found


def _weights(network: Network) -> dict[str, Any]:
    """All variables but the states of generators."""
    ids = {id(generator.state) for generator in generators_of(network)}
    return {name: variable for name, variable in named_variables(network).items() if id(variable) not in ids}


@tf.function(autograph=False, reduce_retracing=True)
def _move(averages: list[Any], weights: list[Any], share: Any) -> list[Any]:
    return [old + (new - old) * tf.cast(share, old.dtype) for old, new in zip(averages, weights, strict=True)]


def _parts(network: Network) -> Iterator[tuple[str, keras.Variable, Layout]]:
    """Each weight by its portable name, and its layout."""
    owners = owners_of(network)
    for name, variable in named_variables(network).items():
        if id(variable) in owners:  # states of generators have no layer
            prefix, _, entry = name.rpartition(".")
            layout = layout_of(owners[id(variable)], entry, _LAYOUTS)
            yield f"{prefix}.{layout.entry}" if prefix else layout.entry, variable, layout


def _following(network: keras.Model) -> list[Any]:
    """Layers that keep statistics of the data; one with a momentum of 1 does not follow them."""
    return [one for one in layers_of(network) if isinstance(one, keras.layers.BatchNormalization) and one.momentum != 1]


@contextlib.contextmanager
def _cumulative(layer: Any) -> Iterator[None]:
    """Scope in which each call of a layer counts alike, those from before not at all."""
    momentum, number, compute = layer.momentum, 0, layer.call

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal number
        layer.momentum = number / (number + 1)
        number += 1
        return compute(*args, **kwargs)

    vars(layer)["call"] = counted  # Keras would track what is set as an attribute
    try:
        yield
    finally:
        del vars(layer)["call"]
        layer.momentum = momentum
