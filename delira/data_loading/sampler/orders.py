"""The base of all samplers, an order as a pure function of a generator; and orders of the indices alone."""

import abc
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from delira.data_loading._content import describe_callable
from delira.data_loading._exact import Indices, check_count, check_flag, parameters_of, to_index_array
from delira.errors import ConfigError, expect
from delira.utils.lazy import for_old_scripts
from delira.utils.seeding import check_seed, derive, seeded_globals

SamplingFunction = Callable[..., Sequence[int] | np.ndarray]


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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_get_indices" in vars(cls) and "order" not in vars(cls):
            for_old_scripts("data").adapt_sampler(cls)

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


class SequentialSampler(AbstractSampler):
    """Visits the indices in the order given."""

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices as they are."""
        return self.indices


class RandomSampler(AbstractSampler):
    """Visits the indices in random order.

    Parameters
    ----------
    indices : int, or sequence of int
        The indices to choose from; an integer ``n`` means ``range(n)``.
    replacement
        Draw each index independently; otherwise each is visited at most once an epoch.
    num_samples
        Length of an epoch; by default the number of indices.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If more samples are asked for than there are and ``replacement`` is off.
    """

    def __init__(
        self, indices: int | Indices, replacement: bool = False, num_samples: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(indices, seed)
        self.replacement = check_flag(replacement, "replacement")
        self.num_samples = count_draws(num_samples, self.replacement, len(self.indices), "indices there are")

    def __len__(self) -> int:
        return self.num_samples

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return ``num_samples`` indices, drawn or permuted."""
        if self.replacement and self.num_samples:
            return self.indices[rng.integers(len(self.indices), size=self.num_samples)]
        return self.indices[rng.permutation(len(self.indices))[: self.num_samples]]


class RandomSamplerWithReplacement(RandomSampler):
    """Draws each index independently; parameters as in :class:`RandomSampler`."""

    def __init__(self, indices: int | Indices, num_samples: int | None = None, seed: int = 0) -> None:
        super().__init__(indices, True, num_samples, seed)


class RandomSamplerNoReplacement(RandomSampler):
    """Visits each index at most once an epoch; parameters as in :class:`RandomSampler`."""

    def __init__(self, indices: int | Indices, num_samples: int | None = None, seed: int = 0) -> None:
        super().__init__(indices, False, num_samples, seed)


class LambdaSampler(AbstractSampler):
    """Asks a function for the indices of each batch; an epoch is as long as ``indices``.

    Parameters
    ----------
    indices : int, or sequence of int
        The indices to choose from; an integer ``n`` means ``range(n)``.
    sampling_fn
        Called as ``sampling_fn(indices, n)`` with a list of all indices; returns ``n`` of them, also
        repeatedly. Python's and numpy's global generators are seeded for it; a parameter ``rng`` gets a
        numpy ``Generator``.
    seed
        As in :class:`AbstractSampler`.

    Raises
    ------
    ConfigError
        If ``sampling_fn`` cannot be called; when an epoch begins, if it returns anything but ``n`` of the
        indices.
    """

    def __init__(self, indices: int | Indices, sampling_fn: SamplingFunction, seed: int = 0) -> None:
        super().__init__(indices, seed)
        expect(("sampling_fn", sampling_fn, callable(sampling_fn), "a function of a list of indices and a number"))
        self.sampling_fn = sampling_fn
        self._takes_rng = "rng" in parameters_of(sampling_fn)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return indices that were chosen one at a time."""
        return self.batched_order(rng, 1)

    def batched_order(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Return indices that were chosen batch by batch."""
        length, everything = len(self), self.indices.tolist()
        with seeded_globals(np.random.SeedSequence(int(rng.integers(2**63)))):
            sizes = [min(batch_size, length - start) for start in range(0, length, batch_size)]
            # a list of its own for each call: a function may shuffle it in place
            batches = [self._choose(everything.copy(), size, number, rng) for number, size in enumerate(sizes, 1)]
        order = np.concatenate([self.indices[:0], *batches])
        if (foreign := np.flatnonzero(~np.isin(order, self.indices))).size:
            raise ConfigError(
                f"sampling_fn {self._name} returned {order[foreign[0]]} for batch {foreign[0] // batch_size + 1}, "
                "which is none of the indices it was given"
            )
        return order

    def _choose(self, indices: list[int], size: int, number: int, rng: np.random.Generator) -> np.ndarray:
        extra = {"rng": rng} if self._takes_rng else {}
        try:
            chosen = np.asarray(self.sampling_fn(indices, size, **extra))
        except StopIteration as error:  # would end the epoch in silence
            raise ConfigError(f"sampling_fn {self._name} raised StopIteration for batch {number}") from error
        except Exception as error:
            error.add_note(f"while sampling_fn {self._name} chose {size} indices for batch {number}")
            raise
        if chosen.shape != (size,) or chosen.dtype.kind not in "iu":
            raise ConfigError(
                f"sampling_fn {self._name} must return {size} integers for batch {number}, "
                f"got an array of shape {chosen.shape} and dtype {chosen.dtype}"
            )
        return chosen.astype(np.int64)

    @property
    def _name(self) -> str:
        return describe_callable(self.sampling_fn)


class BatchSampler:
    """Cuts the epochs of a sampler into batches: iterating yields a list of indices for each.

    Parameters
    ----------
    sampler
        Decides on the samples; each iteration begins its next epoch.
    batch_size
        Indices per batch.
    drop_last
        Whether to leave out the last batch if it is smaller than the others.

    Raises
    ------
    ConfigError
        If an argument is of the wrong kind.
    """

    def __init__(self, sampler: AbstractSampler, batch_size: int, drop_last: bool = False) -> None:
        expect(("sampler", sampler, isinstance(sampler, AbstractSampler), "an AbstractSampler"))
        self.sampler = sampler
        self.batch_size = check_count(batch_size, "batch_size", 1)
        self.drop_last = check_flag(drop_last, "drop_last")

    def __len__(self) -> int:
        return count_batches(len(self.sampler), self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.sampler.next_order(self.batch_size).tolist()
        return (order[number * self.batch_size : (number + 1) * self.batch_size] for number in range(len(self)))


def count_batches(n_samples: int, batch_size: int, drop_last: bool) -> int:
    """Return how many batches samples make; the last may be smaller, or is left out."""
    return n_samples // batch_size if drop_last else -(-n_samples // batch_size)


def count_draws(num_samples: int | None, replacement: bool, available: int, what: str) -> int:
    """Return the length of an epoch of random draws.

    Parameters
    ----------
    num_samples
        The length that was asked for; None means ``available``.
    replacement
        Whether a sample may be drawn again.
    available
        How many different samples there are.
    what
        What these are, for the message.

    Raises
    ------
    ConfigError
        If more samples are asked for than there are and none may be drawn again.
    """
    count = available if num_samples is None else check_count(num_samples, "num_samples", 1)
    if count > available and not (replacement and available):
        cure = "pass replacement=True to draw some of them repeatedly" if available else "pass some indices"
        raise ConfigError(f"num_samples={num_samples} is more than the {available} {what}; {cure}")
    return count
