"""What a training changes in its process while it runs, and gives back."""

import contextlib
from collections.abc import Iterator

from delira.training.generators import generators_state, own_generators, set_generators
from delira.training.run import Run


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
