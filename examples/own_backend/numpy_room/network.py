"""Networks of the room: what they make of a batch, and how they learn from it."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy_autograd import Module, Tensor, recording

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
)
from delira.errors import NetworkError
from delira.models import AbstractNetwork
from delira.utils.trees import map_leaves
from numpy_room.backend import BACKEND


class AbstractNumpyNetwork(AbstractNetwork, Module):
    """A network: write ``__init__`` and ``forward``, which returns a dict of named outputs.

    Parameters
    ----------
    **kwargs
        The arguments of the network, kept in ``init_kwargs``.
    """

    __delira_backend__ = BACKEND

    __call__ = Module.__call__

    @staticmethod
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Make tensors of a batch, which are copies; what is no number (e.g. a file name) passes as it is.

        Parameters
        ----------
        batch
            Arrays by name; they may be nested.
        input_device, output_device
            There is only one.

        Returns
        -------
        dict
            ``"data"`` and all floating numbers as float64; other entries keep integer and boolean types.
        """
        return {
            key: map_leaves(functools.partial(_to_tensor, is_input=key == "data"), value)
            for key, value in batch.items()
        }

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
        """Forward, losses, gradients, update; returns ``(metrics, losses, predictions)``, all without history."""
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        step = Step(model, data_dict)
        run_hooks(hooks.sample, step)
        mapping = kwargs.get("key_mapping") or BACKEND.key_mapping(model)
        step.predictions = named_outputs(model, model(**select_inputs(mapping, step.batch)))
        run_hooks(hooks.forward, step)
        step.losses = call_losses(losses or {}, kwargs.get("loss_keys") or {}, step.predictions, step.batch)
        run_hooks(hooks.criterion, step)

        optimizer = default_optimizer(optimizers)
        optimizer.differentiate(_total(step.losses))
        run_hooks(hooks.backward, step)
        optimizer.step()

        predictions = map_leaves(_detached, step.predictions)
        with recording(False):
            values = call_metrics(metrics or {}, kwargs.get("metric_keys") or {}, predictions, step.batch)
        return values, {name: _detached(loss) for name, loss in step.losses.items()}, predictions


def _to_tensor(value: Any, is_input: bool) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:  # e.g. a list of lists of several lengths
        return value
    if array.dtype.kind not in "biuf":
        return value
    return Tensor(np.array(array, dtype=np.float64 if is_input or array.dtype.kind == "f" else array.dtype))


def _total(losses: Mapping[str, Any]) -> Tensor:
    first, *others = losses.values()
    total = sum(others, first)
    if not isinstance(total, Tensor) or not total.requires_grad:
        raise NetworkError(
            f"the loss ({', '.join(losses)}) has no gradient: it is computed with tensors, out of predictions that "
            "were not detached, of a network that has weights to learn"
        )
    return total


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
