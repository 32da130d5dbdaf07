"""How a batch is made: a pure function of a task, whatever process carries it out."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from delira.data_loading._threads import single_threaded
from delira.data_loading._transform import TransformCall
from delira.data_loading.abstract_dataset import numbers_of
from delira.data_loading.data_loader import BaseDataLoader, Batch
from delira.data_loading.preprocessing import FittedPreprocessing
from delira.errors import DataError
from delira.utils.seeding import can_seed_torch, derive, seeded_globals
from delira.utils.trees import map_leaves


class BatchTask(NamedTuple):
    """Which batch is wanted."""

    number: int
    """Its number in the epoch."""
    indices: np.ndarray
    """Its samples, shape (B,), dtype int64."""
    counters: tuple[int, int, int]
    """Seed, fold and epoch."""
    banned: tuple[tuple[int, str], ...] = ()
    """Samples that are not to be touched again, with what reading them did to a process."""


class Made(NamedTuple):
    """What came of a task."""

    batch: Batch | None
    """None if no sample of it was good."""
    bad: tuple[tuple[int, str], ...] = ()
    """Samples left out, with the reason."""
    drew: tuple[str, ...] = ()
    """Random generators that a worker's copy of the transforms or the dataset keeps, and that were drawn from."""


class Watch(Protocol):
    """Is told what is going on while a batch is made."""

    def sample(self, index: int) -> None:
        """Sample ``index`` is being loaded."""

    def transform(self) -> None:
        """The transform is at work."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchRecipe:
    """Everything that makes batches of indices; worker processes get it once, when they start."""

    loader: BaseDataLoader
    """Indices in, one batch out."""
    preprocessing: FittedPreprocessing | None = None
    """Applied to each batch first."""
    transform: TransformCall | None = None
    """Applied to each batch."""
    draws: bool = True
    """Whether the global generators (Python, numpy, torch on the CPU) may be drawn from; seeding costs 0.1 ms."""
    skips_bad: bool = False
    """Whether samples that cannot be loaded are left out."""

    def make(self, task: BatchTask, watch: Watch | None = None) -> Made:
        """Load and transform one batch; the caller's global generators are left as they were.

        Errors of the dataset and the transform arrive as they are, with a note that names the batch.
        """
        self.loader.watch = None if watch is None else watch.sample
        try:
            if not self.draws and not task.banned:
                return self._load(task)
            knew_torch = can_seed_torch()
            made = self._draw(task, watch)
            if can_seed_torch() and not knew_torch:  # its generator could not be seeded before
                made = self._draw(task, watch)
            return made
        except StopIteration as error:  # would end the epoch in silence
            raise DataError(
                f"making batch {task.number + 1} raised StopIteration; catch it in the dataset or the transform"
            ) from error
        except Exception as error:
            error.add_note(f"while {describe_task(task, self.loader.dataset)} was made")
            raise

    def _draw(self, task: BatchTask, watch: Watch | None) -> Made:
        with single_threaded(), seeded_globals(derive(*task.counters, task.number, stream="loading")):
            batch, bad, _ = self._load(task)
            if batch is None:
                return Made(None, bad)
            if self.preprocessing is not None:
                batch = self.preprocessing(batch)
            if self.transform is not None:
                if watch is not None:
                    watch.transform()
                batch = _transformed(self.transform, batch, task, len(task.indices) - len(bad))
            return Made({key: map_leaves(_compact, value) for key, value in batch.items()}, bad)

    def _load(self, task: BatchTask) -> Made:
        if not self.skips_bad:
            return Made(self.loader(task.indices))
        banned = dict(task.banned)
        is_banned = np.isin(task.indices, [*banned])
        bad = [(index, banned[index]) for index in task.indices[is_banned].tolist()]
        good = task.indices[~is_banned]
        try:
            return Made(self.loader(good) if good.size else None, tuple(bad))
        except Exception:  # which of them?
            reasons = [_failure(self.loader, index) for index in good]
        if not any(reasons):  # each alone can be loaded: they do not fit together
            return Made(self.loader(good), tuple(bad))
        bad += [(int(index), reason) for index, reason in zip(good, reasons, strict=True) if reason]
        good = good[[reason is None for reason in reasons]]
        return Made(self.loader(good) if good.size else None, tuple(bad))


def describe_task(task: BatchTask, dataset: object = None) -> str:
    """Name a batch and its samples for messages: by their numbers in the user's dataset, batches and epochs from 1.

    Parameters
    ----------
    task
        The batch.
    dataset
        That it is made of; numbers are those of the dataset that a subset looks at.
    """
    seed, fold, epoch = task.counters
    numbers = numbers_of(dataset, task.indices[:16])
    shown = ", ".join(map(str, numbers.tolist())) + (", ..." if len(task.indices) > 16 else "")
    of_epoch = f" of epoch {epoch}" if epoch else ""  # 0 stands for a pass that is no epoch of a training
    return f"batch {task.number + 1}{of_epoch} (fold {fold}, seed {seed}; samples {shown})"


def _transformed(transform: TransformCall, batch: Batch, task: BatchTask, size: int) -> Batch:
    rng = None
    if transform.takes_rng:
        rng = np.random.default_rng(derive(*task.counters, task.number, stream="transform"))
    samples = [key for key, value in batch.items() if _length(value) == size]
    result = transform(batch, rng, f"batch {task.number + 1}")
    lengths = {key: _length(result[key]) for key in samples}
    if len({*lengths.values()} - {None}) > 1:
        raise DataError(
            f"transform {transform.name} left different numbers of samples in the entries of batch {task.number + 1}: "
            f"{lengths}; it must keep them alike"
        )
    return result


def _length(value: object) -> int | None:
    shape = getattr(value, "shape", ())  # of arrays, and of tensors that a transform may make of them
    return int(shape[0]) if shape else None


def _compact(value: object) -> Any:
    """Return an array in the order that it would have after a journey between processes: sums depend on it."""
    return value.copy(order="C") if isinstance(value, np.ndarray) and not value.flags.c_contiguous else value


def _failure(load: Callable[[np.ndarray], Batch], index: int) -> str | None:
    """Why a sample cannot be loaded; None if it can."""
    try:
        load(np.array([index]))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
