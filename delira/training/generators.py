"""The frameworks', Python's and numpy's generators, lent for a while."""

import contextlib
from collections.abc import Iterator

from delira.contract import Backend
from delira.utils.seeding import derive, derive_int, restored_globals, seed_globals


@contextlib.contextmanager
def own_generators(backend: Backend) -> Iterator[None]:
    """Give the caller's generators back on exit."""
    state = backend.generator_state()
    with restored_globals():
        try:
            yield
        finally:
            backend.set_generator_state(state)


def seed_generators(backend: Backend, seed: int, *counters: int, stream: str) -> None:
    """Seed all generators as a function of the seed, the counters and what they are for."""
    backend.seed(derive_int(seed, *counters, stream=stream))
    seed_globals(derive(seed, *counters, stream=f"{stream} globals"))
