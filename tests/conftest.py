"""What the tests share: one fixture for all rooms, and data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_rooms import ROOMS, Room, torch_room, toy_room

from delira.data_loading import BaseDataManager


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest) -> Room:
    """Every room that can be here: one specification for all of them."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
        return torch_room()
    return toy_room()


def _regression(n: int = 10, n_features: int = 3, seed: int = 7, **more: Any) -> dict[str, np.ndarray]:
    """``label = data @ [1, 2, …] + noise``, shapes (n, n_features) and (n, 1), with the number of each sample."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(n, n_features))
    label = data @ np.arange(1.0, n_features + 1).reshape(-1, 1) + 0.1 * rng.normal(size=(n, 1))
    return {"data": data, "label": label, "number": np.arange(n), **more}


@pytest.fixture
def regression() -> Callable[..., dict[str, np.ndarray]]:
    """Arrays of a linear problem with noise."""
    return _regression


@pytest.fixture
def manager() -> Callable[..., BaseDataManager]:
    """Managers of linear problems; ten samples in batches of 4, 4 and 2 unless told otherwise."""

    def make(n: int = 10, batch_size: int = 4, seed: int = 7, n_features: int = 3, **kw: Any) -> BaseDataManager:
        return BaseDataManager(_regression(n, n_features, seed, **kw.pop("more", {})), batch_size, **kw)

    return make


# ---- the rooms
