"""Networks that are ``keras.Model``s."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from delira.backends.tensorflow.backend import BACKEND
from delira.backends.tensorflow.names import named_variables
from delira.backends.tensorflow.replicas import of_this_share
from delira.backends.tensorflow.runtime import calls, runtime_of
from delira.backends.tensorflow.state import finish_building
from delira.backends.tensorflow.steps import regularisation
from delira.contract import (
    NO_HOOKS,
    Step,
    StepHooks,
    call_losses,
    call_metrics,
    default_optimizer,
    named_outputs,
    room_default,
    run_hooks,
    select_inputs,
    validation_names,
)
from delira.errors import NetworkError
from delira.models.abstract_network import AbstractNetwork
from delira.utils.inputs import refuse_complex
from delira.utils.single_numbers import added
from delira.utils.trees import map_leaves

_LOSS = "computed with TensorFlow on the predictions"


class AbstractTfNetwork(AbstractNetwork, keras.Model):
    """A Keras model: write ``__init__`` and ``call``, which returns a dict of named outputs.

    The default :meth:`closure` feeds ``key_mapping`` to ``call``, calls every loss as ``loss(pred, label)``
    (``loss_keys`` says otherwise; a ``keras.losses.Loss`` gets the target first, as Keras has it), adds what layers
    add to the loss (regularisation) and updates with the optimizer ``"default"``. Whether layers learn or predict
    follows the trainer, with or without an argument ``training``.

    A step is compiled: its Python runs once for each kind of batch, with tensors that have no values, and an open
    number of samples (``tf.shape(x)[0]``). ``compiled=False`` runs it as it is, e.g. to debug.

    A network with several optimizers (a GAN) has a closure of its own and says in ``optim_fn`` what each trains::

        def optimizers(network, cls, **params):
            return {"gen": (cls(**params), network.gen), "discr": (cls(**params), network.discr)}

        @staticmethod
        def closure(model, data_dict, optimizers, losses=None, **kwargs):
            with tf.GradientTape() as tape:
                loss = …
            optimizers["discr"].minimize(loss, tape)
            …

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractTfNetwork):
    ...     def __init__(self, n_classes: int):
    ...         super().__init__(n_classes=n_classes)
    ...         self.dense = keras.layers.Dense(n_classes)
    ...
    ...     def call(self, x):
    ...         return {"pred": self.dense(x)}
    """

    __delira_backend__ = BACKEND

    def __init__(self, **kwargs: Any) -> None:
        keras.Model.__init__(self)
        AbstractNetwork.__init__(self, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Predict, in the mode of the scope around it."""
        runtime = runtime_of(self)
        if runtime.waiting is not None:  # the first call gives weights their shapes
            self.call_untouched(*args, **kwargs)
            finish_building(self)
        with calls(self, runtime.mode):
            outputs = self.call_untouched(*args, **kwargs)
        return map_leaves(_as_float32, outputs) if runtime.is_mixed else outputs

    @property
    def losses(self) -> list[Any]:
        """What the layers add to the loss; of several devices, on the one that computes."""
        return of_this_share(super().losses)

    def call_untouched(self, *args: Any, **kwargs: Any) -> Any:
        """Call as Keras does."""
        return keras.Model.__call__(self, *args, **kwargs)

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, without changing it.

        Parameters
        ----------
        batch
            Arrays or tensors by name.
        input_device
            Where ``"data"`` goes.
        output_device
            Where every other entry goes.

        Returns
        -------
        dict
            ``"data"`` as float32. Other entries keep integer and boolean types, and floating numbers become
            float32, since TensorFlow does not mix types. What is no array (e.g. a file name) passes as it is.
        """
        prepared = {}
        for key, value in batch.items():
            is_input = key == "data"
            with tf.device(input_device if is_input else output_device):
                if type(value) is np.ndarray:
                    prepared[key] = _to_tensor(value, is_input)
                else:  # nested entries, tensors, lists, texts
                    prepared[key] = map_leaves(functools.partial(_to_tensor, is_input=is_input), value)
        return prepared

    @staticmethod
    @room_default
    def closure(
        model: Any,
        data_dict: dict[str, Any],
        optimizers: Mapping[str, Any],
        losses: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Forward, losses, gradients, update.

        Without ``optimizers`` nothing is learned: no gradients, and the names of losses and metrics get
        the prefix ``val_``.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of tensors.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        step = Step(model, data_dict)
        optimizer = default_optimizer(optimizers) if optimizers else None
        with tf.GradientTape() as tape:
            run_hooks(hooks.sample, step)
            if (call := kwargs.get("call")) is not None:
                outputs = call(model, step.batch)  # a model of the user's: nobody else makes it float32
                step.predictions = map_leaves(_as_float32, outputs) if runtime_of(model).is_mixed else outputs
            else:
                mapping = kwargs.get("key_mapping") or BACKEND.key_mapping(model)
                step.predictions = named_outputs(model, model(**select_inputs(mapping, step.batch)))
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, kwargs.get("loss_keys") or {}, step.predictions, step.batch)
            step.losses |= regularisation(model)
            run_hooks(hooks.criterion, step)
            scaled = None if optimizer is None else optimizer.scale_loss(_total(step.losses))
        if optimizer is not None:
            _update(optimizer, scaled, tape, step, hooks)
        values = call_metrics(of_each_call(metrics), kwargs.get("metric_keys") or {}, step.predictions, step.batch)
        if optimizer is not None:
            return values, step.losses, dict(step.predictions)
        return validation_names(values), validation_names(step.losses), dict(step.predictions)


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


def _update(optimizer: Any, loss: Any, tape: tf.GradientTape, step: Step, hooks: StepHooks) -> None:
    variables = optimizer.trainable_variables
    gradients = tape.gradient(loss, [variable.value for variable in variables])
    if all(gradient is None for gradient in gradients):
        if getattr(optimizer.optimizer, "updates_nothing", False):
            return
        raise NetworkError(
            f"the loss ({', '.join(step.losses)}) depends on no weight that is learned, so there is no gradient; a "
            "loss is computed with TensorFlow on predictions that tf.stop_gradient has not touched"
        )
    if hooks.backward:
        names = {id(variable): name for name, variable in named_variables(step.network).items()}
        places = [names.get(id(variable), variable.path) for variable in variables]
        step.gradients = {name: one for name, one in zip(places, gradients, strict=True) if one is not None}
        run_hooks(hooks.backward, step)
        gradients = [step.gradients.get(name) for name in places]
    optimizer.apply(gradients, variables)


def _as_float32(value: Any) -> Any:
    is_half = tf.is_tensor(value) and value.dtype in (tf.bfloat16, tf.float16)
    if not is_half:
        return value
    precise = tf.cast(value, tf.float32)
    if (mask := getattr(value, "_keras_mask", None)) is not None:  # which of its entries a loss of Keras counts
        precise._keras_mask = mask
    return precise


def _to_tensor(value: Any, is_input: bool) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufc":
            return value
        refuse_complex(is_input and value.dtype.kind == "c")
        is_float = is_input or value.dtype.kind == "f"
        return tf.convert_to_tensor(value.astype(np.float32 if is_float else value.dtype.newbyteorder("="), copy=False))
    if not isinstance(value, tf.Tensor):
        array = np.asarray(value)
        return _to_tensor(array, is_input) if array.dtype.kind in "biufc" else value
    refuse_complex(is_input and value.dtype.is_complex)
    return tf.cast(value, tf.float32) if is_input or value.dtype.is_floating else value
