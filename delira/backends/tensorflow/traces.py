"""Functions of trees of tensors as graphs: traced once for each kind of tree."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.runtime import runtime_of
from delira.contract.export import noting
from delira.contract.kinds import Array, ByName
from delira.errors import ConfigError, DeliraError

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
    options
        Of ``tf.function``.
    """

    def __init__(self, function: Callable[[Any], Any], network: object, options: ByName):
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


def options_of(network: object) -> dict[str, Any]:
    """Options of ``tf.function`` for what is compiled of a network."""
    runtime = runtime_of(network)
    options = dict(runtime.compiled) if isinstance(runtime.compiled, Mapping) else {}
    options |= {"jit_compile": True} if runtime.jit else {}
    if runtime.strategy is not None and options.get("jit_compile"):
        raise ConfigError("jit_compile=True does not work with several devices; leave it out, or use one device")
    if unknown := options.keys() - inspect.signature(tf.function).parameters.keys():
        raise ConfigError(f"tf.function has no option {sorted(unknown)[0]!r} (compiled={dict(options)})")
    return options
