"""From losses to gradients and the update, and what a step is bound to."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import torch

from delira.backends.torch.compiling import bind_step, explain
from delira.backends.torch.feed import feed
from delira.contract import Step, StepRole, mark, run_hooks
from delira.contract.kinds import ByName, Network, Optimizer
from delira.contract.step import Compute, Hooks
from delira.errors import NetworkError
from delira.utils.seeding import CUBLAS_SETTING
from delira.utils.single_numbers import added
from delira.utils.trees import map_leaves

_NOTHING = contextlib.nullcontext()

_LOSS = "computed with PyTorch on predictions that were not detached"

_NO_IMPLEMENTATION = re.compile(r"(?P<name>.+?) does not have a deterministic implementation")


class TorchStep(StepRole):
    """Steps are Python; gradients are on the weights."""

    feed = staticmethod(feed)
    bind = staticmethod(bind_step)

    def learn(self, optimizer: Optimizer, step: Step, compute: Compute, backward: Hooks) -> None:
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

    def predict(self, step: Step, compute: Compute) -> None:
        with _grad_mode(False):
            compute(step)

    def values(self, step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
        return _detached(step.predictions), _detached(step.losses)

    def measure(self, metrics: ByName, metric_keys: ByName, predictions: ByName, batch: ByName) -> dict[str, Any]:
        with torch.no_grad():
            return super().measure(metrics, metric_keys, predictions, batch)

    def explain(self, error: BaseException) -> str | None:
        text = str(error)
        if (found := _NO_IMPLEMENTATION.search(text)) is not None:
            return (
                f"PyTorch has no deterministic {found['name']} on this device: replace it in the network, the losses "
                "or the closure, or train with deterministic=False"
            )
        if CUBLAS_SETTING in text:
            return (
                f"set {CUBLAS_SETTING}=:4096:8 in the environment before Python starts, or call delira.seed_all(seed, "
                "deterministic=True) before anything is computed on the GPU, or train with deterministic=False"
            )
        return explain(error)

    def is_mistake(self, warning: str) -> bool:
        # MSELoss and its like broadcast (n, 1) against (n,) to (n, n) and learn nonsense
        return "different to the input size" in warning

    def zero_loss(self, devices: Any) -> torch.Tensor:
        return torch.zeros((), device=devices.output, requires_grad=True)

    def differentiate(self, network: Network, optimizer: Optimizer, compute: Any) -> tuple[Any, Any, dict[str, Any]]:
        loss, more = compute(network)
        weights = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        with optimizer.scale_loss(loss) as scaled:
            found = torch.autograd.grad(scaled, list(weights.values()), allow_unused=True)
        gradients = {name: one for name, one in zip(weights, found, strict=True) if one is not None}
        return loss.detach(), more, gradients

    def leave_gradients(self, network: torch.nn.Module, optimizer: object, gradients: ByName) -> None:
        for name, weight in network.named_parameters():
            weight.grad = gradients.get(name)

    def update_after(self, optimizers: ByName) -> None:
        for optimizer in optimizers.values():
            optimizer.step()


def _differentiate(optimizer: Optimizer, step: Step, backward: Hooks) -> torch.Tensor:
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
        weights = dict(step.network.named_parameters())
        step.gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
        run_hooks(backward, step)
        for name, gradient in step.gradients.items():
            weights[name].grad = gradient
    mark("backward")
    return total.detach()


def _grad_mode(is_enabled: bool) -> contextlib.AbstractContextManager[Any]:
    """``torch.set_grad_enabled``, where it changes anything: it is entered at every step."""
    return _NOTHING if torch.is_grad_enabled() is is_enabled else torch.set_grad_enabled(is_enabled)


def _detached(tree: object) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach()
    return map_leaves(_detached, tree) if isinstance(tree, (Mapping, list, tuple)) else tree
