"""Digits, and trainers of estimators."""

import pytest
from sklearn.datasets import load_digits

pytest.importorskip("skops.io", reason="checkpoints of the scikit-learn backend need skops")
from delira.training import SklearnNetworkTrainer


def data(n_classes=3, n=120):
    x, y = load_digits(n_class=n_classes, return_X_y=True)
    return {"data": x[:n], "label": y[:n], "parity": y[:n] % 2}


def build(path, estimator, **settings):
    return SklearnNetworkTrainer(estimator, path, logging_type=None, verbose=False, **settings)
