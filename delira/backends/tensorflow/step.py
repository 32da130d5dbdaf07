"""Steps of TensorFlow: compiled as a whole, with gradients from a tape."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.calls import Traces, as_tensor, build, giving_shapes
from delira.backends.tensorflow.devices import Shares, refuse_functions, settle
from delira.backends.tensorflow.generators import GENERATORS
from delira.backends.tensorflow.optimizers import TfOptimizer
from delira.backends.tensorflow.runtime import calls, is_built, learnable, named_variables, precision, runtime_of
from delira.contract import CompileConfig, Devices, Step, StepRole, call_metrics, run_hooks, select_inputs
from delira.contract.arrays import only_arrays
from delira.contract.kinds import Array, ByName, Closure, Network, Optimizer, Tree
from delira.contract.step import Compute, Hooks, counters_of, is_traced
from delira.errors import NetworkError
from delira.training.checks import unpack_closure
from delira.utils.arrays import map_leaves
from delira.utils.optimizing import added

_EAGER = tf.__internal__.EagerTensor  # making one would start the runtime, which could not be set up any more

_LOSS = "computed with TensorFlow on the predictions"


class TfStep(StepRole):
    """Steps are graphs; gradients are those of a tape."""

    def bind(self, closure: Closure, network: Network, arguments: ByName, compiling: CompileConfig) -> Closure:
        return BoundStep(closure, network, arguments, compiling)

    def outputs(self, network: Network, outputs: Any) -> Any:
        return map_leaves(as_float32, outputs) if runtime_of(network).is_mixed else outputs

    def learn(self, optimizer: TfOptimizer, step: Step, compute: Compute, backward: Hooks) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(_total(compute(step).losses))
        variables = optimizer.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        if all(gradient is None for gradient in gradients):
            if getattr(optimizer.optimizer, "updates_nothing", False):
                return
            raise NetworkError(
                f"the loss ({', '.join(step.losses)}) depends on no weight that is learned, so there is no gradient; a "
                "loss is computed with TensorFlow on predictions that tf.stop_gradient has not touched"
            )
        if backward:
            names = {id(variable): name for name, variable in named_variables(step.network).items()}
            places = [names.get(id(variable), variable.path) for variable in variables]
            step.gradients = {name: one for name, one in zip(places, gradients, strict=True) if one is not None}
            run_hooks(backward, step)
            gradients = [step.gradients.get(name) for name in places]
        optimizer.apply(gradients, variables)

    def measure(self, metrics: ByName, metric_keys: ByName, predictions: ByName, batch: ByName) -> dict[str, Any]:
        return call_metrics(of_each_call(metrics), metric_keys, predictions, batch)

    def explain(self, error: BaseException) -> str | None:
        if isinstance(error, (tf.errors.OpError, RuntimeError)) and "determinis" in str(error).lower():
            return (
                "TensorFlow has no deterministic form of this operation on this device: replace it in the network, the "
                "losses or the closure, or train with deterministic=False"
            )
        return None

    def zero_loss(self, devices: Devices) -> Any:
        return tf.zeros(())

    def differentiate(
        self, network: Network, optimizer: Optimizer, compute: Callable[[Any], Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        if not is_built(network):
            compute(network)
        places = {name: variable for name, variable in learnable(network).items() if variable.trainable}
        with tf.GradientTape() as tape:
            loss, more = compute(network)
            scaled = optimizer.scale_loss(loss)
        found = tape.gradient(scaled, [variable.value for variable in places.values()])
        return loss, more, {name: one for name, one in zip(places, found, strict=True) if one is not None}

    def leave_gradients(self, network: Network, optimizer: Optimizer, gradients: ByName) -> None:
        places = learnable(network)
        optimizer.left = list(gradients.values()), [places[name] for name in gradients]

    def update_after(self, optimizers: ByName) -> None:
        for optimizer in optimizers.values():
            if optimizer.left is not None:
                pairs, optimizer.left = optimizer.left, None
                optimizer.apply(*pairs)


class BoundStep:
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

    def __init__(self, closure: Closure, network: Network, arguments: ByName, compiling: CompileConfig):
        self._closure, self._network, self._arguments = closure, network, dict(arguments)
        # others have an order of their own
        if hasattr(closure, "is_backend_default") or hasattr(closure, "needs_losses"):
            refuse_functions(arguments.get("losses") or {})
        runtime = runtime_of(network)
        runtime.compiled, runtime.jit = compiling.compiled, compiling.jit
        self._optimizers: ByName = arguments.get("optimizers") or {}
        self._precision = next((o.update.precision for o in self._optimizers.values()), "32")
        self._counters = counters_of(closure)
        self._learnable: list[Any] | None = None
        self._applied: dict[Any, list[Any]] = {}
        self._traces = Traces(self._traced, network)
        self._is_compiled = is_traced(compiling, arguments.get("hooks"))

    def __call__(self, batch: dict[str, Any], **counters: int) -> Any:
        """One step."""
        if self._learnable is None:
            self._build(batch)
        if not self._is_compiled:
            GENERATORS.may_draw = True
            return self._call(batch, counters)
        special = [optimizer for optimizer in self._optimizers.values() if not optimizer.is_plain]
        frozen = tuple(variable.trainable for variable in self._learnable or ())
        kind = self._kind = (tuple([optimizer.role for optimizer in special]), frozen)
        arrays = batch if all(type(value) is _EAGER for value in batch.values()) else only_arrays(batch, as_tensor)
        facts: dict[str, Any] = {name: tf.constant(counters[name], tf.int64) for name in self._counters}
        if special:
            facts["n_samples"] = tf.constant(special[0].n_samples, tf.float32)
        result = self._traces((arrays, facts), kind)
        for optimizer in self._applied[kind]:
            optimizer.has_stepped = True
        return result

    def _traced(self, given: tuple[dict[str, Any], dict[str, Any]]) -> Any:
        """The Python of a step: it runs once for each kind of step."""
        batch, facts = given
        counters = {name: value for name, value in facts.items() if name != "n_samples"}
        optimizers = list(self._optimizers.values())
        before = [(optimizer.n_samples, optimizer.has_stepped) for optimizer in optimizers]
        for optimizer in optimizers:
            optimizer.n_samples, optimizer.has_stepped = facts.get("n_samples"), False
        try:
            result = unpack_closure(self._call(batch, counters))  # tf.function makes tensors of whatever it is
            self._applied[self._kind] = [optimizer for optimizer in optimizers if optimizer.has_stepped]
            return result
        finally:
            for optimizer, (number, has_stepped) in zip(optimizers, before, strict=True):
                optimizer.n_samples, optimizer.has_stepped = number, has_stepped

    def _call(self, batch: ByName, counters: ByName) -> Any:
        """The closure, on the device of the network or with a share on each of several."""
        network, runtime = self._network, runtime_of(self._network)

        def compute(given: dict[str, Any]) -> Any:
            with calls(network, runtime.mode):
                return self._closure(network, given, **self._arguments, **counters)

        if runtime.strategy is None:
            with precision(network, self._precision), tf.device(runtime.device):
                return compute(dict(batch))
        samples = next((optimizer.n_samples for optimizer in self._optimizers.values()), None)
        shares = Shares(only_arrays(batch, as_tensor), samples, runtime.strategy)
        for optimizer in self._optimizers.values():
            optimizer.weights = shares.weights
        network._clear_losses()
        with precision(network, self._precision), tf.device(runtime.device):
            parts = shares.compute(lambda share: unpack_closure(compute(share)))
            metrics, losses, predictions = zip(*parts, strict=True)
            return shares.mean(metrics), shares.mean(losses), shares.join(predictions)

    def _build(self, batch: ByName) -> None:
        """Give weights and optimizers their shapes."""
        if not is_built(self._network):
            if (call := self._arguments.get("call")) is not None:
                with giving_shapes(self._network):
                    call(self._network, batch)
            else:
                mapping = self._arguments.get("key_mapping")
                mapping = mapping or self._network.__delira_backend__.calls.key_mapping(self._network)
                build(self._network, select_inputs(mapping, batch))
        settle(self._network)
        for optimizer in self._optimizers.values():
            optimizer.build()
        self._learnable = list(learnable(self._network).values())


def of_each_call(metrics: ByName | None) -> dict[str, Any]:
    """Metrics that forget what they have seen: a value is of one call, not of all calls so far."""

    def forget_and_call(metric: Any, target: Array, prediction: Array) -> Any:
        metric.reset_state()
        return metric(target, prediction)

    return {
        name: functools.partial(forget_and_call, metric) if isinstance(metric, keras.metrics.Metric) else metric
        for name, metric in (metrics or {}).items()
    }


def _total(losses: ByName) -> Any:
    total = added(losses, (tf.Tensor, tf.Variable), _LOSS)
    if not tf.is_tensor(total):
        raise NetworkError(
            f"the loss ({', '.join(losses)}) is a {type(total).__name__}, so there is no gradient; a loss is {_LOSS}"
        )
    if total.shape.rank is not None and total.shape.num_elements() != 1:  # one for each sample of a batch of any size
        raise NetworkError(
            f"the loss ({', '.join(losses)}) has the shape {tuple(total.shape)}; a loss is a single number (e.g. "
            "keras.losses.MeanSquaredError() or tf.reduce_mean, not keras.losses.mean_squared_error)"
        )
    if total.dtype.is_complex:
        raise NetworkError(f"the loss ({', '.join(losses)}) is complex; a loss is a single real number")
    return total


def as_float32(value: Tree) -> Any:
    """A tensor of half precision in float32; other values as they are."""
    if not tf.is_tensor(value) or value.dtype not in (tf.bfloat16, tf.float16):
        return value
    precise = tf.cast(value, tf.float32)
    if (mask := getattr(value, "_keras_mask", None)) is not None:  # which of its entries a loss of Keras counts
        precise._keras_mask = mask
    return precise
