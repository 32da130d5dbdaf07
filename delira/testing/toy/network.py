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
from delira.errors import DataError
from delira.models.abstract_network import AbstractNetwork
from delira.testing.toy.backend import BACKEND
from delira.utils.checks import check_numbers, check_whole


def mean_squared_error(prediction: np.ndarray, target: np.ndarray) -> float:
    """Mean of the squared differences; the only loss the toy backend can differentiate.

    Parameters
    ----------
    prediction, target
        Numbers of one shape.

    Raises
    ------
    DataError
        If one of them holds other things or nothing, or their shapes differ.
    """
    arrays = {"prediction": np.asarray(prediction), "target": np.asarray(target)}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not array.size:
            raise DataError(f"mean_squared_error: {name} is an array of numbers, got {array!r:.200}")
    if arrays["prediction"].shape != arrays["target"].shape:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise DataError(f"mean_squared_error: prediction and target have one shape, got {shapes}")
    difference = np.subtract(arrays["prediction"], arrays["target"], dtype=np.float64)
    return float(np.mean(difference**2))


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
        check_whole(self, at_least=1, n_features=n_features)
        check_numbers(self, at_least=0, at_most=1, dropout=dropout)
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
