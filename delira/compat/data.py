"""Data loading as it was: the augmenter, samplers that give the indices of one batch, loaders with queues."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading import BaseDataLoader, BaseDataManager
from delira.data_loading.abstract_dataset import Batch
from delira.errors import ConfigError
from delira.utils.seeding import seeded_globals


class Augmenter:
    """Gives the batches of a loader, transformed: over and over again, in an order that each pass has of its own.

    Parameters
    ----------
    data_loader
        A loader, or the data themselves.
    transforms, n_process_augmentation, sampler, sampler_queues
        As in version 0.4; queues are not needed.
    batchsize, num_processes, seed, drop_last
        As in version 0.5.
    num_cached_per_queue, seeds
        Of 0.4; how far workers look ahead is found out by itself. Of several seeds the first counts.
    """

    def __init__(  # noqa: PLR0913 - the historic signatures
        self,
        data_loader: Any,
        transforms: Any = None,
        n_process_augmentation: Any = None,
        sampler: Any = None,
        sampler_queues: Any = None,
        num_cached_per_queue: int = 2,
        seeds: Any = None,
        *,
        batchsize: int | None = None,
        num_processes: int | None = None,
        seed: int = 1,
        drop_last: bool = False,
    ):
        if isinstance(transforms, int):  # 0.5: (data_loader, batchsize, sampler, num_processes, transforms, seed)
            batchsize, sampler, num_processes = transforms, n_process_augmentation, sampler
            transforms, seed = sampler_queues, seeds if seeds is not None else seed
        elif seeds is not None:
            seed = int(np.ravel(seeds)[0])
        is_loader = isinstance(data_loader, BaseDataLoader)
        number = num_processes if num_processes is not None else n_process_augmentation
        self._manager = BaseDataManager(
            data_loader.dataset if is_loader else data_loader,
            batchsize or (data_loader.batch_size if is_loader else 1),
            number or 0,
            transforms,
            data_loader_cls=type(data_loader) if is_loader else None,
            sampler=sampler,
            drop_last=drop_last,
        )
        self._seed, self._passes = int(seed), 0
        self._batches: Iterator[Batch] | None = None

    def __iter__(self) -> Iterator[Batch]:
        batches = self._manager.epoch(self._seed, 0, self._passes)
        self._passes += 1
        return batches

    def __next__(self) -> Batch:
        return self.next()

    def next(self) -> Batch:
        """Return the next batch; StopIteration after each pass."""
        self._batches = self._batches or iter(self)
        try:
            return next(self._batches)
        except StopIteration:
            self.restart()
            raise

    def restart(self) -> None:
        """Begin the next pass."""
        self._batches = None

    @property
    def num_batches(self) -> int:
        """Batches of one pass."""
        return self._manager.n_batches

    @property
    def num_processes(self) -> int:
        """Worker processes."""
        return self._manager.n_process_augmentation


# ------------------------------------------------------------------ samplers of the user's


class BatchwiseOrder:
    """What makes the order of an epoch of ``_get_indices(n)``, which gives the indices of one batch."""

    _num_samples: int
    _global_index = 0

    def order(self: Any, rng: np.random.Generator) -> np.ndarray:
        """Return the indices of an epoch that were asked for one at a time."""
        order: np.ndarray = self.batched_order(rng, 1)
        return order

    def batched_order(self: Any, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the indices of an epoch that were asked for batch by batch; global generators are seeded for it."""
        self._num_samples, self._global_index, done = len(self), 0, 0
        batches: list[np.ndarray] = []
        with seeded_globals(np.random.SeedSequence(int(rng.integers(2**63)))):
            while done < self._num_samples:
                wanted = min(batch_size, self._num_samples - done)
                chosen = np.asarray(self._get_indices(wanted))
                if chosen.shape != (wanted,) or chosen.dtype.kind not in "iu":
                    raise ConfigError(
                        f"{type(self).__name__}._get_indices must return {wanted} integers, got {chosen!r:.200}"
                    )
                batches.append(chosen.astype(np.int64))
                done += wanted
                self._global_index = done
        return np.concatenate(batches) if batches else np.zeros(0, np.int64)

    def _check_batchsize(self: Any, n_indices: int) -> int:
        """Return how many indices are left of those that are wanted."""
        return min(n_indices, len(self) - self._global_index)


def adapt_sampler(cls: type) -> None:
    """Let a sampler of the user's that has ``_get_indices`` make the order of an epoch."""
    for name in ("order", "batched_order", "_check_batchsize"):
        if name not in vars(cls):
            setattr(cls, name, vars(BatchwiseOrder)[name])
    cls._global_index = 0  # type: ignore[attr-defined]


# ------------------------------------------------------------------ loaders of the user's


class Slot(deque[Any]):
    """A queue as a loader of the user's reads it: the indices of the batch at hand."""

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """Return the indices that were put in first."""
        return self.popleft()

    def put(self, item: Any) -> None:
        """Give the indices of the next batch."""
        self.append(item)

    def empty(self) -> bool:
        """Return True if there is no batch to be made."""
        return not self

    get_nowait, put_nowait = get, put


def adapt_loader(cls: type) -> None:
    """Let a loader of the user's that has ``generate_train_batch`` make the batches."""
    cls.__call__ = _by_queue  # type: ignore[method-assign]


def _by_queue(loader: Any, indices: Any) -> Batch:
    """Make a batch by ``generate_train_batch``, which reads the indices from its queue."""
    loader.sampler_queues = loader.sampler_queues or [Slot()]
    loader.sampler_queues[loader.thread_id].put(np.asarray(indices).tolist())
    batch = loader.generate_train_batch()
    if not isinstance(batch, Mapping):
        raise ConfigError(f"{type(loader).__name__}.generate_train_batch must return a dict, got {batch!r:.200}")
    return dict(batch)
