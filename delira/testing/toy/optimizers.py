"""Gradient descent with momentum."""

from typing import Any

import numpy as np

from delira.contract.kinds import ByName
from delira.errors import ConfigError
from delira.utils.checks import check_numbers


class ToySGD:
    """Gradient descent with momentum on one array.

    Parameters
    ----------
    weight
        The array to change in place.
    lr
        Learning rate, per step.
    momentum
        Part of the last change that is kept.

    Raises
    ------
    ConfigError
        If the weight is no array of real numbers that can be changed, or a number is impossible.
    """

    def __init__(self, weight: np.ndarray, lr: float = 0.1, momentum: float = 0.0):
        if not isinstance(weight, np.ndarray) or weight.dtype.kind != "f":
            raise ConfigError(f"ToySGD: weight is an array of float32 or float64, got {weight!r:.200}")
        check_numbers(self, at_least=0, lr=lr, momentum=momentum)
        self.weight, self.lr, self.momentum = weight, lr, momentum
        self.velocity = np.zeros_like(weight)

    def apply(self, gradient: np.ndarray) -> None:
        """Change the weight by one step."""
        self.velocity[...] = self.momentum * self.velocity + gradient
        self.weight -= self.lr * self.velocity

    def state_dict(self) -> dict[str, Any]:
        """Learning rate and velocity."""
        return {"lr": self.lr, "velocity": self.velocity.copy()}

    def load_state_dict(self, state: ByName) -> None:
        """Continue from a state."""
        self.lr = float(state["lr"])
        self.velocity[...] = state["velocity"]
