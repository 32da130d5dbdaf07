"""The samples in random order."""

import numpy as np

from delira.data_loading._checks import Indices
from delira.data_loading.sampler._arguments import check_flag, count_draws
from delira.data_loading.sampler.abstract_sampler import AbstractSampler


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
