"""One epoch: every batch is a pure function of (seed, fold, epoch, batch), an iterator walks over them."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from typing import Protocol

import numpy as np

from delira.data_loading._checks import check_count
from delira.data_loading.abstract_dataset import name_sample
from delira.data_loading.data_loader import Batch
from delira.data_loading.recipe import BatchRecipe, BatchTask, Made
from delira.errors import ConfigError, DataError


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


class BatchSource(Protocol):
    """Who makes the batches of an epoch: this process, or workers that run ahead."""

    def get(self, number: int) -> Made:
        """Return batch ``number``."""

    def close(self, error: BaseException | None = None) -> None:
        """Let go of everything; ``error`` is what ended the iteration, if it was not its end."""


class InProcess:
    """Makes each batch when it is asked for."""

    def __init__(self, batches: EpochBatches) -> None:
        self._batches = batches

    def get(self, number: int) -> Made:
        """Make batch ``number``."""
        return self._batches.recipe.make(self._batches.task(number))

    def close(self, error: BaseException | None = None) -> None:
        """There is nothing to let go of."""


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
        source: Callable[[EpochBatches], BatchSource] = InProcess,
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
        return self.order if not self._lost_samples else self.order[~np.isin(self.order, [*self._lost_samples])]

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
