"""From losses to gradients and the update, in the default closure."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from delira.contract import Step, call_metrics, mark, run_hooks
from delira.errors import NetworkError
from delira.utils.single_numbers import added
from delira.utils.trees import map_leaves

_NOTHING = contextlib.nullcontext()
_LOSS = "computed with PyTorch on predictions that were not detached"

Compute = Callable[[Step], Step]
Hooks = Sequence[Callable[[Step], None]]


def learn(optimizer: Any, step: Step, compute: Compute, backward: Hooks) -> None:
    """Compute a step and update; an optimizer that evaluates the loss itself (LBFGS) computes it again."""
    with _grad_mode(True):
        compute(step)
    mark("forward")
    if not optimizer.evaluates:
        _differentiate(optimizer, step, backward)
        optimizer.step()
        mark("update")
        return
    known = [step]  # the first evaluation

    def evaluate() -> torch.Tensor:
        if known:
            return _differentiate(optimizer, known.pop(), backward)
        again = compute(Step(step.network, step.batch, call=step.call))
        mark("forward")
        return _differentiate(optimizer, again, backward)

    optimizer.step(evaluate)
    mark("update")


def predict(step: Step, compute: Compute) -> None:
    """Compute a step without gradients."""
    with _grad_mode(False):
        compute(step)


def values(step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predictions and losses of a step, detached."""
    predictions = {name: _detached(value) for name, value in step.predictions.items()}
    return predictions, {name: _detached(value) for name, value in step.losses.items()}


def measure(
    metrics: Mapping[str, Any],
    metric_keys: Mapping[str, Sequence[str]],
    predictions: Mapping[str, Any],
    batch: Mapping[str, Any],
) -> dict[str, Any]:
    """Training metrics, without gradients of weights that they may have."""
    with torch.no_grad():
        return call_metrics(metrics, metric_keys, predictions, batch)


def _differentiate(optimizer: Any, step: Step, backward: Hooks) -> torch.Tensor:
    """Leave the gradients on the weights; returns the loss."""
    total = added(step.losses, (torch.Tensor,), _LOSS)
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        what = "depends on no parameter" if isinstance(total, torch.Tensor) else f"is a {type(total).__name__}"
        raise NetworkError(f"the loss ({', '.join(step.losses)}) {what}, so there is no gradient; a loss is {_LOSS}")
    if total.is_complex() and not step.backward_arguments:
        raise NetworkError(f"the loss ({', '.join(step.losses)}) is complex; a loss is a single real number")
    if total.numel() != 1 and not step.backward_arguments:
        raise NetworkError(
            f"the loss ({', '.join(step.losses)}) has the shape {tuple(total.shape)}; a loss is a single number (e.g. "
            "use reduction='mean')"
        )
    optimizer.zero_grad()
    with optimizer.scale_loss(total) as scaled:
        scaled.backward(**step.backward_arguments)
    if backward:
        _show_gradients(backward, step)
    mark("backward")
    return total.detach()


def _show_gradients(backward: Hooks, step: Step) -> None:
    """Run the hooks of the gradients, and take over the entries that they have set."""
    weights = dict(step.network.named_parameters())
    step.gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    run_hooks(backward, step)
    for name, gradient in step.gradients.items():
        weights[name].grad = gradient


def _grad_mode(is_enabled: bool) -> contextlib.AbstractContextManager[Any]:
    """``torch.set_grad_enabled``, where it changes anything: it is entered at every step."""
    return _NOTHING if torch.is_grad_enabled() is is_enabled else torch.set_grad_enabled(is_enabled)


def _detached(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach()
    return map_leaves(_detached, tree) if isinstance(tree, (Mapping, list, tuple)) else tree
