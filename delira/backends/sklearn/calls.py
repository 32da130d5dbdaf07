"""How estimators are called: they have no modes."""

import contextlib

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from delira.contract import CallsRole
from delira.contract.kinds import Network


class SklearnCalls(CallsRole):
    """Estimators take ``x``."""

    def training(self, network: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def evaluating(self, network: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def key_mapping(self, network: object) -> dict[str, str]:
        return {"x": "data"}

    def arguments_of(self, network: object) -> frozenset[str]:
        return frozenset(["x"])

    def is_ready(self, network: Network) -> bool:
        try:
            check_is_fitted(network.estimator)
        except NotFittedError:
            return False
        return True
