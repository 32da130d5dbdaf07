"""What an executor is: tasks go in, handles come out; and what tasks share."""

import abc
import contextlib
import dataclasses
import itertools
import math
import numbers
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from delira.errors import expect

T = TypeVar("T")
C = TypeVar("C")
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """What one task needs of a machine.

    Parameters
    ----------
    cpus
        Cores: with so many threads it computes. ``None``: nobody says; of a fold the threads that the run computes
        with, else 1.
    gpus
        GPUs, or a part of one: with 0.5 two tasks share one. ``None``: nobody says; of a fold one if its device is any,
        else 0.

    Raises
    ------
    ConfigError
        If one is negative or no number, or ``cpus`` is no whole number from 1.
    """

    cpus: int = None  # type: ignore[assignment] # who runs a fold reads numbers: kfold settles what nobody says
    gpus: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        cpus = 1 if self.cpus is None else self.cpus
        gpus = 0 if self.gpus is None else self.gpus
        is_count = isinstance(cpus, numbers.Integral) and not isinstance(cpus, bool) and cpus >= 1
        expect(("cpus", cpus, is_count, "a number of cores from 1"))
        is_share = isinstance(gpus, numbers.Real) and not isinstance(gpus, bool) and 0 <= gpus < math.inf
        is_share = is_share and (gpus <= 1 or gpus == int(gpus))
        expect(("gpus", gpus, is_share, "a whole number of GPUs, or a part of one: 2, 1 or 0.5"))

    def said(self) -> dict[str, Any]:
        """Return what somebody has said, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def settled(self, *, cpus: int = 1, gpus: float = 0) -> "Resources":
        """Return the same with numbers for what nobody has said.

        Parameters
        ----------
        cpus, gpus
            These.
        """
        return Resources(**{"cpus": cpus, "gpus": gpus, **self.said()})


class Handle(abc.ABC, Generic[T]):
    """A task that was submitted."""

    @abc.abstractmethod
    def done(self) -> bool:
        """Return True if :meth:`result` has something to say; waits for nothing."""

    @abc.abstractmethod
    def result(self) -> T:
        """Wait for what the task returned, or raise what it raised, with its own type.

        Raises
        ------
        WorkerLostError
            If who ran it was lost: the task may be submitted again.
        """

    @abc.abstractmethod
    def cancel(self) -> None:
        """Have the task not begin; one that has begun is asked to stop at its next checkpoint, as a signal asks.

        It is done when it has ended; of one that never began :meth:`result` raises ``CancelledError``.
        """


class Executor(abc.ABC):
    """Runs tasks somewhere; subclass it to have ``kfold(executor=…)`` run folds where you like.

    A task is a function without arguments. It can be pickled by cloudpickle, may hold large arrays behind
    :class:`Shared`, and writes what it computes into the folder of the run, which must be the same one everywhere.
    In a ``with`` statement it is shut down at the end.
    """

    #: tasks that run at the same time, as far as that is known; ``None``: others decide
    n_jobs: int | None = None

    @abc.abstractmethod
    def submit(self, task: Callable[[], T], resources: Resources) -> Handle[T]:
        """Take a task, to be begun now or when a worker is free.

        Parameters
        ----------
        task
            What is run.
        resources
            What it needs; of a fold all fields are numbers.

        Raises
        ------
        ExecutorError
            If the task cannot be sent, naming what is in its way, or needs more than there is.
        """

    def n_gpus(self) -> float | None:
        """Return how many GPUs there are where tasks run; ``None``: nobody knows. Of this machine unless overridden."""
        return len(visible_gpus())

    @abc.abstractmethod
    def shutdown(self) -> None:
        """End at once what still runs, and give everything back. Does nothing the second time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()


class Shared(Generic[T]):
    """What many tasks have in common: executors send it to each worker once, its arrays in shared memory if they can.

    Where an executor does not know better, it is pickled with the task.

    Parameters
    ----------
    value
        Anything; it must not change any more.
    """

    def __init__(self, value: T):
        self.value = value


class Copies(Generic[C]):
    """What an executor made of each :class:`Shared`, for as long as that lives: a search makes one for each trial.

    Parameters
    ----------
    discard
        Gives back what was made of one.
    """

    def __init__(self, discard: Callable[[C], None]):
        self._discard = discard
        self._made: dict[int, C] = {}

    def of(self, shared: Shared[Any], make: Callable[[Any], C]) -> C:
        """Return what was made of it, or make it."""
        number = id(shared)
        if number not in self._made:
            self._made[number] = make(shared.value)
            weakref.finalize(shared, self._forget, number).atexit = False
        return self._made[number]

    def made(self) -> list[C]:
        """Return what was made of all that live."""
        return [*self._made.values()]

    def clear(self) -> None:
        """Give all back."""
        for number in [*self._made]:
            self._forget(number)

    def _forget(self, number: int) -> None:
        if number in self._made:
            self._discard(self._made.pop(number))


def is_job_count(n_jobs: object) -> bool:
    """Return True for a number of jobs from 1, and for -1, which stands for one for each core."""
    is_whole = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
    return is_whole and (n_jobs >= 1 or n_jobs == -1)  # type: ignore[operator]


def usable_cores(root: str | Path = "/") -> int:
    """Number of cores that this process may use: of the machine, of its affinity, and of a container around.

    Parameters
    ----------
    root
        Where Linux has its figures.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # "max", or no such group
        quota, period = (Path(root) / "sys/fs/cgroup/cpu.max").read_text().split()
        own = min(own, math.ceil(int(quota) / int(period)))
    return own


def visible_gpus() -> list[str]:
    """Names of the GPUs of this machine that a program may use, as ``CUDA_VISIBLE_DEVICES`` has them."""
    if (told := os.environ.get(VISIBLE_GPUS)) is not None:
        names = [name.strip() for name in told.split(",")]
        return [*itertools.takewhile(lambda name: name not in ("", "-1"), names)]
    with contextlib.suppress(OSError):
        return [str(number) for number, _ in enumerate(sorted(Path("/proc/driver/nvidia/gpus").iterdir()))]
    return []
