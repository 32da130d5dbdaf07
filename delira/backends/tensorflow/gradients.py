"""Gradients of one network among several, for closures made of state keys."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from delira.backends.tensorflow.names import is_built, learnable


def differentiate(network: Any, optimizer: Any, compute: Callable[[Any], Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Loss, further values, and the gradients of one network's learned weights by name."""
    if not is_built(network):
        compute(network)
    places = {name: variable for name, variable in learnable(network).items() if variable.trainable}
    with tf.GradientTape() as tape:
        loss, more = compute(network)
        scaled = optimizer.scale_loss(loss)
    found = tape.gradient(scaled, [variable.value for variable in places.values()])
    return loss, more, {name: one for name, one in zip(places, found, strict=True) if one is not None}


def by_variable(network: Any, gradients: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Gradients by name, and the variables of these names."""
    places = learnable(network)
    return list(gradients.values()), [places[name] for name in gradients]
