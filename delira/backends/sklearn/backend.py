"""The backend of scikit-learn."""

from typing import ClassVar

from delira.backends.sklearn.arrays import SklearnArrays
from delira.backends.sklearn.calls import SklearnCalls
from delira.backends.sklearn.checkpoints import SklearnCheckpoints
from delira.backends.sklearn.devices import SklearnDevices
from delira.backends.sklearn.export import SklearnExport
from delira.backends.sklearn.generators import SklearnGenerators
from delira.backends.sklearn.optimizers import SklearnOptimizers
from delira.backends.sklearn.step import SklearnStep
from delira.backends.sklearn.weights import SklearnWeights
from delira.contract import Backend, Role


class SklearnBackend(Backend):
    """Estimators on the CPU. They draw from their own ``random_state``, or from numpy's global generator."""

    name = "sklearn"
    title = "scikit-learn"
    checkpoint_suffix = ".zip"
    network_class = "delira.models.SklearnEstimator"
    packages = ("sklearn",)
    is_differentiable = False
    roles: ClassVar[tuple[type[Role], ...]] = (
        SklearnDevices,
        SklearnCalls,
        SklearnStep,
        SklearnOptimizers,
        SklearnArrays,
        SklearnGenerators,
        SklearnWeights,
        SklearnCheckpoints,
        SklearnExport,
    )


BACKEND = SklearnBackend()
