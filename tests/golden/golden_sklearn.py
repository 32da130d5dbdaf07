"""The training of the golden checkpoints of scikit-learn."""

from pathlib import Path
from typing import Any

from sklearn.linear_model import SGDRegressor

from delira.training import SklearnNetworkTrainer


def trainer(path: Path, settings: dict[str, Any], features: set[str]) -> Any:
    return SklearnNetworkTrainer(SGDRegressor(eta0=0.02), path, **settings)
