"""Networks that are modules of ``flax.nnx``."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from delira.backends.jax import graph
from delira.backends.jax.backend import BACKEND
from delira.backends.jax.device import put
from delira.backends.jax.generator import GENERATOR
from delira.backends.jax.graph import LEARNED
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
from delira.errors import DataError, NetworkError
from delira.models.abstract_network import AbstractNetwork
from delira.utils.inputs import refuse_complex
from delira.utils.single_numbers import refuse_losses
from delira.utils.trees import map_leaves


class _MadeByInit:
    """Stands where ``__init__`` puts the random streams; a layer that asks before would get a message of no help."""

    def __get__(self, network: Any, cls: type) -> Any:
        if network is None:
            return self
        raise NetworkError(f"{cls.__name__}.__init__ must call super().__init__() first")


class AbstractJaxNetwork(AbstractNetwork, nnx.Module):
    """A network of flax: write ``__init__`` and ``__call__``, which returns a dict of named outputs.

    After ``super().__init__`` there is ``self.rngs``, seeded by the experiment, for the layers: ``rngs=self.rngs``.
    At every step all random streams of the network (``nnx.Dropout``, ``self.rngs.noise()``) begin anew with a key
    made of the seed and the number of the step, so they are no part of its state.

    The default :meth:`closure` feeds ``key_mapping`` to ``__call__``, calls every loss as
    ``loss(pred, label)`` (``loss_keys`` says otherwise) and updates with the optimizer ``"default"``. Steps are
    compiled: a closure is Python that is traced. It may not keep values for later, or decide by them.

    A weight is frozen by its metadata: ``network.body.kernel.set_metadata(frozen=True)``.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractJaxNetwork):
    ...     def __init__(self, n_features: int, n_classes: int):
    ...         super().__init__(n_features=n_features, n_classes=n_classes)
    ...         self.linear = nnx.Linear(n_features, n_classes, rngs=self.rngs)
    ...
    ...     def __call__(self, x):
    ...         return {"pred": self.linear(x)}
    """

    __delira_backend__ = BACKEND

    rngs = _MadeByInit()

    def __init__(self, **kwargs: Any) -> None:
        AbstractNetwork.__init__(self, **_Arguments(kwargs))
        object.__setattr__(self, "init_kwargs", _Arguments(kwargs))
        self.rngs = nnx.Rngs(GENERATOR.next_key())

    @staticmethod
    @room_default
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make arrays of JAX of a batch, without changing it.

        Parameters
        ----------
        batch
            Arrays by name.
        input_device
            Where ``"data"`` goes: a ``jax.Device``, or the sharding of batches over several.
        output_device
            Where every other entry goes.

        Returns
        -------
        dict
            ``"data"`` as float32. Other entries keep integer and boolean types, of which JAX has those of 32 bit;
            float64 becomes float32. What is no array (e.g. a file name) passes as it is.

        Raises
        ------
        DataError
            If an integer does not fit into 32 bit.
        """
        prepared = {}
        for key, value in batch.items():
            place = _place(input_device if key == "data" else output_device)
            if type(value) is np.ndarray:
                prepared[key] = _to_array(value, key, place)
            else:  # nested entries, arrays of JAX, lists, texts
                prepared[key] = map_leaves(functools.partial(_to_array, key=key, place=place), value)
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
            ``(metrics, losses, predictions)``: dicts of arrays.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        step = Step(model, data_dict)
        run_hooks(hooks.sample, step)
        call = kwargs.get("call")
        mapping = {} if call is not None else kwargs.get("key_mapping") or BACKEND.key_mapping(model)

        def compute(network: Any) -> tuple[Any, tuple[Any, dict[str, Any]]]:
            step.network = network
            if call is not None:
                outputs = call(network, step.batch)
            else:
                outputs = named_outputs(network, network(**select_inputs(mapping, step.batch)))
            step.predictions = map_leaves(_precise, outputs)
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, kwargs.get("loss_keys") or {}, step.predictions, step.batch)
            run_hooks(hooks.criterion, step)
            total = _total(step.losses)
            if optimizers and call is None:  # a trial may go without a criterion
                _refuse_constant(total, network, step.losses)
            return total, (step.predictions, step.losses)

        if optimizers:
            optimizer = default_optimizer(optimizers)
            differentiate = nnx.value_and_grad(compute, argnums=nnx.DiffState(0, LEARNED), has_aux=True)
            (total, (step.predictions, step.losses)), gradients = differentiate(model)
            step.network = model
            if hooks.backward:
                gradients = _shown(gradients, hooks, step)
            optimizer.update(model, gradients, value=total)
        else:
            compute(model)
        values = call_metrics(metrics or {}, kwargs.get("metric_keys") or {}, step.predictions, step.batch)
        if optimizers:
            return values, dict(step.losses), step.predictions
        return validation_names(values), validation_names(step.losses), step.predictions


