"""How networks of TensorFlow are called: in which mode, and compiled unless their training is not."""

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.checkpoints import finish_building
from delira.backends.tensorflow.devices import settle
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.names import is_built
from delira.backends.tensorflow.replicas import (
    Shares,
)
from delira.backends.tensorflow.runtime import calls, mode, runtime_of
from delira.backends.tensorflow.traces import Traces, only_arrays, options_of
from delira.contract import (
    CallsRole,
)
from delira.contract.kinds import Network
from delira.errors import DataError, DeliraError


def call_parameters(network: Network) -> dict[str, inspect.Parameter]:
    """Arguments of ``call`` that a batch can fill."""
    parameters = inspect.signature(network.call).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in ("training", "mask")}


class TfCalls(CallsRole):
    """Networks are Keras models with a ``call``."""

    method = "call"
    parameters = staticmethod(call_parameters)

    @contextlib.contextmanager
    def training(self, network: object) -> Iterator[None]:
        with GENERATORS.learning(network), mode(network, True):
            yield

    @contextlib.contextmanager
    def evaluating(self, network: object) -> Iterator[None]:
        with mode(network, False):
            yield

    def forward(self, network: Network, inputs: Mapping[str, Any]) -> Any:
        runtime = runtime_of(network)
        if not is_built(network):
            build(network, inputs)
        arrays = only_arrays(inputs)
        if runtime.compiled is False or arrays.keys() != inputs.keys():
            with _blaming_texts(inputs):
                outputs, runtime.added, masks = _predict(network, inputs)
                return _with_masks(outputs, masks)
        if runtime.forward is None or runtime.forward[0] != (runtime.compiled, runtime.jit):
            traces = Traces(functools.partial(_predict, network), network, options_of(network))
            runtime.forward = ((runtime.compiled, runtime.jit), traces)
        frozen = tuple(layer.trainable for layer in network._flatten_layers())  # frozen normalisation predicts
        outputs, runtime.added, masks = runtime.forward[1](arrays, (runtime.mode, frozen))
        return _with_masks(outputs, masks)

    @contextlib.contextmanager
    def calling(self, network: object) -> Iterator[None]:
        runtime = runtime_of(network)
        if not is_built(network):
            with giving_shapes(network):
                yield
            return
        with calls(network, runtime.mode), tf.device(runtime.device):
            yield

    def added_losses(self, network: object) -> dict[str, Any]:
        runtime = runtime_of(network)
        added, runtime.added = runtime.added, None
        return regularisation(network) if added is None else added


def build(network: Network, inputs: Mapping[str, Any]) -> None:
    """Call the network once, so that its weights get their shapes; then load what waits for them."""
    with giving_shapes(network), _blaming_texts(inputs):
        network.call_untouched(**inputs)


@contextlib.contextmanager
def giving_shapes(network: object) -> Iterator[None]:
    """Scope of the call that gives weights their shapes."""
    with GENERATORS.undisturbed(), calls(network, False), tf.device(runtime_of(network).device):
        yield
    settle(network)
    finish_building(network)


@contextlib.contextmanager
def _blaming_texts(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Scope of a call in which texts are the likely cause of any error; some layers do take them."""
    try:
        yield
    except Exception as error:
        texts = [name for name, value in inputs.items() if only_arrays(value) is None]
        texts = [name for name in texts if np.asarray(inputs[name]).dtype.kind in "SUO"]
        if not texts or isinstance(error, DeliraError):
            raise
        raise DataError(
            f"the argument {texts[0]!r} of the network holds text, which its layers do not take; make numbers of it in "
            "the dataset, or name another batch entry in key_mapping"
        ) from error


def _masks_of(outputs: object) -> Any:
    """What layers say of outputs, for each: which of its entries a loss of Keras counts, or ``None`` for all."""
    return tf.nest.map_structure(lambda leaf: getattr(leaf, "_keras_mask", None), outputs)


def _with_masks(outputs: object, masks: tf.Tensor) -> Any:
    """Outputs with their masks, which a graph returns as tensors of their own."""
    for leaf, mask in zip(tf.nest.flatten(outputs), tf.nest.flatten(masks), strict=True):
        if mask is not None:
            leaf._keras_mask = mask
    return outputs


def regularisation(network: Network) -> dict[str, Any]:
    """What the layers of a network add to the loss, after a call; empty if they add nothing."""
    return (
        {"regularisation": tf.add_n([tf.cast(loss, tf.float32) for loss in network.losses])} if network.losses else {}
    )


def _predict(network: Network, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any], Any]:
    """Call the network on its device, or with a share on each of several.

    Returns its outputs, what they add to the loss, and their masks.
    """
    runtime = runtime_of(network)

    def call(given: Mapping[str, Any]) -> tuple[Any, dict[str, Any], Any]:
        with calls(network, runtime.mode):
            outputs = network(**given)
            return outputs, regularisation(network), _masks_of(outputs)

    if runtime.strategy is None or only_arrays(inputs).keys() != inputs.keys():
        with tf.device(runtime.device):
            return call(inputs)
    shares = Shares(only_arrays(inputs), None, runtime.strategy)
    network._clear_losses()
    with tf.device(runtime.device):
        outputs, added, masks = zip(*shares.compute(call), strict=True)
        return shares.join(outputs), shares.mean(added), shares.join(masks)
