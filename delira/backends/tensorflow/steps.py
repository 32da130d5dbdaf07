"""Steps and predictions as graphs: traced once for each kind of batch."""

import contextlib
import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.device import refuse_functions, settle
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.names import is_built, learnable
from delira.backends.tensorflow.replicas import Shares
from delira.backends.tensorflow.runtime import calls, precision, runtime_of
from delira.backends.tensorflow.state import finish_building
from delira.contract import NO_HOOKS, CompileConfig, select_inputs
from delira.errors import ConfigError, DataError, DeliraError
from delira.training.checks import unpack_closure

_log = logging.getLogger("delira")

#: kinds of batches that differ in more than their number of samples, before every axis may differ
_MOST_KINDS = 8
#: operations whose random numbers are a state that nobody can read
_DRAWING = frozenset(
    (
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "TruncatedNormal",
    )
)
_COUNTERS = ("iter_num", "global_iter_num", "batch_nr")


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

    def __init__(self, function: Callable[[Any], Any], network: Any, options: Mapping[str, Any]):
        self._function, self._network, self._options = function, network, {"autograph": False, **options}
        self._made: dict[Any, Callable[[Any], Any]] = {}
        self._seeding = 0

    def __call__(self, tree: Any, kind: Any = None) -> Any:
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

    def _trace(self, tree: Any) -> Callable[[Any], Any]:
        is_open = len(self._made) >= _MOST_KINDS
        specs = tf.nest.map_structure(lambda leaf: _spec(leaf, is_open), tree)
        runtime = runtime_of(self._network)
        try:
            graph = tf.function(self._function, **self._options).get_concrete_function(specs)
        except DeliraError:  # says what to do
            raise
        except Exception as error:
            error.add_note(
                "This happened while a step was compiled by tf.function, which calls Python once, with tensors that "
                "have no values and an open number of samples (tf.shape(x)[0]); compiled=False runs it as it is"
            )
            raise
        runtime.draws = runtime.draws or any(kind in _DRAWING for kind in _operations(graph.graph))
        return graph


def _operations(graph: Any) -> Iterator[str]:
    yield from (operation.type for operation in graph.get_operations())
    for function in graph.as_graph_def().library.function:
        yield from (node.op for node in function.node_def)


def _structure(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return tuple((key, _structure(value)) for key, value in tree.items())
    if isinstance(tree, (list, tuple)):
        return tuple(map(_structure, tree))
    return None


def _spec(leaf: Any, is_open: bool) -> tf.TensorSpec:
    if not leaf.shape.rank:
        return tf.TensorSpec((), leaf.dtype)
    rest = [None] * (leaf.shape.rank - 1) if is_open else leaf.shape[1:]
    return tf.TensorSpec([None, *rest], leaf.dtype)


def only_arrays(tree: Any) -> Any:
    """A batch without what is no array, e.g. names; arrays become tensors."""
    if isinstance(tree, Mapping):
        found = {key: only_arrays(value) for key, value in tree.items()}
        return {key: value for key, value in found.items() if value is not None}
    if isinstance(tree, (list, tuple)):
        items = [only_arrays(item) for item in tree]
        if any(item is None for item in items):
            return None
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, tf.Tensor):
        return None if tree.dtype is tf.string else tree
    if isinstance(tree, (np.ndarray, np.generic, bool, int, float)) and np.asarray(tree).dtype.kind in "biufc":
        return tf.convert_to_tensor(tree)
    return None


