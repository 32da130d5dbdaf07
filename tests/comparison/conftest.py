"""Small cross-validations to compare."""

import numpy as np
import pytest
from small_results import cross_validate, data

from delira.metrics import AurocMetric, accuracy

__all__ = ["data"]
METRICS = {"accuracy": accuracy, "auroc": AurocMetric(classes=(0, 1))}


@pytest.fixture
def labels():
    return np.arange(120) // 5 % 2  # as many of both in each of five folds


@pytest.fixture
def method(labels):
    """Make a method's result: how well it tells the two classes apart, and its name."""

    def make(strength, name, seed=1, **settings):
        generator = np.random.default_rng(seed)
        true = settings.pop("labels", labels)
        score = 1 / (1 + np.exp(-generator.normal(size=len(true)) - strength * (2 * true - 1)))
        scores = np.stack([1 - score, score], axis=1).astype(np.float32)
        settings = {"n_folds": 5, "metrics": METRICS, "name": name, **settings}
        return cross_validate(true, scores, **settings)

    return make


@pytest.fixture
def pair(method):
    return [method(0.5, "plain", 1), method(1.2, "wide", 2)]
