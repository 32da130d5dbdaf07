"""Running statistics of batch normalisation, computed anew."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras

from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.names import is_built, layers_of, named_variables
from delira.backends.tensorflow.runtime import runtime_of


def statistics_names(network: keras.Model) -> frozenset[str]:
    """Names of the means and variances that layers keep of the data; none as long as they have no shape."""
    if not is_built(network):
        return frozenset()
    kept = {id(variable) for layer in _layers(network) for variable in (layer.moving_mean, layer.moving_variance)}
    return frozenset(name for name, variable in named_variables(network).items() if id(variable) in kept)


def renew_statistics(network: keras.Model, calls: Iterable[Callable[[], Any]]) -> None:
    """Let running statistics be the mean over all calls of their layers.

    Operation by operation: a compiled function has the momentum of the training in it.

    Parameters
    ----------
    network
        In training mode.
    calls
        Each calls the network on a batch.
    """
    runtime = runtime_of(network)
    compiled, runtime.compiled = runtime.compiled, False
    GENERATORS.may_draw = True
    try:
        with contextlib.ExitStack() as scopes:
            for layer in _layers(network):
                scopes.enter_context(_cumulative(layer))
            for call in calls:
                call()
    finally:
        runtime.compiled = compiled


def _layers(network: keras.Model) -> list[Any]:
    """Layers that follow the data; one with a momentum of 1 does not."""
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