class Step:
    """The closure as it is called at every step.

    Parameters
    ----------
    closure
        The network's.
    network
        The network.
    arguments
        What stays the same from step to step.
    compiling
        Whether and how it is compiled.
    """

    def __init__(
        self, closure: Callable[..., Any], network: Any, arguments: Mapping[str, Any], compiling: CompileConfig
    ):
        self._closure, self._network, self._arguments = closure, network, dict(arguments)
        if hasattr(closure, "is_room_default") or hasattr(closure, "needs_losses"):  # others have an order of their own
            refuse_functions(arguments.get("losses") or {})
        runtime = runtime_of(network)
        runtime.compiled, runtime.jit = compiling.compiled, compiling.jit
        self._optimizers: Mapping[str, Any] = arguments.get("optimizers") or {}
        self._precision = next((o.update.precision for o in self._optimizers.values()), "32")
        names = inspect.signature(closure).parameters
        self._counters = [name for name in _COUNTERS if name in names]
        self._learnable: list[Any] | None = None
        self._applied: dict[Any, list[Any]] = {}
        self._traces = Traces(self._traced, network, options_of(network))
        hooks = arguments.get("hooks") or NO_HOOKS
        self._is_compiled = compiling.compiled is not False and hooks.traceable
        if compiling.compiled is not False and not hooks.traceable:
            _log.warning(
                "the step is not compiled, since a hook inside it is not marked traceable (%s); compiled=False says "
                "the same",
                ", ".join(hooks.untraceable),
            )

    def __call__(self, batch: dict[str, Any], counters: Mapping[str, int]) -> Any:
        """One step."""
        if self._learnable is None:
            self._build(batch)
        if not self._is_compiled:
            GENERATORS.may_draw = True
            return self._call(batch, counters)
        special = tuple(o.role for o in self._optimizers.values() if not o.is_plain)
        frozen = tuple(variable.trainable for variable in self._learnable or ())
        kind = self._kind = (special, frozen)
        arrays = batch if all(type(value) is _EAGER for value in batch.values()) else only_arrays(batch)
        facts: dict[str, Any] = {name: tf.constant(counters[name], tf.int64) for name in self._counters}
        if special:
            samples = next(o.n_samples for o in self._optimizers.values() if not o.is_plain)
            facts["n_samples"] = tf.constant(samples, tf.float32)
        result = self._traces((arrays, facts), kind)
        for optimizer in self._applied[kind]:
            optimizer.has_stepped = True
        return result

    def _traced(self, given: tuple[dict[str, Any], dict[str, Any]]) -> Any:
        """The Python of a step: it runs once for each kind of step."""
        batch, facts = given
        counters = dict(facts)
        samples = counters.pop("n_samples", None)
        optimizers = list(self._optimizers.values())
        before = [(optimizer.n_samples, optimizer.has_stepped) for optimizer in optimizers]
        for optimizer in optimizers:
            optimizer.n_samples, optimizer.has_stepped = samples, False
        try:
            result = unpack_closure(self._call(batch, counters))  # tf.function makes tensors of whatever it is
            self._applied[self._kind] = [optimizer for optimizer in optimizers if optimizer.has_stepped]
            return result
        finally:
            for optimizer, (number, has_stepped) in zip(optimizers, before, strict=True):
                optimizer.n_samples, optimizer.has_stepped = number, has_stepped

    def _call(self, batch: Mapping[str, Any], counters: Mapping[str, Any]) -> Any:
        """The closure, on the device of the network or with a share on each of several."""
        runtime = runtime_of(self._network)
        if runtime.strategy is None:
            with _Scopes(self._network, self._precision):
                return self._closure(self._network, dict(batch), **self._arguments, **counters)

        def compute(share: dict[str, Any]) -> Any:
            with calls(self._network, runtime.mode):
                return unpack_closure(self._closure(self._network, share, **self._arguments, **counters))

        samples = next((optimizer.n_samples for optimizer in self._optimizers.values()), None)
        shares = Shares(only_arrays(batch), samples, runtime.strategy)
        for optimizer in self._optimizers.values():
            optimizer.weights = shares.weights
        self._network._clear_losses()
        with precision(self._network, self._precision), tf.device(runtime.device):
            metrics, losses, predictions = zip(*shares.compute(compute), strict=True)
            return shares.mean(metrics), shares.mean(losses), shares.join(predictions)

    def _build(self, batch: Mapping[str, Any]) -> None:
        """Give weights and optimizers their shapes."""
        if not is_built(self._network):
            if (call := self._arguments.get("call")) is not None:
                with _building(self._network):
                    call(self._network, batch)
            else:
                mapping = self._arguments.get("key_mapping") or key_mapping(self._network)
                build(self._network, select_inputs(mapping, batch))
        settle(self._network)
        for optimizer in self._optimizers.values():
            optimizer.build()
        self._learnable = list(learnable(self._network).values())


