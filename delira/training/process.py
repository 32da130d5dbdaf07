"""What a training changes in its process and gives back: generators of random numbers, threads, and signals."""

import contextlib
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from delira.contract import Backend
from delira.errors import TrainingInterrupted
from delira.utils.seeding import derive, derive_int, restored_globals, seed_globals

if TYPE_CHECKING:
    from delira.training.run import Run

_log = logging.getLogger("delira")

#: SIGUSR1 is what SLURM is usually told to send before the time is over; Windows has none
NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))
#: seconds in which signals are one: launchers send to the process and to its group, some send two kinds
_ONE_SIGNAL = 0.25


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

    def __init__(self, run: "Run"):
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


class StopSignals:
    """Notes the first signal, so that the training can stop at a good place; the second one stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        #: the line that was written of it, whatever else is on the screen
        self.told = ""
        self._at = 0.0
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def caught(self, wanted: bool = True) -> Iterator[None]:
        """Scope in which signals are noted; only the main thread can."""
        self.received = None
        for number in NUMBERS if wanted and threading.current_thread() is threading.main_thread() else ():
            before = signal.getsignal(number)
            # ignored on purpose (nohup), or installed by C code, which could not be given back
            if before is not signal.SIG_IGN and before is not None:
                self._before[number] = signal.signal(number, self._note)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give the signals back to those who had them before."""
        while self._before:
            signal.signal(*self._before.popitem())

    def stop(self, message: str) -> NoReturn:
        """Give the signals back and end the training: raises KeyboardInterrupt or TrainingInterrupted.

        A handler that the program had before is called with the signal first.
        """
        number = self.received or signal.SIGINT
        handler = self._before.get(number)
        self.release()
        if number != signal.SIGINT:  # a traceback shows that of KeyboardInterrupt, and nobody that of SystemExit
            _log.warning("%s", message)
        if callable(handler) and handler is not signal.default_int_handler:
            handler(number, None)
        raise _exception(number, message)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self._at = number, time.monotonic()
            name = signal.Signals(number).name
            self.told = f"{name}: finishing the step, then a checkpoint is written; once more stops at once"
            with contextlib.suppress(OSError):  # not by logging, whose stream may be in the midst of a write
                os.write(2, f"\n{self.told}\n".encode())
            return
        if time.monotonic() - self._at < _ONE_SIGNAL:
            return
        self.release()
        raise _exception(number, f"{signal.Signals(number).name} came twice; stopped without a further checkpoint")


def _exception(number: int, message: str) -> BaseException:
    if number == signal.SIGINT:
        return KeyboardInterrupt(message)
    return TrainingInterrupted(number, message)
