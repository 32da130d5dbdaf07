"""Data of small problems."""

from typing import Any

import numpy as np


def linear_problem(n: int = 10, n_features: int = 3, seed: int = 7, **more: Any) -> dict[str, np.ndarray]:
    """``label = data @ [1, 2, …] + noise``, shapes (n, n_features) and (n, 1), with the number of each sample."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n, n_features))
    label = data @ np.arange(1.0, n_features + 1).reshape(-1, 1) + 0.1 * rng.normal(size=(n, 1))
    return {"data": data, "label": label, "number": np.arange(n), **more}


def mae(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """Mean absolute error, a metric."""
    return float(np.abs(y_true - y_pred).mean())
