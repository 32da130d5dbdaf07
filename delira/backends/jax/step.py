"""Steps of JAX: traced and compiled as a whole, or operation by operation."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.calls import EAGER, UNTRACEABLE, arrays_of
from delira.backends.jax.generators import GENERATOR, key_of
from delira.backends.jax.optimizers import JaxOptimizer, Plan
from delira.contract import ByName, Closure, CompileConfig, Devices, Network, Optimizer, Step, StepRole, Tree, run_hooks
from delira.contract.step import Compute, Hooks, counters_of, is_traced
from delira.errors import ConfigError, NetworkError
from delira.training.checks import unpack_closure
from delira.utils.arrays import map_leaves
from delira.utils.optimizing import refuse_losses

_DTYPES = {"32": None, "bf16": jnp.bfloat16, "auto": jnp.bfloat16}

_LOSS = "one number, computed with jax.numpy on the predictions"


class JaxStep(StepRole):
    """Steps are compiled; gradients are a state of flax."""

    def bind(self, closure: Closure, network: Network, arguments: ByName, compiling: CompileConfig) -> Closure:
        """The closure as it is called at every step, compiled unless that is not wanted, or a hook cannot be traced.

        Parameters
        ----------
        closure
            The network's closure.
        network
            The network.
        arguments
            Keywords of the closure that stay the same.
        compiling
            ``compiled`` may hold options of the compiler (XLA) by name.

        Raises
        ------
        ConfigError
            If ``jit_compile`` is set, which is of TensorFlow.
        """
        if compiling.jit:
            raise ConfigError("jit_compile is of TensorFlow; JAX compiles steps with XLA anyway, so leave it out")
        if not is_traced(compiling, arguments.get("hooks")):
            return eager_step(closure, network, arguments)
        options = dict(compiling.compiled) if isinstance(compiling.compiled, Mapping) else None
        return CompiledStep(closure, network, arguments, options)

    def outputs(self, network: Network, outputs: Any) -> Any:
        return map_leaves(_precise, outputs)

    def learn(self, optimizer: JaxOptimizer, step: Step, compute: Compute, backward: Hooks) -> None:
        model = step.network

        def total_of(network: Network) -> tuple[Any, tuple[Any, dict[str, Any]]]:
            step.network = network
            total = _total(compute(step).losses)
            if step.call is None:  # a trial may go without a criterion
                _refuse_constant(total, network, step.losses)
            return total, (step.predictions, step.losses)

        differentiate = nnx.value_and_grad(total_of, argnums=nnx.DiffState(0, graph.is_learned), has_aux=True)
        (total, (step.predictions, step.losses)), gradients = differentiate(model)
        step.network = model
        if backward:
            flat = dict(nnx.to_flat_state(gradients))
            step.gradients = {graph.dotted(path): leaf.get_raw_value() for path, leaf in flat.items()}
            run_hooks(backward, step)
            changed = {path: leaf.replace(step.gradients[graph.dotted(path)]) for path, leaf in flat.items()}
            gradients = nnx.from_flat_state(changed.items())
        optimizer.update(model, gradients, value=total)

    def explain(self, error: BaseException) -> str | None:
        if isinstance(error, UNTRACEABLE):
            return (
                "the step is compiled, so Python cannot decide by values that are only known later: use jnp.where or "
                "jax.lax.cond, or train with compiled=False"
            )
        if isinstance(error, (TypeError, ValueError)) and "rngs" in str(error):
            return "layers draw from the random streams of the network: pass rngs=self.rngs to each that takes rngs"
        return None

    def zero_loss(self, devices: Devices) -> Any:
        return jnp.zeros(())

    def differentiate(self, network: Network, optimizer: Optimizer, compute: Any) -> tuple[Any, Any, dict[str, Any]]:
        run = nnx.value_and_grad(compute, argnums=nnx.DiffState(0, graph.is_learned), has_aux=True)
        (loss, more), gradients = run(network)
        return loss, more, {name: graph.raw(leaf) for name, leaf in graph.weights_of(gradients).items()}

    def leave_gradients(self, network: Network, optimizer: Optimizer, gradients: ByName) -> None:
        optimizer.left = (network, gradients)

    def update_after(self, optimizers: ByName) -> None:
        for optimizer in optimizers.values():
            if optimizer.left is not None:
                (network, gradients), optimizer.left = optimizer.left, None
                weights = nnx.to_flat_state(nnx.state(network, nnx.Param))
                named = [(path, leaf, graph.dotted(path)) for path, leaf in weights]
                found = [(path, leaf.replace(gradients[name])) for path, leaf, name in named if name in gradients]
                optimizer.update(network, nnx.from_flat_state(found))


def _precise(value: Tree) -> Any:
    half = isinstance(value, jax.Array) and value.dtype in (jnp.bfloat16, jnp.float16)
    return value.astype(jnp.float32) if half else value


def _total(losses: ByName) -> jax.Array:
    refuse_losses(losses, (jax.Array,), _LOSS)
    values = list(losses.values())
    total = sum(values[1:], start=values[0])
    if not isinstance(total, jax.Array):
        what = f"is a {type(total).__name__}"
    elif total.shape != ():
        what = f"has the shape {total.shape}"
    elif not jnp.issubdtype(total.dtype, jnp.floating):
        what = f"is of {total.dtype}"
    else:
        return total
    raise NetworkError(f"the loss ({', '.join(losses)}) {what}, so there is no gradient; a loss is {_LOSS}")


def _refuse_constant(total: jax.Array, network: Network, losses: ByName) -> None:
    """Refuse a sum that no learned weight has gone into: both have the type that differentiation gives them."""
    weight = next(iter(graph.learned_weights(network).values()), None)
    if weight is not None and type(total) is not type(weight):
        raise NetworkError(
            f"the loss ({', '.join(losses)}) depends on no weight that is learned, so there is no gradient; a loss is "
            "computed with jax.numpy on predictions that jax.lax.stop_gradient has not touched"
        )


def eager_step(closure: Closure, network: Network, arguments: ByName) -> Closure:
    """The closure called as it is, operation by operation."""
    optimizers: Mapping[str, JaxOptimizer] = arguments.get("optimizers") or {}
    dtype = _dtype_of(optimizers)
    EAGER.add(network)

    def step(batch: dict[str, Any], **counters: int) -> Any:
        for optimizer in optimizers.values():
            optimizer.begin_call()
        graph.reseed(network, GENERATOR.next_key())
        with graph.computing_in(network, dtype):
            result = closure(network, batch, **arguments, **counters)
        for optimizer in optimizers.values():
            optimizer.end_call(optimizer.num_calls)
        return result

    return step


class CompiledStep:
    """The closure as one program, traced once for each shape of a batch and each :class:`Plan` of the optimizers."""

    def __init__(
        self, closure: Closure, network: Network, arguments: ByName, options: dict[str, Any] | None = None
    ) -> None:
        self._closure, self._network, self._arguments, self._options = closure, network, arguments, options
        EAGER.discard(network)
        self._optimizers: Mapping[str, JaxOptimizer] = arguments.get("optimizers") or {}
        self._dtype, self._counters = _dtype_of(self._optimizers), counters_of(closure)
        # a batch may be computed again, with the same weights, when the memory ran out
        self._donates = not any(optimizer.config.in_parts for optimizer in self._optimizers.values())
        self._parts: graph.Parts | None = None
        self._compiled: graph.Compiled = []
        self._functions: dict[Any, Any] = {}
        self._further: dict[str, Any] = {}  # arrays of the network that are no variables: never donated

    def __call__(self, batch: dict[str, Any], **counters: int) -> Any:
        parts, optimizers = graph.parts_of(self._network), self._optimizers
        if parts is not self._parts:
            self._parts, self._functions, arrays = parts, graph.functions_of(self._compiled, parts), parts.arrays()
            self._further = {"arrays": arrays} if any(array is not None for array in arrays) else {}
            if self._donates:  # whoever kept a weight between epochs keeps it
                parts.set_values(jax.tree.map(jnp.copy, parts.variable_values()))
        plans = tuple([(name, optimizer.begin_call()) for name, optimizer in optimizers.items()])
        function = self._functions.get(plans)
        if function is None:
            function = self._functions[plans] = self._compile(graph.Mould.of(parts), plans)
        states = {name: optimizer.state for name, optimizer in optimizers.items()}
        pending = {name: optimizer.pending for name, optimizer in optimizers.items()}
        facts = {
            "words": GENERATOR.next_words(),
            "counters": {name: np.int32(counters[name]) for name in self._counters if name in counters},
            "samples": {name: optimizer.n_samples for name, optimizer in optimizers.items() if not optimizer.is_plain},
            **self._further,
        }
        result, values, after, calls = function(parts.variable_values(), states, pending, arrays_of(batch), facts)
        parts.set_values(values)
        for (name, optimizer), number in zip(optimizers.items(), calls.numbers, strict=True):
            optimizer.state, optimizer.pending = after[name]
            optimizer.end_call(number)
        return result

    def _compile(self, mould: graph.Mould, plans: tuple[tuple[str, Plan], ...]) -> Any:
        def step(values: Tree, states: Any, pending: Any, batch: Tree, facts: Any) -> Any:
            if "arrays" in facts:
                values = [v if array is None else array for v, array in zip(values, facts["arrays"], strict=True)]
            network = mould.build(values, key_of(facts["words"]))
            twins = {
                name: self._optimizers[name].traced(plan, states[name], pending[name], facts["samples"].get(name, 1))
                for name, plan in plans
            }
            arguments = {**self._arguments, **facts["counters"]}
            if "optimizers" in arguments:
                arguments["optimizers"] = twins
            with graph.computing_in(network, self._dtype):
                result = unpack_closure(self._closure(network, batch, **arguments))
            after = {name: (twin.state, twin.pending) for name, twin in twins.items()}
            calls = Calls(tuple(twin.num_calls for twin in twins.values()))
            return result, mould.values_of(network, values), after, calls

        # sums of gradients are gone after an update: there is nothing that their memory could be used for
        donated = (0, 1) if any(plan.applies for _, plan in plans) else (0, 1, 2)
        return jax.jit(step, donate_argnums=donated if self._donates else (), compiler_options=self._options)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Calls:
    """How often a closure called each optimizer, in their order; found when it was traced."""

    numbers: tuple[int, ...]


def _dtype_of(optimizers: Mapping[str, JaxOptimizer]) -> Any:
    return next((_DTYPES[optimizer.config.precision] for optimizer in optimizers.values()), None)
