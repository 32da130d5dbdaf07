"""Generators of frameworks, Python and numpy, and what else a training changes in its process and gives back."""

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delira.contract import Backend
from delira.training.run import Run
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


class Scopes:
    """Threads, exact algorithms, generators of random numbers and signals, as a run wants them.

    Parameters
    ----------
    run
        The run.
    """

    def __init__(self, run: Run):
        self._run = run
        self._entered = contextlib.ExitStack()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Scope of a training."""
        try:
            self._enter()
            yield
        finally:
            self._entered.close()

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Scope in the midst of a training in which the process is as it was before, so that others may work there.

        The generators of the run go on afterwards where they were: several trainings may take turns in one process.
        """
        run = self._run
        own, received = generators_state(run.backend), run.stop_signals.received
        self._entered.close()
        try:
            yield
        finally:
            self._enter()
            run.stop_signals.received = received
            set_generators(run.backend, own)

    def _enter(self) -> None:
        run, config, backend = self._run, self._run.config, self._run.backend
        enter = self._entered.enter_context
        enter(backend.devices.threads(config.num_threads))
        enter(own_generators(backend))
        if config.guards.deterministic:
            enter(backend.devices.deterministic())
        enter(run.stop_signals.caught(config.saving.on_signal))
