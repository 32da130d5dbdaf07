"""The kit of each backend, and data, for the tests of the Trial."""

import numpy as np
import pytest
from kits import build_kit


@pytest.fixture
def kit(request):
    return build_kit(request.param)


@pytest.fixture
def blobs(kit):
    """Two classes of points that a line separates: x of shape (40, 2), labels of shape (40,)."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    x = rng.normal(size=(40, 2)) * 0.3 + np.where(labels, 1.0, -1.0)[:, None]
    return x.astype("f4"), labels.astype(kit.label_type)


@pytest.fixture
def line():
    """x of shape (12, 3) and y of shape (12, 2), linear in x, with noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 3)).astype("f4")
    return x, (x @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(12, 2))).astype("f4")
