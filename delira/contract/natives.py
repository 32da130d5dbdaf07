"""The role of a backend that takes what users of its framework have in the framework's own words."""

from typing import Any

from delira.contract.kinds import Criterion, Network, Optimizer, Role


class NativesRole(Role):
    """Optimizers, criteria, metrics and callbacks as the framework itself takes them: texts, functions, objects of its
    own. In the plain case they are taken as they are.
    """

    role = "natives"

    def optimizer(self, given: Optimizer, network: Network) -> Any:
        """An optimizer of a network as the role ``optimizers`` takes it, e.g. of ``"adam"``."""
        return given

    def criterion(self, given: Criterion) -> Any:
        """A criterion: one number of predictions and targets."""
        return given

    def metric(self, given: Any) -> Any:
        """A metric of a trial's list."""
        return given

    def callback(self, given: Any) -> Any:
        """A callback that hears the events of a fit."""
        return given
