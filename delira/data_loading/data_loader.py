"""The loader: indices in, one batch out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from delira.data_loading._build import check_order, name_sampler
from delira.data_loading._checks import Indices, check_count, refuse_outside, to_index_array
from delira.data_loading._collate import collate
from delira.data_loading.abstract_dataset import name_sample, numbers_of
from delira.data_loading.array_dataset import as_dataset
from delira.data_loading.sampler import AbstractSampler, SequentialSampler
from delira.errors import ConfigError, DataError
from delira.utils.seeding import check_seed, derive, seeded_globals

Batch = dict[str, Any]


class BaseDataLoader:
    """Collates samples to a batch of arrays of shape ``(B, ...)``.

    Calling it loads the batch of given indices; iterating over it yields the batches of one epoch,
    always the same one.

    Parameters
    ----------
    dataset
        A dataset, a dict of arrays or a list of dicts.
    batch_size
        Samples per batch when iterating.
    num_batches
        Batches of one iteration; by default as many as there are, the last one may be smaller.
    seed
        When iterating, seeds the order and, around the loading of each batch, the global generators of
        Python, numpy and torch (CPU).
    sampler
        The order when iterating; by default sequential.
    sampler_cls, sampler_kwargs
        Class of the sampler, built with ``from_dataset``, and what that is handed; instead of ``sampler``.
    """

    #: told the index of each sample that is loaded singly
    watch: Callable[[int], None] | None = None

    def __init__(
        self,
        dataset: object,
        batch_size: int = 1,
        num_batches: int | None = None,
        seed: int = 1,
        sampler: AbstractSampler | None = None,
        *,
        sampler_cls: type[AbstractSampler] | None = None,
        sampler_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.dataset = as_dataset(dataset)
        self.batch_size = check_count(batch_size, "batch_size", 1)
        self.seed = check_seed(seed)
        named = name_sampler(sampler, sampler_cls, sampler_kwargs, self.dataset)
        self._named = named
        self.sampler = None if named is None else named.sampler
        n_samples = len(self.dataset if self.sampler is None else self.sampler)
        available = -(-n_samples // self.batch_size)
        self.num_batches = available if num_batches is None else check_count(num_batches, "num_batches", 1)
        if self.num_batches > available:
            raise ConfigError(
                f"num_batches={num_batches} is more than the {available} batches that "
                f"{n_samples} samples in batches of {self.batch_size} make"
            )

    def __call__(self, indices: Indices) -> Batch:
        """Load one batch.

        Parameters
        ----------
        indices : sequence of int, or ndarray of shape (B,)
            Indices into the dataset.

        Raises
        ------
        DataError
            If a sample is no dict or does not have the shapes of the others.
        MissingKeyError
            If a sample has other keys than the others.
        SampleIndexError
            If the dataset has no such sample.
        """
        if not isinstance(indices, np.ndarray) or indices.dtype.kind != "i" or indices.ndim != 1:
            indices = to_index_array(indices, "a batch")
        if not len(indices):
            raise ConfigError("a batch needs at least one index, got none")
        try:
            return self._batch(indices)
        except (IndexError, KeyError):
            refuse_outside(indices, len(self.dataset), self.dataset)  # names the index, unless it is not to blame
            raise

    def __len__(self) -> int:
        return self.num_batches

    def __iter__(self) -> Iterator[Batch]:
        if self._named is not None and self._named.sampler is self.sampler:
            self._named = self._named.with_labels_of(self.dataset)
            self.sampler = self._named.sampler
        sampler = self.sampler or SequentialSampler.from_dataset(self.dataset)
        rng = np.random.default_rng(derive(self.seed, 0, 0, stream="order"))
        order = check_order(np.asarray(sampler.batched_order(rng, self.batch_size)), sampler, len(self.dataset))
        for number in range(self.num_batches):
            indices = order[number * self.batch_size : (number + 1) * self.batch_size]
            with seeded_globals(derive(self.seed, 0, 0, number, stream="loading")):
                batch = self(indices)
            yield batch

    def _batch(self, indices: np.ndarray) -> Batch:
        batch = self.dataset.get_batch(indices)
        if batch is not None:
            return batch
        numbers = indices.tolist()  # Python integers: users' datasets may look them up anywhere
        return collate([self._load(number) for number in numbers], numbers_of(self.dataset, indices).tolist())

    def _load(self, index: int) -> Any:
        if self.watch is not None:
            self.watch(index)
        try:
            return self.dataset[index]
        except StopIteration as error:  # would end the epoch in silence
            raise DataError(
                f"loading {name_sample(self.dataset, index)} raised StopIteration; "
                "call next(iterator, default) there, or give the dataset fewer samples"
            ) from error
        except Exception as error:
            error.add_note(f"while {name_sample(self.dataset, index)} was loaded")
            raise
