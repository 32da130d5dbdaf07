"""What two processes that train together learn from."""

import numpy as np


def data():
    """x of shape (16, 3) and y of shape (16, 2)."""
    rng = np.random.default_rng(7)
    return rng.normal(size=(16, 3)).astype("f4"), rng.normal(size=(16, 2)).astype("f4")


def batches(rank):
    """For each of two steps, the half of a batch of 8 that a process takes."""
    x, y = data()
    rows = [slice(8 * step + 4 * rank, 8 * step + 4 * rank + 4) for step in (0, 1)]
    return [(x[part], y[part]) for part in rows]
