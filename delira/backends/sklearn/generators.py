"""Numpy's global generator."""

from typing import Any

import numpy as np

from delira.contract import GeneratorsRole
from delira.contract.kinds import ByName, Network


class SklearnGenerators(GeneratorsRole):
    """Numpy's, which estimators draw from that have no ``random_state``."""

    def seed(self, seed: int) -> None:
        np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002

    def state(self) -> dict[str, Any]:
        _, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
        return {"keys": keys, "rest": [int(position), int(has_gauss), float(cached)]}

    def set_state(self, state: ByName) -> None:
        position, has_gauss, cached = state["rest"]
        np.random.set_state(("MT19937", state["keys"], position, has_gauss, cached))  # noqa: NPY002

    def not_resumable(self, network: Network) -> str | None:
        if network.is_incremental or self.backend.calls.is_ready(network):
            return None
        return f"{type(network.estimator).__name__}, which is fitted at the end of the epoch,"
