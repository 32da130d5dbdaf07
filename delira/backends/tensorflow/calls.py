"""How networks of TensorFlow are called: in which mode, and compiled unless their training is not."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.checkpoints import finish_building
from delira.backends.tensorflow.devices import Shares, settle
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.runtime import calls, computing, is_built, mode, runtime_of
from delira.contract import Array, ByName, CallsRole, Network
from delira.contract.arrays import only_arrays
from delira.contract.export import noting
from delira.errors import ConfigError, DataError, DeliraError


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
                runtime.forward = how, Traces(functools.partial(_predict, network), network)
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
        texts = [
            name
            for name, value in inputs.items()
            if only_arrays(value, as_tensor) is None and np.asarray(value).dtype.kind in "SUO"
        ]
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


#: kinds of batches that differ in more than their number of samples, before every axis may differ
_MOST_KINDS = 8

#: operations whose random numbers are a state that nobody can read
_DRAWING = frozenset((
    "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson", "RandomPoissonV2", "RandomShuffle",
    "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal",
))  # fmt: skip

_NOTE = (
    "This happened while a step was compiled by tf.function, which calls Python once, with tensors that have no values "
    "and an open number of samples (tf.shape(x)[0]); compiled=False runs it as it is"
)


class Traces:
    """A function of a tree of tensors, compiled for each kind of tree.

    The number of samples is open from the first trace on: a graph for a fixed number rounds otherwise, and a run that
    is continued would not see the same kinds of batches in the same order.

    Parameters
    ----------
    function
        ``function(tree)`` in TensorFlow.
    network
        Whose step it is.

    Raises
    ------
    ConfigError
        If the setting ``compiled`` of the training has options that ``tf.function`` has not, or not on these devices.
    """

    def __init__(self, function: Callable[[Any], Any], network: Network):
        runtime = runtime_of(network)
        options = dict(runtime.compiled) if isinstance(runtime.compiled, Mapping) else {}
        options |= {"jit_compile": True} if runtime.jit else {}
        if runtime.strategy is not None and options.get("jit_compile"):
            raise ConfigError("jit_compile=True does not work with several devices; leave it out, or use one device")
        if unknown := options.keys() - inspect.signature(tf.function).parameters.keys():
            raise ConfigError(f"tf.function has no option {sorted(unknown)[0]!r} (compiled={options})")
        self._function, self._network, self._options = function, network, {"autograph": False, **options}
        self._made: dict[Any, Callable[[Any], Any]] = {}
        self._seeding = 0

    def __call__(self, tree: object, kind: object = None) -> Any:
        """Compute; ``kind`` says what else the graph depends on."""
        runtime = runtime_of(self._network)
        if runtime.draws and self._seeding != GENERATORS.seeding:  # the seeds of a graph are fixed when it is made
            self._made.clear()
        leaves = tf.nest.flatten(tree)
        key: Any = (kind, _structure(tree), *((leaf.dtype, leaf.shape.rank, leaf.shape[1:]) for leaf in leaves))
        try:
            graph = self._made.get(key)
        except TypeError:  # an unknown shape has no hash
            graph = None
        if graph is None and len(self._made) >= _MOST_KINDS:  # one graph for all shapes
            key = (kind, _structure(tree), *((leaf.dtype, leaf.shape.rank) for leaf in leaves))
            graph = self._made.get(key)
        if graph is None:
            self._seeding = GENERATORS.seeding
            graph = self._made[key] = self._trace(tree)
        GENERATORS.may_draw = GENERATORS.may_draw or runtime.draws
        return graph(tree)

    def _trace(self, tree: object) -> Callable[[Any], Any]:
        is_open = len(self._made) >= _MOST_KINDS
        specs = tf.nest.map_structure(lambda leaf: _spec(leaf, is_open), tree)
        runtime = runtime_of(self._network)
        with noting(_NOTE, spared=(DeliraError,)):  # whose errors say what to do
            graph = tf.function(self._function, **self._options).get_concrete_function(specs)
        kinds = {operation.type for operation in graph.graph.get_operations()}
        kinds.update(node.op for inner in graph.graph.as_graph_def().library.function for node in inner.node_def)
        runtime.draws = runtime.draws or not kinds.isdisjoint(_DRAWING)
        return graph


def _structure(tree: object) -> Any:
    if isinstance(tree, Mapping):
        return tuple((key, _structure(value)) for key, value in tree.items())
    if isinstance(tree, (list, tuple)):
        return tuple(map(_structure, tree))
    return None


def _spec(leaf: Array, is_open: bool) -> tf.TensorSpec:
    if not leaf.shape.rank:
        return tf.TensorSpec((), leaf.dtype)
    rest = [None] * (leaf.shape.rank - 1) if is_open else leaf.shape[1:]
    return tf.TensorSpec([None, *rest], leaf.dtype)


def as_tensor(value: Array) -> Any:
    """Numbers as a tensor; None of what holds none."""
    if isinstance(value, tf.Tensor):
        return None if value.dtype is tf.string else value
    is_numeric = isinstance(value, (np.ndarray, np.generic, bool, int, float))
    return tf.convert_to_tensor(value) if is_numeric and np.asarray(value).dtype.kind in "biufc" else None
