"""What the backend keeps of a network, beside Keras: its mode, its traces, what waits for its weights."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.layers.layer import CallContext

from delira.backends.tensorflow.replicas import in_share
from delira.contract.kinds import ByName

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
