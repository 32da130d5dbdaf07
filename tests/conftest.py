"""What the tests share: one fixture for all rooms, and data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from problems import linear_problem
from small_rooms import NORMAL_ROOMS, ROOMS, Room, build_room

from delira.data_loading import BaseDataManager


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rooms", default=",".join(NORMAL_ROOMS),
        help=f"rooms for the tests of every room, by name and comma, or 'all'; there are {', '.join(ROOMS)}",
    )  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    has_its_own = any("room" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "room" in metafunc.fixturenames and not has_its_own:
        asked = metafunc.config.getoption("rooms")
        metafunc.parametrize("room", list(ROOMS) if asked == "all" else asked.split(","), indirect=True)


@pytest.fixture
def room(request: pytest.FixtureRequest) -> Room:
    """Every room that can be here: one specification for all of them."""
    return build_room(request.param)


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
