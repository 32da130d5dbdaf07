"""What fits estimators that learn all at once."""

from typing import Any

from delira.backends.sklearn.fitting import WholeFit
from delira.contract import OptimizersRole, UpdateConfig
from delira.contract.kinds import Builder, ByName, Network
from delira.errors import ConfigError


class SklearnOptimizers(OptimizersRole):
    """Estimators bring their own."""

    def build(
        self, network: Network, builder: Builder, optimizer_cls: Any, optimizer_params: ByName, update: UpdateConfig
    ) -> dict[str, Any]:
        """None; where the estimator is fitted once, what fits it."""
        if builder is not None or optimizer_cls is not None or optimizer_params or update != UpdateConfig():
            raise ConfigError("scikit-learn estimators bring their own optimizer; leave optimizers and updates out")
        if network.is_incremental:
            return {}
        network.forget()  # as fit does
        return {"default": WholeFit(network)}

    def finish_epoch(self, optimizers: ByName) -> None:
        for fit in optimizers.values():
            fit.flush()
