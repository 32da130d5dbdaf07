"""Optimizers, and one schedule."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from numpy_autograd.layers import Parameter
from numpy_autograd.operations import QUIET


class Optimizer:
    """Changes parameters by their gradients; parameters without one stay.

    Parameters
    ----------
    parameters
        What is changed, in place.
    lr
        Learning rate, per step.
    """

    def __init__(self, parameters: Iterable[Parameter], lr: float):
        self.parameters, self.lr = list(parameters), lr
        self.notes: list[dict[str, np.ndarray]] = [{} for _ in self.parameters]  # what is kept of each parameter

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @QUIET
    def step(self) -> None:
        """Change every parameter that has a gradient and is not frozen."""
        for parameter, notes in zip(self.parameters, self.notes, strict=True):
            if parameter.grad is not None and parameter.requires_grad:
                parameter.data -= self.lr * self._direction(parameter.grad, notes)

    def _direction(self, gradient: np.ndarray, notes: dict[str, np.ndarray]) -> np.ndarray:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Learning rate and notes."""
        return {"kind": type(self).__name__, "lr": self.lr, "notes": [dict(notes) for notes in self.notes]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; ValueError if it is none of this optimizer."""
        if state["kind"] != type(self).__name__ or len(state["notes"]) != len(self.parameters):
            raise ValueError(
                f"it is the state of {state['kind']} with {len(state['notes'])} parameters, not of "
                f"{type(self).__name__} with {len(self.parameters)}"
            )
        for number, (notes, parameter) in enumerate(zip(state["notes"], self.parameters, strict=True)):
            if wrong := [array.shape for array in notes.values() if array.shape not in (parameter.shape, ())]:
                raise ValueError(f"parameter {number} has shape {parameter.shape}, its state {wrong[0]}")
        self.lr = float(state["lr"])
        self.notes = [{name: np.array(array) for name, array in notes.items()} for notes in state["notes"]]


class SGD(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, parameters: Iterable[Parameter], lr: float = 0.1, momentum: float = 0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum

    def _direction(self, gradient: np.ndarray, notes: dict[str, np.ndarray]) -> np.ndarray:
        if self.momentum == 0:
            return gradient
        notes["velocity"] = self.momentum * notes.get("velocity", 0.0) + gradient
        return notes["velocity"]


class Adam(Optimizer):
    """Steps of about the length ``lr`` in every parameter (Kingma and Ba, 2015)."""

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(parameters, lr)
        self.betas, self.eps = betas, eps

    def _direction(self, gradient: np.ndarray, notes: dict[str, np.ndarray]) -> np.ndarray:
        keep, keep_square = self.betas
        notes["count"] = np.asarray(notes.get("count", 0) + 1)
        notes["mean"] = keep * notes.get("mean", 0.0) + (1 - keep) * gradient
        notes["square"] = keep_square * notes.get("square", 0.0) + (1 - keep_square) * gradient**2
        mean = notes["mean"] / (1 - keep ** notes["count"])
        square = notes["square"] / (1 - keep_square ** notes["count"])
        return mean / (np.sqrt(square) + self.eps)


class StepDecay:
    """Multiply the learning rate by ``factor`` after every ``every`` epochs."""

    def __init__(self, optimizer: Any, every: int = 1, factor: float = 0.1):
        self.optimizer, self.every, self.factor = optimizer, every, factor
        self.epochs = 0

    def step(self) -> None:
        """An epoch ended."""
        self.epochs += 1
        if self.epochs % self.every == 0:
            self.optimizer.lr *= self.factor
