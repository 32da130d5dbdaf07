"""Names of weights: where they are found in the network, as in PyTorch.

Keras numbers its layers through the process (``dense_7``), so that its own names differ between two instances.
"""

import re
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.models.functional import Functional

from delira.errors import NetworkError
from delira.utils.arrays import iterate_leaves

_AUTOMATIC = re.compile(r"(variable|seed_generator_state)(_\d+)?")
_NO_LAYERS = frozenset({"_layers", "_metrics", "_tracker", "_losses", "_functional", "_delira_runtime", "init_kwargs"})
#: classes of values that Keras does not see, their names, and what to do
_FOREIGN = {
    tf.Variable: ("tf.Variable", "which Keras neither trains nor saves; make it with self.add_weight(shape=…, name=…)"),
    tf.random.Generator: (
        "tf.random.Generator",
        "whose state Keras does not save; use keras.random.SeedGenerator(seed) and keras.random.normal(shape, seed=it)",
    ),
}


def named_variables(network: keras.Model) -> dict[str, Any]:
    """All variables of a network, states of its generators included; one that has several places is there often."""
    return dict(_walk(network, "", ()))


def learnable(network: keras.Model) -> dict[str, Any]:
    """The variables that training can change, frozen ones included, each under its first name."""
    ids = {id(variable) for layer in layers_of(network) for variable in layer._trainable_variables}
    named = {name: variable for name, variable in named_variables(network).items() if id(variable) in ids}
    first = {id(variable): name for name, variable in reversed(named.items())}
    return {name: named[name] for name in named if first[id(named[name])] == name}


def layers_of(network: keras.Model) -> list[Any]:
    """The network and all layers in it, outer ones first."""
    return list(network._flatten_layers())


def variables_of(layer: keras.Layer) -> list[Any]:
    """The variables of a layer itself, those that learn first."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def owners_of(network: keras.Model) -> dict[int, Any]:
    """The layer of each variable, by the id of the variable; states of generators have none."""
    return {id(variable): layer for layer in layers_of(network) for variable in variables_of(layer)}


def generators_of(network: keras.Model) -> list[Any]:
    """Keras' generators in the network."""
    return list({id(one): one for layer in layers_of(network) for one in layer._seed_generators}.values())


def is_built(network: keras.Model) -> bool:
    """Return True if all weights have a shape."""
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
            # in lists and dicts of such names TensorFlow tracks what it has seen
            leaves = [((), found)] if attribute.startswith("_self_") else iterate_leaves(found)
            for place, value in leaves:
                for kind, (name, why) in _FOREIGN.items():
                    if isinstance(value, kind):
                        where = "".join(f"[{key!r}]" for key in place)
                        raise NetworkError(f"{type(layer).__name__}.{attribute}{where} is a {name}, {why}")


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
    for number, variable in enumerate(variables_of(layer)):
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
            for place, child in iterate_leaves(value, (name.lstrip("_"),)):
                if isinstance(child, keras.Layer):
                    reached.add(id(child))
                    yield ".".join(map(str, place)), child
    for number, child in enumerate(layer._layers):  # kept where nobody looks, e.g. in an object of its own
        if id(child) not in reached:
            yield f"layers_{number}", child
