"""One epoch: every batch is a pure function of (seed, fold, epoch, batch), an iterator walks over them."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import numpy as np

from delira.data_loading._checks import check_count
from delira.data_loading._threads import single_threaded
from delira.data_loading.abstract_dataset import name_sample, numbers_of
from delira.data_loading.data_loader import BaseDataLoader, Batch
from delira.data_loading.preprocessing import FittedPreprocessing
from delira.data_loading.transforms import TransformCall
from delira.errors import ConfigError, DataError
from delira.utils.arrays import map_leaves
from delira.utils.seeding import can_seed_torch, derive, seeded_globals


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


#: is told what is going on while a batch is made: which sample is being loaded, None: the transform is at work
Watch = Callable[[int | None], None]


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
        self.loader.watch = watch
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
                    watch(None)
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
        bad += [(int(index), reason) for index, reason in zip(good, reasons, strict=True) if reason]
        # where each alone can be loaded, they do not fit together: it is raised again
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochBatches:
    """The batches of one epoch by their number: nothing has to be loaded to get to a later one."""

    recipe: BatchRecipe
    """How a batch is made."""
    order: np.ndarray
    """The indices of the whole epoch, shape (n,), dtype int64."""
    batch_size: int
    """Samples per batch; the last batch may be smaller."""
    n_batches: int
    """Batches of the whole epoch."""
    counters: tuple[int, int, int]
    """Seed, fold and epoch."""

    def task(self, number: int) -> BatchTask:
        """Say what batch ``number`` consists of."""
        start = number * self.batch_size
        return BatchTask(number, self.order[start : start + self.batch_size], self.counters)


class BatchSource:
    """Makes the batches of an epoch: here, each when it is asked for; workers run ahead."""

    def __init__(self, batches: EpochBatches) -> None:
        self._batches = batches

    def get(self, number: int) -> Made:
        """Make batch ``number``."""
        return self._batches.recipe.make(self._batches.task(number))

    def close(self, error: BaseException | None = None) -> None:
        """Let go of everything; ``error`` is what ended the iteration, if it was not its end."""


class EpochIterator(Iterator[Batch]):
    """Walks once over the batches of an epoch and knows where it is.

    Parameters
    ----------
    batches
        The batches of the epoch.
    start
        Number of the first batch wanted; earlier ones are not loaded.
    source
        Makes what makes the batches; by default this process.
    bad_samples
        Where samples that were left out are noted: index -> reason.

    Attributes
    ----------
    position : int
        Number of the next batch; stays where it is if that batch cannot be loaded.

    Raises
    ------
    ConfigError
        If the epoch has no batch ``start``; one past the last is allowed and yields nothing.
    """

    def __init__(
        self,
        batches: EpochBatches,
        start: int = 0,
        source: Callable[[EpochBatches], BatchSource] = BatchSource,
        bad_samples: MutableMapping[int, str] | None = None,
    ) -> None:
        self.bad_samples: MutableMapping[int, str] = {} if bad_samples is None else bad_samples
        self._batches = batches
        self._end = batches.n_batches  # where to stop
        self._source: BatchSource | None = None
        self._make_source = source
        self._lost_batches: set[int] = set()
        self._lost_samples: set[int] = set()
        self.seek(start)

    def seek(self, position: int) -> None:
        """Go to a batch by its number; those between are not loaded.

        Raises
        ------
        ConfigError
            If the epoch has no such batch; one past the last is allowed.
        """
        position = check_count(position, "start", 0)
        if position > self._batches.n_batches:
            raise ConfigError(f"start={position} is beyond the {self._batches.n_batches} batches of the epoch")
        self.position = self._origin = position

    def position_after(self, n_batches: int) -> int:
        """Position after so many batches that were handed out since the start or the last :meth:`seek`.

        It is not always ``position``, since somebody may have asked for batches ahead, and batches may have been
        left out as a whole.
        """
        position = self._origin
        while n_batches:
            n_batches -= position not in self._lost_batches
            position += 1
        return position

    def __len__(self) -> int:
        """Count the batches of the whole epoch, wherever the iterator is."""
        return self._batches.n_batches

    @property
    def n_samples(self) -> int:
        """Samples in the batches of the whole epoch."""
        return min(self._batches.n_batches * self._batches.batch_size, len(self._batches.order))

    @property
    def order(self) -> np.ndarray:
        """Indices into the dataset in the order of this epoch, shape (n_samples,), dtype int64."""
        return self._batches.order[: self.n_samples]

    @property
    def loaded_order(self) -> np.ndarray:
        """The same without the samples that this iterator has left out, since they could not be loaded."""
        return self.order[~np.isin(self.order, [*self._lost_samples])] if self._lost_samples else self.order

    def __next__(self) -> Batch:
        while self.position < self._end:
            if self._source is None:
                self._source = self._make_source(self._batches)
            try:
                made = self._source.get(self.position)
            except BaseException as error:
                if not isinstance(error, Exception):  # the user interrupts: nobody will come back
                    self.close(error)
                raise
            self.position += 1
            if made.bad:
                self._note(made)
            if made.batch is not None:
                return made.batch
        self.close()
        raise StopIteration

    def close(self, error: BaseException | None = None) -> None:
        """End the iteration; further ``next`` calls raise StopIteration, ``position`` stays."""
        self._end = 0
        source, self._source = self._source, None
        if source is not None:
            source.close(error)

    def __del__(self) -> None:
        self.close()

    def _note(self, made: Made) -> None:
        for index, reason in made.bad:
            self._lost_samples.add(int(index))
            if index not in self.bad_samples:
                self.bad_samples[index] = reason
                name = name_sample(self._batches.recipe.loader.dataset, index)
                warnings.warn(f"{name} is left out, it cannot be loaded: {reason}", UserWarning, stacklevel=3)
        if made.batch is None:
            self._lost_batches.add(self.position - 1)
        if len(self._lost_batches) == self._batches.n_batches:
            raise DataError(f"no sample of the epoch can be loaded; the last one: {made.bad[-1][1]}")
