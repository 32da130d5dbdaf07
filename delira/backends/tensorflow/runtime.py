"""What the backend knows of a network beside Keras: names of variables, mode, traces, and what waits for weights."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.layers.layer import CallContext
from keras.src.models.functional import Functional

from delira.contract.kinds import ByName
from delira.errors import NetworkError
from delira.utils.arrays import iterate_leaves

_ATTRIBUTE = "_delira_runtime"
_CONTEXT = "current_call_ctx"  # where Keras keeps the context of the running call
_DTYPES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


@dataclasses.dataclass
class Runtime:
    """Facts of one network."""

    mode: bool | None = None
    """True while it learns, False while it predicts, None outside of both."""
    compiled: bool | ByName | None = None
    """The setting of the training; None before one."""
    jit: bool = False
    is_mixed: bool = False
    """Whether its layers compute in half precision for now, and its outputs are float32 all the same."""
    device: str | None = None
    """Where it computes, the first of several; None leaves that to TensorFlow."""
    several: Any = None
    """The devices that share out its batches, if there are several."""
    strategy: Any = None
    """The strategy of these devices."""
    draws: bool = False
    """Whether a compiled step has random operations whose state nobody can read."""
    seeding: int = 0
    """The seeding of the backend's generators that the network's own generators have followed."""
    generators: dict[str, Any] | None = None
    """States of its generators in the checkpoint that was loaded, until the training goes on."""
    waiting: Any = None
    """Checkpoint, and its optimizers, to be loaded when the weights are there."""
    learned: frozenset[str] | None = None
    """Names of the variables that learn, to be set when the weights are there."""
    forward: Any = None
    """The compiled prediction."""
    added: dict[str, Any] | None = None
    """What the last prediction added to the loss, until somebody asks."""


def runtime_of(network: keras.Model) -> Runtime:
    """What the backend noted of a network."""
    runtime = network.__dict__.get(_ATTRIBUTE)
    if runtime is None:
        runtime = Runtime()
        object.__setattr__(network, _ATTRIBUTE, runtime)  # Keras would track it
    return runtime


@contextlib.contextmanager
def mode(network: keras.Model, training: bool) -> Iterator[None]:
    """Scope of training or prediction; the mode before is restored."""
    runtime = runtime_of(network)
    before, runtime.mode = runtime.mode, training
    try:
        yield
    finally:
        runtime.mode = before


def in_share() -> bool:
    """Return True if this is computed with a share of a batch."""
    return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()


@contextlib.contextmanager
def calls(network: keras.Model, training: bool | None) -> Iterator[None]:
    """Scope in which layers are called in one mode, whether or not ``call`` passes ``training`` on.

    Keras asks the innermost caller, and then the context of the outermost call: this is a context around it, so that
    it reaches layers that a closure calls by themselves, too.
    """
    if training is None or global_state.get_global_attribute(_CONTEXT) is not None:
        yield
        return
    runtime_of(network).added = None
    context = CallContext(entry_layer=None)
    context.set_value("training", training)
    if not in_share():  # losses of the other shares are there too
        network._clear_losses()
    global_state.set_global_attribute(_CONTEXT, context)
    try:
        yield
    finally:
        global_state.set_global_attribute(_CONTEXT, None)


@contextlib.contextmanager
def computing(network: keras.Model, training: bool | None) -> Iterator[None]:
    """Scope of calls in one mode, on the device of the network."""
    with calls(network, training), tf.device(runtime_of(network).device):
        yield


@contextlib.contextmanager
def precision(network: keras.Model, name: str) -> Iterator[None]:
    """Scope in which the layers of a network compute in another number format; their weights stay as they are.

    A layer whose format its author has chosen keeps it.
    """
    if name not in _DTYPES:
        yield
        return
    policy = keras.DTypePolicy(_DTYPES[name])
    layers = [layer for layer in network._flatten_layers() if layer.dtype_policy.name == "float32"]
    before = [(layer, layer.dtype_policy) for layer in layers]
    for layer in layers:
        layer.dtype_policy = policy
    runtime_of(network).is_mixed = True
    try:
        yield
    finally:
        runtime_of(network).is_mixed = False
        for layer, own in before:
            layer.dtype_policy = own


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
