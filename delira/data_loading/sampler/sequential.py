"""The samples one after the other."""

import numpy as np

from delira.data_loading.sampler.abstract_sampler import AbstractSampler


class SequentialSampler(AbstractSampler):
    """Visits the indices in the order given."""

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices as they are."""
        return self.indices