_EAGER = tf.__internal__.EagerTensor  # making one would start the runtime, which could not be set up any more


class _Scopes:
    """All scopes of a step; a class, since it is entered at every step that is not compiled."""

    def __init__(self, network: Any, name: str):
        self._network, self._name = network, name

    def __enter__(self) -> None:
        runtime = runtime_of(self._network)
        self._entered = [
            calls(self._network, runtime.mode),
            precision(self._network, self._name),
            tf.device(runtime.device),
        ]
        for scope in self._entered:
            scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        for scope in reversed(self._entered):
            scope.__exit__(*error)


def options_of(network: Any) -> dict[str, Any]:
    """Options of ``tf.function`` for what is compiled of a network."""
    runtime = runtime_of(network)
    options = dict(runtime.compiled) if isinstance(runtime.compiled, Mapping) else {}
    if runtime.jit:
        options["jit_compile"] = True
    if runtime.strategy is not None and options.get("jit_compile"):
        raise ConfigError("jit_compile=True does not work with several devices; leave it out, or use one device")
    if unknown := options.keys() - inspect.signature(tf.function).parameters.keys():
        raise ConfigError(f"tf.function has no option {sorted(unknown)[0]!r} (compiled={dict(options)})")
    return options


def build(network: Any, inputs: Mapping[str, Any]) -> None:
    """Call the network once, so that its weights get their shapes; then load what waits for them."""
    with _building(network), _blaming_texts(inputs):
        network.call_untouched(**inputs)


@contextlib.contextmanager
def _building(network: Any) -> Iterator[None]:
    """Scope of the call that gives weights their shapes."""
    with GENERATORS.undisturbed(), calls(network, False), tf.device(runtime_of(network).device):
        yield
    settle(network)
    finish_building(network)


@contextlib.contextmanager
def calling(network: Any) -> Iterator[None]:
    """Scope in which a network is called as it predicts, or learns, at the time."""
    runtime = runtime_of(network)
    if not is_built(network):
        with _building(network):
            yield
        return
    with calls(network, runtime.mode), tf.device(runtime.device):
        yield


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


def forward(network: Any, inputs: Mapping[str, Any]) -> Any:
    """Call the network, compiled unless its training is not."""
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


def _masks_of(outputs: Any) -> Any:
    """What layers say of outputs, for each: which of its entries a loss of Keras counts, or ``None`` for all."""
    return tf.nest.map_structure(lambda leaf: getattr(leaf, "_keras_mask", None), outputs)


def _with_masks(outputs: Any, masks: Any) -> Any:
    """Outputs with their masks, which a graph returns as tensors of their own."""
    for leaf, mask in zip(tf.nest.flatten(outputs), tf.nest.flatten(masks), strict=True):
        if mask is not None:
            leaf._keras_mask = mask
    return outputs


def regularisation(network: Any) -> dict[str, Any]:
    """What the layers of a network add to the loss, after a call; empty if they add nothing."""
    return (
        {"regularisation": tf.add_n([tf.cast(loss, tf.float32) for loss in network.losses])} if network.losses else {}
    )


def added_losses(network: Any) -> dict[str, Any]:
    """What the last call added to the loss: of a compiled prediction it is known no more otherwise."""
    runtime = runtime_of(network)
    added, runtime.added = runtime.added, None
    return regularisation(network) if added is None else added


def _predict(network: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any], Any]:
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


def key_mapping(network: Any) -> dict[str, str]:
    """Argument of the network -> batch entry, if the user did not say."""
    parameters = call_parameters(network)
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if len(required) == 1:
        return {required[0]: "data"}
    if "x" in parameters and not required:
        return {"x": "data"}
    raise ConfigError(
        f"{type(network).__name__}.call takes {list(parameters)}, so it is not clear which of them gets the "
        "batch entry 'data'; pass key_mapping={argument: batch entry}"
    )


def call_parameters(network: Any) -> dict[str, inspect.Parameter]:
    """Arguments of ``call`` that a batch can fill."""
    parameters = inspect.signature(network.call).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in ("training", "mask")}
