"""One epoch: every batch is a pure function of (seed, fold, epoch, batch), an iterator walks over them."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from delira.data_loading._checks import check_count
from delira.data_loading._transform import TransformCall
from delira.data_loading.data_loader import Batch
from delira.errors import ConfigError, DataError
from delira.utils.seeding import derive, seeded_globals


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpochBatches:
    """The batches of one epoch by their number: nothing has to be loaded to get to a later one."""

    load: Callable[[np.ndarray], Batch]
    """Indices in, one batch out."""
    order: np.ndarray
    """The indices of the whole epoch, shape (n,), dtype int64."""
    batch_size: int
    """Samples per batch; the last batch may be smaller."""
    n_batches: int
    """Batches of the whole epoch."""
    counters: tuple[int, int, int]
    """Seed, fold and epoch."""
    transform: TransformCall | None = None
    """Applied to each batch."""
    draws: bool = True
    """Whether the global generators of Python and numpy may be drawn from; seeding costs 50 to 100 us."""

    def __call__(self, number: int) -> Batch:
        """Load and transform batch ``number``; the caller's global generators are left as they were."""
        start = number * self.batch_size
        indices = self.order[start : start + self.batch_size]
        try:
            if not self.draws:
                return self.load(indices)
            with seeded_globals(derive(*self.counters, number, stream="loading")):
                return self._transformed(self.load(indices), number)
        except StopIteration as error:  # would end the epoch in silence
            raise DataError(
                f"making batch {number} raised StopIteration; catch it in the dataset or the transform"
            ) from error

    def _transformed(self, batch: Batch, number: int) -> Batch:
        if self.transform is None:
            return batch
        rng = None
        if self.transform.takes_rng:
            rng = np.random.default_rng(derive(*self.counters, number, stream="transform"))
        return self.transform(batch, number, rng)


class EpochIterator(Iterator[Batch]):
    """Walks once over the batches of an epoch and knows where it is.

    Parameters
    ----------
    batches
        The batches of the epoch.
    start
        Number of the first batch wanted; earlier ones are not loaded.

    Attributes
    ----------
    position : int
        Number of the next batch; stays where it is if that batch cannot be loaded.

    Raises
    ------
    ConfigError
        If the epoch has no batch ``start``; one past the last is allowed and yields nothing.
    """

    def __init__(self, batches: EpochBatches, start: int = 0) -> None:
        self.position = check_count(start, "start", 0)
        self._batches = batches
        self._end = batches.n_batches  # where to stop
        if start > self._end:
            raise ConfigError(f"start={start} is beyond the {self._end} batches of the epoch")

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

    def __next__(self) -> Batch:
        position = self.position
        if position >= self._end:
            raise StopIteration
        batch = self._batches(position)
        self.position = position + 1
        return batch

    def close(self) -> None:
        """End the iteration; further ``next`` calls raise StopIteration, ``position`` stays."""
        self._end = 0
