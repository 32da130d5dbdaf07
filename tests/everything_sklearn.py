"""Scikit-learn for ``everything``: an estimator with weights, moments and a generator of its own."""

from typing import Any, ClassVar

from sklearn.neural_network import MLPRegressor
from small_backends import Kit

from delira.models import SklearnEstimator
from delira.training import SklearnExperiment, SklearnNetworkTrainer


class Halves(SklearnEstimator):
    """It learns by Adam, and shuffles each batch."""

    def __init__(self, dropout: float = 0.0):
        super().__init__(MLPRegressor(hidden_layer_sizes=(5,)))


class SklearnKit:
    """As much of a backend as a training needs."""

    name = "sklearn"
    trainer_cls, experiment_cls = SklearnNetworkTrainer, SklearnExperiment
    backend = SklearnNetworkTrainer.backend
    settings: ClassVar[dict[str, Any]] = {"logging_type": None, "verbose": False}
    same = Kit.same


KIT = SklearnKit()
ADAM: dict[str, Any] = {}
