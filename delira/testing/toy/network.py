"""A linear network in numpy."""

from typing import Any

import numpy as np

from delira.contract import ByName, default_closure
from delira.errors import DataError, check_numbers, check_whole
from delira.models.abstract_network import AbstractNetwork
from delira.testing.toy.backend import BACKEND


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
    error = SquaredError(np.mean(difference**2))
    error.difference = difference
    return error


class SquaredError(float):
    """A mean squared error that knows what it is made of: prediction minus target."""

    difference: np.ndarray


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
    def prepare_batch(batch: ByName, input_device: Any, output_device: Any) -> dict[str, Any]:
        """Numbers become float64; what is none (e.g. a name) passes as it is."""
        arrays = {key: np.asarray(value) for key, value in batch.items()}
        return {key: value.astype(np.float64) if value.dtype.kind in "biuf" else value for key, value in arrays.items()}

    closure = staticmethod(default_closure(BACKEND))
