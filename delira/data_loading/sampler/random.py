"""The samples in random order."""

import numpy as np

from delira.data_loading._checks import Indices, check_count
from delira.data_loading.sampler.abstract_sampler import AbstractSampler
from delira.errors import ConfigError


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
        if not isinstance(replacement, (bool, np.bool_)):
            raise ConfigError(f"replacement must be True or False, got {replacement!r}")
        self.replacement = bool(replacement)
        available = len(self.indices)
        self.num_samples = available if num_samples is None else check_count(num_samples, "num_samples", 1)
        if self.num_samples > available and not (replacement and available):
            cure = "pass replacement=True to draw some of them repeatedly" if available else "pass some indices"
            raise ConfigError(f"num_samples={num_samples} is more than the {available} indices there are; {cure}")

    def __len__(self) -> int:
        return self.num_samples

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return ``num_samples`` indices, drawn or permuted."""
        if self.replacement and self.num_samples:
            return self.indices[rng.integers(len(self.indices), size=self.num_samples)]
        return self.indices[rng.permutation(len(self.indices))[: self.num_samples]]
