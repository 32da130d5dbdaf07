"""Names of weights: where they are found in the network, as in PyTorch.

Keras numbers its layers through the process (``dense_7``), so that its own names differ between two instances.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.src.models.functional import Functional

from delira.errors import NetworkError

_AUTOMATIC = re.compile(r"(variable|seed_generator_state)(_\d+)?")
_NO_LAYERS = frozenset({"_layers", "_metrics", "_tracker", "_losses", "_functional", "_delira_runtime", "init_kwargs"})


def named_variables(network: keras.Model) -> dict[str, Any]:
    """All variables of a network, states of its generators included; one that has several places is there often."""
    return dict(_walk(network, "", ()))


def learnable(network: keras.Model) -> dict[str, Any]:
    """The variables that training can change, frozen ones included, each under its first name."""
    ids = {id(variable) for layer in layers_of(network) for variable in layer._trainable_variables}
    found = {}
    for name, variable in named_variables(network).items():
        if id(variable) in ids:
            ids.discard(id(variable))
            found[name] = variable
    return found


def layers_of(network: keras.Model) -> list[Any]:
    """The network and all layers in it, outer ones first."""
    return list(network._flatten_layers())


def generators_of(network: keras.Model) -> list[Any]:
    """Keras' generators in the network."""
    found = {id(generator): generator for layer in layers_of(network) for generator in layer._seed_generators}
    return list(found.values())


def is_built(network: keras.Model) -> bool:
    """Whether all weights have a shape."""
    return bool(network.built) or all(layer.built for layer in layers_of(network)[1:])


def refuse_foreign(network: keras.Model) -> None:
    """Refuse variables that Keras does not see: they would be neither learned nor saved.

    Raises
    ------
    NetworkError
        Naming the attribute.
    """
    for layer in layers_of(network):
        for attribute, found in vars(layer).items():
            for name, value in _items(found, attribute):
                _refuse_foreign_value(layer, name, value)


def _items(value: object, place: str) -> Iterator[tuple[str, Any]]:
    """The value, or what is in the list or dict."""
    if isinstance(value, (list, tuple, Mapping)) and not place.startswith("_self_"):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _items(item, f"{place}[{key!r}]")
    else:
        yield place, value


def _refuse_foreign_value(layer: object, name: str, value: object) -> None:
    if isinstance(value, tf.Variable):
        raise NetworkError(
            f"{type(layer).__name__}.{name} is a tf.Variable, which Keras neither trains nor saves; make it "
            "with self.add_weight(shape=…, name=…)"
        )
    if isinstance(value, tf.random.Generator):
        raise NetworkError(
            f"{type(layer).__name__}.{name} is a tf.random.Generator, whose state Keras does not save; use "
            "keras.random.SeedGenerator(seed) and keras.random.normal(shape, seed=it)"
        )


def _walk(layer: object, prefix: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    taken: set[str] = set()
    for name, variable in _own(layer):
        while name in taken:
            name += "_"
        taken.add(name)
        yield prefix + name, variable
    above = (*above, id(layer))
    for name, child in _children(layer):
        if id(child) not in above:  # a layer may know its parent
            yield from _walk(child, f"{prefix}{name}.", above)


def _own(layer: Any) -> Iterator[tuple[str, Any]]:
    attributes = {id(value): name for name, value in vars(layer).items()}
    for number, variable in enumerate([*layer._trainable_variables, *layer._non_trainable_variables]):
        attribute = attributes.get(id(variable), "")
        if attribute and not attribute.startswith("_"):
            yield attribute, variable
        elif _AUTOMATIC.fullmatch(variable.name):
            yield attribute.lstrip("_") or f"weight{number}", variable
        else:
            yield variable.name, variable
    for number, generator in enumerate(layer._seed_generators):
        yield f"{attributes.get(id(generator), f'seed_generator{number}').lstrip('_')}.state", generator.state


def _children(layer: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(layer, (keras.Sequential, Functional)):
        for number, child in enumerate(layer.layers):
            yield str(number), child
        return
    reached: set[int] = set()
    for name, value in vars(layer).items():
        if name not in _NO_LAYERS and not name.startswith("_self_"):  # TensorFlow's own tracking
            for place, child in _layers_in(value, name.lstrip("_")):
                reached.add(id(child))
                yield place, child
    for number, child in enumerate(layer._layers):  # kept where nobody looks, e.g. in an object of its own
        if id(child) not in reached:
            yield f"layers_{number}", child


def _layers_in(value: object, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, keras.Layer):
        yield place, value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _layers_in(item, f"{place}.{number}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _layers_in(item, f"{place}.{key}")
