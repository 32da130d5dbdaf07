"""Where the folds of a cross-validation, or the trials of a search, run, and what each of them may use."""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delira.errors import ConfigError, check_known, check_numbers, expect
from delira.experiments.mirroring import as_mirror
from delira.runs.leases import TAKEN_OVER_AFTER
from delira.training.launched import launched

if TYPE_CHECKING:
    from delira.contract import Backend
    from delira.execution import Executor, Mirror, Resources

_log = logging.getLogger("delira")

_NAMES = ("here", "processes", "ray", "slurm")
#: devices that a worker is given one of
_ANY_GPU = ("auto", "cuda", "gpu")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the folds run."""

    executor: "Executor | str | None" = None
    """``"here"``, ``"processes"``, ``"ray"``, ``"slurm"``, one of the user's own; ``None``: processes, if several."""

    n_jobs: int | None = None
    """How many at the same time."""

    resources: "Resources | Mapping[str, Any] | None" = None
    """What each needs; ``None``: the threads that it computes with, and a GPU if its device is any."""

    takeover_after: float = TAKEN_OVER_AFTER
    """Seconds without a sign of life after which a fold that another process works at is taken over."""

    mirror: "Mirror | str | os.PathLike[str] | None" = None
    """Where else the files of the run go."""

    part: str = "fold"
    """What runs there, for messages: ``"fold"``, or ``"trial"`` of a search."""

    def __post_init__(self) -> None:
        from delira.execution import Executor, Resources
        from delira.execution.executor import is_job_count

        given, n_jobs, resources = self.executor, self.n_jobs, self.resources
        is_count = n_jobs is None or is_job_count(n_jobs)
        is_known = given is None or isinstance(given, Executor) or (isinstance(given, str) and given in _NAMES)
        is_needs = resources is None or isinstance(resources, (Resources, Mapping))
        expect(
            ("n_jobs", n_jobs, is_count, f"a number of {self.part}s from 1, or -1: one for each core"),
            ("executor", given, is_known, "'here', 'processes', 'ray', 'slurm' or a delira.execution.Executor"),
            ("resources", resources, is_needs, "a delira.execution.Resources or its fields, e.g. {'cpus': 2}"),
        )
        check_numbers("tune" if self.part == "trial" else "kfold", above=0, takeover_after=self.takeover_after)
        if given == "here" and n_jobs not in (None, 1):
            raise ConfigError(
                f"executor='here' runs one {self.part} after the other; for n_jobs={n_jobs} say 'processes'"
            )
        if isinstance(given, Executor) and n_jobs is not None:
            raise ConfigError("an executor of your own knows how many it runs at once; leave n_jobs out")
        as_mirror(self.mirror)
        if isinstance(resources, Mapping):
            check_known(resources, [field.name for field in dataclasses.fields(Resources)], "resources has no")
            Resources(**resources)

    @property
    def is_here(self) -> bool:
        """Return True if folds run in this process, one after the other."""
        return self.executor == "here" or (self.executor is None and self.n_jobs in (None, 1))

    def at_once(self, n_folds: int) -> int:
        """Return how many folds run at the same time, as far as that is known; a guess where a cluster decides."""
        from delira.execution.executor import usable_cores

        if self.is_here:
            return 1
        own = self.n_jobs if isinstance(self.executor, str) or self.executor is None else self.executor.n_jobs
        if self.executor == "slurm":
            return min(n_folds, own if own not in (None, -1) else n_folds)  # type: ignore[type-var]
        if isinstance(self.executor, str) and own is None:
            own = -1
        return min(n_folds, usable_cores() if own == -1 else own or n_folds)

    @contextlib.contextmanager
    def opened(self, n_folds: int, run: Path) -> "Iterator[Executor | None]":
        """Scope of the executor; one of the user's own is left as it is. ``None``: here.

        Parameters
        ----------
        n_folds
            That it is for.
        run
            Folder of the run.
        """
        from delira.execution import ProcessExecutor, RayExecutor, SlurmExecutor

        if self.is_here or not n_folds:
            yield None
        elif isinstance(self.executor, str) or self.executor is None:
            own: Executor
            if self.executor == "slurm":
                own = SlurmExecutor(run / "slurm", n_jobs=self.n_jobs)
            elif self.executor == "ray":  # which knows how many its cluster has place for, whatever this machine has
                own = RayExecutor(n_jobs=self.n_jobs)
            else:
                own = ProcessExecutor(self.at_once(n_folds))
            with contextlib.closing(_Closing(own)):
                yield own
        else:
            yield self.executor

    def threads(self, stated: int | None, backend: "Backend", n_folds: int, n_processes: int = 1) -> int | None:
        """With how many threads each process of a fold computes, wherever it does; ``None``: nobody can say.

        Parameters
        ----------
        stated
            What the user said.
        backend
            Which knows how many it has.
        n_folds
            Of the cross-validation.
        n_processes
            That train a fold together.

        Raises
        ------
        ConfigError
            If folds are to run elsewhere than in processes that a launcher has started, or here by GPUs that are not.
        """
        from delira.execution.executor import usable_cores, visible_gpus

        if not self.is_here and launched(backend.devices) is not None:
            raise ConfigError(
                f"torchrun's processes train one {self.part} after the other; leave executor and n_jobs out"
            )
        given = self._said()
        if self.is_here and (gpus := given.get("gpus", 0)) > (n_gpus := len(visible_gpus())):
            raise ConfigError(
                f"resources asks for {gpus:g} GPUs, and {n_gpus} can be seen here; ask for as many, leave 'gpus' out, "
                "or see that CUDA_VISIBLE_DEVICES names those that are there"
            )
        have = backend.devices.thread_count()
        if stated is not None:
            return stated
        if "cpus" in given:
            return max(1, given["cpus"] // n_processes)
        if self.is_here and n_processes == 1:
            return have
        if self.executor == "slurm":  # nobody knows how many cores its machines have
            return 1
        return max(1, (have or usable_cores()) // (self.at_once(n_folds) * n_processes))

    def needs(self, threads: int | None, device: Any, n_processes: int, executor: "Executor") -> "Resources":
        """What a fold needs that computes with so many processes, each with so many threads, on a device, there."""
        from delira.execution import Resources

        given = self._said()
        if "gpus" not in given:
            given["gpus"] = self._gpus_of(device, n_processes, executor)
        return Resources(**given).settled(cpus=(threads or 1) * n_processes)

    def _said(self) -> dict[str, Any]:
        """What somebody has said that each needs, by name, in whichever of two ways."""
        from delira.execution import Resources

        given = self.resources
        return (given if isinstance(given, Resources) else Resources(**(given or {}))).said()

    def _gpus_of(self, device: Any, n_processes: int, executor: "Executor") -> int:
        """How many GPUs a fold needs of which nobody said it."""
        name = str(device).lower().removeprefix("/").removeprefix("device:")  # of a framework, too
        if name not in _ANY_GPU and (device is not None or n_processes == 1):
            return 0
        there = executor.n_gpus()
        if there is None and name == "auto":
            _log.warning(
                "device='auto': nobody here knows what GPUs there are where each %s runs, so that it gets none; say "
                "resources={'gpus': 1}, or 0", self.part,
            )  # fmt: skip
            return 0
        return n_processes if there is None or there else 0


@dataclasses.dataclass(frozen=True)
class _Closing:
    executor: "Executor"

    def close(self) -> None:
        self.executor.shutdown()


def tell_of_threads(threads: int | None) -> None:
    """Say that a run was made for more threads than there are cores here: it keeps its bits, and is slow."""
    from delira.execution.executor import usable_cores

    if threads is not None and threads > (cores := usable_cores()):
        _log.warning("each fold computes with the %d threads that the run was made for, on %d cores", threads, cores)
