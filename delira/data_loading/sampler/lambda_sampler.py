"""Samples that a user's function chooses."""

import inspect
from collections.abc import Callable, Sequence

import numpy as np

from delira.data_loading._checks import Indices
from delira.data_loading._content import describe_callable
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.errors import ConfigError
from delira.utils.seeding import seeded_globals

SamplingFunction = Callable[..., Sequence[int] | np.ndarray]


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
        if not callable(sampling_fn):
            raise ConfigError(f"sampling_fn must be a function of a list of indices and a number, got {sampling_fn!r}")
        self.sampling_fn = sampling_fn
        try:
            self._takes_rng = "rng" in inspect.signature(sampling_fn).parameters
        except (TypeError, ValueError):  # some builtins have no signature
            self._takes_rng = False

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
        foreign = np.flatnonzero(~np.isin(order, self.indices))
        if foreign.size:
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
