"""The verbs of the contract in JAX."""

import contextlib
import gc
import inspect
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import building, graph, portable, schedules, state, step, tools, values
from delira.backends.jax import export as exports
from delira.backends.jax import statistics as running
from delira.backends.jax.device import batches_for, device_memory, replicated, resolve_devices, synchronize
from delira.backends.jax.generator import GENERATOR, key_of
from delira.contract import Backend, Devices
from delira.errors import ConfigError, NetworkError
from delira.io.container import write_tree
from delira.models.abstract_network import AbstractNetwork
from delira.utils.trees import map_leaves

#: errors of Python that depends on traced values
_UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)


class JaxBackend(Backend):
    """JAX, with networks of flax and optimizers of optax."""

    name = "jax"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.AbstractJaxNetwork"
    packages = ("jax", "flax", "optax")
    channels_last = True
    compiles = True

    devices = staticmethod(resolve_devices)
    synchronize = staticmethod(synchronize)
    device_memory = staticmethod(device_memory)
    outputs = staticmethod(step.outputs)
    learn = staticmethod(step.learn)
    bind_step = staticmethod(step.bind_step)
    build_optimizers = staticmethod(building.build_optimizers)
    no_optimizer = staticmethod(building.no_optimizer)
    build_schedules = staticmethod(schedules.build_schedules)
    schedules = schedules.SCHEDULES
    trace = staticmethod(tools.trace)
    free_image = tools.FreeImage
    to_numpy = staticmethod(values.to_numpy)
    read_scalars = staticmethod(values.read_scalars)
    concatenate = staticmethod(values.concatenate)
    snapshot = staticmethod(values.snapshot)
    statistics_names = staticmethod(running.statistics_names)
    renew_statistics = staticmethod(running.renew_statistics)
    learned_names = staticmethod(graph.learned_names)
    set_learned_names = staticmethod(graph.set_learned_names)
    learned_weights = staticmethod(graph.learned_weights)
    state_tree = staticmethod(state.state_tree)
    load_state_tree = staticmethod(state.load_state_tree)
    named_weights = staticmethod(state.named_weights)
    load_named_weights = staticmethod(state.load_named_weights)
    portable_weights = staticmethod(portable.portable_weights)
    load_portable_weights = staticmethod(portable.load_portable_weights)
    layers = staticmethod(portable.layers)
    layer_settings = staticmethod(portable.layer_settings)
    export = staticmethod(exports.export)

    def constants_of(self, value: Any) -> list[Any]:
        if not isinstance(value, nnx.Module):
            return []
        return [graph.raw(leaf) for leaf in graph.take_apart(value).leaves]

    def differentiate(self, network: Any, optimizer: Any, compute: Any) -> tuple[Any, Any, dict[str, Any]]:
        run = nnx.value_and_grad(compute, argnums=nnx.DiffState(0, graph.LEARNED), has_aux=True)
        (loss, more), gradients = run(network)
        return loss, more, {name: graph.raw(leaf) for name, leaf in graph.weights_of(gradients).items()}

    def leave_gradients(self, network: Any, optimizer: Any, gradients: Mapping[str, Any]) -> None:
        optimizer.left = (network, gradients)

    def update_after(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            if optimizer.left is not None:
                (network, gradients), optimizer.left = optimizer.left, None
                weights = nnx.to_flat_state(nnx.state(network, nnx.Param))
                named = [(path, leaf, graph.dotted(path)) for path, leaf in weights]
                found = [(path, leaf.replace(gradients[name])) for path, leaf, name in named if name in gradients]
                optimizer.update(network, nnx.from_flat_state(found))

    def zero_loss(self, devices: Devices) -> Any:
        return jnp.zeros(())

    def copy_optimizer(self, optimizer: Any, network: Any, twin: Any) -> Any:
        return optimizer  # a transformation of optax has no state of its own

    def devices_of(self, network: Any) -> Devices:
        weight = next((v.get_raw_value() for v in graph.state_variables(network).values()), None)
        place = jax.local_devices(backend="cpu")[0] if weight is None else batches_for(weight)
        return Devices(place, place)

    def place(self, network: Any, losses: Mapping[str, Any], devices: Devices) -> Any:
        place = replicated(devices.input)
        for leaf in graph.take_apart(network).leaves:
            if isinstance(leaf, nnx.Variable):
                leaf.set_raw_value(jax.tree.map(lambda array: jax.device_put(array, place), leaf.get_raw_value()))
        return network

    def training(self, network: Any) -> contextlib.AbstractContextManager[None]:
        return graph.mode(network, learns=True)

    def evaluating(self, network: Any) -> contextlib.AbstractContextManager[None]:
        return graph.mode(network, learns=False)

    def set_evaluating(self, network: Any) -> None:
        network.eval()
        graph.forget_parts(network)

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        if number is not None:
            raise ConfigError(
                f"num_threads={number}: JAX chooses its threads when it starts, and cannot change them; leave "
                f"num_threads out, and start Python on as many CPUs (taskset --cpu-list 0-{number - 1} python …)"
            )
        yield

    def key_mapping(self, network: Any) -> dict[str, str]:
        if type(network).__call__ is AbstractNetwork.__call__:
            raise NetworkError(f"{type(network).__name__} has no __call__; write __call__, which is what flax calls")
        parameters = _arguments(network)
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
        modes = [name for name in required if name in _MODES]
        cure = (
            f"give {modes[0]} a default (layers learn and predict as the trainer says, whatever it is)"
            if modes
            else "pass key_mapping={argument: batch entry}"
        )
        raise ConfigError(
            f"{type(network).__name__}.__call__ takes {list(parameters)}, so it is not clear which of them gets the "
            f"batch entry 'data'; {cure}"
        )

    def arguments_of(self, network: Any) -> frozenset[str] | None:
        parameters = _arguments(network)
        is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        return None if is_open else frozenset(parameters)

    def forward(self, network: Any, inputs: Mapping[str, Any]) -> Any:
        """Call the network, compiled if it can be traced; its variables stay as they are.

        Random streams begin with the same key in every call, which is no key of a training step.
        """
        step.refuse_texts(inputs)
        if step.is_eager(network):
            return network(**inputs)
        parts = graph.parts_of(network)
        words = np.array([GENERATOR.seed & 0xFFFFFFFF, GENERATOR.seed >> 32, 0xFFFFFFFF], dtype=np.uint32)
        try:
            return _forward_of(network, parts)(parts.values(), step.arrays_of(dict(inputs)), words)
        except _UNTRACEABLE:
            step.be_eager(network)
            return network(**inputs)

    def step_scope(
        self, optimizers: Mapping[str, Any], n_samples: int, is_last: bool, part: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        for optimizer in optimizers.values():
            if step.needs_samples(optimizer):
                optimizer.begin_batch(n_samples, is_last, part)
        return _NOTHING

    @contextlib.contextmanager
    def leaving_out(self, network: Any, optimizers: Mapping[str, Any]) -> Iterator[None]:
        # all of it stays on the device: nobody waits to hear whether the batch was left out
        variables = [v for v in graph.state_variables(network).values() if not isinstance(v, nnx.Param)]
        kept = [jnp.copy(variable.get_raw_value()) for variable in variables]
        before = [jnp.copy(optimizer.state["skipped"]) for optimizer in optimizers.values()]
        yield
        if not variables:
            return
        after = [optimizer.state["skipped"] for optimizer in optimizers.values()]
        is_left_out = jnp.any(jnp.stack(after) != jnp.stack(before))
        for variable, value in zip(variables, kept, strict=True):
            variable.set_raw_value(jnp.where(is_left_out, value, variable.get_raw_value()))

    def count_left_out(self, optimizers: Mapping[str, Any]) -> int:
        return sum(optimizer.num_skipped for optimizer in optimizers.values())

    def discard_parts(self, optimizers: Mapping[str, Any]) -> bool:
        answers = [optimizer.discard_parts() for optimizer in optimizers.values()]  # asks every one of them
        return all(answers)

    def finish_epoch(self, optimizers: Mapping[str, Any]) -> None:
        for optimizer in optimizers.values():
            optimizer.flush()

    def learning_rates(self, optimizers: Mapping[str, Any]) -> dict[str, float]:
        rates = {name: rate for name, optimizer in optimizers.items() if (rate := optimizer.rate) is not None}
        return {"lr" if len(optimizers) == 1 else f"lr_{name}": rate for name, rate in rates.items()}

    def scale_rates(self, optimizers: Mapping[str, Any], factor: float) -> None:
        for optimizer in optimizers.values():
            optimizer.rate = (optimizer.rate or 0.0) * factor

    def seed(self, seed: int) -> None:
        GENERATOR.seed, GENERATOR.count = seed, 0

    def generator_state(self) -> dict[str, Any]:
        return GENERATOR.state()

    def set_generator_state(self, state: Any) -> None:
        GENERATOR.set_state(state)

    def write_checkpoint(self, file: BinaryIO, tree: Mapping[str, Any]) -> None:
        write_tree(file, map_leaves(lambda leaf: values.to_host(leaf) if isinstance(leaf, jax.Array) else leaf, tree))

    @contextlib.contextmanager
    def deterministic(self) -> Iterator[None]:
        if jax.default_backend() == "gpu" and "--xla_gpu_deterministic_ops=true" not in os.environ.get("XLA_FLAGS", ""):
            raise ConfigError(
                "deterministic=True: JAX chooses its algorithms for the GPU when it starts; set "
                "XLA_FLAGS=--xla_gpu_deterministic_ops=true in the environment before Python starts"
            )
        yield

    def is_out_of_memory(self, error: BaseException) -> bool:
        if isinstance(error, jax.errors.JaxRuntimeError):
            return "RESOURCE_EXHAUSTED" in str(error) or "out of memory" in str(error).lower()
        return isinstance(error, MemoryError)

    def free_memory(self) -> None:
        gc.collect()

    def explain(self, error: BaseException) -> str | None:
        if isinstance(error, _UNTRACEABLE):
            return (
                "the step is compiled, so Python cannot decide by values that are only known later: use jnp.where or "
                "jax.lax.cond, or train with compiled=False"
            )
        if isinstance(error, (TypeError, ValueError)) and "rngs" in str(error):
            return "layers draw from the random streams of the network: pass rngs=self.rngs to each that takes rngs"
        return None

    def average(self, average: Any, network: Any, decay: float) -> dict[str, Any]:
        weights = {
            name: variable.get_raw_value()
            for name, variable in graph.state_variables(network).items()
            if isinstance(variable, nnx.Param) and jnp.issubdtype(variable.get_raw_value().dtype, jnp.inexact)
        }
        if average is None:
            return {name: jnp.copy(weight) for name, weight in weights.items()}
        if average.keys() != weights.keys():
            raise NetworkError(
                f"the average of the weights does not fit the network {type(network).__name__}: "
                f"{', '.join(sorted(average.keys() ^ weights.keys()))} is in one of them only; begin a new average"
            )
        return dict(_moved(dict(average), weights, np.float32(1 - decay)))


_NOTHING = contextlib.nullcontext()
#: usual names of arguments that say whether a network learns
_MODES = frozenset({"train", "training", "is_training", "deterministic"})


@jax.jit
def _moved(average: Any, weights: Any, part: Any) -> Any:
    return jax.tree.map(lambda mean, weight: mean + (weight - mean) * part.astype(mean.dtype), average, weights)


def _arguments(network: Any) -> Mapping[str, inspect.Parameter]:
    """Arguments of the call, without ``self``; those of the class above where a class passes on whatever it gets."""
    found: Mapping[str, inspect.Parameter] = {}
    for cls in type(network).__mro__:
        if "__call__" in vars(cls):
            own = inspect.signature(vars(cls)["__call__"]).parameters
            found = dict(list(own.items())[1:])
            if any(
                parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in found.values()
            ):
                break
    return found


#: network -> functions compiled for it, each with what the network was then
_FORWARDS: weakref.WeakKeyDictionary[Any, list[tuple[graph.Mould, Any]]] = weakref.WeakKeyDictionary()


def _forward_of(network: Any, parts: graph.Parts) -> Any:
    known = _FORWARDS.setdefault(network, [])
    for mould, function in known:
        if mould.graphdef == parts.graphdef:
            return function
    mould = graph.Mould.of(parts)

    def predict(arrays: Any, inputs: Any, words: Any) -> Any:
        return mould.build(arrays, key_of(words))(**inputs)

    known.append((mould, jax.jit(predict)))
    return known[-1][1]


BACKEND = JaxBackend()
