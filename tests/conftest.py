"""What the tests share: one fixture for all rooms, and data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from problems import linear_problem
from small_rooms import ROOMS, Room, torch_room, toy_room

from delira.data_loading import BaseDataManager


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest) -> Room:
    """Every room that can be here: one specification for all of them."""
    if request.param == "torch":
        pytest.importorskip("torch", reason="the torch room needs the package 'torch', which is not installed")
        return torch_room()
    return toy_room()


@pytest.fixture
def regression() -> Callable[..., dict[str, np.ndarray]]:
    """Arrays of a linear problem with noise."""
    return linear_problem


@pytest.fixture
def manager() -> Callable[..., BaseDataManager]:
    """Managers of linear problems; ten samples in batches of 4, 4 and 2 unless told otherwise."""

    def make(n: int = 10, batch_size: int = 4, seed: int = 7, n_features: int = 3, **kw: Any) -> BaseDataManager:
        return BaseDataManager(linear_problem(n, n_features, seed, **kw.pop("more", {})), batch_size, **kw)

    return make


# ---- the rooms
