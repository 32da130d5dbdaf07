"""Steps of estimators."""

from typing import Any

from delira.contract import StepRole


class SklearnStep(StepRole):
    """Estimators learn by a closure of their own."""

    def shuffles(self, network: Any) -> bool:
        return bool(network.is_incremental)
