"""How networks of TensorFlow are called: in which mode, and compiled unless their training is not."""

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.checkpoints import finish_building
from delira.backends.tensorflow.devices import settle
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.names import is_built
from delira.backends.tensorflow.replicas import Shares
from delira.backends.tensorflow.runtime import calls, computing, mode, runtime_of
from delira.backends.tensorflow.traces import Traces, as_tensor, options_of
from delira.contract import CallsRole
from delira.contract.arrays import only_arrays
from delira.contract.kinds import ByName, Network
from delira.errors import DataError, DeliraError


class TfCalls(CallsRole):
    """Networks are Keras models with a ``call``."""

    method = "call"

    def parameters(self, network: Network) -> dict[str, inspect.Parameter]:
        found = inspect.signature(network.call).parameters
        return {name: parameter for name, parameter in found.items() if name not in ("training", "mask")}

    @contextlib.contextmanager
    def training(self, network: object) -> Iterator[None]:
        with GENERATORS.learning(network), mode(network, True):
            yield

    def evaluating(self, network: keras.Model) -> contextlib.AbstractContextManager[None]:
        return mode(network, False)

    def forward(self, network: Network, inputs: ByName) -> Any:
        runtime = runtime_of(network)
        if not is_built(network):
            build(network, inputs)
        arrays = only_arrays(inputs, as_tensor)
        if runtime.compiled is False or arrays.keys() != inputs.keys():
            with _blaming_texts(inputs):
                found = _predict(network, inputs)
        else:
            how = (runtime.compiled, runtime.jit)
            if runtime.forward is None or runtime.forward[0] != how:
                runtime.forward = how, Traces(functools.partial(_predict, network), network, options_of(network))
            frozen = tuple(layer.trainable for layer in network._flatten_layers())  # frozen normalisation predicts
            found = runtime.forward[1](arrays, (runtime.mode, frozen))
        outputs, runtime.added, masks = found
        for leaf, mask in zip(tf.nest.flatten(outputs), tf.nest.flatten(masks), strict=True):
            if mask is not None:  # which a graph returns as a tensor of its own
                leaf._keras_mask = mask
        return outputs

    def calling(self, network: keras.Model) -> contextlib.AbstractContextManager[None]:
        return computing(network, runtime_of(network).mode) if is_built(network) else giving_shapes(network)

    def added_losses(self, network: object) -> dict[str, Any]:
        runtime = runtime_of(network)
        added, runtime.added = runtime.added, None
        return regularisation(network) if added is None else added


def build(network: Network, inputs: ByName) -> None:
    """Call the network once, so that its weights get their shapes; then load what waits for them."""
    with giving_shapes(network), _blaming_texts(inputs):
        network.call_untouched(**inputs)


@contextlib.contextmanager
def giving_shapes(network: object) -> Iterator[None]:
    """Scope of the call that gives weights their shapes."""
    with GENERATORS.undisturbed(), computing(network, False):
        yield
    settle(network)
    finish_building(network)


@contextlib.contextmanager
def _blaming_texts(inputs: ByName) -> Iterator[None]:
    """Scope of a call in which texts are the likely cause of any error; some layers do take them."""
    try:
        yield
    except Exception as error:
        texts = [name for name, value in inputs.items() if only_arrays(value, as_tensor) is None]
        texts = [name for name in texts if np.asarray(inputs[name]).dtype.kind in "SUO"]
        if not texts or isinstance(error, DeliraError):
            raise
        raise DataError(
            f"the argument {texts[0]!r} of the network holds text, which its layers do not take; make numbers of it in "
            "the dataset, or name another batch entry in key_mapping"
        ) from error


def regularisation(network: Network) -> dict[str, Any]:
    """What the layers of a network add to the loss, after a call; empty if they add nothing."""
    if not network.losses:
        return {}
    return {"regularisation": tf.add_n([tf.cast(loss, tf.float32) for loss in network.losses])}


def _predict(network: Network, inputs: ByName) -> tuple[Any, dict[str, Any], Any]:
    """Call the network on its device, or with a share on each of several.

    Returns its outputs, what they add to the loss, and their masks.
    """
    runtime = runtime_of(network)

    def call(given: ByName) -> tuple[Any, dict[str, Any], Any]:
        with calls(network, runtime.mode):
            outputs = network(**given)
            # which entries of an output a loss of Keras counts; None for all
            masks = tf.nest.map_structure(lambda leaf: getattr(leaf, "_keras_mask", None), outputs)
            return outputs, regularisation(network), masks

    if runtime.strategy is None or only_arrays(inputs, as_tensor).keys() != inputs.keys():
        with tf.device(runtime.device):
            return call(inputs)
    shares = Shares(only_arrays(inputs, as_tensor), None, runtime.strategy)
    network._clear_losses()
    with tf.device(runtime.device):
        outputs, added, masks = zip(*shares.compute(call), strict=True)
        return shares.join(outputs), shares.mean(added), shares.join(masks)
