"""From losses to gradients and the update, in the default closure."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from delira.backends.tensorflow.names import named_variables
from delira.backends.tensorflow.optimizers import TfOptimizer
from delira.backends.tensorflow.runtime import runtime_of
from delira.contract import Step, call_metrics, run_hooks
from delira.errors import NetworkError
from delira.utils.single_numbers import added
from delira.utils.trees import map_leaves

_LOSS = "computed with TensorFlow on the predictions"


def outputs(network: Any, outputs: Any) -> Any:
    """Outputs in float32, also of a model of the user's, which nobody else makes float32."""
    return map_leaves(as_float32, outputs) if runtime_of(network).is_mixed else outputs


def learn(
    optimizer: TfOptimizer,
    step: Step,
    compute: Callable[[Step], Step],
    backward: Sequence[Callable[[Step], None]],
) -> None:
    """Compute a step, differentiate the sum of its losses and update."""
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


def measure(
    metrics: Mapping[str, Any],
    metric_keys: Mapping[str, Sequence[str]],
    predictions: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> dict[str, Any]:
    """Training metrics, each of this call alone."""
    return call_metrics(of_each_call(metrics), metric_keys, predictions, batch)


def of_each_call(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metrics that forget what they have seen: a value is of one call, not of all calls so far."""

    def forget_and_call(metric: Any, target: Any, prediction: Any) -> Any:
        metric.reset_state()
        return metric(target, prediction)

    return {
        name: functools.partial(forget_and_call, metric) if isinstance(metric, keras.metrics.Metric) else metric
        for name, metric in (metrics or {}).items()
    }


def _total(losses: Mapping[str, Any]) -> Any:
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


def as_float32(value: Any) -> Any:
    """A tensor of half precision in float32; other values as they are."""
    is_half = tf.is_tensor(value) and value.dtype in (tf.bfloat16, tf.float16)
    if not is_half:
        return value
    precise = tf.cast(value, tf.float32)
    if (mask := getattr(value, "_keras_mask", None)) is not None:  # which of its entries a loss of Keras counts
        precise._keras_mask = mask
    return precise
