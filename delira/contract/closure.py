"""The default closure of every backend: forward, losses, gradients, update, metrics."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from delira.contract.step import (
    NO_HOOKS,
    Step,
    StepHooks,
    call_losses,
    default_optimizer,
    named_outputs,
    room_default,
    run_hooks,
    select_inputs,
    validation_names,
)

if TYPE_CHECKING:
    from delira.contract.backend import Backend

Closure = Callable[..., tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]


def default_closure(backend: "Backend") -> Closure:
    """The closure of a backend whose networks learn by losses and gradients.

    Parameters
    ----------
    backend
        Its verbs ``outputs``, ``added_losses``, ``learn``, ``predict``, ``values`` and ``measure`` say how.
    """

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
            ``(metrics, losses, predictions)``: dicts of arrays, cut off from the gradients.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS

        def compute(step: Step) -> Step:
            network = step.network
            if step.call is not None:
                outputs = step.call(network, step.batch)
            else:
                inputs = select_inputs(kwargs.get("key_mapping") or backend.key_mapping(model), step.batch)
                outputs = named_outputs(network, backend.call_apart(network, inputs, lambda own: network(**own)))
            step.predictions = backend.outputs(network, outputs)
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, kwargs.get("loss_keys") or {}, step.predictions, step.batch)
            step.losses.update(backend.added_losses(network))
            run_hooks(hooks.criterion, step)
            return step

        step = Step(model, data_dict, call=kwargs.get("call"))
        run_hooks(hooks.sample, step)
        if optimizers:
            backend.learn(default_optimizer(optimizers), step, compute, hooks.backward)
        else:
            backend.predict(step, compute)
        predictions, values = backend.values(step)
        found = backend.measure(metrics, kwargs.get("metric_keys") or {}, predictions, step.batch) if metrics else {}
        if optimizers:
            return found, values, predictions
        return validation_names(found), validation_names(values), predictions

    return closure