def _shown(gradients: nnx.State, hooks: StepHooks, step: Step) -> nnx.State:
    """Run the hooks of the gradients; returns them with the entries that were set."""
    flat = dict(nnx.to_flat_state(gradients))
    step.gradients = {graph.dotted(path): leaf.get_raw_value() for path, leaf in flat.items()}
    run_hooks(hooks.backward, step)
    changed = {path: leaf.replace(step.gradients[graph.dotted(path)]) for path, leaf in flat.items()}
    return nnx.from_flat_state(changed.items())


_LOSS = "one number, computed with jax.numpy on the predictions"


class _Arguments(dict[str, Any]):
    """Arguments of a network; flax compares and hashes what a module keeps besides arrays."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))

    def __eq__(self, other: object) -> bool:
        try:
            return bool(dict.__eq__(self, other))  # type: ignore[arg-type]
        except (TypeError, ValueError):  # arrays among them
            return self is other

    __ne__: Callable[..., bool] = object.__ne__


def _total(losses: Mapping[str, Any]) -> jax.Array:
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


def _refuse_constant(total: jax.Array, network: Any, losses: Mapping[str, Any]) -> None:
    """Refuse a sum that no learned weight has gone into: both have the type that differentiation gives them."""
    weight = next(iter(graph.learned_weights(network).values()), None)
    if weight is not None and type(total) is not type(weight):
        raise NetworkError(
            f"the loss ({', '.join(losses)}) depends on no weight that is learned, so there is no gradient; a loss is "
            "computed with jax.numpy on predictions that jax.lax.stop_gradient has not touched"
        )


def _precise(value: Any) -> Any:
    """Losses are computed in float32."""
    half = isinstance(value, jax.Array) and value.dtype in (jnp.bfloat16, jnp.float16)
    return value.astype(jnp.float32) if half else value


def _place(device: Any) -> Any:
    """The device; by its name too."""
    return BACKEND.devices((), device).input if isinstance(device, str) else device


def _to_array(value: Any, key: str, place: Any) -> Any:
    if isinstance(value, jax.Array):
        refuse_complex(key == "data" and value.dtype.kind == "c")
        wanted = jnp.float32 if key == "data" and value.dtype != jnp.float32 else value.dtype
        return put(value.astype(wanted), place)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" or isinstance(value, (str, bytes)):
        return put(value, place) if array.dtype.name == "bfloat16" else value
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and key != "data":
        limits = np.iinfo(np.int32 if array.dtype.kind == "i" else np.uint32)
        if array.size and (array.max() > limits.max or array.min() < limits.min):
            raise DataError(
                f"batch entry {key!r} holds integers that do not fit into 32 bit, and JAX has no others (unless "
                "jax_enable_x64 is set); make them smaller, or floating-point numbers"
            )
    refuse_complex(key == "data" and array.dtype.kind == "c")
    dtype = np.float32 if key == "data" else _narrow(array.dtype)
    # a copy: the device may read it while the host already fills the memory of the next batch
    return put(np.array(array, dtype=dtype), place)


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float32 if dtype == np.float64 else dtype.newbyteorder("=")))
