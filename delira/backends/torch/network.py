"""Networks that are ``torch.nn.Module``s."""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from delira.backends.torch.backend import BACKEND
from delira.backends.torch.inputs import call_apart
from delira.contract import (
    NO_HOOKS,
    Step,
    StepHooks,
    call_losses,
    call_metrics,
    default_optimizer,
    mark,
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

_NOTHING = contextlib.nullcontext()
_LOSS = "computed with PyTorch on predictions that were not detached"


class AbstractPyTorchNetwork(AbstractNetwork, torch.nn.Module):
    """A PyTorch network: write ``__init__`` and ``forward``, which returns a dict of named outputs.

    The default :meth:`closure` feeds ``key_mapping`` to ``forward``, calls every loss as
    ``loss(pred, label)`` (``loss_keys`` says otherwise) and updates with the optimizer ``"default"``.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.

    Examples
    --------
    >>> class Net(AbstractPyTorchNetwork):
    ...     def __init__(self, n_features: int, n_classes: int):
    ...         super().__init__(n_features=n_features, n_classes=n_classes)
    ...         self.linear = torch.nn.Linear(n_features, n_classes)
    ...
    ...     def forward(self, x):
    ...         return {"pred": self.linear(x)}
    """

    __delira_backend__ = BACKEND

    def __init__(self, **kwargs: Any) -> None:
        torch.nn.Module.__init__(self)
        AbstractNetwork.__init__(self, **kwargs)

    __call__: Callable[..., Any] = torch.nn.Module.__call__

    @staticmethod
    @room_default
    def prepare_batch(
        batch: Mapping[str, Any], input_device: torch.device, output_device: torch.device
    ) -> dict[str, Any]:
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
            ``"data"`` as float32. Other entries keep integer and boolean types, and float64 becomes
            float32. What is no array (e.g. a file name) passes as it is.
        """
        input_device, output_device = torch.device(input_device), torch.device(output_device)
        prepared = {}
        for key, value in batch.items():
            is_input = key == "data"
            device = input_device if is_input else output_device
            if type(value) is np.ndarray:
                prepared[key] = _to_tensor(value, device, is_input)
            else:  # nested entries, tensors, lists, texts
                prepared[key] = map_leaves(functools.partial(_to_tensor, device=device, is_input=is_input), value)
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
            ``(metrics, losses, predictions)``: dicts of detached tensors.
        """
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS

        def compute(step: Step) -> Step:
            if (call := kwargs.get("call")) is not None:
                step.predictions = call(model, step.batch)
            else:
                mapping = kwargs.get("key_mapping") or getattr(model, "__delira_backend__", BACKEND).key_mapping(model)
                outputs = call_apart(model, select_inputs(mapping, step.batch), lambda own: model(**own))
                step.predictions = named_outputs(model, outputs)
            run_hooks(hooks.forward, step)
            step.losses = call_losses(losses or {}, kwargs.get("loss_keys") or {}, step.predictions, step.batch)
            run_hooks(hooks.criterion, step)
            mark("forward")
            return step

        with _grad_mode(bool(optimizers)):
            step = Step(model, data_dict)
            run_hooks(hooks.sample, step)
            compute(step)
        if optimizers:
            _update(default_optimizer(optimizers), step, hooks, compute)
        predictions = {name: _detached(value) for name, value in step.predictions.items()}
        metric_values = {}
        if metrics:
            with torch.no_grad():
                metric_values = call_metrics(metrics, kwargs.get("metric_keys") or {}, predictions, step.batch)
        loss_values = {name: _detached(value) for name, value in step.losses.items()}
        if optimizers:
            return metric_values, loss_values, predictions
        return validation_names(metric_values), validation_names(loss_values), predictions


def _update(optimizer: Any, step: Step, hooks: StepHooks, compute: Callable[[Step], Step]) -> None:
    if not optimizer.evaluates:
        _differentiate(optimizer, step, hooks)
        optimizer.step()
        mark("update")
        return
    known = [step]  # the first evaluation

    def evaluate() -> torch.Tensor:
        one = known.pop() if known else compute(Step(step.network, step.batch))
        return _differentiate(optimizer, one, hooks)

    optimizer.step(evaluate)
    mark("update")


def _differentiate(optimizer: Any, step: Step, hooks: StepHooks) -> torch.Tensor:
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
    if hooks.backward:
        _show_gradients(hooks, step)
    mark("backward")
    return total.detach()


def _show_gradients(hooks: StepHooks, step: Step) -> None:
    """Run the hooks of the gradients, and take over the entries that they have set."""
    weights = dict(step.network.named_parameters())
    step.gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    run_hooks(hooks.backward, step)
    for name, gradient in step.gradients.items():
        weights[name].grad = gradient


def _grad_mode(is_enabled: bool) -> contextlib.AbstractContextManager[Any]:
    """``torch.set_grad_enabled``, where it changes anything: it is entered at every step."""
    return _NOTHING if torch.is_grad_enabled() is is_enabled else torch.set_grad_enabled(is_enabled)


def _detached(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach()
    return map_leaves(_detached, tree) if isinstance(tree, (Mapping, list, tuple)) else tree


def _to_tensor(value: Any, device: torch.device, is_input: bool) -> Any:
    try:
        tensor = torch.from_numpy(_takeable(value)) if isinstance(value, np.ndarray) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return value
    if is_input:
        refuse_complex(tensor.is_complex())
    dtype = torch.float32 if is_input or tensor.dtype is torch.float64 else tensor.dtype
    if tensor.dtype is dtype and tensor.device == device:
        return tensor
    # the copy runs while the host goes on, if the memory is pinned
    return tensor.to(device, dtype, non_blocking=device.type == "cuda")


def _takeable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where torch does not take it: mirrored, of foreign byte order, read-only (a warning)."""
    flags, dtype = array.flags, array.dtype
    if dtype.kind not in "biufc" or (flags.c_contiguous and flags.writeable and dtype.isnative):
        return array
    if flags.writeable and dtype.isnative and min(array.strides, default=0) >= 0:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="))
