"""The frameworks', Python's and numpy's generators, lent for a while."""

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delira.contract import Backend
from delira.utils.seeding import derive, derive_int, restored_globals, seed_globals


@contextlib.contextmanager
def own_generators(backend: Backend) -> Iterator[None]:
    """Give the caller's generators back on exit."""
    state = backend.generators.state()
    with restored_globals():
        try:
            yield
        finally:
            backend.generators.set_state(state)


def seed_generators(backend: Backend, seed: int, *counters: int, stream: str) -> None:
    """Seed all generators as a function of the seed, the counters and what they are for."""
    backend.generators.seed(derive_int(seed, *counters, stream=stream))
    seed_globals(derive(seed, *counters, stream=f"{stream} globals"))


def generators_state(backend: Backend) -> dict[str, Any]:
    """State of all generators, as a checkpoint tree."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002
    return {
        "framework": backend.generators.state(),
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": {"name": name, "keys": keys, "rest": [int(position), int(has_gauss), float(cached)]},
    }


def set_generators(backend: Backend, state: Mapping[str, Any]) -> None:
    """Give all generators the state that :func:`generators_state` told."""
    backend.generators.set_state(state["framework"])
    python, legacy = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    position, has_gauss, cached = legacy["rest"]
    np.random.set_state((legacy["name"], legacy["keys"], position, has_gauss, cached))  # noqa: NPY002
