"""The role of a backend that draws random numbers."""

import abc
from typing import Any

import numpy as np

from delira.contract.kinds import Network, Role


class GeneratorsRole(Role):
    """The random generators of the framework."""

    role = "generators"

    @abc.abstractmethod
    def seed(self, seed: int) -> None:
        """Seed every random generator of the framework; ``0 <= seed < 2**63``."""

    @abc.abstractmethod
    def state(self) -> Any:
        """State of all generators of the framework, as a checkpoint tree."""

    @abc.abstractmethod
    def set_state(self, state: Any) -> None:
        """Give the generators a state read by :meth:`state`."""

    def draw_seed(self) -> int:
        """One number below ``2**31`` from the global generator of the framework, which goes on by one draw.

        Numpy's, for frameworks that have none: that is what their users seed.
        """
        return int(np.random.randint(2**31))  # noqa: NPY002 - the global one is meant

    def not_resumable(self, network: Network) -> str | None:
        """Return why the generators of a network rule out continuing inside an epoch; None if they do not."""
        return None
