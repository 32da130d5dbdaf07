"""The default closure of every backend: forward, losses, gradients, update, metrics."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from delira.contract.calls import CallsRole
from delira.contract.kinds import ByName, Network
from delira.contract.step import (
    NO_HOOKS,
    Step,
    StepHooks,
    backend_default,
    call_losses,
    default_optimizer,
    named_outputs,
    run_hooks,
    select_inputs,
    validation_names,
)

if TYPE_CHECKING:
    from delira.contract.backend import Backend

Results = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def default_closure(backend: "Backend") -> Callable[..., Results]:
    """The closure of a backend whose networks learn by losses and gradients.

    Parameters
    ----------
    backend
        Its roles ``calls`` and ``step`` say how: by ``outputs``, ``learn``, ``predict``, ``values`` and ``measure``.
    """
    calls, how = backend.calls, backend.step

    @backend_default
    def closure(
        model: Network,
        data_dict: dict[str, Any],
        optimizers: ByName,
        losses: ByName | None = None,
        metrics: ByName | None = None,
        fold: int = 0,
        **kwargs: Any,
    ) -> Results:
        """Forward, losses, gradients, update.

        Without ``optimizers`` nothing is learned: no gradients, and the names of losses and metrics get
        the prefix ``val_``.

        Returns
        -------
        tuple
            ``(metrics, losses, predictions)``: dicts of arrays, cut off from the gradients.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        loss_keys, metric_keys = kwargs.get("loss_keys") or {}, kwargs.get("metric_keys") or {}

        def compute(step: Step) -> Step:
            outputs = _called(calls, step, kwargs.get("key_mapping"))
            step.predictions = how.outputs(step.network, outputs)
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, loss_keys, step.predictions, step.batch)
            step.losses |= calls.added_losses(step.network)
            run_hooks(hooks.criterion, step)
            return step

        step = Step(model, data_dict, call=kwargs.get("call"))
        run_hooks(hooks.sample, step)
        if not optimizers:
            how.predict(step, compute)
        else:
            how.learn(default_optimizer(optimizers), step, compute, hooks.backward)
        predictions, values = how.values(step)
        found = how.measure(metrics, metric_keys, predictions, step.batch) if metrics else {}
        if optimizers:
            return found, values, predictions
        return validation_names(found), validation_names(values), predictions

    return closure


def _called(calls: CallsRole, step: Step, key_mapping: Mapping[str, str] | None) -> ByName:
    """What the network of a step returns for its batch."""
    if step.call is not None:
        return step.call(step.network, step.batch)  # type: ignore[no-any-return]
    network = step.network
    inputs = select_inputs(key_mapping or calls.key_mapping(network), step.batch)
    return named_outputs(network, calls.call_apart(network, inputs, lambda own: network(**own)))
