"""The base of all samplers: an order as a pure function of a generator, and two ways to walk through it."""

import abc
import numbers
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from delira.data_loading._checks import Indices, check_count, to_index_array
from delira.errors import ConfigError
from delira.utils.seeding import check_seed, derive


class AbstractSampler(abc.ABC):
    """Decides which samples one epoch visits, and in which order.

    A subclass writes :meth:`order` (and ``__len__``, if an epoch is not as long as ``indices``). One that
    composes its batches writes :meth:`batched_order` too.

    Iterating over a sampler yields the single indices of one epoch; calling ``sampler(n)`` returns the
    next ``n`` of them. Each epoch begun in one of these ways has an order of its own, derived from ``seed``.

    Parameters
    ----------
    indices : int, or sequence of int
        The indices to choose from; an integer ``n`` means ``range(n)``.
    seed
        Seeds the two ways of walking through the sampler itself; data managers bring their own.

    Attributes
    ----------
    indices : ndarray of shape (n,), dtype int64
        Read-only.
    """

    #: of one that was made from the labels of a dataset: which, and how often these had been set by then
    made_from: tuple[int, int] | None = None

    def __init__(self, indices: int | Indices, seed: int = 0) -> None:
        name = type(self).__name__
        if isinstance(indices, (int, numbers.Integral)):
            indices = range(check_count(indices, f"the number of indices of {name}", 0))
        self.indices = to_index_array(indices, name)
        if self.indices.size and self.indices.min() < 0:
            raise ConfigError(f"{name} got the index {self.indices.min()}; indices count from 0")
        self.seed = check_seed(seed)
        self._epochs_begun = 0
        self._rest: np.ndarray | None = None  # of the epoch that sampler(n) is in

    @classmethod
    def from_dataset(cls, dataset: Any, **kwargs: Any) -> Self:
        """Build a sampler over all samples of a dataset.

        Parameters
        ----------
        dataset : AbstractDataset
            Only its length is used here; subclasses may read its labels.
        **kwargs
            Handed to the constructor.
        """
        return cls(len(dataset), **kwargs)

    @abc.abstractmethod
    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices of one whole epoch.

        Parameters
        ----------
        rng
            The only source of randomness allowed here: an equal generator must give an equal order.

        Returns
        -------
        ndarray of shape (len(self),), dtype int64
        """

    def batched_order(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return the indices of one whole epoch that will be cut into batches, from its beginning on.

        Parameters
        ----------
        rng
            As in :meth:`order`.
        batch_size
            Indices per batch; the last batch may be smaller. With 1 the result is that of :meth:`order`.

        Returns
        -------
        ndarray of shape (len(self),), dtype int64
        """
        return self.order(rng)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.next_order(1).tolist())

    def __call__(self, n_indices: int) -> np.ndarray:
        """Return the next indices, fewer at the end of the epoch.

        Parameters
        ----------
        n_indices
            How many. The first call of an epoch decides for what batch size its order is made.

        Returns
        -------
        ndarray of shape (n_indices,) or less, dtype int64

        Raises
        ------
        StopIteration
            Once after each epoch; the call after it begins the next one.
        """
        n_indices = check_count(n_indices, "n_indices", 1)
        if self._rest is None:
            self._rest = self.next_order(n_indices)
        if not self._rest.size:
            self._rest = None
            raise StopIteration
        taken, self._rest = self._rest[:n_indices], self._rest[n_indices:]
        return taken

    def next_order(self, batch_size: int) -> np.ndarray:
        """Begin the next epoch, the next one that ``seed`` decides, and return its :meth:`batched_order`.

        Parameters
        ----------
        batch_size
            As in :meth:`batched_order`.
        """
        rng = np.random.default_rng(derive(self.seed, self._epochs_begun, stream="sampler"))
        self._epochs_begun += 1
        return np.asarray(self.batched_order(rng, batch_size))
