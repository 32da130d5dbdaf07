"""The scikit-learn backend for the specification: a linear model that learns in batches, without gradients of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import skops.io
from sklearn.linear_model import SGDRegressor

from delira.models import SklearnEstimator
from delira.testing.spec import BackendUnderTest
from delira.training import SklearnExperiment, SklearnNetworkTrainer


class Linear(SklearnEstimator):
    def __init__(self, n_features: int = 3, n_outputs: int = 1, dropout: float = 0.0):
        super().__init__(SGDRegressor(learning_rate="constant", eta0=0.05, alpha=0.0))


class SklearnUnderTest(BackendUnderTest):
    name = "sklearn"
    trainer_cls, experiment_cls = SklearnNetworkTrainer, SklearnExperiment
    lacks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("gradients", "own_closure", "gan"), "estimators bring their own loss and optimizer"),
        **dict.fromkeys(("absolute", "cross_entropy", "adam", "schedules"), "estimators have their own as parameters"),
        **dict.fromkeys(("accumulation", "clipping", "skip_nonfinite", "rollback", "micro_batches"), "no gradients"),
        "mixed_precision": "estimators compute with numpy",
        **dict.fromkeys(("average", "freezing"), "estimators own their weights"),
        **dict.fromkeys(("several_outputs", "dropout", "mlp", "two", "nested"), "not of this estimator"),
        "compiled": "there is no step to compile",
    }
    exports = (".skops",)
    Linear = Linear

    def settings(self) -> dict[str, Any]:
        return {}

    def halving(self) -> dict[str, Any]:
        return {}

    def is_learning(self, network: Any) -> bool:
        return False

    def draw(self) -> float:
        return float(np.random.random())

    def run_exported(self, path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"pred": skops.io.load(path).predict(inputs["x"]).reshape(-1, 1)}


BACKEND = SklearnUnderTest()
