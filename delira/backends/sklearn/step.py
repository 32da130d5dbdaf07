"""Steps of estimators."""

from delira.contract import StepRole
from delira.contract.kinds import Network


class SklearnStep(StepRole):
    """Estimators learn by a closure of their own."""

    def shuffles(self, network: Network) -> bool:
        return bool(network.is_incremental)
