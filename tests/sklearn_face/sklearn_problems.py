"""Small problems, and settings with which they are learned in a moment."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression

#: enough for the problems of scikit-learn's checks, and quick
QUICK = {"num_epochs": 30, "batch_size": 16, "random_state": 0}


def classes(n=120, n_classes=3):
    """Rows of five features and their classes, which are told apart with ease."""
    return make_classification(n, 5, n_informative=5, n_redundant=0, n_classes=n_classes, class_sep=2.0, random_state=0)


def values(n=120, n_targets=1):
    """Rows of five features, and values of about 1."""
    x, y = make_regression(n, 5, n_targets=n_targets, noise=0.1, random_state=0)
    return x, y / np.abs(y).std(axis=0)


def needs(package, backend):
    """Skip a test where a framework is missing."""
    return pytest.importorskip(package, reason=f"the {backend} backend needs the package {package!r}")
