"""The backend of scikit-learn, with the roles that need a few lines only."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_info, threadpool_limits

from delira.backends.sklearn.checkpoints import SklearnCheckpoints
from delira.backends.sklearn.optimizers import SklearnOptimizers
from delira.backends.sklearn.weights import SklearnWeights
from delira.contract import ArraysRole, Backend, CallsRole, DevicesRole, ExportRole, GeneratorsRole, StepRole
from delira.contract.kinds import ByName, Network, Scope
from delira.errors import ConfigError, NetworkError
from delira.io import estimators
from delira.utils.files import as_target, publish


class SklearnArrays(ArraysRole):
    """Numpy's."""

    number = "a training metric"


class SklearnCalls(CallsRole):
    """Estimators take ``x``, and have no modes."""

    def training(self, network: object) -> Scope:
        return contextlib.nullcontext()

    def evaluating(self, network: object) -> Scope:
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


class SklearnDevices(DevicesRole):
    """The CPU, and the threads of the libraries that compute on it."""

    @contextlib.contextmanager
    def threads(self, number: int | None) -> Iterator[None]:
        with threadpool_limits(number):
            yield

    def thread_count(self) -> int | None:
        return max((pool["num_threads"] for pool in threadpool_info()), default=None)


class SklearnExport(ExportRole):
    """Files of skops."""

    def write(self, network: Network, path: Path, example: ByName) -> None:
        """Write the estimator alone as ``.skops``, for ``skops.io.load``."""
        if path.suffix != ".skops":
            raise ConfigError(f"{path}: estimators are exported as .skops, or their weights as .safetensors")
        if not self.backend.calls.is_ready(network):
            raise NetworkError(f"{type(network.estimator).__name__} is not fitted, so it cannot be exported")
        as_target(path)
        content, _ = estimators.dump(network.estimator)
        publish(path, lambda file: file.write(content.tobytes()))


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


class SklearnStep(StepRole):
    """Estimators learn by a closure of their own."""

    def shuffles(self, network: Network) -> bool:
        return bool(network.is_incremental)


class SklearnBackend(Backend):
    """Estimators on the CPU. They draw from their own ``random_state``, or from numpy's global generator."""

    name = "sklearn"
    title = "scikit-learn"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.SklearnEstimator"
    packages = ("sklearn",)
    is_differentiable = False
    roles = (
        SklearnArrays,
        SklearnCalls,
        SklearnCheckpoints,
        SklearnDevices,
        SklearnExport,
        SklearnGenerators,
        SklearnOptimizers,
        SklearnStep,
        SklearnWeights,
    )


BACKEND = SklearnBackend()
