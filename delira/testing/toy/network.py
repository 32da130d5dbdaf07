"""A linear network in numpy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from delira.contract import (
    DEFAULT_LOSS_KEYS,
    NO_HOOKS,
    Step,
    StepHooks,
    call_losses,
    call_metrics,
    mark,
    named_outputs,
    room_default,
    run_hooks,
    select_inputs,
)
from delira.models.abstract_network import AbstractNetwork
from delira.testing.toy.backend import BACKEND


def mean_squared_error(prediction: np.ndarray, target: np.ndarray) -> float:
    """Mean of the squared differences; the only loss the toy room can differentiate."""
    return float(np.mean((prediction - target) ** 2))


class ToyNetwork(AbstractNetwork):
    """``pred = x @ weight``.

    Parameters
    ----------
    n_features
        Length of a sample.
    dropout
        Probability with which an input is left out in training.
    """

    __delira_backend__ = BACKEND

    def __init__(self, n_features: int = 3, dropout: float = 0.0):
        super().__init__(n_features=n_features, dropout=dropout)
        self.weight = BACKEND.generator.normal(scale=0.1, size=(n_features, 1))
        self.dropout = dropout
        self.is_training = False

    def __call__(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Predict: ``x`` of shape (B, n_features) gives ``pred`` of shape (B, 1)."""
        return {"pred": x @ self.weight}

    @staticmethod
    def prepare_batch(batch: Mapping[str, Any], input_device: Any, output_device: Any) -> dict[str, Any]:
        """Numbers become float64; what is none (e.g. a name) passes as it is."""
        arrays = {key: np.asarray(value) for key, value in batch.items()}
        return {key: value.astype(np.float64) if value.dtype.kind in "biuf" else value for key, value in arrays.items()}

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
        """Forward, loss, gradient by hand, update."""
        hooks: StepHooks = kwargs.get("hooks") or NO_HOOKS
        step = Step(model, data_dict)
        run_hooks(hooks.sample, step)
        inputs = select_inputs(kwargs.get("key_mapping") or BACKEND.key_mapping(model), step.batch)["x"]
        if model.dropout and model.is_training:
            inputs = inputs * (BACKEND.generator.random(inputs.shape) >= model.dropout)
        step.predictions = named_outputs(model, BACKEND.call_apart(model, inputs, model))
        run_hooks(hooks.forward, step)
        loss_keys = kwargs.get("loss_keys") or {}
        step.losses = call_losses(losses or {}, loss_keys, step.predictions, step.batch)
        run_hooks(hooks.criterion, step)
        mark("forward")
        _, target = loss_keys.get(next(iter(losses or {}), ""), DEFAULT_LOSS_KEYS)
        error = step.predictions["pred"] - step.batch[target]
        with np.errstate(invalid="ignore", over="ignore"):  # a loss that is not finite is the trainer's business
            gradient = 2 * inputs.T @ error / error.size
        run_hooks(hooks.backward, step)
        mark("backward")
        optimizers["default"].apply(gradient)
        mark("update")
        values = call_metrics(metrics or {}, kwargs.get("metric_keys") or {}, step.predictions, step.batch)
        return values, step.losses, step.predictions
